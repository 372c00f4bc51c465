//===- Passes.td - Passes that write machine code ---------*- tablegen -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Serialization of kernels.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TARGET_PASSES_TD
#define ATTN_TARGET_PASSES_TD

include "attn/Support/PassBase.td"

def AttnSerializeKernelsPass
    : Attn_Pass<"attn-serialize-kernels", "::mlir::ModuleOp"> {
  let summary = "compile gpu.module operations to PTX, cubin or bitcode";
  let description = [{
    Replaces each `gpu.module` by a `gpu.binary` with one object. Its kernel table
    holds, for each kernel, the attributes of its function and the resource usage
    that the assembler reports: `attn_tile.registers`, `attn_tile.spill_bytes` (stores
    and loads) and `attn_tile.stack_bytes`.

    Differs from `gpu-module-to-binary` in the passes that run on LLVM IR: the
    conversion emits kernels in the form that the back end should see, and the
    default pipelines undo parts of it. Only instruction combining and common
    subexpression elimination run. For kernels with very many additions, the back
    end skips straight-line strength reduction, which would take minutes and find
    nothing.

    The PTX version is the oldest one that has the architecture and all instructions
    of a kernel, for the sake of old assemblers and drivers. `features` can choose
    another version; it is an error if that version lacks an instruction.

    Modules are compiled in parallel if the context is multithreaded. Messages are
    in the order of the modules.

    Where registers spill up to 2048 bytes, the assembler runs once more with reduced
    register usage, and its output is used if it has no spills. Remaining spills, and MMAs that the
    assembler had to serialize, are warnings. A kernel with more than 25,000 lines of
    PTX is assembled once, with `-O1`, unless `ptxas-options` has an optimization
    level; a remark says so.
  }];
  let options = [
    Option<"chip", "chip", "std::string", /*default=*/"\"sm_90a\"",
           "Name of a registered GPU target, such as sm_90a">,
    Option<"features", "features", "std::string", /*default=*/"",
           "Features of the back end, such as the PTX version, +ptx80; if there "
           "is none, the oldest one that has the instructions">,
    Option<"format", "format", "std::string", /*default=*/"\"cubin\"",
           "What to write: ptx, cubin, or llvm for LLVM's bitcode">,
    Option<"toolkit", "toolkit", "std::string", /*default=*/"",
           "Folder of the CUDA toolkit; found by itself if empty">,
    Option<"assemblerOptions", "ptxas-options", "std::string", /*default=*/"",
           "More options for ptxas, separated by spaces">,
    Option<"failOnSpills", "fail-on-spills", "bool", /*default=*/"false",
           "Make spills and serialized MMAs errors">,
    Option<"report", "report", "bool", /*default=*/"false",
           "Remark on the registers of each kernel">,
  ];
  let statistics = [
    Statistic<"numKernels", "num-kernels", "Number of kernels compiled">,
  ];
  let dependentDialects = ["::mlir::gpu::GPUDialect",
                           "::mlir::NVVM::NVVMDialect"];
}

#endif // ATTN_TARGET_PASSES_TD
