//===- PlanSequences.h - Work items of sequences ------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The list of query tiles that sequences of different lengths have. A small
// kernel writes it, since the lengths are known on the device alone; the
// kernel of the attention walks over it.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_PLANSEQUENCES_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_PLANSEQUENCES_H

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"

namespace mlir::attn {

/// A query tile in the list: where its sequence is stored and how long it is.
struct PlannedItem {
  Value sequence, firstQuery;
  Value queryLength, keyLength;
  Value firstQueryRow, firstKeyRow;
};

/// Writes the kernel that plans the sequences of `attention`, and its launch
/// before the attention. Returns the list, to be freed by the caller.
Value planSequences(RewriterBase &rewriter, AttentionOp attention,
                    SymbolTable &symbols);

/// Emits the number of items in a list.
Value emitPlannedItems(ImplicitLocOpBuilder &builder, Value plan);

/// Emits item number `number` of a list.
PlannedItem emitPlannedItem(ImplicitLocOpBuilder &builder, Value plan,
                            Value number);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_PLANSEQUENCES_H
