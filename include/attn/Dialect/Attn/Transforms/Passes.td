//===- Passes.td - Passes on the attn dialect ----------------*- tablegen -*-===//
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

include "mlir/Pass/PassBase.td"

def ChooseSchedulePass : Pass<"attn-choose-schedule", "::mlir::func::FuncOp"> {
  let summary = "attach a schedule to each attention";
  let description = [{
    Derives a schedule for the target from the shapes of each `attn.attention`
    and attaches it as its `schedule`: of those that fit the capacities of the
    device, the one that takes least time by its model
    (`ScheduleAttrInterface::estimateKernels`) or, where there is no model, the
    one with the largest tiles. Lengths that are not known may get two schedules
    (`#attn.by_query_length`). An attention that already has a schedule keeps it.
    What was chosen is reported as a remark.

    Times that `attn-tune` has measured, in a database, come before models. They
    hold for attentions that differ in batch and lengths alone, on the device
    of the module (`attn.device`, or the one that stands for the target), and for
    lengths whose nearest power of two is that of a length that was measured.

    Gradients that add up those of queries keep sums of all of them in f32 where
    that is faster than a ring of few heads. With `sum-budget` they do so only if
    these sums are known to take no more than that many bytes; where no ring can have
    them, the gradients of queries have a kernel of their own instead.
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"\"host\"",
           "Target: host, sm_80 or sm_90a">,
    Option<"database", "database", "std::string", /*default=*/"\"\"",
           "File of measured times, written by attn-tune">,
    Option<"sumBudget", "sum-budget", "int64_t", /*default=*/"-1",
           "Bytes that the sums of the gradients of queries may take; if "
           "negative, as many as it takes">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::attn::AttnDialect",
                           "::mlir::attn_tile::AttnTileDialect"];
}

def DispatchSchedulesPass
    : Pass<"attn-dispatch-schedules", "::mlir::func::FuncOp"> {
  let summary = "choose among schedules at run time";
  let description = [{
    Replaces each `attn.attention` whose schedule is `#attn.by_query_length` by
    a conditional on the number of queries with an attention for each of the
    two schedules, or by the one that applies if that number is static. Of
    packed sequences it is the mean number, of padded ones the largest. Of those
    whose schedule is `#attn_tile.by_alignment` the condition is that what the
    score region reads at the query and the key, and its rows, begin at multiples
    of 16 bytes. An attention whose schedule shares keys gets a copy that does
    not, for as many batch entries as leave one share of them: its kernel stores
    the output itself, and nothing is merged.

    ```mlir
    %n = memref.dim %q, %c2 : memref<?x32x?x64xbf16>
    %short = arith.cmpi ult, %n, %c3072 : index
    scf.if %short {
      attn.attention ... schedule(#a)
    } else {
      attn.attention ... schedule(#b)
    }
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::memref::MemRefDialect",
                           "::mlir::scf::SCFDialect",
                           "::mlir::tensor::TensorDialect"];
}

def AttnDeriveScoreGradPass : Pass<"attn-derive-score-grad"> {
  let summary = "write out the gradient of each score region";
  let description = [{
    Gives each `attn.attention_grad` that has a score region and no `score_grad`
    region the derivative of the former, operation by operation, through
    `DifferentiableOpInterface`. An operation that cannot be differentiated is an
    error. A region that is there already is left alone.

    ```mlir
    score {
    ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
      %t = math.tanh %s : f32
      attn.yield %t : f32
    }
    ```

    gets

    ```mlir
    score_grad {
    ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index):
      %one = arith.constant 1.0 : f32
      %t = math.tanh %s : f32
      %t2 = arith.mulf %t, %t : f32
      %slope = arith.subf %one, %t2 : f32
      %dx = arith.mulf %ds, %slope : f32
      attn.yield %dx : f32
    }
    ```
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::attn::AttnDialect",
    "::mlir::math::MathDialect", "::mlir::scf::SCFDialect"];
}

def AttnDifferentiatePass : Pass<"attn-differentiate", "::mlir::ModuleOp"> {
  let summary = "add functions that compute gradients";
  let description = [{
    For a function `@f` of one block on tensors, adds in mode `pair`

    ```mlir
    func.func @f_fwd(args...) -> (results..., saved...)
    func.func @f_bwd(args..., results..., saved..., dresults...) -> (dargs...)
    ```

    and in mode `combined`

    ```mlir
    func.func @f_grad(args..., dresults...) -> (results..., dargs...)
    ```

    `dresults` are the gradients of all results that are tensors of floats,
    `dargs` those of the arguments that were asked for, both of the types of
    what they are gradients of. `saved` are the values of the forward function
    that the backward one uses, such as the log-sum-exp of attention; sizes,
    constants and empty tensors are computed again instead. A pair is what
    frameworks want that keep tensors from one call to the next: arguments of
    `@f_bwd` that it does not use are marked `attn.unused` and need not be kept.
    The combined function is for compilers and tests. `@f` stays as it is.

    Differentiation is in reverse mode, through `DifferentiableOpInterface`.
    Values that do not depend on the wanted arguments have no gradient. An
    operation in the way that does not implement the interface is an error, as
    is a second derivative of attention.
  }];
  let options = [
    Option<"function", "function", "std::string", /*default=*/"\"\"",
           "Function to differentiate; all public ones if empty">,
    ListOption<"arguments", "arguments", "unsigned",
               "Numbers of the arguments to compute gradients of; all tensors "
               "of floats if empty">,
    Option<"mode", "mode", "std::string", /*default=*/"\"pair\"",
           "What to add: pair or combined">,
    Option<"deterministic", "deterministic", "bool", /*default=*/"false",
           "Demand gradients of attention that are bitwise equal each time">,
  ];
  let statistics = [Statistic<"numFunctions", "num-functions",
                              "Number of functions differentiated">];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::attn::AttnDialect",
    "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect",
    "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect"];
}

def AttnPlanRecomputePass : Pass<"attn-plan-recompute", "::mlir::ModuleOp"> {
  let summary = "choose what to save for the backward pass";
  let description = [{
    Works on the pairs of functions that `attn-differentiate` makes. Chooses for
    each value that crosses from the forward to the backward function whether to
    save it, or another value from which it is computed again, such that the time
    is least: a saved value is written and read once more, an operation that runs
    again takes its arithmetic or its memory traffic, whichever is longer, at the
    rates of the module's `attn.device` or of the target. With a budget, at most that many bytes are saved beyond
    arguments and results. Plans are optimal: minimum cuts, and with a budget a
    search that such cuts bound. A search that takes too long, as those of many
    equal layers do, ends with a plan and how much better one could be. To keep to a
    peak of memory, plans that save less and less are tried; the peak is that of
    the functions as they would be.

    Saving the output and the log-sum-exp of attention moves the boundary past
    it, so that it does not run again. Its weights, and decisions of dropout
    that it makes itself, are no values and are always made again. Weights or
    decisions that the function computes as tensors are values like any other.

    What was chosen, and why, is reported as remarks, with the peak of memory
    beside arguments before and after. A pair whose functions would change their
    types is an error if anything else in the module uses them.

    ```mlir
    func.func @f_fwd(%x, %w) -> (%y, %h, %g)       // saves %h and %g
    func.func @f_bwd(%x, %w, %y, %h, %g, %dy) -> (%dx, %dw)
    ```

    becomes, if `%g` costs less to compute from `%h` than to move,

    ```mlir
    func.func @f_fwd(%x, %w) -> (%y, %h)
    func.func @f_bwd(%x, %w, %y, %h, %dy) -> (%dx, %dw)  // computes %g
    ```
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"\"sm_90a\"",
           "Target whose rates are used: host, sm_80 or sm_90a">,
    Option<"budget", "budget", "int64_t", /*default=*/"-1",
           "Bytes that may be saved; any number if negative">,
    Option<"peakBudget", "peak-budget", "int64_t", /*default=*/"-1",
           "Bytes beside arguments that may be there at a time; any number if "
           "negative">,
    Option<"dynamicSize", "dynamic-size", "int64_t", /*default=*/"4096",
           "Size that dynamic dimensions are taken to have">,
    Option<"dynamicBatch", "dynamic-batch", "int64_t", /*default=*/"1",
           "Size that the first dimension of tensors of three or more is taken "
           "to have if it is dynamic">,
  ];
  let dependentDialects = ["::mlir::attn::AttnDialect"];
  let statistics = [
    Statistic<"numSaved", "num-saved", "Number of values saved">,
    Statistic<"numRecomputed", "num-recomputed",
              "Number of operations that run again">,
  ];
}

def AttnExpandMasksPass : Pass<"attn-expand-masks"> {
  let summary = "state masks that read operands as regions";
  let description = [{
    Named masks that data decides become code of the keep region, and the tables
    that this reads are made before the attention. Parts of a conjunction that
    read no operands stay named. Where operands are arguments of the function,
    `attn.equal_sizes` on these notes which of their sizes must be equal.

    ```mlir
    attn.attention ... mask(#attn.and<#attn.causal, #attn.tree<parents = 0>>)
        reads(%parents : tensor<1x?xi32>)
    ```

    becomes

    ```mlir
    %map = attn.ancestor_map ins(%parents : tensor<1x?xi32>)
        outs(%init : tensor<1x?x?xi32>) -> tensor<1x?x?xi32>
    attn.attention ... mask(#attn.causal) keep {
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

def AttnFusePass : Pass<"attn-fuse"> {
  let summary = "make what is around attention part of it";
  let description = [{
    Operations that copy, convert or scale the operands or the result of
    `attn.attention`, as `FusibleOpInterface` says of them, become part of it:

    | operation | of | becomes |
    |---|---|---|
    | product with a constant | queries, keys | part of the scale |
    | conversion to f32 | queries, keys and values together | attention on the narrow type |
    | conversion from f32 | the result | attention that rounds its result |
    | transposition, with a following reshape | queries, keys, values | a view, `attn.permute` |
    | transposition, after a reshape | the result | a view of the destination |
    | functions of elements: `attn.rope`, `attn.rms_norm`, what `linalg` computes one by one | queries | the query region |
    | the same | keys, values | one `attn.map_heads` |
    | functions of elements, after layouts | the result | the epilogue |

    Functions of elements are stated as scalar code by `emitElement`, several
    operations at once, however slices, concatenations and broadcasts are written.
    Queries are read once by each work item, so that computing them there saves a
    pass over memory; it costs the arithmetic, and registers, which may make tiles
    of keys smaller. The model of the kernel's time decides. Keys and values are
    read by many work items: a remark says by how many, and what a pass of their
    own takes. `attn.rope` and `attn.rms_norm` elsewhere become `attn.map_heads`,
    too. Without `elements`, that is all that is done of this.

    An order of dimensions is read and written in place where channels lie side
    by side in rows of a multiple of 16 bytes, and where nothing else needs the
    transposed tensor. Remarks of the category `attn-fuse` say what was fused,
    with the time that `CostOpInterface` counts for it, and what was not.

    ```mlir
    %qt = linalg.transpose ins(%q : tensor<2x512x8x64xf32>)
        outs(%e : tensor<2x8x512x64xf32>) permutation = [0, 2, 1, 3]
    %a = attn.attention ins(%qt, %k, %v : ...) outs(%init : tensor<2x8x512x64xf32>)
    %o = linalg.transpose ins(%a : tensor<2x8x512x64xf32>)
        outs(%f : tensor<2x512x8x64xf32>) permutation = [0, 2, 1, 3]
    ```

    becomes

    ```mlir
    %qt = attn.permute %q [0, 2, 1, 3] : ...
    %f = tensor.empty() : tensor<2x512x8x64xf32>
    %init = attn.permute %f [0, 2, 1, 3] : ...
    %a = attn.attention ins(%qt, %k, %v : ...) outs(%init : tensor<2x8x512x64xf32>)
    %o = attn.permute %a [0, 2, 1, 3] : ...
    ```
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"\"host\"",
           "Target whose rates are used: host, sm_80 or sm_90a">,
    Option<"elements", "elements", "bool", /*default=*/"true",
           "Whether functions of elements become regions and attn.map_heads">,
  ];
  let statistics = [Statistic<"numFused", "num-fused",
                              "Number of fusions">];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::attn::AttnDialect",
                           "::mlir::attn_tile::AttnTileDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::tensor::TensorDialect"];
}

def AttnReassociatePass : Pass<"attn-reassociate"> {
  let summary = "multiply queries and results instead of keys and values";
  let description = [{
    Where values are a product `X W`, attention returns `A (X W)`, which is
    `(A X) W`. The second form attends to `X` and multiplies as many rows as there
    are queries, not as there are keys. It pays where queries are few and `X` has
    not many more channels than `X W`: with a latent of keys and values while
    tokens are generated, and with learned queries that summarise a sequence.
    Both are estimated by `CostOpInterface` and the roofline of the target, and
    the one that takes less time is kept. Remarks of the category
    `attn-reassociate` have the times.

    Values are an `attn.matmul` of a batch of matrices, or of one, without an
    epilogue, whose first dimension is that of batch and heads. With a batch of
    weights query heads do not share values. The rounding of values is replaced
    by that of what attention returns.

    ```mlir
    %xw = attn.matmul ins(%x, %w : tensor<8x4096x64xbf16>, tensor<64x64xbf16>)
        outs(%e : tensor<8x4096x64xbf16>) -> tensor<8x4096x64xbf16>
    %v = tensor.expand_shape %xw [[0, 1], [2], [3]] output_shape [1, 8, 4096, 64] : ...
    %o = attn.attention ins(%q, %k, %v : ...) outs(%init : tensor<1x8x16x64xbf16>)
    ```

    becomes

    ```mlir
    %v = tensor.expand_shape %x [[0, 1], [2], [3]] output_shape [1, 8, 4096, 64] : ...
    %a = attn.attention ins(%q, %k, %v : ...) outs(%init : tensor<1x8x16x64xbf16>)
    %b = tensor.collapse_shape %a [[0, 1], [2], [3]] : ...
    %c = attn.matmul ins(%b, %w : tensor<8x16x64xbf16>, tensor<64x64xbf16>) outs(%f : tensor<8x16x64xbf16>)
    %o = tensor.expand_shape %c [[0, 1], [2], [3]] output_shape [1, 8, 16, 64] : ...
    ```

    Where keys and values are products of latents that all heads share with
    weights of the head, scores are `Q (C W)^T`, which is `(Q W^T) C^T`. Then
    queries and what attention returns are multiplied instead, and all query heads
    attend to one head, the latents: multi-head latent attention (DeepSeek-AI
    2024) while tokens are generated. Such products are of `[B, S, r]` or
    `[B * S, r]` with `[r, H * d]`, split into heads and transposed, or, for one
    batch entry, of `[S, r]` with `[H, r, d]`. Keys and values may have different
    latents, or be slices of one product. Each query head has keys of its own.

    Channels of keys that all heads share may be beside those of the product,
    concatenated or inserted. They are then concatenated to the latent; where both
    are side by side in one tensor, keys are that part of it.

    ```mlir
    %0 = attn.matmul ins(%c, %wk : tensor<4x8192x128xbf16>, tensor<2048x128xbf16>)
        outs(%e : tensor<4x8192x2048xbf16>) transpose_rhs -> tensor<4x8192x2048xbf16>
    %1 = tensor.expand_shape %0 [[0], [1], [2, 3]] output_shape [4, 8192, 16, 128] : ...
    %n = linalg.transpose ins(%1 : ...) outs(%f : ...) permutation = [0, 2, 1, 3]
    %k = tensor.concat dim(3) %n, %shared
        : (tensor<4x16x8192x128xbf16>, tensor<4x16x8192x64xbf16>) -> tensor<4x16x8192x192xbf16>
    ```
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"\"host\"",
           "Target whose rates are used: host, sm_80 or sm_90a">,
  ];
  let statistics = [Statistic<"numReassociated", "num-reassociated",
                              "Number of products that were moved">];
  let dependentDialects = ["::mlir::attn::AttnDialect",
                           "::mlir::attn_tile::AttnTileDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect"];
}

def AttnSimplifyMasksPass : Pass<"attn-simplify-masks"> {
  let summary = "simplify the masks of attention";
  let description = [{
    Replaces the named mask of each attention by the simplest one that is known
    to keep the same pairs, for its lengths where they are static:

    - only single masks are negated, conjunctions and disjunctions are not nested
      in their like;
    - masks that have a common name are merged, such as a causal mask and a
      window;
    - parts that the others imply are dropped, and sides of windows that no pair
      reaches;
    - a mask that keeps all pairs is removed, one that keeps none becomes
      `#attn.none`.

    Parts of a keep region that are a named mask join the named mask, which is
    cheaper to evaluate; parts that the others and the named mask imply are
    dropped. Parts that read tensors stay.

    ```mlir
    attn.attention ... mask(#attn.sliding_window<left = 512>) keep {
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
    attn.attention ... mask(#attn.sliding_window<left = 512, right = 0>) keep {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      %x = tensor.extract %ids[%b, %i] : tensor<?x?xi32>
      %y = tensor.extract %ids[%b, %j] : tensor<?x?xi32>
      %same = arith.cmpi eq, %x, %y : i32
      attn.yield %same : i1
    }
    ```

    What is implied is proven with MLIR's Presburger library from the code of the
    predicates, so that it holds for masks of other dialects too.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::attn::AttnDialect"];
}

def AttnExplainPass : Pass<"attn-explain", "::mlir::ModuleOp"> {
  let summary = "print the work of each operation, and what bounds it";
  let description = [{
    Prints a ledger: for each operation that takes time, its floating point
    operations, the bytes that it moves to and from the device's memory, their
    ratio, and the time that the slowest unit or level of the device needs for
    it, with the name of that; for attention with a schedule also the steps of
    its walk over tiles and what each step moves through the second cache. The
    device is the module's `attn.device`, or the one that stands for `target`.

    For attentions that drop weights, a line says what the function's products
    and these take, with decisions made in the kernels of attention, by a kernel
    before them, and fused with products, as `attn-hoist-rng` predicts it.

    Counts come from `CostOpInterface`. Operations on tensors without it are
    counted by the tensors that they move.

    For attention, and for chains of operations from product to product, a
    derivation follows: which axes one kernel could deal out to groups, which it
    could stream, and what is in the way of either, by `StreamableOpInterface`;
    the tiles for which registers and shared memory have room that take least
    time, what their steps move, and how long that takes. Chains end at
    operations without the interface, such as reshapes.

    As JSON, there is one object with `device`, `ridge` (FLOP per byte),
    `bandwidth` (of memory, bytes per second) and `functions`; each function has `name`, `operations` and `total`; these have
    `flops`, `units`, `bytes`, `intensity` (FLOP per byte, null if nothing is
    moved), `steps`, `seconds` and `bound`. Attention whose schedule has a model
    of its time has `kernel`, what that is made of, in clocks of the
    multiprocessor that has most to do: `step` is what `products`, `chain` (those
    of one of `consumers` and its softmax) and `exponentials` take side by side.
    The function's `dropout` has an object with `attentions`, `products` (their
    numbers), `mask_bytes`, and `in_kernel`, `sequential` and `fused`, in seconds
    or null. Its `derivations` have `operations` and `axes`, each with `name`,
    `size` (null if dynamic), `use` (`group`, `stream` or `whole`), `reason` and
    `tile`; but for the host also whether these `fits`, `register_bytes`,
    `shared_bytes`, `limit`, and what operations have.

    `roofline` and `flow` name files for pictures, as SVG: operations below the
    roofs of memory and matrix products, and bytes by level.

    ```
    attn-opt in.mlir --attn-explain=target=sm_90a
    attn-opt in.mlir --attn-explain="format=json output=ledger.json roofline=roofline.svg"
    ```
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"\"sm_90a\"",
           "Target: host, sm_80 or sm_90a">,
    Option<"format", "format", "std::string", /*default=*/"\"table\"",
           "How to print: table or json">,
    Option<"output", "output", "std::string", /*default=*/"\"\"",
           "File for the ledger; standard error if empty, - for standard output">,
    Option<"roofline", "roofline", "std::string", /*default=*/"\"\"",
           "File for a picture of the roofline; none if empty">,
    Option<"flow", "flow", "std::string", /*default=*/"\"\"",
           "File for a picture of the bytes moved; none if empty">,
    Option<"dynamicSize", "dynamic-size", "int64_t", /*default=*/"4096",
           "Size that dynamic dimensions are taken to have">,
    Option<"dynamicBatch", "dynamic-batch", "int64_t", /*default=*/"1",
           "Size that the first dimension of tensors of three or more is taken "
           "to have if it is dynamic">,
  ];
  let dependentDialects = ["::mlir::attn::AttnDialect",
                           "::mlir::attn_tile::AttnTileDialect"];
}

def AttnHoistRngPass : Pass<"attn-hoist-rng", "::mlir::func::FuncOp"> {
  let summary = "make the decisions of dropout beside products that run before";
  let description = [{
    Attentions, and gradients of attention, of one block that drop the same
    weights read them from a mask, which is made once, instead of making random
    numbers. Of the alternatives

    | alternative | decisions are made |
    |---|---|
    | `in-kernel` | by each attention |
    | `sequential` | by a kernel before the first attention |
    | `streams` | by a kernel that may run at the same time as a product |
    | `fused` | by idle threads of the kernels of one or several products |

    the one of the first two with the least predicted time is taken, where memory
    for the mask is within the budget. The others are taken only if asked for: a
    product leaves no room on a multiprocessor for another kernel, and layers with
    fused kernels have not been measured.

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
      %0 = attn.dropout_mask rows by(#attn.dropout<p = 0.125, rng = #attn.arx>, %seed, %offset : tensor<i64>, tensor<i64>)
          outs(%mask : tensor<1x32x4096x512xi32>) -> tensor<1x32x4096x512xi32>
      attn.overlap_yield %0 : tensor<1x32x4096x512xi32>
    } -> (tensor<8192x6144xbf16>, tensor<1x32x4096x512xi32>)
    ...
    %out = attn.attention ins(%q, %k, %v : ...) outs(...)
        dropout_mask rows(%bits : tensor<1x32x4096x512xi32>) p(0.125)
    ```

    What is needed for the decisions (seed, offset and, if they are dynamic,
    sizes) must be known before the product, or be computed from what is by
    operations without effects, which are moved up then. Nothing moves across an
    operation that may write memory. With `most-products`, products before the
    nearest one take decisions of some heads, by their time. Remarks of category
    `attn-hoist-rng` say what was done, with the predicted times, and what was
    not and why.
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"\"sm_90a\"",
           "Target: host, sm_80 or sm_90a">,
    Option<"alternative", "alternative", "std::string", /*default=*/"\"best\"",
           "best, in-kernel, sequential, streams or fused">,
    Option<"memoryBudget", "memory-budget", "int64_t", /*default=*/"-1",
           "Bytes that a mask may take; if negative, an eighth of the device's "
           "memory">,
    Option<"mostProducts", "most-products", "int64_t", /*default=*/"1",
           "Products that may share the decisions of one mask">,
    Option<"dynamicSize", "dynamic-size", "int64_t", /*default=*/"4096",
           "Size that dynamic dimensions are taken to have">,
    Option<"dynamicBatch", "dynamic-batch", "int64_t", /*default=*/"1",
           "Size that the first dimension of tensors of three or more is taken "
           "to have if it is dynamic">,
  ];
  let statistics = [
    Statistic<"numMasks", "num-masks", "Number of masks made">,
    Statistic<"numProducts", "num-products",
              "Number of products beside which decisions are made">,
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::attn::AttnDialect",
    "::mlir::attn_tile::AttnTileDialect", "::mlir::tensor::TensorDialect"];
}

def AttnLowerOverlapPass : Pass<"attn-lower-overlap"> {
  let summary = "order the kernels of attn.overlap";
  let description = [{
    Replaces `attn.overlap`, whose regions launch kernels, by its regions: by
    `streams`, the kernels of each region but the first are launched on a stream
    of their own,

    ```mlir
    attn.overlap by streams {
      attn_tile.launch @product args(%c) : memref<?xf32>
      attn.overlap_yield
    } and {
      attn_tile.launch @mask args(%m) : memref<?xi32>
      attn.overlap_yield
    }
    ```

    becomes

    ```mlir
    %side = attn_tile.fork_stream
    attn_tile.launch @product args(%c) : memref<?xf32>
    attn_tile.launch @mask on(%side) args(%m) : memref<?xi32>
    attn_tile.join_stream %side
    ```

    Memory is allocated before the first launch and freed after the last. Other
    kinds become one region after another, and so do all for the host, and
    regions that hold anything beside launches, allocations and computations
    without effects. `fused` overlaps that reach this pass have no kernel, which
    is reported as a remark.
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"\"host\"",
           "Target: host, sm_80 or sm_90a">,
  ];
  let dependentDialects = ["::mlir::attn_tile::AttnTileDialect"];
}

def AttnCheckRegionsPass : Pass<"attn-check-regions"> {
  let summary = "report errors of regions that can be known";
  let description = [{
    - A score or keep region that reads an element of a captured tensor out of
      bounds for some pair of positions within static lengths is an error, which
      names the index and the pair. Pairs that the mask is known to leave out do
      not count; reads within nested regions, which conditions may guard, are not
      looked at. Where nothing is known, as with dynamic sizes or indices that
      are read themselves, kernels bound the index: a read out of bounds gives
      some element.
    - Of an attention with `attn.static_tiles`, which tiles the mask leaves out
      must be known at compile time: parts of the mask that are not piecewise
      affine in the positions are an error, which names the operations.
    - `math.clampf` is an error: `max(min(x, lower), upper)`, as MLIR documents and
      expands it, is not what it is elsewhere.

    ```mlir
    attn.attention ... attributes {attn.static_tiles} keep {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      %ij = arith.muli %i, %j : index     // error: names this operation
      ...
    ```
  }];
}

def AttnPlanMasksPass : Pass<"attn-plan-masks", "::mlir::ModuleOp"> {
  let summary = "find out once what masks that read tensors keep";
  let description = [{
    Attentions on tensors that have the same mask, lengths and schedule get one
    `attn.plan_mask` before them. That of one attention alone is left to its lowering,
    which makes it each time the attention runs.

    With `outline`, callers keep plans: a public function `f` with such attentions gets
    an argument for each plan, behind those that it has, and `f_plan`, with the
    arguments that `f` had, returns the plans.

    ```mlir
    func.func @f(%q: tensor<...>, ..., %ids: tensor<?x?xi32>) -> tensor<...>
    // becomes
    func.func @f_plan(%q: tensor<...>, ..., %ids: tensor<?x?xi32>)
        -> (tensor<?x1x?x?xi32> {attn.name = "plan"})
    func.func @f(%q: tensor<...>, ..., %ids: tensor<?x?xi32>,
                 %plan: tensor<?x1x?x?xi32> {attn.name = "plan"}) -> tensor<...>
    ```

    A plan holds as long as what the mask reads and the lengths do not change: of `q`
    and the other operands of attention `f_plan` reads the sizes alone. Functions with
    control flow, and attentions in regions of other operations, stay as they are.
    Schedules must have been chosen, and masks expanded.
  }];
  let options = [
    Option<"outline", "outline", "bool", /*default=*/"false",
           "Make plans arguments of functions">,
  ];
  let statistics = [
    Statistic<"numPlans", "num-plans", "Number of plans made">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::tensor::TensorDialect"];
}

def AttnPrintMaskMapPass : Pass<"attn-print-mask-map"> {
  let summary = "draw the tiles that masks leave";
  let description = [{
    Draws, for each `attn.attention` of static lengths, the tiles that its kernel
    visits without code for masks (full), with it (partial) and not at all
    (empty), as a picture in SVG with a legend. Tiles are those of the schedule
    unless options say otherwise. Of masks that read tensors, tiles that data
    decides are drawn as partial.

    As JSON, there is an object with `title`, `query_tile`, `key_tile`, `rows` and
    `columns` of the map, `reads_data`, and `partial` and `full`: lists of
    `[row, first column, column behind the last]`.
  }];
  let options = [
    Option<"format", "format", "std::string", /*default=*/"\"svg\"",
           "What to write: svg or json">,
    Option<"queryTile", "query-tile", "int64_t", /*default=*/"0",
           "Queries in a tile; those of the schedule if 0">,
    Option<"keyTile", "key-tile", "int64_t", /*default=*/"0",
           "Keys in a tile; those of the schedule if 0">,
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
