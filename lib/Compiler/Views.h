//===- Views.h - Views of memrefs -------------------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What views are views of.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_COMPILER_VIEWS_H
#define ATTN_LIB_COMPILER_VIEWS_H

#include "mlir/IR/Value.h"

namespace mlir::attn {

/// The memref that `memref` is a view of; null if it is none.
Value getViewedMemRef(Value memref);

} // namespace mlir::attn

#endif // ATTN_LIB_COMPILER_VIEWS_H
