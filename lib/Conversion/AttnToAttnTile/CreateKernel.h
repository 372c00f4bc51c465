//===- CreateKernel.h - Kernels and their launches --------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The common part of all operations that become kernels: operands, a name, a
// place in the module and a launch.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_CREATEKERNEL_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_CREATEKERNEL_H

#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"

namespace mlir::attn {

/// The values among `used` that the kernel of `op` gets as operands: all but
/// constants, which it clones. Emits an error if one is a tensor.
FailureOr<SmallVector<Value>> getCaptures(Operation *op, ArrayRef<Value> used);

/// Creates a top-level kernel for `user`, and its launch before `user`. Its
/// name is the name of the function of `user` with `suffix`.
attn_tile::KernelOp createKernel(RewriterBase &rewriter, Operation *user,
                                 ScheduleAttrInterface schedule,
                                 SymbolTable &symbols, StringRef suffix,
                                 ValueRange operands);

/// Creates the kernel of an operation whose operands are its arguments, and
/// reports if the operation has no memrefs, or no schedule. The last argument
/// is an error flag of `faultWords` words, unless this is 0.
template <typename OpTy>
FailureOr<attn_tile::KernelOp>
createKernelOfOperands(RewriterBase &rewriter, OpTy op, SymbolTable &symbols,
                       StringRef suffix, int64_t faultWords = 0) {
  if (!isa<MemRefType>(op->getOperands().back().getType()))
    return op.emitOpError("must be bufferised");
  ScheduleAttrInterface schedule = op.getScheduleAttr();
  if (!schedule)
    return op.emitOpError("needs a schedule");
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  SmallVector<Value> operands(op->getOperands());
  if (faultWords > 0)
    operands.push_back(attn_tile::ErrorFlagOp::create(
        rewriter, op.getLoc(),
        MemRefType::get({faultWords}, rewriter.getI32Type())));
  return createKernel(rewriter, op, schedule, symbols, suffix, operands);
}

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_CREATEKERNEL_H
