//===- Passes.td - Passes of the compiler -----------------*- tablegen -*--===//
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

include "attn/Support/PassBase.td"

def AttnResultsToArgumentsPass
    : Attn_Pass<"attn-results-to-arguments", "::mlir::ModuleOp"> {
  let summary = "let callers provide the memory of tensor results";
  let description = [{
    Each tensor result of a public function gets a writable argument, after the
    existing arguments, into which it is materialized. Bufferization then writes
    results in place:

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

    An argument that is returned, unchanged or after a write, becomes an output
    itself: a function that takes its destination keeps it. An argument that is both
    read and written is materialized like other destinations, because its result
    may have to be computed in another buffer. An argument that is not
    `bufferization.writable` stays an input, and is copied to the result. A tensor
    that is returned again, or a view of it, is copied, too. Attributes of the
    result move to its argument. A public function that is called in the module is
    an error, and so is a result that is not a ranked tensor.
  }];
  let dependentDialects = ["::mlir::bufferization::BufferizationDialect",
                           "::mlir::linalg::LinalgDialect"];
}

def AttnExpandPowersPass : Attn_Pass<"attn-expand-powers"> {
  let summary = "expand powers into multiplications and supported functions";
  let description = [{
    Powers with small constant exponents become multiplications, roots and divisions.
    Other `math.fpowi` become `math.powf`, since targets do not support them.

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

def AttnDecomposeLinalgPass : Attn_Pass<"attn-decompose-linalg"> {
  let summary = "decompose linalg operations that have no lowering to loops";
  let description = [{
    Operations of linalg without a direct lowering to loops or kernels are decomposed
    by `AggregatedOpInterface`. For example, `linalg.softmax` becomes a maximum,
    exponentials of differences, a sum and a division. Operations on memrefs are
    decomposed like operations on tensors in these memrefs. Operations whose results
    are narrower than f32 are computed in f32.

    A `linalg.map` that reads its output becomes a `linalg.generic`. So does a vector of
    scalars (`tensor.from_elements`), such as positions, unless its elements are only
    read one by one: on a device a kernel stores them.

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

def AttnBufferizePass : Attn_Pass<"attn-bufferize", "::mlir::ModuleOp"> {
  let summary = "bufferize with unit inner strides at function boundaries";
  let description = [{
    One-shot bufferization of the whole module. Tensors of function signatures
    become memrefs with dynamic offset and strides, except the innermost stride,
    which is 1. A public function no longer returns its own arguments. Operations
    whose destination is the same empty tensor get separate buffers, which
    `attn-tile-pack-allocations` places. Temporary buffers are freed at the end of
    the block that allocates them. A buffer that an `scf.if` yields is allocated
    before it; a buffer that leaves its block in any other way is an error.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::bufferization::BufferizationDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::memref::MemRefDialect"];
}

def AttnDescribeArgumentsPass
    : Attn_Pass<"attn-describe-arguments", "::mlir::ModuleOp"> {
  let summary = "record the requirements of public functions on their arguments";
  let description = [{
    For the arguments of public functions of memrefs, attaches:

    | attribute | on | meaning |
    |---|---|---|
    | `attn.name` | argument | its name in messages, kept if present |
    | `attn.dims` | argument | a size for each dimension, `-1 - n` for the dynamic size number `n` |
    | `attn.alignment` | argument | bytes; address and strides are multiples of it |
    | `attn.output` | argument | unit attribute of written arguments |
    | `attn.read` | argument | unit attribute of arguments whose elements are read; others that are not written have sizes alone |
    | `attn.tile_counts` | argument | tuples `(dim, argument, argument dim, tile, factor, extra)`, see below |
    | `attn.multiples` | argument | tuples `(dim, argument, argument dim, divisor)`, see below |
    | `attn.symbols` | function | names of the dynamic sizes |

    - `attn.tile_counts`: the size of `dim` is `factor` times the number of tiles of size
      `tile` that cover `argument dim` of `argument`, plus `extra`.
    - `attn.multiples`: the size of `dim` is a multiple of `divisor`, and 0 only if
      `argument dim` of `argument` is 0. If `argument` is -1, it may always be 0.

    Dynamic sizes get the same number where an `attn.attention` or a linalg operation
    needs them to be equal, or `attn.equal_sizes` says so: triples of a dimension,
    another argument and its dimension, which `attn-expand-masks` attaches and this
    pass removes. Sizes of block masks follow from the lengths, and are named
    accordingly, as in `ceil(queries / 128)` and `ceil(keys / 128) + 4`. So do sizes of
    dropout keep masks that are read: `32 * ceil(queries / 64)` and
    `4 * ceil(keys / 64)` words. Keep masks of packed sequences, or in a function that
    generates them, only need to consist of whole blocks. Adds `attn_flops_<name>` to
    the module, which counts the floating point operations of a call.

    Arguments must be memrefs whose element types the C ABI supports.
  }];
  let options = [
    Option<"stagedAlignment", "staged-alignment", "int64_t", /*default=*/"0",
           "Alignment in bytes of tensors that kernels copy in blocks; 0 for "
           "the alignment of their elements">,
    Option<"target", "target", "std::string", /*default=*/"\"\"",
           "Target that the alignment is for, which must be known; empty for "
           "any">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::LLVM::LLVMDialect",
                           "::mlir::scf::SCFDialect"];
}

def AttnCheckDeviceMemoryPass
    : Attn_Pass<"attn-check-device-memory", "::mlir::ModuleOp"> {
  let summary = "report constants that kernels cannot read";
  let description = [{
    A constant tensor lies in host memory, unless it is part of the code of a kernel,
    as scalars and tensors of one value can be. That is an error in functions whose
    memrefs are GPU memory: functions that launch kernels or that
    `attn-describe-arguments` has described, and their callers.

    ```mlir
    func.func @f(%q: memref<1x8x128x64xbf16>, ...) {
      // error: 'memref.get_global' op is a constant in the memory of the host, ...
      %slopes = memref.get_global @__constant_8xf32 : memref<8xf32>
      attn_tile.launch @f_kernel args(%q, %k, %v, %o, %slopes : ...)
    ```

    `convert-launch-to-runtime` rejects such constants, too; this pass does so before
    kernels are compiled.
  }];
}

def AttnApplySchedulesPass
    : Attn_Pass<"attn-apply-schedules", "::mlir::ModuleOp"> {
  let summary = "run the passes of each kernel's schedule";
  let description = [{
    Moves the kernels of each schedule, with their launches, into a module of
    their own, runs the pipeline of the schedule on it, and moves the result
    back. A kernel without a schedule is an error. Kernels without effects, such
    as kernels of attention without queries, are erased with their launches.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::attn_tile::AttnTileDialect",
    "::mlir::func::FuncDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"];
}

def AttnCreateEntryPointsPass
    : Attn_Pass<"attn-create-entry-points", "::mlir::ModuleOp"> {
  let summary = "add C entry points and the description of the artifact";
  let description = [{
    For each function with described arguments, adds

    - `attn_call_<name>`, which checks its arguments with the runtime, including
      sizes that are tile counts, converts them to memrefs and calls the function;
    - `attn_reference_<name>`, the same for the function `<name>.reference` if
      the module has it;

    and for the module the constant `attn_artifact`, a table of them. attn_runtime.h
    defines the layouts. The described functions become private.
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"\"host\"",
           "Name of a registered target, such as sm_90a">,
  ];
  let dependentDialects = ["::mlir::func::FuncDialect",
                           "::mlir::LLVM::LLVMDialect"];
}

#endif // ATTN_COMPILER_PASSES_TD
