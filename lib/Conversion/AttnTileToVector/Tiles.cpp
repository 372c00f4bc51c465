//===- Tiles.cpp - Tiles and their buffers on the host -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tiles on a host: a buffer on the stack, or an expression over buffers.
//
//===----------------------------------------------------------------------===//

#include "TileEmitter.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::attn_tile;

//===----------------------------------------------------------------------===//
// Small things
//===----------------------------------------------------------------------===//

void TileEmitter::loop(Value begin, Value end, int64_t step,
                       function_ref<void(Value)> body) {
  auto loop = scf::ForOp::create(b, begin, end, index(step));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  body(loop.getInductionVar());
}

void TileEmitter::forEachPiece(
    int64_t columns, function_ref<void(int64_t column, int64_t lanes)> body) {
  int64_t lanes = registers.lanes;
  for (int64_t column = 0; column < columns; column += lanes)
    body(column, std::min(lanes, columns - column));
}

Value TileEmitter::toF32(Value vector) {
  auto type = cast<VectorType>(vector.getType());
  Type element = type.getElementType();
  if (!isa<FloatType>(element) || element.getIntOrFloatBitWidth() >= 32)
    return vector;
  return arith::ExtFOp::create(b, type.clone(b.getF32Type()), vector);
}

Value TileEmitter::makeBuffer(ArrayRef<int64_t> shape, Type element) {
  auto type = MemRefType::get(shape, element);
  SmallVector<Value> &free = freeBuffers[type];
  Value buffer;
  if (free.empty()) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(bufferBlock);
    buffer =
        memref::AllocaOp::create(b, type, b.getI64IntegerAttr(bufferAlignment));
  } else {
    buffer = free.pop_back_val();
  }
  takenBuffers.push_back(buffer);
  return buffer;
}

void TileEmitter::freeBuffersSince(size_t mark) {
  while (takenBuffers.size() > mark) {
    Value buffer = takenBuffers.pop_back_val();
    freeBuffers[cast<MemRefType>(buffer.getType())].push_back(buffer);
  }
}

Value TileEmitter::countRows(Value memref, Value first, int64_t rows) {
  auto type = cast<MemRefType>(memref.getType());
  int64_t dim = type.getRank() - 2;
  Value size = b.createOrFold<memref::DimOp>(memref, dim);
  Value left = arith::SubIOp::create(b, size, first);
  left = arith::MaxSIOp::create(b, left, index(0));
  return arith::MinSIOp::create(b, left, index(rows));
}

bool TileEmitter::isInBounds(Value memref, ValueRange indices, int64_t column,
                             int64_t lanes) {
  auto type = cast<MemRefType>(memref.getType());
  int64_t size = type.getShape().back();
  return isConstantIntValue(indices.back(), 0) &&
         !ShapedType::isDynamic(size) && column + lanes <= size;
}

Value TileEmitter::readPiece(Value memref, ValueRange indices, int64_t lanes,
                             bool inBounds) {
  Type element = cast<MemRefType>(memref.getType()).getElementType();
  Value zero = arith::ConstantOp::create(b, b.getZeroAttr(element));
  return vector::TransferReadOp::create(b, VectorType::get(lanes, element),
                                        memref, indices, zero,
                                        ArrayRef<bool>{inBounds});
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

void TileEmitter::setBuffer(Value result, Value buffer) {
  tiles[result] = getBufferTile(buffer, getTileType(result).getElementType());
}

Tile TileEmitter::getBufferTile(Value buffer, Type element) {
  Tile tile;
  tile.buffer = buffer;
  tile.emitPiece = [this, buffer, element](Value row, Value column,
                                           int64_t lanes) -> Value {
    Type stored = cast<MemRefType>(buffer.getType()).getElementType();
    Value piece = vector::LoadOp::create(b, VectorType::get(lanes, stored),
                                         buffer, ValueRange{row, column});
    if (stored == element)
      return piece;
    return arith::TruncFOp::create(b, VectorType::get(lanes, element), piece);
  };
  return tile;
}

void TileEmitter::setTile(OpResult result, Tile tile) {
  bool usedOnceHere =
      result.hasOneUse() && result.use_begin()->getOwner()->getBlock() ==
                                result.getOwner()->getBlock();
  // Vectors of bits have no memory form.
  if (usedOnceHere || matchPattern(result, m_Constant()) ||
      getTileType(result).getElementType().isInteger(1)) {
    tiles[result] = tile;
    return;
  }
  VectorType type = getTileType(result);
  Value buffer = makeBuffer(type.getShape(), getBufferElement(type));
  fill(buffer, tile);
  setBuffer(result, buffer);
}

void TileEmitter::fill(Value buffer, const Tile &tile) {
  ArrayRef<int64_t> shape = cast<MemRefType>(buffer.getType()).getShape();
  loop(shape[0], 1, [&](Value row) {
    forEachPiece(shape[1], [&](int64_t column, int64_t lanes) {
      Value at = index(column);
      Value piece = toF32(tile.emitPiece(row, at, lanes));
      vector::StoreOp::create(b, piece, buffer, ValueRange{row, at});
    });
  });
}

void TileEmitter::setLongTile(OpResult result, const Tile &tile) {
  VectorType type = getTileType(result);
  Value buffer = makeBuffer(type.getShape(), getBufferElement(type));
  int64_t columns = type.getDimSize(1), lanes = registers.lanes;
  int64_t wholeColumns = columns / lanes * lanes;
  loop(index(0), index(type.getDimSize(0)), 1, [&](Value row) {
    auto storePiece = [&](Value column, int64_t numLanes) {
      Value piece = toF32(tile.emitPiece(row, column, numLanes));
      vector::StoreOp::create(b, piece, buffer, ValueRange{row, column});
    };
    if (wholeColumns > 0)
      loop(index(0), index(wholeColumns), lanes,
           [&](Value column) { storePiece(column, lanes); });
    if (wholeColumns < columns)
      storePiece(index(wholeColumns), columns - wholeColumns);
  });
  setBuffer(result, buffer);
}

Value TileEmitter::getBuffer(Value value) {
  Tile tile = tiles.lookup(value);
  if (tile.buffer)
    return tile.buffer;
  VectorType type = getTileType(value);
  Value buffer = makeBuffer(type.getShape(), getBufferElement(type));
  fill(buffer, tile);
  return buffer;
}

Value TileEmitter::getTransposedBuffer(Value value) {
  if (Value buffer = transposed.lookup(value))
    return buffer;
  VectorType type = getTileType(value);
  Value source = getBuffer(value);
  Value target = makeBuffer({type.getDimSize(1), type.getDimSize(0)},
                            getBufferElement(type));
  emitTranspose(source, {index(0), index(0)}, type.getDimSize(1), target);
  return target;
}

Value TileEmitter::getRows(Value vector) {
  auto type = cast<VectorType>(vector.getType());
  Value buffer = makeBuffer(type.getShape(), type.getElementType());
  vector::StoreOp::create(b, lookup(vector), buffer, index(0));
  return buffer;
}

void TileEmitter::emitTranspose(Value source, ValueRange indices,
                                int64_t columns, Value target) {
  ArrayRef<int64_t> shape = cast<MemRefType>(target.getType()).getShape();
  int64_t rows = shape[1];
  auto emitBlock = [&](Value firstRow, int64_t numRows, Value firstColumn,
                       int64_t numColumns, bool inBounds) {
    auto type = VectorType::get({numRows, numColumns}, b.getF32Type());
    Value block = zeroOf(type);
    for (int64_t r = 0; r < numRows; ++r) {
      SmallVector<Value> at(indices);
      Value &row = at[at.size() - 2];
      row = add(add(row, firstRow), r);
      at.back() = add(at.back(), firstColumn);
      Value piece = toF32(readPiece(source, at, numColumns, inBounds));
      block = vector::InsertOp::create(b, piece, block, r);
    }
    block = vector::TransposeOp::create(b, block, ArrayRef<int64_t>{1, 0});
    for (int64_t c = 0; c < numColumns; ++c) {
      Value piece = vector::ExtractOp::create(b, block, c);
      vector::StoreOp::create(b, piece, target,
                              ValueRange{add(firstColumn, c), firstRow});
    }
  };
  auto emitColumns = [&](Value column, int64_t numColumns, bool inBounds) {
    int64_t wholeRows = rows / moveBlock * moveBlock;
    if (wholeRows > 0)
      loop(index(0), index(wholeRows), moveBlock, [&](Value row) {
        emitBlock(row, moveBlock, column, numColumns, inBounds);
      });
    if (wholeRows < rows)
      emitBlock(index(wholeRows), rows - wholeRows, column, numColumns,
                inBounds);
  };
  int64_t wholeColumns = 0;
  while (wholeColumns + moveBlock <= columns &&
         isInBounds(source, indices, wholeColumns, moveBlock))
    wholeColumns += moveBlock;
  if (wholeColumns > 0)
    loop(index(0), index(wholeColumns), moveBlock,
         [&](Value column) { emitColumns(column, moveBlock, true); });
  for (int64_t column = wholeColumns; column < columns; column += moveBlock)
    emitColumns(index(column), std::min(moveBlock, columns - column), false);
}
