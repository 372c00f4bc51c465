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

#endif // ATTN_CONVERSION_PASSES_TD
