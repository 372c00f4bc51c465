//===- SequenceCheck.h - Boundaries of padded sequences ---------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Boundaries of packed sequences in whole chunks are negative if the ones that
// they were made from are wrong.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_SEQUENCECHECK_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_SEQUENCECHECK_H

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"

namespace mlir::attn {

/// Emits the report of a boundary, an i32, that is wrong.
void emitBoundaryReport(ImplicitLocOpBuilder &b, Value boundary, Value fault);

/// Launches a kernel that reports wrong boundaries, before `op`.
void createSequenceCheck(RewriterBase &rewriter, Operation *op, Value sequences,
                         ScheduleAttrInterface schedule, SymbolTable &symbols);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_SEQUENCECHECK_H
