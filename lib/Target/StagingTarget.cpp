//===- StagingTarget.cpp - Stages behind mbarriers ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Waits for the barriers of stages.
//
//===----------------------------------------------------------------------===//

#include "StagingTarget.h"
#include "PTX.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::attn;

void StagingTarget::emitBarrierWait(OpBuilder &builder, Location loc,
                                    Value barrier, Value parity) const {
  std::string code = "{\n"
                     ".reg .pred done;\n"
                     "wait_${:uid}:\n" +
                     getWaitInstruction().str() +
                     " done, [$0], $1;\n"
                     "@!done bra wait_${:uid};\n"
                     "}";
  ptx::emit(builder, loc, code, "r,r,~{memory}", {barrier, parity});
}

void StagingTarget::emitAcquire(OpBuilder &builder, Location loc,
                                const StagedTile &stage, Value parity,
                                attn_tile::BufferType) const {
  // A fresh barrier is in phase 0, so waiting for the phase before it, of
  // parity 1, passes: the stage is empty at its first use.
  Value opposite = arith::XOrIOp::create(builder, loc, parity,
                                         ptx::constant(builder, loc, 1));
  emitBarrierWait(builder, loc, stage.empty, opposite);
}

void StagingTarget::emitWait(OpBuilder &builder, Location loc,
                             const StagedTile &stage, Value parity) const {
  emitBarrierWait(builder, loc, stage.full, parity);
}
