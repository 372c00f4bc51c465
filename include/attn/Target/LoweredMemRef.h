//===- LoweredMemRef.h - A memref as a kernel sees it ---------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The converted form of a memref in the code of a kernel, and the addressing of
// its elements.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TARGET_LOWEREDMEMREF_H
#define ATTN_TARGET_LOWEREDMEMREF_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

namespace mlir::attn {

/// A memref after conversion: its pointer (offset applied), its sizes and its
/// strides, in elements, as `i64`. With the layout `#attn_tile.packed_gqa`,
/// query heads and queries have the strides of the dimensions of key heads and
/// rows.
struct LoweredMemRef {
  LoweredMemRef(MemRefType type, ValueRange values)
      : type(type), values(values) {}

  Value getPointer() const { return values.front(); }

  /// Size of a dimension, `i64`.
  Value getSize(OpBuilder &builder, Location loc, int64_t dim) const;

  /// Stride of a dimension, `i64`. The last stride, when dynamic, is 1: callers
  /// of kernels check that.
  Value getStride(OpBuilder &builder, Location loc, int64_t dim) const;

  /// Pointer in global memory to the element at `indices` (`i32`).
  Value emitAddress(OpBuilder &builder, Location loc, ValueRange indices) const;

  MemRefType type;
  ValueRange values;
};

} // namespace mlir::attn

#endif // ATTN_TARGET_LOWEREDMEMREF_H
