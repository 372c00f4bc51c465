//===- SortedSearch.h - Search by halving -----------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds the packed sequence of a token by the boundaries of sequences.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_ANALYSIS_SORTEDSEARCH_H
#define ATTN_ANALYSIS_SORTEDSEARCH_H

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::attn {

/// Emits the last of `count` numbers whose element, which `emitElement` emits,
/// is at most `bound`; 0 if there is none. Elements are sorted, and there is
/// one.
Value emitLastAtMost(
    ImplicitLocOpBuilder &b, Value count, Value bound,
    function_ref<Value(ImplicitLocOpBuilder &, Value number)> emitElement);

} // namespace mlir::attn

#endif // ATTN_ANALYSIS_SORTEDSEARCH_H
