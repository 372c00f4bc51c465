//===- Allocations.h - Buffers as parts of allocations ----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTNTILE_TRANSFORMS_ALLOCATIONS_H
#define ATTN_LIB_DIALECT_ATTNTILE_TRANSFORMS_ALLOCATIONS_H

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/Support/MathExtras.h"
#include <optional>

namespace mlir::attn_tile {

/// Alignment in bytes of the parts of an allocation, as of device allocators.
constexpr int64_t partAlignment = 256;

/// The bytes of an element of a buffer that can be a part of another
/// allocation, or nothing if it cannot.
inline std::optional<int64_t> getPackedElementBytes(memref::AllocOp alloc) {
  MemRefType type = alloc.getType();
  if (!type.getLayout().isIdentity() || type.getMemorySpace() ||
      !type.getElementType().isIntOrFloat())
    return std::nullopt;
  // Elements of other sizes are padded.
  int64_t bits = type.getElementTypeBitWidth();
  if (bits % 8 != 0 || !llvm::isPowerOf2_64(bits) ||
      alloc.getAlignment().value_or(1) > partAlignment)
    return std::nullopt;
  return bits / 8;
}

} // namespace mlir::attn_tile

#endif // ATTN_LIB_DIALECT_ATTNTILE_TRANSFORMS_ALLOCATIONS_H
