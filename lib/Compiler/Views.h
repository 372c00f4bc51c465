//===- Views.h - Views of memrefs -------------------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds the memrefs of views.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_COMPILER_VIEWS_H
#define ATTN_LIB_COMPILER_VIEWS_H

#include "mlir/IR/Value.h"

namespace mlir::attn {

/// The value that a region of `attn.overlap` yields for its result `value`;
/// null if `value` is not such a result.
Value getYieldedByOverlap(Value value);

/// The memref that `memref` is a view of, or the same one in a region of
/// `attn.overlap`; null if there is none.
Value getViewedMemRef(Value memref);

} // namespace mlir::attn

#endif // ATTN_LIB_COMPILER_VIEWS_H
