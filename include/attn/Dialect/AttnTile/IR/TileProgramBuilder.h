//===- TileProgramBuilder.h - Pieces of tiled programs ----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Shorthands for tiles, and clones of the scalar regions of attention, for the
// writers of tiled programs.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTNTILE_IR_TILEPROGRAMBUILDER_H
#define ATTN_DIALECT_ATTNTILE_IR_TILEPROGRAMBUILDER_H

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::attn {

/// Head dims of tiles are padded with zeros to a multiple of this, the depth of
/// one MMA instruction for 16-bit types.
constexpr int64_t headDimMultiple = 16;

constexpr double log2e = 1.4426950408889634074;

/// The operands of a contraction that are stored transposed.
enum class ContractForm { Plain, TransposedRhs, TransposedLhs, TransposedBoth };

/// Builder of operations on tiles.
struct TileProgramBuilder : ImplicitLocOpBuilder {
  using ImplicitLocOpBuilder::ImplicitLocOpBuilder;

  Value index(int64_t value) {
    return arith::ConstantIndexOp::create(*this, value);
  }
  VectorType f32Vector(ArrayRef<int64_t> shape) {
    return VectorType::get(shape, getF32Type());
  }
  Value splat(ArrayRef<int64_t> shape, double value) {
    auto type = f32Vector(shape);
    return arith::ConstantOp::create(
        *this, type,
        DenseElementsAttr::get(type, getF32FloatAttr(value).getValue()));
  }
  /// The size of a dimension, a constant if it is static.
  Value size(Value memref, int64_t dim) {
    auto type = cast<MemRefType>(memref.getType());
    if (!type.isDynamicDim(dim))
      return index(type.getDimSize(dim));
    return memref::DimOp::create(*this, memref, dim);
  }
  /// Tiles of `size` positions that cover `length`.
  Value countTiles(Value length, int64_t size) {
    Value rounded = arith::AddIOp::create(*this, length, index(size - 1));
    return arith::DivUIOp::create(*this, rounded, index(size));
  }
  /// Repeats a row vector along columns, or a tile of one row along rows.
  Value broadcast(Value vector, ArrayRef<int64_t> shape) {
    auto type = cast<VectorType>(vector.getType());
    if (type.getRank() == 1)
      vector = vector::ShapeCastOp::create(
          *this, f32Vector({type.getDimSize(0), 1}), vector);
    return vector::BroadcastOp::create(*this, f32Vector(shape), vector);
  }
  /// Rounds a tile of f32 to another element type.
  Value round(Value tile, Type element) {
    auto type = cast<VectorType>(tile.getType());
    if (type.getElementType() == element)
      return tile;
    return arith::TruncFOp::create(*this, type.clone(element), tile);
  }
  Value extend(Value tile) {
    auto type = cast<VectorType>(tile.getType());
    if (type.getElementType().isF32())
      return tile;
    return arith::ExtFOp::create(*this, type.clone(getF32Type()), tile);
  }
  Value load(ArrayRef<int64_t> shape, Value source, ValueRange indices,
             Value position = {}, Value length = {}, bool inBounds = false) {
    Type element = cast<MemRefType>(source.getType()).getElementType();
    return attn_tile::LoadOp::create(*this, VectorType::get(shape, element),
                                     source, indices, position, length,
                                     inBounds);
  }
  /// Where rows of a source are, if not at their index: in pages, or where an
  /// addressing says. See `attn_tile.load`.
  struct StoredRows {
    Value table, numKeys, numPages, fault;
    KVAddressingAttrInterface addressing;
    Value first, count;
  };
  /// Loads a tile through a pipe. Its first row is row `first` of a sequence of
  /// `extent` rows; null without sequences.
  Value loadWithin(ArrayRef<int64_t> shape, Value source, ValueRange indices,
                   Value first, Value extent, Value position, Value length,
                   const StoredRows &rows = {}) {
    Type element = cast<MemRefType>(source.getType()).getElementType();
    return attn_tile::LoadOp::create(
        *this, VectorType::get(shape, element), source, indices, rows.table,
        rows.numKeys, rows.numPages, rows.fault, rows.addressing, rows.first,
        rows.count, first, extent, position, length);
  }
  /// Operands of different element types are extended to f32.
  Value contract(Value lhs, Value rhs, Value acc, ContractForm form);

  /// A map of tiles with an empty body, whose arguments are an element of each
  /// tile and its batch entry, head, query and key.
  attn_tile::MapOp createMap(ValueRange tiles, Value batch, Value head,
                             Value firstQuery, Value firstKey,
                             Value queryLength, Value keyLength,
                             bool transposed = false);

  /// Rows of a tensor that correspond to the rows of a tile.
  struct MatchingRows {
    Value source, batch, head;
    /// The position of the first row of the tile, and the length that bounds
    /// the rows of the tile.
    Value first, tileLength;
    /// The offset from a position in the tile to one in `source`, and the
    /// number of rows of `source`; null if positions and lengths are equal.
    Value shift, length;
    /// Where position 0 of `source` is stored; null for row 0.
    Value firstRow;
    /// The column of the rows that is the first one of the tile; null for 0.
    Value firstColumn = {};
  };
  /// Adds `factor`, a scalar, times the rows to a tile; rows that do not exist
  /// count as zero.
  Value addScaledRows(Value tile, Value factor, const MatchingRows &rows);
  /// Loads the entry of a head, as an f32.
  Value loadHeadScalar(Value memref, Value head);
  Value scalar(double value) {
    return arith::ConstantOp::create(*this, getF32FloatAttr(value));
  }

  /// Clones the only block of `source`, a region of attention, to the end of
  /// `target`, the body of an `attn_tile` operation. `arguments` replace its
  /// block arguments. Additions to gradients of captures are left out.
  void cloneRegion(Region &source, Block *target, ValueRange arguments,
                   const IRMapping &captured);
};

} // namespace mlir::attn

#endif // ATTN_DIALECT_ATTNTILE_IR_TILEPROGRAMBUILDER_H
