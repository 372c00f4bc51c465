//===- Memory.cpp - Loads and stores of tiles on the host -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Loads and stores of tiles, including tiles in fragment order.
//
//===----------------------------------------------------------------------===//

#include "TileEmitter.h"
#include "attn-runtime/attn_runtime.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

#include <numeric>

using namespace mlir;
using namespace mlir::attn_tile;

void TileEmitter::emitRowCopy(Value source, ValueRange indices, Value buffer,
                              Value first, Value rows) {
  int64_t columns = cast<MemRefType>(buffer.getType()).getDimSize(1);
  SmallVector<Value> corner(indices);
  Value &row = corner[corner.size() - 2];
  Value firstRow = row;
  loop(index(0), rows, 1, [&](Value r) {
    row = add(firstRow, r);
    Value target = isConstantIntValue(first, 0) ? r : add(first, r);
    forEachPiece(columns, [&](int64_t column, int64_t lanes) {
      SmallVector<Value> at(corner);
      at.back() = add(at.back(), column);
      Value piece = toF32(readPiece(source, at, lanes,
                                    isInBounds(source, corner, column, lanes)));
      vector::StoreOp::create(b, piece, buffer,
                              ValueRange{target, index(column)});
    });
  });
}

void TileEmitter::emitZeroRows(Value buffer, Value first, Value end) {
  auto memref = cast<MemRefType>(buffer.getType());
  loop(first, end, 1, [&](Value r) {
    forEachPiece(memref.getDimSize(1), [&](int64_t column, int64_t lanes) {
      auto type = VectorType::get(lanes, memref.getElementType());
      vector::StoreOp::create(b, zeroOf(type), buffer,
                              ValueRange{r, index(column)});
    });
  });
}

void TileEmitter::emitPagedCopy(LoadOp op, Value buffer) {
  Value source = lookup(op.getSource()), table = lookup(op.getPageTable());
  SmallVector<Value> indices = llvm::map_to_vector(
      op.getIndices(), [&](Value index) { return lookup(index); });
  auto memref = cast<MemRefType>(source.getType());
  int64_t pageSize = memref.getDimSize(memref.getRank() - 2);
  int64_t tileRows = cast<MemRefType>(buffer.getType()).getDimSize(0);
  Value entry = indices.front(), first = indices[indices.size() - 2];
  Value present = arith::SubIOp::create(b, lookup(op.getNumKeys()), first);
  present = arith::MaxSIOp::create(b, present, index(0));
  present = arith::MinSIOp::create(b, present, index(tileRows));
  // Tiles begin at multiples of their size.
  int64_t step = std::gcd(tileRows, pageSize);
  loop(index(0), present, step, [&](Value r) {
    Value key = add(first, r);
    Value page = memref::LoadOp::create(
        b, table,
        ValueRange{
            entry,
            arith::DivUIOp::create(b, key, index(pageSize)).getResult()});
    page = arith::IndexCastOp::create(b, b.getIndexType(), page);
    Value left = arith::SubIOp::create(b, present, r);
    Value rows = arith::MinSIOp::create(b, left, index(step));
    // The unsigned comparison also catches negative pages.
    Value exists = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, page,
                                         lookup(op.getNumPages()));
    auto ifOp = scf::IfOp::create(b, TypeRange(), exists, /*withElse=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(ifOp.thenBlock());
    SmallVector<Value> corner(indices);
    corner.front() = page;
    corner[corner.size() - 2] = arith::RemUIOp::create(b, key, index(pageSize));
    emitRowCopy(source, corner, buffer, r, rows);
    b.setInsertionPointToStart(ifOp.elseBlock());
    emitZeroRows(buffer, r, arith::AddIOp::create(b, r, rows));
    Value code = arith::ConstantIntOp::create(b, ATTNRT_FAULT_PAGES, 32);
    memref::StoreOp::create(b, code, lookup(op.getFault()), index(0));
  });
  emitZeroRows(buffer, present, index(tileRows));
}

void TileEmitter::emitStoredCopy(LoadOp op, Value buffer) {
  attn::KVAddressingAttrInterface addressing = op.getAddressingAttr();
  Value source = lookup(op.getSource()), count = lookup(op.getNumStored());
  SmallVector<Value> indices = llvm::map_to_vector(
      op.getIndices(), [&](Value index) { return lookup(index); });
  Value key = indices[indices.size() - 2];
  int64_t tileRows = cast<MemRefType>(buffer.getType()).getDimSize(0);
  int64_t step = std::gcd(tileRows, addressing.getPageSize());
  loop(index(0), index(tileRows), step, [&](Value r) {
    Value row = addressing.emitStoredRow(
        b, b.getLoc(), lookup(op.getFirstStored()), add(key, r), count);
    Value rows = arith::SubIOp::create(b, count, row);
    rows = arith::MaxSIOp::create(b, rows, index(0));
    rows = arith::MinSIOp::create(b, rows, index(step));
    SmallVector<Value> corner(indices);
    corner[corner.size() - 2] = row;
    emitRowCopy(source, corner, buffer, r, rows);
    emitZeroRows(buffer, add(r, rows), add(r, index(step)));
  });
  if (op.getFirst())
    emitZeroRows(buffer, countRows(op, source, key, tileRows), index(tileRows));
}

void TileEmitter::emitTileCopy(LoadOp op, Value buffer) {
  if (op.getPageTable())
    return emitPagedCopy(op, buffer);
  if (op.getAddressing())
    return emitStoredCopy(op, buffer);
  Value source = lookup(op.getSource());
  SmallVector<Value> indices = llvm::map_to_vector(
      op.getIndices(), [&](Value index) { return lookup(index); });
  int64_t rows = cast<MemRefType>(buffer.getType()).getDimSize(0);
  Value present = countRows(op, source, indices[indices.size() - 2], rows);
  emitRowCopy(source, indices, buffer, index(0), present);
  emitZeroRows(buffer, present, index(rows));
}

/// Whether `use` is the right-hand side of a contraction, as `NxK`.
static bool isTransposedRhs(OpOperand &use) {
  auto contract = dyn_cast<vector::ContractionOp>(use.getOwner());
  if (!contract || use.getOperandNumber() != 1)
    return false;
  SmallVector<AffineMap> maps = contract.getIndexingMapsArray();
  return maps[1].getResult(1) == maps[0].getResult(1);
}

LogicalResult TileEmitter::emitLoad(LoadOp op) {
  auto type = cast<VectorType>(op.getResult().getType());
  if (type.getRank() == 1) {
    SmallVector<Value> indices = llvm::map_to_vector(
        op.getIndices(), [&](Value index) { return lookup(index); });
    Value zero =
        arith::ConstantOp::create(b, b.getZeroAttr(type.getElementType()));
    Value source = lookup(op.getSource());
    AffineMap map =
        AffineMap::getMinorIdentityMap(indices.size(), 1, b.getContext());
    Value read = vector::TransferReadOp::create(
        b, type, source, indices, AffineMapAttr::get(map), zero,
        maskOfSequence(op, type.getDimSize(0)), b.getBoolArrayAttr(false));
    mapping.map(op.getResult(), read);
    return success();
  }
  if (type.getRank() != 2 || !isa<FloatType>(type.getElementType()))
    return op.emitOpError("must be of one or two dimensions and of floats for "
                          "the host (is ")
           << type << ")";

  // A tile that is only used as a transposed operand is transposed when it is
  // read, unless the end of the source cuts it.
  Type element = getBufferElement(type);
  Value buffer = makeBuffer(type.getShape(), element);
  if (!llvm::all_of(op->getUses(), isTransposedRhs)) {
    emitTileCopy(op, buffer);
    setBuffer(op.getResult(), buffer);
    return success();
  }
  Value target = makeBuffer({type.getDimSize(1), type.getDimSize(0)}, element);
  transposed[op.getResult()] = target;
  if (op.getPageTable() || op.getAddressing()) {
    emitTileCopy(op, buffer);
    emitTranspose(buffer, {index(0), index(0)}, type.getDimSize(1), target);
    return success();
  }
  Value source = lookup(op.getSource());
  SmallVector<Value> indices = llvm::map_to_vector(
      op.getIndices(), [&](Value index) { return lookup(index); });
  Value present =
      countRows(op, source, indices[indices.size() - 2], type.getDimSize(0));
  Value whole = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, present,
                                      index(type.getDimSize(0)));
  auto ifOp = scf::IfOp::create(b, TypeRange(), whole, /*withElse=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(ifOp.thenBlock());
  emitTranspose(source, indices, type.getDimSize(1), target);
  b.setInsertionPointToStart(ifOp.elseBlock());
  emitTileCopy(op, buffer);
  emitTranspose(buffer, {index(0), index(0)}, type.getDimSize(1), target);
  return success();
}

LogicalResult TileEmitter::emitStore(StoreOp op) {
  Value dest = lookup(op.getDest());
  SmallVector<Value> indices = llvm::map_to_vector(
      op.getIndices(), [&](Value index) { return lookup(index); });
  VectorType type = getTileType(op.getValue());
  if (!type) {
    Value row = lookup(op.getValue());
    AffineMap map =
        AffineMap::getMinorIdentityMap(indices.size(), 1, b.getContext());
    int64_t rows = cast<VectorType>(row.getType()).getDimSize(0);
    vector::TransferWriteOp::create(
        b, row, dest, indices, AffineMapAttr::get(map),
        maskOfSequence(op, rows), b.getBoolArrayAttr(false));
    return success();
  }
  Tile tile = tiles.lookup(op.getValue());
  Value &row = indices[indices.size() - 2];
  Value first = row;
  if (op.getTransposed()) {
    // The rows of a transposed copy are stored instead.
    Value target = makeBuffer({type.getDimSize(1), type.getDimSize(0)},
                              getBufferElement(type));
    emitTranspose(getBuffer(op.getValue()), {index(0), index(0)},
                  type.getDimSize(1), target);
    tile = getBufferTile(target, type.getElementType());
    type = VectorType::get({type.getDimSize(1), type.getDimSize(0)},
                           type.getElementType());
  }
  Value rows = countRows(op, dest, first, type.getDimSize(0));
  loop(index(0), rows, 1, [&](Value r) {
    row = add(first, r);
    forEachPiece(type.getDimSize(1), [&](int64_t column, int64_t lanes) {
      bool inBounds = isInBounds(dest, indices, column, lanes);
      Value piece = tile.emitPiece(r, index(column), lanes);
      SmallVector<Value> at(indices);
      at.back() = add(at.back(), column);
      vector::TransferWriteOp::create(b, piece, dest, at,
                                      ArrayRef<bool>{inBounds});
    });
  });
  return success();
}

/// Tiles in fragment order are stored row after row: element `n` of the tile is
/// element `n` of the rows of the memref from `indices` on.
template <typename EmitFn>
void TileEmitter::forEachPacked(Value memref, ValueRange indices,
                                VectorType tile, EmitFn emit) {
  int64_t columns = cast<MemRefType>(memref.getType()).getShape().back();
  Value width = index(columns), tileWidth = index(tile.getDimSize(1));
  loop(tile.getDimSize(0), 1, [&](Value row) {
    loop(tile.getDimSize(1), 1, [&](Value column) {
      Value number = add(arith::MulIOp::create(b, row, tileWidth), column);
      SmallVector<Value> at(indices);
      Value &last = at.back(), &before = at[at.size() - 2];
      before = add(before, arith::DivUIOp::create(b, number, width));
      last = add(last, arith::RemUIOp::create(b, number, width));
      emit(row, column, at);
    });
  });
}

/// Calls `emit` with each element of the tile of `op`, its destination and its
/// place there, in fragment order.
template <typename OpTy>
void TileEmitter::forEachFragment(
    OpTy op, function_ref<void(Value, Value, ValueRange)> emit) {
  Value dest = lookup(op.getDest());
  SmallVector<Value> indices = llvm::map_to_vector(
      op.getIndices(), [&](Value index) { return lookup(index); });
  Value buffer = getBuffer(op.getValue());
  forEachPacked(dest, indices, getTileType(op.getValue()),
                [&](Value row, Value column, ValueRange at) {
                  Value value = memref::LoadOp::create(b, buffer,
                                                       ValueRange{row, column});
                  emit(value, dest, at);
                });
}

LogicalResult TileEmitter::emitBulkReduceAdd(BulkReduceAddOp op) {
  if (!isa<VectorType>(op.getValue().getType()) || op.getOrdinal())
    return op.emitOpError("has no form for the host");
  forEachFragment(op, [&](Value value, Value dest, ValueRange at) {
    memref::AtomicRMWOp::create(b, arith::AtomicRMWKind::addf, value, dest, at);
  });
  return success();
}

LogicalResult TileEmitter::emitStoreFragments(StoreFragmentsOp op) {
  forEachFragment(op, [&](Value value, Value dest, ValueRange at) {
    memref::StoreOp::create(b, value, dest, at);
  });
  return success();
}

LogicalResult TileEmitter::emitLoadFragments(LoadFragmentsOp op) {
  Value source = lookup(op.getSource());
  SmallVector<Value> indices = llvm::map_to_vector(
      op.getIndices(), [&](Value index) { return lookup(index); });
  VectorType type = getTileType(op.getResult());
  Value buffer = makeBuffer(type.getShape(), type.getElementType());
  forEachPacked(
      source, indices, type, [&](Value row, Value column, ValueRange at) {
        Value value = memref::LoadOp::create(b, source, at);
        memref::StoreOp::create(b, value, buffer, ValueRange{row, column});
      });
  setBuffer(op.getResult(), buffer);
  return success();
}
