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

def ConvertAttnToAttnTilePass
    : Pass<"convert-attn-to-attn-tile", "::mlir::ModuleOp"> {
  let summary = "write the plain tiled program of each attention";
  let description = [{
    Each bufferised `attn.attention` with a schedule becomes a kernel and its
    launch. The kernel is the plain tiled program: a loop over work items, in it
    a loop over key tiles with the online softmax; nothing is asynchronous.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::attn_tile::AttnTileDialect",
    "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect",
    "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"];
}

def AttnTileAllocatePipesPass
    : Pass<"attn-tile-allocate-pipes", "::mlir::attn_tile::KernelOp"> {
  let summary = "place the pipes of a kernel in shared memory";
  let description = [{
    Gives each `attn_tile.create_pipe` its place: barriers first, then the
    stages, each aligned as the target asks for. Fails, with the number of
    bytes, if they do not fit or if the target cannot stage a tile.
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
    (threads) and `attn_tile.shared_bytes`.

    Index arithmetic is done in 32 bits, addresses are computed in 64 bits.
    Remaining `scf` and `arith` operations are left to upstream conversions.
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

#endif // ATTN_CONVERSION_PASSES_TD
