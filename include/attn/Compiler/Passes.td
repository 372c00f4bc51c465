//===- Passes.td - Passes of the compiler -------------------*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Passes on whole programs that turn functions of tensors into entries of an
// artifact.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_COMPILER_PASSES_TD
#define ATTN_COMPILER_PASSES_TD

include "mlir/Pass/PassBase.td"

def AttnResultsToArgumentsPass
    : Pass<"attn-results-to-arguments", "::mlir::ModuleOp"> {
  let summary = "let callers provide the memory of tensor results";
  let description = [{
    Each tensor result of a public function gets a writable argument, after the
    arguments that are there, into which it is materialized. Bufferization then
    writes results in place:

    ```mlir
    func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
      return %r : tensor<4xf32>
    }
    // becomes
    func.func @f(%a: tensor<4xf32> {bufferization.writable = false},
                 %o: tensor<4xf32> {attn.output}) -> tensor<4xf32> {
      %m = bufferization.materialize_in_destination %r in %o
      return %m : tensor<4xf32>
    }
    ```

    Arguments that are returned as they are, or that are written and returned,
    become outputs as well: a function that takes its destination keeps it. One
    that is read beside being written gets the result as other destinations do,
    for it may have to be computed elsewhere.
    Attributes of the result move to its argument. A public function that is
    called in the module is an error, and so is one with a result that is not a
    ranked tensor.
  }];
  let dependentDialects = ["::mlir::bufferization::BufferizationDialect"];
}

def AttnExpandPowersPass : Pass<"attn-expand-powers"> {
  let summary = "write powers as products and functions that targets have";
  let description = [{
    Powers with exponents that are small constants become products, roots and
    quotients, other `math.fpowi`, which targets do not have, `math.powf`.

    ```mlir
    %c3 = arith.constant 3 : i32
    %a = math.fpowi %x, %c3 : f32, i32
    %b = math.fpowi %x, %n : f32, i32
    ```
    becomes
    ```mlir
    %s = arith.mulf %x, %x : f32
    %a = arith.mulf %s, %x : f32
    %e = arith.sitofp %n : i32 to f32
    %b = math.powf %x, %e : f32
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
                           "::mlir::vector::VectorDialect"];
}

def AttnDecomposeLinalgPass : Pass<"attn-decompose-linalg"> {
  let summary = "write operations that have no loops as others that have";
  let description = [{
    Operations of linalg that no loops or kernels are made of directly become
    what they are an aggregate of, by `AggregatedOpInterface`: `linalg.softmax`
    becomes maxima, exponentials of differences, sums and quotients. Operations
    on memrefs are decomposed as those on tensors that lie there, and those whose
    results are narrower than f32 are computed in f32.

    ```mlir
    %r = linalg.softmax dimension(1) ins(%x : tensor<4x8xf32>) outs(%o : tensor<4x8xf32>)
    // becomes
    %max = linalg.generic ...  // arith.maxnumf, along dimension 1
    %e = linalg.generic ...    // math.exp of the difference
    %sum = linalg.generic ...
    %r = linalg.generic ...    // the quotient
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::bufferization::BufferizationDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::tensor::TensorDialect"];
}

def AttnBufferizePass : Pass<"attn-bufferize", "::mlir::ModuleOp"> {
  let summary = "bufferize with unit inner strides at function boundaries";
  let description = [{
    One-shot bufferization of the whole module. Tensors of function signatures
    become memrefs with dynamic offset and strides, but for the innermost
    stride, which is 1. A public function does not return its own arguments any
    more. Operations whose destination is the same empty tensor get buffers of
    their own, for `attn-tile-pack-allocations` to find room for. Temporary buffers are freed at the end of the block that allocates them;
    one that an `scf.if` yields is allocated before it, and one that would leave
    its block otherwise is an error.
  }];
  let dependentDialects = ["::mlir::bufferization::BufferizationDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::memref::MemRefDialect"];
}

def AttnDescribeArgumentsPass
    : Pass<"attn-describe-arguments", "::mlir::ModuleOp"> {
  let summary = "record what public functions demand of their arguments";
  let description = [{
    For the arguments of public functions of memrefs, attaches:

    | attribute | on | meaning |
    |---|---|---|
    | `attn.name` | argument | its name in messages, kept if present |
    | `attn.dims` | argument | a size for each dimension, `-1 - n` for the dynamic size number `n` |
    | `attn.alignment` | argument | bytes that address and strides are multiples of |
    | `attn.output` | argument | it is written |
    | `attn.tile_counts` | argument | sizes that follow from numbers of tiles: a dimension, another argument and its dimension, the size of a tile, what the number is multiplied by and what is added, for each |
    | `attn.multiples` | argument | sizes that are multiples: a dimension, another argument and its dimension, at whose length of 0 alone it may be 0 (or -1 and 0), and the divisor, for each |
    | `attn.symbols` | function | names of the dynamic sizes |

    Dynamic sizes get the same number where an `attn.attention` or a linalg operation
    needs them to be equal, or `attn.equal_sizes` notes it: triples of a dimension, another
    argument and its dimension, which `attn-expand-masks` attaches and this pass removes. A plan
    of a mask has sizes that follow from the lengths: `ceil(queries / 128)` and
    `ceil(keys / 128) + 4` are their names; so do decisions of dropout that are read, of
    `32 * ceil(queries / 64)` and `4 * ceil(keys / 64)` words. Those of packed sequences
    or in a function that makes them are of whole blocks. Adds `attn_flops_<name>` to the module, which counts the floating
    point operations of a call.

    Arguments must be memrefs whose elements the C ABI knows.
  }];
  let options = [
    Option<"stagedAlignment", "staged-alignment", "int64_t", /*default=*/"0",
           "Alignment in bytes of tensors that kernels copy in blocks; 0 for "
           "that of their element">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::LLVM::LLVMDialect",
                           "::mlir::scf::SCFDialect"];
}

def AttnCheckDeviceMemoryPass
    : Pass<"attn-check-device-memory", "::mlir::ModuleOp"> {
  let summary = "report constants that kernels cannot read";
  let description = [{
    A constant tensor that is no part of the code of a kernel, as scalars and
    tensors of one value can be, lies in the memory of the host. That is an error in
    functions whose memrefs are memory of a GPU: those that launch kernels, that
    `attn-describe-arguments` has described, or that call one of them.

    ```mlir
    func.func @f(%q: memref<1x8x128x64xbf16>, ...) {
      // error: 'memref.get_global' op is a constant in the memory of the host, ...
      %slopes = memref.get_global @__constant_8xf32 : memref<8xf32>
      attn_tile.launch @f_kernel args(%q, %k, %v, %o, %slopes : ...)
    ```

    `convert-launch-to-runtime` refuses them, too; this pass does so before
    kernels are compiled.
  }];
}

def AttnApplySchedulesPass
    : Pass<"attn-apply-schedules", "::mlir::ModuleOp"> {
  let summary = "run the passes of each kernel's schedule";
  let description = [{
    Moves the kernels of each schedule, with their launches, into a module of
    their own, runs the pipeline of the schedule on it, and moves the result
    back. A kernel without a schedule is an error.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::attn_tile::AttnTileDialect",
    "::mlir::func::FuncDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"];
}

def AttnCreateEntryPointsPass
    : Pass<"attn-create-entry-points", "::mlir::ModuleOp"> {
  let summary = "add C entry points and the description of the artifact";
  let description = [{
    For each function with described arguments, adds

    - `attn_call_<name>`, which checks its arguments with the runtime, sizes that
      are numbers of tiles included, makes memrefs of them and calls the function;
    - `attn_reference_<name>`, the same for the function `<name>_reference` if
      the module has it;

    and for the module the constant `attn_artifact`, a table of them. The
    layouts are those of attn_runtime.h. The described functions become private.
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"\"host\"",
           "Target: host, sm_80 or sm_90a">,
  ];
  let dependentDialects = ["::mlir::func::FuncDialect",
                           "::mlir::LLVM::LLVMDialect"];
}

#endif // ATTN_COMPILER_PASSES_TD
