//===- CreateKernel.h - Kernels and their launches --------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What all operations that become kernels have in common: operands, a name, a
// place in the module and a launch.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_CREATEKERNEL_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_CREATEKERNEL_H

#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"

namespace mlir::attn {

/// Those of the values that `op` uses in its regions which its kernel gets as
/// operands: all but constants, of which it gets copies. Emits an error if one
/// is a tensor.
FailureOr<SmallVector<Value>> getCaptures(Operation *op, ArrayRef<Value> used);

/// Creates a kernel of the top level for `user`, and its launch before `user`.
/// Its name is that of the function of `user`, and `suffix`.
attn_tile::KernelOp createKernel(RewriterBase &rewriter, Operation *user,
                                 ScheduleAttrInterface schedule,
                                 SymbolTable &symbols, StringRef suffix,
                                 ValueRange operands);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_CREATEKERNEL_H
