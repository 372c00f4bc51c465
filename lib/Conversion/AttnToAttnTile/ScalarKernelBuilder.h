//===- ScalarKernelBuilder.h - Kernels of scalars --------------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Index arithmetic, and loops that the threads of a CTA divide, for kernels
// that prepare data for others.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_SCALARKERNELBUILDER_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_SCALARKERNELBUILDER_H

#include "attn-runtime/attn_runtime.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/IR/InBoundsLoads.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/STLExtras.h"

#include <numeric>
#include <optional>

namespace mlir::attn {

/// The alignment of element `number` of `width` neighbours in `memref`, which
/// are aligned together, if it exceeds the size of an element.
inline std::optional<int64_t>
getAlignmentOfNeighbour(Value memref, int64_t number, int64_t width) {
  int64_t bytes = getElementTypeOrSelf(memref).getIntOrFloatBitWidth() / 8;
  int64_t ofAll = std::gcd(width * bytes, maxAccessBytes);
  int64_t alignment = std::gcd(number * bytes, ofAll);
  return alignment > bytes ? std::optional(alignment) : std::nullopt;
}

struct ScalarKernelBuilder : ImplicitLocOpBuilder {
  using ImplicitLocOpBuilder::ImplicitLocOpBuilder;

  Value constant(int64_t value) {
    return arith::ConstantIndexOp::create(*this, value);
  }
  Value add(Value lhs, Value rhs) {
    return arith::AddIOp::create(*this, lhs, rhs);
  }
  Value sub(Value lhs, Value rhs) {
    return arith::SubIOp::create(*this, lhs, rhs);
  }
  Value mul(Value lhs, Value rhs) {
    return arith::MulIOp::create(*this, lhs, rhs);
  }
  Value compare(arith::CmpIPredicate predicate, Value lhs, Value rhs) {
    return arith::CmpIOp::create(*this, predicate, lhs, rhs);
  }
  Value both(Value lhs, Value rhs) {
    return arith::AndIOp::create(*this, lhs, rhs);
  }
  Value either(Value lhs, Value rhs) {
    return arith::OrIOp::create(*this, lhs, rhs);
  }
  Value select(Value condition, Value yes, Value no) {
    return arith::SelectOp::create(*this, condition, yes, no);
  }
  /// 1 or 0.
  Value toIndex(Value condition) {
    return select(condition, constant(1), constant(0));
  }
  Value invert(Value condition) {
    return arith::XOrIOp::create(
        *this, condition,
        arith::ConstantIntOp::create(*this, 1, 1).getResult());
  }
  Value size(Value memref, int64_t dim) {
    return createOrFold<memref::DimOp>(memref, dim);
  }
  /// The number of tiles that cover `length`.
  Value tiles(Value length, int64_t tile) {
    return arith::DivUIOp::create(*this, add(length, constant(tile - 1)),
                                  constant(tile));
  }
  Value loadIndex(Value memref, ValueRange indices) {
    Value element = memref::LoadOp::create(*this, memref, indices);
    return arith::IndexCastOp::create(*this, getIndexType(), element);
  }
  /// Loads an element that exists.
  memref::LoadOp loadExisting(Value memref, ValueRange indices) {
    auto load = memref::LoadOp::create(*this, memref, indices);
    attn_tile::setKnownInBounds(load);
    return load;
  }
  /// Loads `count` elements that exist from `indices` on. If `areAligned`, the
  /// first ones of rows, and every `count`-th of a row, are aligned together.
  SmallVector<Value> loadNeighbours(Value memref, SmallVector<Value> indices,
                                    int64_t count, bool areAligned = true) {
    Value first = indices.back();
    SmallVector<Value> values;
    for (int64_t i = 0; i < count; ++i) {
      indices.back() = add(first, constant(i));
      memref::LoadOp load = loadExisting(memref, indices);
      if (auto alignment = getAlignmentOfNeighbour(memref, i, count);
          areAligned && alignment)
        load.setAlignment(*alignment);
      values.push_back(load);
    }
    return values;
  }
  /// Stores `values` from `indices` on, in the same way.
  void storeNeighbours(ValueRange values, Value memref,
                       SmallVector<Value> indices, bool areAligned = true) {
    Value first = indices.back();
    auto count = static_cast<int64_t>(values.size());
    for (auto [i, value] : llvm::enumerate(values)) {
      auto number = static_cast<int64_t>(i);
      indices.back() = add(first, constant(number));
      auto store = memref::StoreOp::create(*this, value, memref, indices);
      if (auto alignment = getAlignmentOfNeighbour(memref, number, count);
          areAligned && alignment)
        store.setAlignment(*alignment);
    }
  }
  void storeIndex(Value value, Value memref, ValueRange indices) {
    value = arith::IndexCastOp::create(*this, getI32Type(), value);
    memref::StoreOp::create(*this, value, memref, indices);
  }
  /// Adds up the results of `body` over the numbers below `count`.
  SmallVector<Value> sum(Value count, unsigned numResults,
                         function_ref<SmallVector<Value>(Value)> body) {
    SmallVector<vector::CombiningKind> kinds(numResults,
                                             vector::CombiningKind::ADD);
    auto op = attn_tile::ReduceOp::create(*this, count, kinds);
    OpBuilder::InsertionGuard guard(*this);
    Block *block = createBlock(&op.getBody(), {}, getIndexType(), getLoc());
    attn_tile::YieldOp::create(*this, body(block->getArgument(0)));
    return op.getResults();
  }
  /// Runs `body` once for each number below `count`.
  void each(Value count, function_ref<void(Value)> body) {
    auto op = attn_tile::ThreadForOp::create(*this, count);
    OpBuilder::InsertionGuard guard(*this);
    Block *block = createBlock(&op.getBody(), {}, getIndexType(), getLoc());
    body(block->getArgument(0));
    attn_tile::YieldOp::create(*this, ValueRange());
  }
  /// Work items for all indices of the first `dims` dimensions of `memref`.
  scf::ForallOp forall(Value memref, int64_t dims) {
    SmallVector<OpFoldResult> bounds;
    for (int64_t dim = 0; dim < dims; ++dim)
      bounds.push_back(size(memref, dim));
    return scf::ForallOp::create(*this, bounds, ValueRange(), std::nullopt);
  }
  /// Reports `code` if `condition` holds.
  void report(Value condition, attnrt_fault code, Value fault) {
    each(toIndex(condition), [&](Value) {
      Value word = arith::ConstantIntOp::create(*this, code, 32);
      memref::StoreOp::create(*this, word, fault, constant(0));
    });
  }
};

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_SCALARKERNELBUILDER_H
