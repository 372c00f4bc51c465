//===- Passes.td - Conversion passes ----------------------*- tablegen -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Conversions between the dialects of the project and upstream dialects.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_CONVERSION_PASSES_TD
#define ATTN_CONVERSION_PASSES_TD

include "attn/Support/PassBase.td"

def AttnRaiseLinalgPass : Attn_Pass<"attn-raise-linalg"> {
  let summary = "find attention in linalg on tensors";
  let description = [{
    Replaces the matmuls and the softmax of attention, as frontends write them
    in linalg on tensors, by `attn.attention`. The match does not depend on the
    operations that compute a value. An attention probability is taken as a
    scalar expression of its indices, through elementwise operations (generic,
    named or of `arith` on tensors), broadcasts, transpositions, reshapes,
    slices and casts. It must be

    ```
    exp(x[i,j] - m[i]) / sum over j of exp(x[i,j] - m[i])
    ```

    for any `m`, or `linalg.softmax` over `j`, with `x` a scalar function of one
    element of the QK matmul, and be multiplied with the values. The division
    may also come after the PV matmul, applied to its result alone.

    - Transpositions, reshapes and repetitions of heads of the operands are
      looked through to the tensor that they start from, and so are conversions
      to wider types. The remaining ones become `linalg.transpose`,
      `tensor.collapse_shape` and `tensor.expand_shape`.
    - Constant factors of operands and scores become the `scale`.
    - Numbers of at most -10000, selected or added to the score, mask elements:
      their conditions become the `mask_mod` region, which `attn-simplify-masks`
      simplifies to named masks. A finite number has another meaning in a row
      that keeps no element. So it masks only where the positions alone show
      that every row keeps an element, or with `assume-kept-rows`. Otherwise it
      stays a part of the `score_mod`.
    - Any other function of the score becomes the `score_mod` region. The region
      reads tensors, and recomputes elementwise expressions of them where that
      is cheaper than reading their result.
    - Dropout between the softmax and the PV matmul, by factors of 0 and 1, by
      selections of 0, and by a constant factor `1 / (1 - p)`, becomes a
      `dropout_mask`: a `linalg.generic` packs the keep mask as docs/rng.md
      defines. Factors are known to be 0 and 1 if they are converted from `i1`,
      or with `assume-dropout-masks`.

    Between the matmuls everything is f32, in place of the original types. A row
    whose elements are all masked by -inf becomes 0; it was NaN.

    Without a softmax, matmuls become `attn.linear_attention`, whose work is
    linear in the number of tokens. The weight of a pair must be a product of
    one element of the QK matmul and of

    - the causal mask `j <= i`: comparisons of positions, or a constant tensor,
    - decays `exp(c[i] - c[j])` and `pow(g, i - j)` under the causal mask,
    - factors that depend on the query or on the key alone, and numbers.

    A sum of such weights over the keys, the normaliser of linear attention,
    becomes linear attention whose values are ones. Queries and keys have the
    same number. For static lengths, it must be larger than the head dim of
    keys. The head dims and the element type must be ones that kernels on
    `target` have. Decays are at most 1: the runtime reports log-decays above 0,
    apart from rounding.

    An operation that resembles attention but is none stays as it is, and a
    remark of category `attn-raise-linalg` says which condition it fails.

    ```mlir
    %s = linalg.batch_matmul ins(%q, %kt : tensor<8x512x64xf32>, tensor<8x64x512xf32>)
        outs(%zero : tensor<8x512x512xf32>) -> tensor<8x512x512xf32>
    %p = linalg.softmax dimension(2) ins(%s : tensor<8x512x512xf32>)
        outs(%e : tensor<8x512x512xf32>) -> tensor<8x512x512xf32>
    %o = linalg.batch_matmul ins(%p, %v : tensor<8x512x512xf32>, tensor<8x512x64xf32>)
        outs(%zero2 : tensor<8x512x64xf32>) -> tensor<8x512x64xf32>
    ```

    becomes

    ```mlir
    %k = linalg.transpose ins(%kt : tensor<8x64x512xf32>)
        outs(%0 : tensor<8x512x64xf32>) permutation = [0, 2, 1]
    %q4 = tensor.expand_shape %q [[0, 1], [2], [3]] ...
    %a = attn.attention ins(%q4, %k4, %v4 : ...) outs(%1 : ...) scale(1.0)
        -> tensor<1x8x512x64xf32>
    %o = tensor.collapse_shape %a [[0, 1], [2], [3]] ...
    ```
  }];
  let options = [
    Option<"assumeKeptRows", "assume-kept-rows", "bool", /*default=*/"false",
           "Assume that every row keeps an element, so that large negative numbers mask">,
    Option<"assumeDropoutMasks", "assume-dropout-masks", "bool",
           /*default=*/"false",
           "Assume that tensors that attention probabilities are multiplied by hold only 0 and 1">,
    Option<"target", "target", "std::string", /*default=*/"\"host\"",
           "Name of a registered target, such as sm_90a, for whose kernels "
           "linear attention is found">,
  ];
  let statistics = [
    Statistic<"numRaised", "num-raised", "Number of attentions found">,
    Statistic<"numLinear", "num-linear",
              "Number of operations that became linear attention">];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::attn::AttnDialect",
    "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect",
    "::mlir::tensor::TensorDialect"];
}

def ConvertAttnToAttnTilePass
    : Attn_Pass<"convert-attn-to-attn-tile", "::mlir::ModuleOp"> {
  let summary = "write the plain tiled program of each attention and matmul";
  let description = [{
    Each bufferised `attn.attention` with a schedule becomes a kernel and its
    launch. The kernel is the plain tiled program: a loop over work items that
    contains a loop over kv tiles with the online softmax. Nothing is
    asynchronous.

    An `attn.attention_grad` becomes several kernels, their launches, and
    buffers with a few values per query between them:

    - a preprocess kernel, for values that are computed once per query,
    - one or two kernels whose work items are kv tiles, for dK and dV,
    - a dQ kernel, whose work items are query tiles. Without `dq` in the
      schedule, the dK/dV kernel accumulates dQ instead, and a last kernel
      scales and rounds the dQ accumulator.

    An `attn.matmul` becomes a kernel whose work items are tiles of the result,
    with a loop over the contracted dimension.

    An `attn.overlap` `by fused` of an `attn.matmul` in one region and an
    `attn.dropout_mask` in another one becomes one kernel, if the schedule of
    the matmul leaves warps idle: `attn_tile.auxiliary_warps` generates the keep
    mask. For any other fused overlap a remark says why not, and its regions
    become separate kernels.

    Where the kernels of a gradient iterate over lists of tiles, the order of a
    list depends on the number of SMs. It is taken from the `attn.device` of the
    module, or from the default device of the target.

    A gradient whose static sizes leave no pairs of a query and a key becomes
    `linalg.fill` operations.
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"\"host\"",
           "Name of a registered target, such as sm_90a">,
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::attn_tile::AttnTileDialect",
    "::mlir::gpu::GPUDialect", "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect",
    "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"];
}

def ConvertLinalgToAttnTilePass
    : Attn_Pass<"convert-linalg-to-attn-tile", "::mlir::ModuleOp"> {
  let summary = "write a kernel for each remaining operation of linalg";
  let description = [{
    Operations around attention, such as conversions and reductions, run on the
    device of the attention: each operation of linalg on memrefs becomes a
    kernel on scalars and its launch. A reduction by addition or by `arith.maxnumf`
    in f32 has one warp per element of the result, whose threads divide the reduced
    elements among them. All other operations have one thread per element.

    ```mlir
    linalg.fill ins(%zero : f32) outs(%sums : memref<?x128xf32>)
    ```

    becomes

    ```mlir
    attn_tile.kernel @main_fill_kernel(%sums: memref<?x128xf32>) {
      %zero = arith.constant 0.0 : f32
      scf.forall (%i, %t) in (%rows, %c1) {
        attn_tile.thread_for to(%c128) {
        ^bb0(%j: index):
          memref.store %zero, %sums[%i, %j] : memref<?x128xf32>
          attn_tile.yield
        }
      }
      attn_tile.return
    }
    attn_tile.launch @main_fill_kernel(%sums : memref<?x128xf32>)
    ```
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::attn_tile::AttnTileDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect"];
}

def AttnRaiseMatmulPass : Attn_Pass<"attn-raise-matmul"> {
  let summary = "find matmuls in linalg on tensors";
  let description = [{
    Each contraction of linalg on tensors, named or generic, that multiplies
    bf16, f16 or f32 matrices becomes an `attn.matmul`: one contracted
    dimension, one of rows, one of columns, and at most one of a batch, which
    comes first. Operands may be transposed. Contractions of f8E4M3FN or f8E5M2
    matrices do so where kernels for `target` multiply them as they are stored.

    Elementwise operations of linalg that are the only user of a matmul become
    part of its epilogue, with the operands and constants that they read. So
    does the addition of the initial value of the result, unless that is zero.
    An operation that follows two matmuls is part of the epilogue of the later
    one. Accumulation is in f32 where linalg accumulates in 16 bits.

    ```mlir
    %sums = linalg.matmul ins(%x, %w : tensor<?x64xbf16>, tensor<64x96xbf16>)
        outs(%zeros : tensor<?x96xf32>) -> tensor<?x96xf32>
    %y = linalg.generic {...} ins(%sums, %bias : tensor<?x96xf32>, tensor<96xf32>)
        outs(%init : tensor<?x96xbf16>) {
    ^bb0(%s: f32, %b: f32, %o: bf16):
      %t = arith.addf %s, %b : f32
      %r = arith.truncf %t : f32 to bf16
      linalg.yield %r : bf16
    } -> tensor<?x96xbf16>
    ```

    becomes

    ```mlir
    %y = attn.matmul ins(%x, %w : ...) outs(%init : tensor<?x96xbf16>) epilogue {
    ^bb0(%sum: f32, %b: index, %i: index, %j: index):
      %x = tensor.extract %bias[%j] : tensor<96xf32>
      %t = arith.addf %sum, %x : f32
      attn.yield %t : f32
    } -> tensor<?x96xbf16>
    ```
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"\"host\"",
           "Name of a registered target, such as sm_90a, for whose kernels "
           "matmuls of 8 bits are found">,
  ];
  let statistics = [
    Statistic<"numMatmuls", "num-matmuls", "Number of matmuls converted">,
    Statistic<"numFused", "num-fused", "Number of operations in epilogues">];
  // Targets have instructions of attn_tile.
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::attn::AttnDialect",
    "::mlir::attn_tile::AttnTileDialect", "::mlir::tensor::TensorDialect"];
}

def ConvertAttnToLoopsPass : Attn_Pass<"convert-attn-to-loops"> {
  let summary = "write attention as plain loops in f64";
  let description = [{
    Replaces each bufferised `attn.attention` by a parallel loop over its rows.
    For each row, one loop computes the scores and their maximum, a second one
    the sum of the exponentials and the PV row. All arithmetic is in f64, except
    in the `score_mod` region. Results are rounded once, on store. The loops are
    the reference against which kernels are tested, so they are as simple as
    possible.

    ```mlir
    attn.attention ins(%q, %k, %v : ...) outs(%out : ...) mask(#attn.causal)
    ```

    becomes

    ```mlir
    scf.parallel (%b, %h, %i) = ... {
      // %scores : memref<?xf64>, %acc : memref<?xf64> of this row
      %m = scf.for %j = ... iter_args(%max = -inf) {
        // %scores[%j] = scale * dot(%q[%b, %h, %i], %k[%b, %h, %j]) or -inf
      }
      %l = scf.for %j = ... iter_args(%sum = 0) {
        // %acc += exp(%scores[%j] - %m) * %v[%b, %h, %j]
      }
      // %out[%b, %h, %i] = %acc / %l, or 0 if %l is 0
    }
    ```

    An `attn.attention_grad` becomes two such loops. One iterates over the rows
    of queries and computes `dquery` and the values that the `score_mod_grad`
    region adds to destinations. The other one iterates over the rows of keys
    and computes `dkey` and `dvalue`. Attention probabilities are recomputed
    from the log-sum-exp. A `score_mod` region without `score_mod_grad` is an
    error, as is attention on tensors.
  }];
  let statistics = [Statistic<"numLowered", "num-lowered",
                              "Number of attentions lowered">];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect"];
}

def AttnMakeReferencePass : Attn_Pass<"attn-make-reference", "::mlir::ModuleOp"> {
  let summary = "add an f64 reference to each public function of attention";
  let description = [{
    For each public function `@f` of attention, matmuls or linalg, adds the
    private function `@f.reference`: the loops of `convert-attn-to-loops`, with
    float outputs of element type f64 and one more argument, an `index` of at
    least 1. With `n` as that argument, only the rows 0, n, 2n, ... of the
    outputs are written. Attention whose results are read writes all of its
    rows, and gradients of captured values come from all rows.

    ```mlir
    func.func @f(%q: memref<...xbf16>, ..., %out: memref<...xbf16>)
    func.func private @f.reference(%q: memref<...xbf16>, ...,
                                   %out: memref<...xf64>, %row_step: index)
    ```

    Matmuls become loops with f64 accumulation. Other linalg becomes loops in
    its own types, which say where the program rounds.

    `@f` must be straight-line code on memrefs: attention, matmuls and linalg
    that write arguments or allocations of the function, and operations without
    effects. Regions must not read an argument that is written, and no argument
    may be read before it is written. Any other function stays as it is, with a
    remark that says why.
  }];
  let statistics = [Statistic<"numReferences", "num-references",
                              "Number of references added">];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
    "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect"];
}

def AttnTileAllocatePipesPass
    : Attn_Pass<"attn-tile-allocate-pipes", "::mlir::attn_tile::KernelOp"> {
  let summary = "place the pipes of a kernel in shared memory";
  let description = [{
    Sets the byte offsets of each `attn_tile.create_pipe` in shared memory:
    barriers first, then the stages, with the alignment of the target. Fails,
    with the number of bytes, if they exceed the shared memory of the target or
    of the `attn.device` of the module. Also fails if the target cannot stage a
    tile.
  }];
  let options = [
    Option<"targetName", "target", "std::string", /*default=*/"\"sm_90a\"",
           "GPU architecture">,
  ];
  let statistics = [
    Statistic<"numBytes", "num-bytes", "Bytes of shared memory allocated">,
  ];
}

def ConvertAttnTileToNVVMPass
    : Attn_Pass<"convert-attn-tile-to-nvvm", "::mlir::ModuleOp"> {
  let summary = "lower kernels to the program of one GPU thread";
  let description = [{
    Each `attn_tile.kernel @k` becomes a `gpu.module @k_module` with an
    `llvm.func @k`; launches refer to the latter. Register tiles become one
    value for each element that a thread holds (pairs, for 16-bit elements),
    according to the kernel's `layout`. Pipes must have offsets
    (`attn-tile-allocate-pipes`).

    The function has the parameters of the kernel: a memref of rank `r` as its
    pointer (offset applied), `r` sizes and `r` strides in elements (`i64`); a
    tensor map as 128 bytes by value; an index as `i64`; other scalars as they
    are. It carries the discardable attributes `attn_tile.block_size` (threads),
    `attn_tile.shared_bytes` and, in a kernel with clusters,
    `attn_tile.cluster_size`. CTAs of a cluster wait for one another at the
    beginning, before they use remote barriers, and at the end.

    Index arithmetic is in 32 bits, addresses are computed in 64 bits. Regions
    of maps and masks run for whole tiles, and thus at positions beyond the
    lengths: their reads must be guarded, as `attn-tile-split-regions` does.
    Elements of an empty memref are zero. If an MMA instruction has more
    register operands than a thread has registers at launch, the pass fails with
    the number of registers; other tiles spill.

    Multiplications and additions in regions are contracted, and `exp`, `exp2`,
    `log` and `tanh` of f32 values use approximate instructions. Remaining `scf`
    and `arith` operations are left to upstream conversions.
  }];
  let options = [
    Option<"targetName", "target", "std::string", /*default=*/"\"sm_90a\"",
           "GPU architecture">,
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::gpu::GPUDialect",
    "::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect",
    "::mlir::scf::SCFDialect"];
}

def ConvertCommToRuntimePass
    : Attn_Pass<"convert-comm-to-runtime", "::mlir::ModuleOp"> {
  let summary = "convert communication of ranks to calls of the runtime";
  let description = [{
    Replaces operations by which ranks communicate, on memrefs of the host, by calls of
    `libattn_runtime` that return statuses. On devices, `convert-launch-to-runtime`
    does so. The calls use the communicator of the
    thread. Sizes are in bytes. `attn-return-statuses` then makes functions return the
    statuses, and `attn-create-entry-points` makes a function that fails on one rank
    fail on all.

    ```mlir
    %rank = attn.comm.rank ranks(4)
    attn.comm.all_gather ins(%key : memref<1x8x64x64xf32>)
        outs(%keys : memref<4x1x8x64x64xf32>)
    ```

    becomes

    ```mlir
    llvm.store %zero, %slot : i64, !llvm.ptr
    %0 = llvm.call @attnrtCommRank(%four, %slot) : (i64, !llvm.ptr) -> i32
    %1 = llvm.load %slot : !llvm.ptr -> i64
    %rank = arith.index_cast %1 : i64 to index
    %2 = llvm.call @attnrtCommAllGather(%key_address, %keys_address, %four, %bytes,
        %no_stream) : (!llvm.ptr, !llvm.ptr, i64, i64, !llvm.ptr) -> i32
    ```
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect",
    "::mlir::memref::MemRefDialect"];
}

def AttnReturnStatusesPass : Attn_Pass<"attn-return-statuses", "::mlir::ModuleOp"> {
  let summary = "return the statuses of calls of the runtime library";
  let description = [{
    A function that calls the runtime library, directly or through other
    functions, gets a first result, an `i32` status: the status of the first
    call that does not return 0. Later calls are not made. Buffers are freed as
    before, and loops between the calls run. This is for functions of the host;
    `convert-launch-to-runtime` handles functions that use a device.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::memref::MemRefDialect",
    "::mlir::scf::SCFDialect", "::mlir::ub::UBDialect"];
}

def ConvertLaunchToRuntimePass
    : Attn_Pass<"convert-launch-to-runtime", "::mlir::ModuleOp"> {
  let summary = "launch serialized kernels through the runtime library";
  let description = [{
    Converts the host side of kernels: `attn_tile.launch` of a kernel in a
    `gpu.binary` becomes a call of `attnrtLaunchKernel`,
    `attn_tile.make_tensor_map` a call of `attnrtEncodeTensorMap`. The image and
    the properties of each kernel become globals, and the `gpu.binary` is
    erased. The block size, shared memory and cluster size of a kernel are the
    entries `attn_tile.block_size`, `attn_tile.shared_bytes` and, if present,
    `attn_tile.cluster_size` in the kernel table.

    This concerns functions that launch kernels or are described as an entry of
    the artifact, and their callers. They get a last argument, the stream, and a
    first result, an `i32` status. They return as soon as a call of the runtime
    does not return 0. Their `memref.alloc` and `memref.dealloc` allocate and
    free device memory in stream order. Operations by which ranks communicate become
    calls in the order of the stream.

    The parameters of a kernel are, for each operand of the launch: the address
    of the first element, the sizes and the strides of a memref; the bytes of a
    tensor map; an `i64` for an index; other scalars as they are.

    Structured control flow around these operations is an error. So are host
    reads and writes of device memory, and constant tensors
    (`memref.get_global`), which are in host memory.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::cf::ControlFlowDialect",
    "::mlir::LLVM::LLVMDialect", "::mlir::memref::MemRefDialect",
    "::mlir::ub::UBDialect"];
}

def ConvertAttnTileToVectorPass
    : Attn_Pass<"convert-attn-tile-to-vector", "::mlir::ModuleOp"> {
  let summary = "lower kernels to functions on vectors for the host";
  let description = [{
    Each kernel becomes a private function and each launch a call. The loop over
    work items stays an `scf.forall`. Tiles become buffers on the stack. Matmuls
    become loops over blocks of accumulators that fit the registers. Chains of
    elementwise operations are evaluated in pieces of rows. The regions of maps
    and masks are vectorised along rows.

    Kernels must be plain tiled programs, peeled or not: the host has no pipes,
    roles and grids.
  }];
  let options = [
    Option<"vectorBits", "vector-bits", "int64_t", /*default=*/"512",
           "Width of a vector register in bits">,
    Option<"numRegisters", "num-registers", "int64_t", /*default=*/"32",
           "Number of vector registers">,
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
    "::mlir::LLVM::LLVMDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"];
}

def AttnOutlineParallelPass
    : Attn_Pass<"attn-outline-parallel", "::mlir::ModuleOp"> {
  let summary = "run parallel loops through the runtime library";
  let description = [{
    Each outermost `scf.forall` becomes a function over a range of its
    iterations and a call of the runtime's `attnrtParallelFor`. A structure on
    the stack passes values of the surrounding function. Buffers that an
    iteration allocates are allocated once for the whole range.
    `attn-return-statuses` handles the status of the call.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
    "::mlir::LLVM::LLVMDialect", "::mlir::scf::SCFDialect"];
}

def AttnApproximateMathPass
    : Attn_Pass<"attn-approximate-math", "::mlir::ModuleOp"> {
  let summary = "expand math functions to polynomials on vectors";
  let description = [{
    Replaces functions of the math dialect on f32 and vectors of f32 by
    polynomial approximations. `math.exp2` is exact to one unit in the last
    place, and results below the smallest normal number are zero. Other
    functions are expanded as upstream does. A function with very many of them
    calls private functions that are not inlined, one for each operation and
    type, since the time to compile it would be out of proportion.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
    "::mlir::math::MathDialect", "::mlir::vector::VectorDialect"];
}

def AttnExpandFloat8Pass
    : Attn_Pass<"attn-expand-float8", "::mlir::ModuleOp"> {
  let summary = "convert 8-bit floats by integer operations";
  let description = [{
    Replaces `arith.extf` from, and `arith.truncf` to, f8E4M3FN and f8E5M2, and
    vectors of them, by operations on integers and f32: LLVM has no 8-bit float
    types. Extensions are exact. Truncations round to nearest even; numbers beyond
    the largest one become infinity, or NaN in f8E4M3FN, which has no infinity.
    Truncations of f64 stay, since they would be rounded twice.

    With `scalars`, vectors stay: GPU targets convert tiles themselves.

    Example:

    ```mlir
    // Before:
    %y = arith.extf %x : f8E5M2 to f32
    // After:
    %byte = arith.bitcast %x : f8E5M2 to i8
    %bits = arith.extui %byte : i8 to i32
    ...
    %y = arith.bitcast %result : i32 to f32
    ```
  }];
  let options = [
    Option<"scalars", "scalars", "bool", /*default=*/"false",
           "Whether only scalars are converted">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def AttnBF16ToI16Pass
    : Attn_Pass<"attn-bf16-to-i16", "::mlir::LLVM::LLVMFuncOp"> {
  let summary = "load, store and select bf16 as integers";
  let description = [{
    Replaces bf16, and vectors of it, by i16 in functions of the LLVM dialect
    that convert bf16 by integer operations. LLVM would keep scalars of bf16 as
    f32 on processors with AVX512-BF16, whose conversion back flushes subnormal
    numbers. Calls, returns, arguments of functions and other operations than
    moves keep bf16, by bit casts.

    Example:

    ```mlir
    // Before:
    %0 = llvm.load %p : !llvm.ptr -> bf16
    llvm.br ^bb1(%0 : bf16)
    // After:
    %0 = llvm.load %p : !llvm.ptr -> i16
    llvm.br ^bb1(%0 : i16)
    ```
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

def ConvertMathToLibdevicePass
    : Attn_Pass<"convert-math-to-libdevice", "::mlir::gpu::GPUModuleOp"> {
  let summary = "call libdevice for math functions without a GPU instruction";
  let description = [{
    Operations of `math` become calls of libdevice (`math.tanh` to
    `__nv_tanhf`), or the result of MathToLLVM where libdevice has no function.
    Operations that are one instruction are left to `convert-to-llvm`.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

def AttnLowerOverlapPass : Attn_Pass<"attn-lower-overlap"> {
  let summary = "order the kernels of attn.overlap";
  let description = [{
    Replaces `attn.overlap`, whose regions launch kernels, by its regions. With
    `streams`, the kernels of each region but the first are launched on a side stream:

    ```mlir
    attn.overlap by streams {
      attn_tile.launch @gemm args(%c) : memref<?xf32>
      attn.overlap_yield
    } and {
      attn_tile.launch @mask args(%m) : memref<?xi32>
      attn.overlap_yield
    }
    ```

    becomes

    ```mlir
    %side = attn_tile.fork_stream
    attn_tile.launch @gemm args(%c) : memref<?xf32>
    attn_tile.launch @mask on(%side) args(%m) : memref<?xi32>
    attn_tile.join_stream %side
    ```

    Memory is allocated before the first launch and freed after the last, also memory
    of branches. Regions by which ranks communicate (`attn.comm`) are on the caller's
    stream, and come first, since kernels may leave communication no room on the
    device; then all other regions are on side streams. In all other cases the regions
    run one after another: with other kinds, on the host, and if a region holds
    anything but launches, communication, allocations, branches with these, and
    computations without effects.
    A `fused` overlap that reaches this pass could not be fused, which a remark
    reports.
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"\"host\"",
           "Name of a registered target, such as sm_90a">,
  ];
  let dependentDialects = ["::mlir::attn_tile::AttnTileDialect"];
}

#endif // ATTN_CONVERSION_PASSES_TD
