//===- Passes.td - Conversion passes --------------------------*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Conversions between the dialects of the project and upstream ones.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_CONVERSION_PASSES_TD
#define ATTN_CONVERSION_PASSES_TD

include "mlir/Pass/PassBase.td"

def AttnRaiseLinalgPass : Pass<"attn-raise-linalg"> {
  let summary = "find attention in linalg on tensors";
  let description = [{
    Replaces the products and the softmax of attention, as frontends write it in
    linalg on tensors, by `attn.attention`. What is recognised does not depend on
    which operations compute something: the element of the weights is taken as a
    scalar expression of its indices, through elementwise operations (generic,
    named or of `arith` on tensors), broadcasts, transpositions, reshapes,
    slices and casts. It must be

    ```
    exp(x[i,j] - m[i]) / sum over j of exp(x[i,j] - m[i])
    ```

    for any `m`, or `linalg.softmax` over `j`, with `x` a scalar function of one
    element of a product of queries and keys, and be multiplied with values. The
    division may also come after that product, of its result alone.

    - Transpositions, reshapes and repetitions of heads of the operands are
      looked through to the tensor that they start from, and so are conversions
      to wider types. What remains is written as `linalg.transpose`,
      `tensor.collapse_shape` and `tensor.expand_shape`.
    - Constant factors of operands and scores become the `scale`.
    - Numbers of at most -10000, selected or added to, mask pairs: the conditions
      become the `keep` region, of which `attn-simplify-masks` makes named masks.
      A finite number does so only where every row is known to keep a pair by the
      positions alone, or with `assume-kept-rows`, since it means something else
      in a row that keeps none. Otherwise it stays a change of the score.
    - Any other function of the product becomes the `score` region. Tensors are
      read by it, elementwise computations of them done in it where that is
      cheaper than reading their result.
    - Dropout between the softmax and the product with the values, by factors of
      0 and 1, by selections of 0, and by a constant factor `1 / (1 - p)`, becomes
      a `dropout_mask`: a `linalg.generic` packs the decisions as docs/rng.md
      defines. Factors are known to be 0 and 1 if they are converted from `i1`,
      or with `assume-dropout-masks`.

    Between the products everything is f32, whatever types the operations had. A
    row of which all pairs are masked by -inf is 0 afterwards, and was NaN.

    What looks like attention and is none is left alone, and a remark of category
    `attn-raise-linalg` says which condition it fails.

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
           "Take every row to keep a pair, so that large negative numbers mask">,
    Option<"assumeDropoutMasks", "assume-dropout-masks", "bool",
           /*default=*/"false",
           "Take tensors that weights are multiplied by to hold 0 and 1 alone">,
  ];
  let statistics = [Statistic<"numRaised", "num-raised",
                              "Number of attentions found">];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::attn::AttnDialect",
    "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect",
    "::mlir::tensor::TensorDialect"];
}

def ConvertAttnToAttnTilePass
    : Pass<"convert-attn-to-attn-tile", "::mlir::ModuleOp"> {
  let summary = "write the plain tiled program of each attention and product";
  let description = [{
    Each bufferised `attn.attention` with a schedule becomes a kernel and its
    launch. The kernel is the plain tiled program: a loop over work items, in it
    a loop over key tiles with the online softmax; nothing is asynchronous.

    An `attn.attention_grad` becomes several kernels and their launches, and
    buffers with a few values for each query that they exchange: one for what is
    computed once for each query, one or two whose work items are tiles of keys,
    one whose work items are tiles of queries. The latter is absent if the
    schedule has the kernel of the keys add up the gradients of queries; a last
    kernel then scales and rounds the sums.

    An `attn.matmul` becomes a kernel whose work items are tiles of the result,
    with a loop over the contracted dimension.

    An `attn.overlap` `by fused` of a product in one region and an
    `attn.dropout_mask` in another one becomes one kernel, if the schedule of the
    product leaves warps without work: the decisions are made by
    `attn_tile.beside`. A remark says why others do not; their regions become
    kernels of their own.

    Where gradients walk over lists of tiles, the order of the lists depends on
    how many multiprocessors the device has: that of the module (`attn.device`),
    or the one that the target stands for.
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"\"host\"",
           "Target: host, sm_80 or sm_90a">,
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::attn_tile::AttnTileDialect",
    "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect",
    "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"];
}

def ConvertLinalgToAttnTilePass
    : Pass<"convert-linalg-to-attn-tile", "::mlir::ModuleOp"> {
  let summary = "write a kernel for each operation of linalg that is left";
  let description = [{
    What stands around attention, conversions, sums and the like, runs where
    attention runs: each operation of linalg on memrefs becomes a kernel of
    scalars and its launch. Sums of f32 have a warp for each element of the
    result, to which the numbers of the summed dimensions are shared out;
    everything else has a thread for each element.

    ```mlir
    linalg.fill ins(%zero : f32) outs(%sums : memref<?x128xf32>)
    ```
    becomes
    ```mlir
    attn_tile.kernel @main_fill_kernel(%sums: memref<?x128xf32>) {
      %zero = arith.constant 0.0 : f32
      scf.forall (%i, %t) in (%rows, %c1) {
        attn_tile.each to(%c128) {
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

def AttnRaiseMatmulPass : Pass<"attn-raise-matmul"> {
  let summary = "find matrix products in linalg on tensors";
  let description = [{
    Each contraction of linalg on tensors, named or generic, that multiplies
    bf16, f16 or f32 matrices becomes an `attn.matmul`: one contracted dimension,
    one of rows, one of columns, and at most one of a batch, which comes first.
    Operands may be transposed.

    Elementwise operations of linalg that alone use a product become part of its
    epilogue, with the operands and constants that they read, and so does the
    addition to what the product was to be added to, unless that is zero. What
    follows two products is part of the epilogue of the later one. Sums are f32
    where linalg has 16-bit ones.

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
  let statistics = [
    Statistic<"numProducts", "num-products", "Number of products converted">,
    Statistic<"numFused", "num-fused", "Number of operations in epilogues">];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::attn::AttnDialect",
    "::mlir::tensor::TensorDialect"];
}

def ConvertAttnToLoopsPass : Pass<"convert-attn-to-loops"> {
  let summary = "write attention as plain loops in f64";
  let description = [{
    Replaces each bufferised `attn.attention` by a parallel loop over its rows.
    For each row, one loop computes the scores and their maximum, a second one
    the sum of the exponentials and of the weighted values. All arithmetic but
    that of the score region is in f64; results are rounded once, on store. The
    loops are the oracle that kernels are tested against, so nothing here is
    clever.

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

    An `attn.attention_grad` becomes two such loops: one over the rows of
    queries, with `dquery` and what the `score_grad` region adds to
    destinations, and one over the rows of keys, with `dkey` and `dvalue`. The
    weights are recomputed from the log-sum-exp. A score region without
    `score_grad` is an error, as is attention on tensors.
  }];
  let statistics = [Statistic<"numLowered", "num-lowered",
                              "Number of attentions lowered">];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect"];
}

def AttnMakeReferencePass : Pass<"attn-make-reference", "::mlir::ModuleOp"> {
  let summary = "add an f64 reference to each public function of attention";
  let description = [{
    For each public function `@f` of attention, adds the private function
    `@f_reference`: the loops of `convert-attn-to-loops`, with outputs of
    element type f64 and one more argument, an `index`. With `n` as that
    argument, only the rows 0, n, 2n, ... of the outputs are written; it must be
    at least 1. Attention whose results are read writes all of its rows, and
    gradients of captured values come from all rows.

    ```mlir
    func.func @f(%q: memref<...xbf16>, ..., %out: memref<...xbf16>)
    func.func private @f_reference(%q: memref<...xbf16>, ...,
                                   %out: memref<...xf64>, %row_step: index)
    ```

    `@f` must be straight-line code on memrefs: attention and `linalg.fill` that
    write arguments which nothing but later attention reads, and operations
    without effects. Any other function is left alone, with a remark that says
    why.
  }];
  let statistics = [Statistic<"numReferences", "num-references",
                              "Number of references added">];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
    "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect"];
}

def AttnTileAllocatePipesPass
    : Pass<"attn-tile-allocate-pipes", "::mlir::attn_tile::KernelOp"> {
  let summary = "place the pipes of a kernel in shared memory";
  let description = [{
    Gives each `attn_tile.create_pipe` its place: barriers first, then the
    stages, each aligned as the target asks for. Fails, with the number of
    bytes, if they do not fit the target, or the `attn.device` of the module, and
    if the target cannot stage a tile.
  }];
  let options = [
    Option<"targetName", "target", "std::string", /*default=*/"\"sm_90a\"",
           "GPU architecture">,
  ];
  let statistics = [
    Statistic<"numBytes", "num-bytes", "Bytes of shared memory placed">,
  ];
}

def ConvertAttnTileToNVVMPass
    : Pass<"convert-attn-tile-to-nvvm", "::mlir::ModuleOp"> {
  let summary = "lower kernels to what each thread of a GPU does";
  let description = [{
    Each `attn_tile.kernel @k` becomes a `gpu.module @k_module` with an
    `llvm.func @k`; launches refer to the latter. Register tiles become one
    value for each element that a thread holds (pairs, for 16-bit elements), as
    the kernel's `layout` says. Pipes must have been placed.

    Parameters of the function are those of the kernel: a memref of rank `r` as
    its pointer (offset applied), `r` sizes and `r` strides in elements (`i64`);
    a tensor map as 128 bytes by value; an index as `i64`; others as they are.
    The function carries the discardable attributes `attn_tile.block_size`
    (threads), `attn_tile.shared_bytes` and, of a kernel of clusters,
    `attn_tile.cluster_size`. Groups of a cluster wait for each other at its
    beginning, before they use barriers of others, and at its end.

    Index arithmetic is done in 32 bits, addresses are computed in 64 bits.
    Regions of maps and masks are run for whole tiles, and so at positions
    beyond the lengths: reads in them must be guarded, as
    `attn-tile-split-regions` does. Elements of an empty memref are zero.
    Fails, with the number of registers, if an instruction of a product has more
    of them as operands than threads are launched with; other tiles spill.
    Products and sums in regions are contracted, and `exp`, `exp2`, `log` and
    `tanh` of f32 values are approximated by instructions. Remaining `scf` and `arith` operations are left to upstream conversions.
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

def ConvertLaunchToRuntimePass
    : Pass<"convert-launch-to-runtime", "::mlir::ModuleOp"> {
  let summary = "launch serialized kernels through the runtime library";
  let description = [{
    Converts the host side of kernels: `attn_tile.launch` of a kernel in a
    `gpu.binary` becomes a call of `attnrtLaunchKernel`, `attn_tile.make_tensor_map`
    one of `attnrtEncodeTensorMap`. Image and properties of each kernel become
    globals, the `gpu.binary` is erased. The kernel's block size and shared memory
    are read from its entry in the kernel table, `attn_tile.block_size`,
    `attn_tile.shared_bytes` and, if it is there, `attn_tile.cluster_size`.

    A function that launches, that is described as an entry of the artifact, or
    that calls such a function gets a last argument, the
    stream, and a first result, a status (an `i32`). It returns at once when a call
    of the runtime does not return 0. `memref.alloc` and `memref.dealloc` in such a
    function are scratch memory of the device, in stream order.

    The parameters of a kernel are, for each operand of the launch: the address of
    the first element, sizes and strides of a memref; the bytes of a tensor map; an
    `i64` for an index; other scalars as they are.

    Functions must have no structured control flow around these operations, the
    host cannot read or write memory of the device, and constant tensors
    (`memref.get_global`) are memory of the host: these are errors.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::cf::ControlFlowDialect",
    "::mlir::LLVM::LLVMDialect", "::mlir::memref::MemRefDialect",
    "::mlir::ub::UBDialect"];
}

def ConvertAttnTileToVectorPass
    : Pass<"convert-attn-tile-to-vector", "::mlir::ModuleOp"> {
  let summary = "lower kernels to functions on vectors for the host";
  let description = [{
    Each kernel becomes a private function and each launch a call. The loop over
    work items stays an `scf.forall`. Tiles become buffers on the stack; products
    become loops over blocks of accumulators that fit the registers; chains of
    elementwise operations are evaluated in pieces of rows. The regions of maps
    and masks are vectorised along rows.

    Kernels must be plain tiled programs, peeled or not: pipes, roles and grids
    are not for the host.
  }];
  let options = [
    Option<"vectorBits", "vector-bits", "int64_t", /*default=*/"512",
           "Width of a vector register">,
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
    : Pass<"attn-outline-parallel", "::mlir::ModuleOp"> {
  let summary = "run parallel loops through the runtime library";
  let description = [{
    Each `scf.forall` that is not in another one becomes a function over a range
    of its iterations and a call of the runtime's `attnrtParallelFor`. Values of
    the surrounding function are passed in a structure on the stack. Buffers that
    an iteration makes are made once for the whole range.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
    "::mlir::LLVM::LLVMDialect", "::mlir::scf::SCFDialect"];
}

def AttnApproximateMathPass : Pass<"attn-approximate-math"> {
  let summary = "expand math functions to polynomials on vectors";
  let description = [{
    Replaces functions of the math dialect on f32 and vectors of f32 by
    polynomial approximations: `math.exp2` within one unit in the last place,
    results below the smallest normal number being zero; others as upstream does.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
    "::mlir::vector::VectorDialect"];
}

def ConvertMathToLibdevicePass
    : Pass<"convert-math-to-libdevice", "::mlir::gpu::GPUModuleOp"> {
  let summary = "call libdevice for functions that the GPU has no instruction for";
  let description = [{
    Operations of `math` become calls of libdevice (`math.tanh` to `__nv_tanhf`),
    or what MathToLLVM makes of them where libdevice has nothing. Those that
    are one instruction are left to `convert-to-llvm`.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

#endif // ATTN_CONVERSION_PASSES_TD
