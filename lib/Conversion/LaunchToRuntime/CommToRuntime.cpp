//===- CommToRuntime.cpp - Communication becomes runtime calls ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Converts operations by which ranks communicate, on memrefs of the host, to
// calls of the runtime library.
//
//===----------------------------------------------------------------------===//

#include "attn/Conversion/LaunchToRuntime/CommCalls.h"
#include "attn/Conversion/Passes.h"
#include "attn/Dialect/Attn/IR/AttnCommOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace mlir::attn {
#define GEN_PASS_DEF_CONVERTCOMMTORUNTIMEPASS
#include "attn/Conversion/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;

namespace {
struct ConvertCommToRuntimePass
    : attn::impl::ConvertCommToRuntimePassBase<ConvertCommToRuntimePass> {
  using Base::Base;

  void runOnOperation() override {
    OpBuilder builder(&getContext());
    WalkResult walk = getOperation().walk([&](Operation *op) -> WalkResult {
      if (!op->hasTrait<Communicates>())
        return WalkResult::advance();
      if (llvm::any_of(op->getOperandTypes(), llvm::IsaPred<TensorType>))
        return op->emitOpError("must be bufferised");
      if (!op->getParentOfType<func::FuncOp>())
        return op->emitOpError("must be in a function");
      convertToCommCall(builder, getOperation(), op);
      return WalkResult::advance();
    });
    if (walk.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace
