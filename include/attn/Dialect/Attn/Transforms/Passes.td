//===- Passes.td - Passes on the attn dialect -------------*- tablegen -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Graph passes.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_TRANSFORMS_PASSES_TD
#define ATTN_DIALECT_ATTN_TRANSFORMS_PASSES_TD

include "attn/Support/PassBase.td"

def AttnExpandMasksPass : Attn_Pass<"attn-expand-masks"> {
  let summary = "expand masks that read operands to mask_mod regions";
  let description = [{
    Named masks that depend on data become code in the `mask_mod` region, and the
    tables that the code reads are computed before the attention. Parts of a
    conjunction that read no operands stay named. Where operands are arguments of the
    function, their attribute `attn.equal_sizes` records sizes that must be equal.

    ```mlir
    attn.attention ... mask(#attn.and<#attn.causal, #attn.tree<parents = 0>>)
        reads(%parents : tensor<1x?xi32>)
    ```

    becomes

    ```mlir
    %map = attn.ancestor_map ins(%parents : tensor<1x?xi32>)
        outs(%init : tensor<1x?x?xi32>) -> tensor<1x?x?xi32>
    attn.attention ... mask(#attn.causal) mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      ...
      %word = tensor.extract %map[%c0, %i, %place] : tensor<1x?x?xi32>
      ...
      attn.yield %keep : i1
    }
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::memref::MemRefDialect",
                           "::mlir::tensor::TensorDialect"];
}

def AttnExpandPositionsPass : Attn_Pass<"attn-expand-positions"> {
  let summary = "write the positions of shards into masks and regions";
  let description = [{
    The masks and regions of an attention with `positions` see global coordinates.
    This pass makes the offsets part of the code: named masks become code of the
    `mask_mod` region, and `score_mod`, `mask_mod` and `score_mod_grad` regions add
    the offsets to their arguments. `MaskAnalysis` finds the tiles of such masks as
    closed forms of the offsets. `positions` stay, as `dropout_only`, where the
    operation generates random numbers.

    ```mlir
    attn.attention ... positions(%p : tensor<6xi32>) mask(#attn.causal<top_left>)
    ```

    becomes

    ```mlir
    attn.attention ... mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      ...
      %query = arith.addi %i, %first_query : index
      %key = arith.addi %j, %first_key : index
      %keep = arith.cmpi sge, %query, %key : index
      attn.yield %keep : i1
    }
    ```

    Where the positions are an argument of a function, its attribute `attn.name`
    names it `positions`, unless it has a name.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::memref::MemRefDialect",
                           "::mlir::tensor::TensorDialect"];
  let statistics = [
    Statistic<"numShards", "num-shards", "Number of expanded operations">
  ];
}

def AttnPadSequencesPass : Attn_Pass<"attn-pad-sequences"> {
  let summary = "copy packed sequences of linear attention with states to whole chunks";
  let description = [{
    Each `attn.linear_attention` on tensors with `sequences` and states, and its
    gradient, becomes one with `whole_chunks`. The rows of queries, keys, values,
    log-decays and `beta` are copied to tensors in which each sequence begins at a
    multiple of `chunk` and has one chunk at least. Sequence `s` begins at chunk
    `sequences[s] / chunk + s`, so the number of rows depends on the numbers of tokens
    and sequences alone. Rows between sequences are zeros, which change no state. The
    rows of outputs are copied back.

    If boundaries are not sorted, do not go from 0 to the number of tokens, or have
    another number of states, kernels are given negative ones, which they report. They
    are given no more sequences than there are states. One log-decay a head becomes one a
    token.

    Targets whose kernels find the chunks of sequences by themselves, GPUs, do not need
    this pass.

    Operations with a feature map, a normalizer or other masks stay: they need
    `attn-decompose-linear-attention` first. `whole_chunks` in the input is an error,
    since nothing checks its boundaries.

    ```mlir
    %o, %s1 = attn.linear_attention ins(%q, %k, %v : ...) outs(%init, %s0 : ...)
        initial_state(%s0 : tensor<?x8x64x64xf32>) sequences(%boundaries : tensor<?xi32>) causal
        -> tensor<1x8x?x64xf32>, tensor<?x8x64x64xf32>
    ```

    becomes

    ```mlir
    %p, %s1 = attn.linear_attention ins(%qp, %kp, %vp : ...) outs(%empty, %s0 : ...)
        initial_state(%s0 : tensor<?x8x64x64xf32>) sequences(%starts : tensor<?xi32>)
        whole_chunks causal
        -> tensor<1x8x?x64xf32>, tensor<?x8x64x64xf32>
    %o = linalg.generic ... ins(%rows : tensor<?xi32>) outs(%init : tensor<1x8x?x64xf32>) {
    ^bb0(%row: i32, %old: f32):
      ...
      %x = tensor.extract %p[%b, %h, %at, %d] : tensor<1x8x?x64xf32>
      linalg.yield %x : f32
    } -> tensor<1x8x?x64xf32>
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::scf::SCFDialect",
                           "::mlir::tensor::TensorDialect"];
  let statistics = [
    Statistic<"numPadded", "num-padded", "Number of operations whose sequences were padded">
  ];
}

def AttnDecomposeLinearAttentionPass : Attn_Pass<"attn-decompose-linear-attention"> {
  let summary = "write feature maps, normalizers and masks of linear attention as other operations";
  let description = [{
    Each `attn.linear_attention` on tensors becomes one without a `feature` region, a
    normalizer and masks, and operations of linalg and tensor around it:

    - The `feature` region is inlined for queries and for keys.
    - A normalizer is a second linear attention of the same queries and keys, whose
      values are ones, and a division.
    - Keys, values, log-decays and `beta` from `key_lengths` on become zero.
    - Local blocks become batch entries. Tokens are padded to whole blocks. With
      `reset-local-blocks`, a log-decay of -126 at the first token of each block ends
      the state before it instead, if the operation is `causal`: then
      `attn-shard-attention` can distribute the tokens, whatever blocks they are in.
    - At the first token of each of the packed `sequences`, a log-decay of -126 ends
      the state of the sequence before. If boundaries are not sorted or not within the
      tokens, log-decays are NaN, which kernels report. Sequences with states stay, see
      `attn-pad-sequences`.

    `attn-differentiate` does this in functions that it differentiates. Where operands
    are arguments of the function, their attributes `attn.name` and `attn.equal_sizes`
    record their names, and which sizes must be equal.

    Fails if the rows of a feature map are not as many as its argument has, as far as
    bounds of sizes can tell.

    ```mlir
    %o = attn.linear_attention ins(%q, %k, %v : ...) outs(%init : tensor<?x8x?x64xf32>)
        normalizer(eps = 1.0e-6) feature {
    ^bb0(%x: tensor<?x?x?x64xf32>):
      %y = linalg.exp ins(%x : ...) outs(%x : ...) -> tensor<?x?x?x64xf32>
      attn.linear_yield %y : tensor<?x?x?x64xf32>
    } -> tensor<?x8x?x64xf32>
    ```

    becomes

    ```mlir
    %qf = linalg.exp ins(%q : ...) outs(%q : ...) -> tensor<?x8x?x64xf32>
    %kf = linalg.exp ins(%k : ...) outs(%k : ...) -> tensor<?x8x?x64xf32>
    %num = attn.linear_attention ins(%qf, %kf, %v : ...) outs(%e0 : tensor<?x8x?x64xf32>)
        scale(0.125) -> tensor<?x8x?x64xf32>
    %den = attn.linear_attention ins(%qf, %kf, %ones : ...) outs(%e1 : tensor<?x8x?x8xf32>)
        scale(0.125) -> tensor<?x8x?x8xf32>
    %o = linalg.generic ... ins(%num, %den : ...) outs(%init : tensor<?x8x?x64xf32>) {
    ^bb0(%n: f32, %d: f32, %old: f32):
      %s = arith.addf %d, %eps : f32
      %r = arith.divf %n, %s : f32
      linalg.yield %r : f32
    } -> tensor<?x8x?x64xf32>
    ```
  }];
  let options = [
    Option<"resetLocalBlocks", "reset-local-blocks", "bool", /*default=*/"false",
           "End states of causal operations before each local block by "
           "log-decays">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect"];
  let statistics = [
    Statistic<"numDecomposed", "num-decomposed", "Number of decomposed operations">
  ];
}

def AttnDecomposeQuantizePass : Attn_Pass<"attn-decompose-quantize"> {
  let summary = "write quantization to 8 bits as other operations";
  let description = [{
    Each `attn.quantize`, on tensors or memrefs, becomes operations of linalg:

    - the largest absolute value of each chunk of rows, then of each head and of the
      tensor, unless a scale is given and no `amax` wanted;
    - scales from these values, unless they are given;
    - quotients of elements and scales, rounded to 8 bits.

    A rotation becomes an `attn.matmul` with a Hadamard matrix before them, whose
    result is f32. Where operands are arguments of the function, their attributes
    `attn.name` and `attn.equal_sizes` record their names, and which sizes must be
    equal.

    ```mlir
    %q = attn.quantize ins(%x : tensor<?x64xbf16>) given_scale(%scale : tensor<f32>)
        outs(%init : tensor<?x64xf8E5M2>) -> tensor<?x64xf8E5M2>
    ```

    becomes

    ```mlir
    %q = linalg.generic {...} ins(%x, %scale : tensor<?x64xbf16>, tensor<f32>)
        outs(%init : tensor<?x64xf8E5M2>) {
    ^bb0(%e: bf16, %s: f32, %old: f8E5M2):
      %wide = arith.extf %e : bf16 to f32
      %quotient = arith.divf %wide, %s : f32
      %r = arith.truncf %quotient : f32 to f8E5M2
      linalg.yield %r : f8E5M2
    } -> tensor<?x64xf8E5M2>
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::bufferization::BufferizationDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::memref::MemRefDialect",
                           "::mlir::tensor::TensorDialect"];
  let statistics = [
    Statistic<"numDecomposed", "num-decomposed", "Number of decomposed operations">
  ];
}

def AttnWidenFloat8GradientsPass : Attn_Pass<"attn-widen-float8-gradients"> {
  let summary = "compute gradients of attention to 8 bits in wider types";
  let description = [{
    Each `attn.attention_grad` on tensors with operands of 8 bits becomes one with wider
    operands, which `arith.extf` makes of them. With queries of 16 bits or f32,
    keys and values get their type. All operands of queries of 8 bits become f32 on
    targets without a GPU. Otherwise they become f16 if `out` is f16, and bf16. All of
    these types represent each number of 8 bits. Scales stay factors in `score_mod` and
    of the operands.

    ```mlir
    %r:3 = attn.attention_grad
        ins(%q, %k, %v, %out, %lse, %dout : tensor<?x8x?x64xf8E4M3FN>,
            tensor<?x8x?x64xf8E4M3FN>, tensor<?x8x?x64xf8E4M3FN>,
            tensor<?x8x?x64xbf16>, tensor<?x8x?xf32>, tensor<?x8x?x64xbf16>)
        outs(%dq, %dk, %dv : tensor<?x8x?x64xf32>, tensor<?x8x?x64xf32>,
             tensor<?x8x?x64xf32>)
        -> tensor<?x8x?x64xf32>, tensor<?x8x?x64xf32>, tensor<?x8x?x64xf32>
    ```

    becomes for `target=sm_90a`

    ```mlir
    %wide_q = linalg.generic {...} ins(%q : tensor<?x8x?x64xf8E4M3FN>)
        outs(%empty : tensor<?x8x?x64xbf16>) {
    ^bb0(%e: f8E4M3FN, %old: bf16):
      %w = arith.extf %e : f8E4M3FN to bf16
      linalg.yield %w : bf16
    } -> tensor<?x8x?x64xbf16>
    ...
    %r:3 = attn.attention_grad
        ins(%wide_q, %wide_k, %wide_v, %out, %lse, %dout : tensor<?x8x?x64xbf16>,
            tensor<?x8x?x64xbf16>, tensor<?x8x?x64xbf16>,
            tensor<?x8x?x64xbf16>, tensor<?x8x?xf32>, tensor<?x8x?x64xbf16>)
        outs(%dq, %dk, %dv : tensor<?x8x?x64xf32>, tensor<?x8x?x64xf32>,
             tensor<?x8x?x64xf32>)
        -> tensor<?x8x?x64xf32>, tensor<?x8x?x64xf32>, tensor<?x8x?x64xf32>
    ```
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"\"host\"",
           "Target that the gradients are for">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect"];
  let statistics = [
    Statistic<"numWidened", "num-widened", "Number of gradients with wider operands">
  ];
}

def AttnSimplifyMasksPass : Attn_Pass<"attn-simplify-masks"> {
  let summary = "simplify the masks of attention";
  let description = [{
    Replaces the named mask of each attention by the simplest mask that is known to
    keep the same pairs, for its lengths where they are static:

    - only single masks are negated; nested conjunctions and nested disjunctions are
      flattened;
    - masks whose combination is a single named mask are merged, such as a causal mask
      and a window;
    - parts that the others imply are dropped, and so are sides of windows that no
      pair reaches;
    - a mask that keeps all pairs is removed, one that keeps none becomes
      `#attn.none`.

    Parts of a `mask_mod` region that are equal to a named mask move to the named mask,
    which is cheaper to evaluate. Parts that the others and the named mask imply are
    dropped. Parts that read tensors stay.

    ```mlir
    attn.attention ... mask(#attn.sliding_window<left = 512>) mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      %x = tensor.extract %ids[%b, %i] : tensor<?x?xi32>
      %y = tensor.extract %ids[%b, %j] : tensor<?x?xi32>
      %same = arith.cmpi eq, %x, %y : i32
      %causal = arith.cmpi sle, %j, %i : index
      %keep = arith.andi %same, %causal : i1
      attn.yield %keep : i1
    }
    ```

    becomes, with as many queries as keys,

    ```mlir
    attn.attention ... mask(#attn.sliding_window<left = 512, right = 0>) mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      %x = tensor.extract %ids[%b, %i] : tensor<?x?xi32>
      %y = tensor.extract %ids[%b, %j] : tensor<?x?xi32>
      %same = arith.cmpi eq, %x, %y : i32
      attn.yield %same : i1
    }
    ```

    Implications are proven with MLIR's Presburger library from the code of the
    predicates, which works for masks of other dialects, too.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::attn::AttnDialect"];
}

def AttnHoistRngPass : Attn_Pass<"attn-hoist-rng", "::mlir::func::FuncOp"> {
  let summary = "generate dropout keep masks before attention";
  let description = [{
    Attentions and gradients of attention in one block that have the same dropout can
    read one keep mask, which is generated once, instead of generating random numbers.
    The alternatives are

    | alternative | the keep mask is generated |
    |---|---|
    | `in-kernel` | by each attention |
    | `sequential` | by a kernel before the first attention |
    | `streams` | by a kernel that may run concurrently with a matmul |
    | `fused` | by auxiliary warps of the kernels of one or several matmuls |

    `best` takes `in-kernel` or `sequential`, whichever has the lower predicted time,
    if the mask fits the memory budget. `streams` and `fused` are used only on request:
    a GEMM leaves no room on an SM for another kernel, and layers with fused kernels
    have not been faster (docs/experiments/dropout-hoisting.md).

    ```mlir
    %qkv = attn.matmul ins(%x, %w : ...) outs(%init : ...) -> tensor<8192x6144xbf16>
    ...
    %out = attn.attention ins(%q, %k, %v : ...) outs(...)
        dropout(#attn.dropout<p = 0.125, rng = #attn.arx>, %seed, %offset : tensor<i64>, tensor<i64>)
    ```

    becomes

    ```mlir
    %mask = tensor.empty() : tensor<1x32x4096x512xi32>
    %qkv, %bits = attn.overlap by fused {
      %0 = attn.matmul ins(%x, %w : ...) outs(%init : ...) -> tensor<8192x6144xbf16>
      attn.overlap_yield %0 : tensor<8192x6144xbf16>
    } and {
      %0 = attn.dropout_mask rows
          by(#attn.dropout<p = 0.125, rng = #attn.arx>, %seed, %offset : tensor<i64>, tensor<i64>)
          outs(%mask : tensor<1x32x4096x512xi32>) -> tensor<1x32x4096x512xi32>
      attn.overlap_yield %0 : tensor<1x32x4096x512xi32>
    } -> (tensor<8192x6144xbf16>, tensor<1x32x4096x512xi32>)
    ...
    %out = attn.attention ins(%q, %k, %v : ...) outs(...)
        dropout_mask rows(%bits : tensor<1x32x4096x512xi32>) p(0.125)
    ```

    The inputs of the keep mask (seed, offset and dynamic sizes) must be available
    before the matmul, or computable there by operations without effects, which are
    moved up. Nothing moves across an operation that may write memory. With
    `max-matmuls`, matmuls before the nearest one generate the keep masks of some
    heads, in proportion to their times. Remarks of the category `attn-hoist-rng`
    report the choice, with the predicted times, and the reason for each missed case.
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"\"sm_90a\"",
           "Name of a registered target, such as sm_90a">,
    Option<"alternative", "alternative", "std::string", /*default=*/"\"best\"",
           "best, in-kernel, sequential, streams or fused">,
    Option<"memoryBudget", "memory-budget", "int64_t", /*default=*/"-1",
           "Bytes that a mask may take; if -1, an eighth of the device's "
           "memory">,
    Option<"maxMatmuls", "max-matmuls", "int64_t", /*default=*/"1",
           "Matmuls among which the generation of one keep mask may be distributed">,
    Option<"dynamicSize", "dynamic-size", "int64_t", /*default=*/"4096",
           "Size that dynamic dimensions are taken to have">,
    Option<"dynamicBatch", "dynamic-batch", "int64_t", /*default=*/"1",
           "Size that the first dimension of tensors of three or more is taken "
           "to have if it is dynamic">,
  ];
  let statistics = [
    Statistic<"numMasks", "num-masks", "Number of masks made">,
    Statistic<"numMatmuls", "num-matmuls",
              "Number of matmuls that run concurrently with keep mask generation">,
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::attn::AttnDialect",
    "::mlir::tensor::TensorDialect"];
}

def AttnDefineDivisionsPass : Attn_Pass<"attn-define-divisions"> {
  let summary = "define the result of all integer divisions and shifts";
  let description = [{
    In arith, integer division by zero, overflow of a quotient, and shifts by at least
    the bit width are undefined. On the host, such divisions end the process. Where
    the ranges of the operands do not exclude these cases, this pass gives them the
    results that traced Python functions have:

    | operation | result |
    |---|---|
    | `x / 0`, rounded in any way | `x` |
    | `x rem 0` | `x` |
    | smallest integer `/ -1` | wraps around: the smallest integer |
    | smallest integer `rem -1` | 0 |
    | `x << n`, `x >> n` (unsigned) by all bits or more | 0 |
    | `x >> n` (signed) by all bits or more | 0, or -1 if `x` is negative |

    Positions, batch entries, heads and sizes are known to be from 0 to 2^31 - 1.

    ```mlir
    %r = arith.floordivsi %j, %n : index
    // becomes
    %isZero = arith.cmpi eq, %n, %c0 : index
    %divisor = arith.select %isZero, %c1, %n : index
    %r = arith.floordivsi %j, %divisor : index
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def AttnCheckRegionsPass : Attn_Pass<"attn-check-regions"> {
  let summary = "report errors in regions that are known at compile time";
  let description = [{
    - A `score_mod` or `mask_mod` region that reads a captured tensor out of bounds for
      some pair of positions within static lengths is an error, which names the index
      and the pair. Pairs that are known to be masked out do not count. Reads within
      nested regions, which conditions may guard, are not checked. Where nothing is
      known, as with dynamic sizes or loaded indices, kernels bound the index: a read
      out of bounds gives some element.
    - An attention with `attn.static_tiles` must have a mask whose empty tiles are known
      at compile time. Parts of the mask that are not piecewise affine in the positions
      are an error, which names the operations.
    - A region with more than 15,000 operations is an error, and so is one that needs more
      than 2500 values at the same time, as gradients of chains of thousands of functions
      do: each would take more than 10 seconds to compile.
    - `math.clampf` is an error: MLIR documents and expands it as
      `max(min(x, lower), upper)`, unlike the clamp of other frameworks.

    ```mlir
    attn.attention ... attributes {attn.static_tiles} mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      %ij = arith.muli %i, %j : index     // error: names this operation
      ...
    ```
  }];
}

def AttnClassifyMasksPass : Attn_Pass<"attn-classify-masks"> {
  let summary = "mark masks whose tiles have no closed form";
  let description = [{
    The tiles that a mask keeps are computed from closed forms of the lengths if the mask
    is piecewise affine in the positions, and its analysis takes little work. This pass
    adds `attn.classified_tiles` to attention with another mask_mod region: kernels that
    run before it then classify each tile, and it visits no empty tiles.

    Attention with fewer than 64 queries, with sequences, with masks that read tensors
    (whose tiles are always classified) or with `attn.static_tiles` is not changed.

    ```mlir
    attn.attention ... mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      %ij = arith.muli %i, %j : index     // not affine
      ...
    }
    // becomes
    attn.attention ... attributes {attn.classified_tiles} mask_mod {
      ...
    ```
  }];
  let statistics = [
    Statistic<"numMasks", "num-masks", "Number of masks whose tiles are classified">,
  ];
}

def AttnCreateBlockMasksPass : Attn_Pass<"attn-create-block-masks", "::mlir::ModuleOp"> {
  let summary = "create block masks of masks that read tensors once";
  let description = [{
    Several attentions on tensors that have the same mask, lengths and schedule get one
    `attn.create_block_mask` before them. The block mask of a single attention is left to
    its lowering, which creates it each time the attention runs.

    With `outline`, callers keep block masks: a public function `f` with such attentions
    gets one more argument for each block mask. A new function `f_block_mask`, with the
    original arguments of `f`, returns the block masks.

    ```mlir
    func.func @f(%q: tensor<...>, ..., %ids: tensor<?x?xi32>) -> tensor<...>
    // becomes
    func.func @f_block_mask(%q: tensor<...>, ..., %ids: tensor<?x?xi32>)
        -> (tensor<?x1x?x?xi32> {attn.name = "block_mask"})
    func.func @f(%q: tensor<...>, ..., %ids: tensor<?x?xi32>,
                 %plan: tensor<?x1x?x?xi32> {attn.name = "block_mask"}) -> tensor<...>
    ```

    A block mask is valid as long as the lengths and the tensors that the mask reads do
    not change; `f_block_mask` reads only the sizes of `q` and the other operands of
    attention. Functions with control flow, and attentions in regions of other
    operations, are not changed. Schedules must have been chosen, and masks expanded.
  }];
  let options = [
    Option<"outline", "outline", "bool", /*default=*/"false",
           "Make block masks arguments of functions">,
  ];
  let statistics = [
    Statistic<"numBlockMasks", "num-block-masks", "Number of block masks created">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::tensor::TensorDialect"];
}

def AttnPrintMaskMapPass : Attn_Pass<"attn-print-mask-map"> {
  let summary = "draw the tiles of masks";
  let description = [{
    Draws, for each `attn.attention` of static lengths, the tiles of its mask: tiles that
    the kernel visits without mask code (full), with mask code (partial), or not at
    all (empty). The picture is an SVG with a legend. The schedule gives the tile sizes
    unless options override them. If a mask reads tensors, tiles that depend on data
    are drawn as partial.

    As JSON, there is an object with `title`, `query_tile`, `key_tile`, `rows` and
    `columns` of the map, `reads_data`, and `partial` and `full`: lists of
    `[row, first column, end column]`, where the end is exclusive.
  }];
  let options = [
    Option<"format", "format", "std::string", /*default=*/"\"svg\"",
           "Output format: svg or json">,
    Option<"queryTile", "query-tile", "int64_t", /*default=*/"0",
           "Queries in a tile; as in the schedule if 0">,
    Option<"keyTile", "key-tile", "int64_t", /*default=*/"0",
           "Keys in a tile; as in the schedule if 0">,
    Option<"batch", "batch", "int64_t", /*default=*/"0",
           "Batch entry that is drawn">,
    Option<"head", "head", "int64_t", /*default=*/"0", "Head that is drawn">,
    Option<"directory", "directory", "std::string", /*default=*/"\"\"",
           "Folder for files named after functions; the standard output if "
           "empty">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

#endif // ATTN_DIALECT_ATTN_TRANSFORMS_PASSES_TD
