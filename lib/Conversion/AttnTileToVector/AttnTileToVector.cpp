//===- AttnTileToVector.cpp - Tiled programs on the host ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tile of scores or accumulators is larger than the vector registers of a
// CPU, so here a tile becomes a buffer on the stack, or an expression over
// buffers: chains of elementwise operations are evaluated row piece by row
// piece where their value is needed. Matrix products become loops over register
// blocks of vector accumulators (Goto and van de Geijn 2008). Row vectors stay
// vector values.
//
//===----------------------------------------------------------------------===//

#include "attn/Conversion/AttnTileToVector/AttnTileToVector.h"
#include "RegionVectorizer.h"
#include "attn-runtime/attn_runtime.h"
#include "attn/Conversion/LaunchToRuntime/RuntimeCalls.h"
#include "attn/Conversion/Passes.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/Transforms/KeyTiles.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Dialect/Vector/Transforms/LoweringPatterns.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include <functional>
#include <limits>

namespace mlir::attn {
#define GEN_PASS_DEF_CONVERTATTNTILETOVECTORPASS
#include "attn/Conversion/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn_tile;

/// A cache line, and the widest vector register there is.
static constexpr int64_t bufferAlignment = 64;

/// Tiles are moved and transposed in blocks of this many rows and columns.
static constexpr int64_t moveBlock = 16;

/// The type of tiles; null for anything else, row vectors included.
static VectorType getTileType(Value value) {
  auto type = dyn_cast<VectorType>(value.getType());
  return type && type.getRank() == 2 ? type : VectorType();
}

namespace {
/// The vector registers of the target.
struct Registers {
  int64_t lanes;
  int64_t count;
};

/// A tile that has been emitted.
struct Tile {
  /// Emits columns `[column, column + lanes)` of a row.
  std::function<Value(Value row, Value column, int64_t lanes)> emitPiece;
  /// The memref that holds the tile, if there is one. Tiles of 16-bit floats
  /// are held as f32.
  Value buffer;
  /// The memref that holds the rows' values if all columns are the same.
  Value rows;
};

/// Emits the body of one kernel as a function on vectors.
class TileEmitter {
public:
  TileEmitter(OpBuilder &builder, Location loc, Registers registers)
      : b(loc, builder), registers(registers) {}

  LogicalResult emitKernel(KernelOp kernel, func::FuncOp function);

private:
  LogicalResult emitBlock(Block &block);
  LogicalResult emitOp(Operation &op);
  LogicalResult emitFor(scf::ForOp op);
  LogicalResult emitForall(scf::ForallOp op);
  void emitReduce(ReduceOp op);
  void emitCompact(CompactOp op);
  void emitEach(EachOp op);
  /// Copies the body of a scalar region.
  void emitScalars(Block &block);
  LogicalResult emitIf(scf::IfOp op);
  LogicalResult emitLoad(LoadOp op);
  LogicalResult emitStore(StoreOp op);
  LogicalResult emitAddPacked(AddPackedOp op);
  LogicalResult emitLoadPacked(LoadPackedOp op);
  LogicalResult emitContraction(vector::ContractionOp op);
  LogicalResult emitReduction(vector::MultiDimReductionOp op);
  LogicalResult emitPartialSum(PartialSumOp op);
  LogicalResult emitElementwise(Operation &op);
  LogicalResult emitBroadcast(vector::BroadcastOp op);
  LogicalResult emitShapeCast(vector::ShapeCastOp op);
  LogicalResult emitConstant(arith::ConstantOp op);
  LogicalResult emitMap(MapOp op);
  void emitMask(MaskOp op);
  void emitDropout(DropoutOp op);

  //===--------------------------------------------------------------------===//
  // Tiles
  //===--------------------------------------------------------------------===//

  /// Registers the tile of `result`: an expression if it is used once and where
  /// it is defined, else a buffer.
  void setTile(OpResult result, Tile tile);
  void setBuffer(Value result, Value buffer);
  /// The tile of elements `element` that a buffer holds.
  Tile getBufferTile(Value buffer, Type element);
  /// Evaluates a tile into `buffer`.
  void fill(Value buffer, const Tile &tile);
  /// The buffer of a tile that is an operand of a product.
  Value getBuffer(Value value);
  /// The same with rows and columns exchanged.
  Value getTransposedBuffer(Value value);
  /// A buffer with the values of a row vector.
  Value getRows(Value vector);
  /// Fills `target` with `source` with rows and columns exchanged. Rows and
  /// columns of `source` start at the last two of `indices`.
  void emitTranspose(Value source, ValueRange indices, int64_t columns,
                     Value target);
  void emitTileCopy(LoadOp op, Value buffer);
  /// Calls `emit` for each element of a packed tile, with its row and column
  /// and its place in `memref`.
  template <typename EmitFn>
  void forEachPacked(Value memref, ValueRange indices, VectorType tile,
                     EmitFn emit);

  Value makeBuffer(ArrayRef<int64_t> shape, Type element);
  /// Gives up the buffers that were taken since `takenBuffers` had `mark`
  /// elements: no tile in them is used any more.
  void freeBuffersSince(size_t mark);
  Type getBufferElement(VectorType type) {
    Type element = type.getElementType();
    if (isa<FloatType>(element) && element.getIntOrFloatBitWidth() < 32)
      return b.getF32Type();
    return element;
  }

  //===--------------------------------------------------------------------===//
  // Small things
  //===--------------------------------------------------------------------===//

  Value index(int64_t value) {
    return arith::ConstantIndexOp::create(b, value);
  }
  Value add(Value lhs, Value rhs) {
    return b.createOrFold<arith::AddIOp>(lhs, rhs);
  }
  Value add(Value lhs, int64_t rhs) {
    return rhs == 0 ? lhs : add(lhs, index(rhs));
  }
  void loop(Value begin, Value end, int64_t step,
            function_ref<void(Value)> body);
  void loop(int64_t end, int64_t step, function_ref<void(Value)> body) {
    loop(index(0), index(end), step, body);
  }
  /// Calls `body` for pieces that cover `columns` columns.
  void forEachPiece(int64_t columns,
                    function_ref<void(int64_t column, int64_t lanes)> body);
  Value zeroOf(VectorType type) {
    return arith::ConstantOp::create(b, b.getZeroAttr(type));
  }
  Value toF32(Value vector);
  /// Rows of `memref` from `first` on, at least 0 and at most `rows`.
  Value countRows(Value memref, Value first, int64_t rows);
  /// The rows of the tile that `op` loads or stores that exist and are of its
  /// sequence. `row` is the first one in memory.
  template <typename OpTy>
  Value countRows(OpTy op, Value memref, Value row, int64_t rows) {
    Value present = countRows(memref, row, rows);
    if (!op.getExtent())
      return present;
    return arith::MinSIOp::create(b, present, countOfSequence(op));
  }
  /// The rows from the first one of a tile to the end of its sequence.
  template <typename OpTy>
  Value countOfSequence(OpTy op) {
    Value left =
        arith::SubIOp::create(b, lookup(op.getExtent()), lookup(op.getFirst()));
    return arith::MaxSIOp::create(b, left, index(0));
  }
  /// The mask of the elements of a row vector that are of its sequence; null if
  /// it is of none.
  template <typename OpTy>
  Value maskOfSequence(OpTy op, int64_t rows) {
    if (!op.getExtent())
      return nullptr;
    return vector::CreateMaskOp::create(b, VectorType::get(rows, b.getI1Type()),
                                        countOfSequence(op));
  }
  /// Reads a piece of a row; columns beyond the memref are zero.
  Value readPiece(Value memref, ValueRange indices, int64_t lanes,
                  bool inBounds);
  /// Whether columns `[column, column + lanes)` are known to exist.
  bool isInBounds(Value memref, ValueRange indices, int64_t column,
                  int64_t lanes);
  /// Where a piece of a row of the tile of a map or mask lies.
  template <typename OpTy>
  RowPiece getRowPiece(OpTy op, Value row, Value column, int64_t lanes);
  Value lookup(Value value) { return mapping.lookupOrDefault(value); }

  ImplicitLocOpBuilder b;
  Registers registers;
  /// Values that are not tiles.
  IRMapping mapping;
  DenseMap<Value, Tile> tiles;
  DenseMap<Value, Value> transposed;
  DenseMap<MemRefType, SmallVector<Value>> freeBuffers;
  SmallVector<Value> takenBuffers;
  /// Where the buffers of the current work item are made.
  Block *bufferBlock = nullptr;
};
} // namespace

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

//===----------------------------------------------------------------------===//
// Loads and stores
//===----------------------------------------------------------------------===//

void TileEmitter::emitTileCopy(LoadOp op, Value buffer) {
  Value source = lookup(op.getSource());
  SmallVector<Value> indices = llvm::map_to_vector(
      op.getIndices(), [&](Value index) { return lookup(index); });
  ArrayRef<int64_t> shape = cast<MemRefType>(buffer.getType()).getShape();
  Value &row = indices[indices.size() - 2];
  Value first = row;
  Value present = countRows(op, source, first, shape[0]);
  loop(index(0), present, 1, [&](Value r) {
    row = add(first, r);
    forEachPiece(shape[1], [&](int64_t column, int64_t lanes) {
      SmallVector<Value> at(indices);
      at.back() = add(at.back(), column);
      Value piece = toF32(readPiece(
          source, at, lanes, isInBounds(source, indices, column, lanes)));
      vector::StoreOp::create(b, piece, buffer, ValueRange{r, index(column)});
    });
  });
  loop(present, index(shape[0]), 1, [&](Value r) {
    forEachPiece(shape[1], [&](int64_t column, int64_t lanes) {
      auto type = VectorType::get(
          lanes, cast<MemRefType>(buffer.getType()).getElementType());
      vector::StoreOp::create(b, zeroOf(type), buffer,
                              ValueRange{r, index(column)});
    });
  });
}

/// Whether `use` is the right-hand side of a product, as `NxK`.
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

  // A tile that is only used as a transposed operand is read transposed, unless
  // it is cut by the end of the source.
  Type element = getBufferElement(type);
  Value buffer = makeBuffer(type.getShape(), element);
  if (!llvm::all_of(op->getUses(), isTransposedRhs)) {
    emitTileCopy(op, buffer);
    setBuffer(op.getResult(), buffer);
    return success();
  }
  Value target = makeBuffer({type.getDimSize(1), type.getDimSize(0)}, element);
  transposed[op.getResult()] = target;
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
    // Rows of a copy with rows and columns exchanged are stored instead.
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

/// Packed tiles are rows of elements, row after row: element `n` of the tile is
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

LogicalResult TileEmitter::emitAddPacked(AddPackedOp op) {
  if (!isa<VectorType>(op.getValue().getType()))
    return op.emitOpError("has no form for the host");
  Value dest = lookup(op.getDest());
  SmallVector<Value> indices = llvm::map_to_vector(
      op.getIndices(), [&](Value index) { return lookup(index); });
  Value buffer = getBuffer(op.getValue());
  forEachPacked(dest, indices, getTileType(op.getValue()),
                [&](Value row, Value column, ValueRange at) {
                  Value value = memref::LoadOp::create(b, buffer,
                                                       ValueRange{row, column});
                  memref::AtomicRMWOp::create(b, arith::AtomicRMWKind::addf,
                                              value, dest, at);
                });
  return success();
}

LogicalResult TileEmitter::emitLoadPacked(LoadPackedOp op) {
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

//===----------------------------------------------------------------------===//
// Elementwise operations
//===----------------------------------------------------------------------===//

LogicalResult TileEmitter::emitElementwise(Operation &op) {
  if (op.getNumResults() != 1 || !getTileType(op.getResult(0)))
    return op.emitOpError("has no form for the host");
  setTile(op.getResult(0),
          {[this, &op](Value row, Value column, int64_t lanes) {
             IRMapping operands;
             for (Value operand : op.getOperands()) {
               if (operands.contains(operand))
                 continue;
               operands.map(operand, getTileType(operand)
                                         ? tiles.lookup(operand).emitPiece(
                                               row, column, lanes)
                                         : lookup(operand));
             }
             Operation *piece = b.cloneWithoutRegions(op, operands);
             VectorType type = getTileType(op.getResult(0));
             piece->getResult(0).setType(
                 VectorType::get(lanes, type.getElementType()));
             return piece->getResult(0);
           },
           Value(), Value()});
  return success();
}

LogicalResult TileEmitter::emitConstant(arith::ConstantOp op) {
  auto elements = dyn_cast<SplatElementsAttr>(op.getValue());
  if (!elements)
    return op.emitOpError("must be a splat for the host");
  auto value = elements.getSplatValue<Attribute>();
  Type element = elements.getElementType();
  setTile(op->getResult(0),
          {[this, value, element](Value, Value, int64_t lanes) -> Value {
             auto type = VectorType::get(lanes, element);
             return arith::ConstantOp::create(
                 b, DenseElementsAttr::get(type, value));
           },
           Value(), Value()});
  return success();
}

LogicalResult TileEmitter::emitShapeCast(vector::ShapeCastOp op) {
  auto source = dyn_cast<VectorType>(op.getSource().getType());
  auto result = cast<VectorType>(op.getResult().getType());
  bool isColumn = source.getRank() == 1 && result.getRank() == 2 &&
                  result.getDimSize(1) == 1;
  if (!isColumn)
    return op.emitOpError("must make a column of a row vector for the host");
  Value rows = getRows(op.getSource());
  tiles[op.getResult()] = {
      [this, rows](Value row, Value, int64_t lanes) {
        Type element = cast<MemRefType>(rows.getType()).getElementType();
        Value value = memref::LoadOp::create(b, rows, row);
        return vector::BroadcastOp::create(b, VectorType::get(lanes, element),
                                           value)
            .getResult();
      },
      Value(), rows};
  return success();
}

LogicalResult TileEmitter::emitBroadcast(vector::BroadcastOp op) {
  if (VectorType source = getTileType(op.getSource())) {
    if (source.getDimSize(0) == 1) {
      setTile(op->getResult(0),
              {[this, op](Value, Value column, int64_t lanes) mutable {
                 return tiles.lookup(op.getSource())
                     .emitPiece(index(0), column, lanes);
               },
               Value(), Value()});
      return success();
    }
    if (source.getDimSize(1) != 1 || !tiles.lookup(op.getSource()).rows)
      return op.emitOpError("must repeat a row or a column for the host");
    tiles[op.getResult()] = tiles.lookup(op.getSource());
    return success();
  }
  if (isa<VectorType>(op.getSource().getType()))
    return op.emitOpError(
        "must repeat a row, a column or a scalar for the host");
  setTile(op->getResult(0),
          {[this, op](Value, Value, int64_t lanes) mutable -> Value {
             Value scalar = lookup(op.getSource());
             return vector::BroadcastOp::create(
                 b, VectorType::get(lanes, scalar.getType()), scalar);
           },
           Value(), Value()});
  return success();
}

template <typename OpTy>
RowPiece TileEmitter::getRowPiece(OpTy op, Value row, Value column,
                                  int64_t lanes) {
  RowPiece piece;
  piece.batch = lookup(op.getBatch());
  piece.head = lookup(op.getHead());
  piece.transposed = op.getTransposed();
  piece.query = lookup(op.getFirstQuery());
  piece.key = lookup(op.getFirstKey());
  piece.laneLength = lookup(op.getKeyLength());
  piece.lanes = lanes;
  Value *rowPosition = &piece.query, *columnPosition = &piece.key;
  Value rowLength = lookup(op.getQueryLength());
  if (piece.transposed) {
    std::swap(rowPosition, columnPosition);
    std::swap(rowLength, piece.laneLength);
  }
  *columnPosition = arith::AddIOp::create(b, *columnPosition, column);
  // Rows beyond the length repeat the last one; their values are unused.
  Value last = arith::SubIOp::create(b, rowLength, index(1));
  *rowPosition = arith::MinSIOp::create(
      b, arith::AddIOp::create(b, *rowPosition, row).getResult(), last);
  return piece;
}

LogicalResult TileEmitter::emitMap(MapOp op) {
  if (!op.getOthers().empty())
    return op.emitOpError("must map one tile alone for the host (has ")
           << op.getOthers().size() << " more)";
  setTile(op->getResult(0),
          {[this, op](Value row, Value column, int64_t lanes) mutable {
             SmallVector<Value> elements;
             for (Value source : op.getSources())
               elements.push_back(
                   tiles.lookup(source).emitPiece(row, column, lanes));
             RowPiece at = getRowPiece(op, row, column, lanes);
             auto make = [&](Type type) { return makeBuffer(lanes, type); };
             at.makeBuffer = make;
             return vectorizeRegion(b, op.getBody().front(), elements, at,
                                    mapping);
           },
           Value(), Value()});
  return success();
}

/// Writes the predicate of `mask` as a block with the arguments of a keep
/// region. The lengths are captured.
static void buildPredicate(ImplicitLocOpBuilder &b,
                           attn::MaskAttrInterface mask, Value queryLength,
                           Value keyLength, Block &block) {
  OpBuilder::InsertionGuard guard(b);
  for (unsigned i = 0; i < 4; ++i)
    block.addArgument(b.getIndexType(), b.getLoc());
  b.setInsertionPointToStart(&block);
  ValueRange position = block.getArguments();
  Value keep = mask.emitPredicate(b, b.getLoc(),
                                  {position[0], position[1], position[2],
                                   position[3], queryLength, keyLength});
  YieldOp::create(b, keep);
}

void TileEmitter::emitMask(MaskOp op) {
  setTile(
      op->getResult(0),
      {[this, op](Value row, Value column, int64_t lanes) mutable -> Value {
         Value scores =
             tiles.lookup(op.getSource()).emitPiece(row, column, lanes);
         RowPiece at = getRowPiece(op, row, column, lanes);
         auto make = [&](Type type) { return makeBuffer(lanes, type); };
         at.makeBuffer = make;

         auto maskType = VectorType::get(lanes, b.getI1Type());
         Value keep;
         if (op.getTransposed()) {
           Value key = arith::AddIOp::create(b, lookup(op.getFirstKey()), row);
           Value exists = arith::CmpIOp::create(b, arith::CmpIPredicate::slt,
                                                key, lookup(op.getKeyLength()));
           keep = vector::BroadcastOp::create(b, maskType, exists);
         } else {
           Value left = arith::SubIOp::create(b, at.laneLength, at.key);
           keep = vector::CreateMaskOp::create(b, maskType, left);
         }
         if (attn::MaskAttrInterface mask = op.getMaskAttr()) {
           Region region;
           Block &block = region.emplaceBlock();
           buildPredicate(b, mask, op.getQueryLength(), op.getKeyLength(),
                          block);
           Value kept = vectorizeRegion(b, block, {}, at, mapping);
           keep = arith::AndIOp::create(b, keep, kept);
         }
         if (!op.getKeep().empty()) {
           Value kept =
               vectorizeRegion(b, op.getKeep().front(), {}, at, mapping);
           keep = arith::AndIOp::create(b, keep, kept);
         }
         auto type = cast<VectorType>(scores.getType());
         Value lowest = arith::ConstantOp::create(
             b,
             DenseElementsAttr::get(
                 type, b.getFloatAttr(type.getElementType(),
                                      -std::numeric_limits<double>::infinity())
                           .getValue()));
         return arith::SelectOp::create(b, keep, scores, lowest);
       },
       Value(), Value()});
}

void TileEmitter::emitDropout(DropoutOp op) {
  setTile(op->getResult(0),
          {[this, op](Value row, Value column, int64_t lanes) mutable -> Value {
             Value weights =
                 tiles.lookup(op.getSource()).emitPiece(row, column, lanes);
             auto wordType = VectorType::get(lanes, b.getI32Type());
             auto toLanes = [&](Value value) -> Value {
               return vector::BroadcastOp::create(b, wordType, value);
             };
             auto getPosition = [&](Value first, Value offset) {
               return toLanes(arith::IndexCastOp::create(
                   b, b.getI32Type(), add(lookup(first), offset)));
             };
             Value first = op.getFirstQuery(), second = op.getFirstKey();
             if (op.getTransposed())
               std::swap(first, second);
             Value query = getPosition(first, row);
             Value key = getPosition(second, column);
             SmallVector<Attribute> numbers;
             for (int64_t lane = 0; lane < lanes; ++lane)
               numbers.push_back(b.getI32IntegerAttr(lane));
             Value laneNumbers = arith::ConstantOp::create(
                 b, DenseElementsAttr::get(wordType, numbers));
             key = arith::AddIOp::create(b, key, laneNumbers);
             if (op.getTransposed())
               std::swap(query, key);
             attn::RngBlock<Value> stream;
             llvm::transform(op.getStream(), stream.begin(),
                             [&](Value word) { return toLanes(lookup(word)); });
             Value isKept =
                 op.getDropout().emitIsKept(b, b.getLoc(), stream, query, key);
             return arith::SelectOp::create(
                 b, isKept, weights,
                 zeroOf(cast<VectorType>(weights.getType())));
           },
           Value(), Value()});
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

LogicalResult TileEmitter::emitReduction(vector::MultiDimReductionOp op) {
  VectorType type = getTileType(op.getSource());
  if (!type || op.getReductionDims() != ArrayRef<int64_t>{1})
    return op.emitOpError("must reduce along the rows of a tile for the host");
  Tile tile = tiles.lookup(op.getSource());
  auto resultType = cast<VectorType>(op.getResult().getType());
  Value buffer = makeBuffer(resultType.getShape(), type.getElementType());
  loop(type.getDimSize(0), 1, [&](Value row) {
    // Pieces of full width are combined first, then the lanes.
    Value partial, rest;
    forEachPiece(type.getDimSize(1), [&](int64_t column, int64_t lanes) {
      Value piece = tile.emitPiece(row, index(column), lanes);
      if (partial && piece.getType() != partial.getType())
        rest = piece;
      else
        partial = partial ? vector::makeArithReduction(
                                b, b.getLoc(), op.getKind(), partial, piece)
                          : piece;
    });
    Value result = vector::ReductionOp::create(b, op.getKind(), partial);
    if (rest)
      result = vector::ReductionOp::create(b, op.getKind(), rest, result);
    memref::StoreOp::create(b, result, buffer, row);
  });
  Value rows = vector::LoadOp::create(b, resultType, buffer, index(0));
  mapping.map(op.getResult(),
              vector::makeArithReduction(b, b.getLoc(), op.getKind(), rows,
                                         lookup(op.getAcc())));
  return success();
}

LogicalResult TileEmitter::emitPartialSum(PartialSumOp op) {
  VectorType source = getTileType(op.getSource());
  VectorType type = getTileType(op.getResult());
  Value buffer = makeBuffer(type.getShape(), type.getElementType());
  int64_t partials = type.getDimSize(1);
  loop(type.getDimSize(0), 1, [&](Value row) {
    Value sum = tiles.lookup(op.getAcc()).emitPiece(row, index(0), partials);
    for (int64_t column = 0; column < source.getDimSize(1); column += partials)
      sum = arith::AddFOp::create(
          b, sum,
          tiles.lookup(op.getSource()).emitPiece(row, index(column), partials));
    vector::StoreOp::create(b, sum, buffer, ValueRange{row, index(0)});
  });
  setBuffer(op.getResult(), buffer);
  return success();
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// A block of accumulators that fits the registers: `rows` times `pieces`.
static std::pair<int64_t, int64_t> chooseBlock(Registers registers,
                                               int64_t rows, int64_t pieces) {
  // A step of the block loads pieces + rows values for rows * pieces
  // multiply-adds. One register is needed for the row's value and one for each
  // piece.
  std::pair<int64_t, int64_t> best = {1, 1};
  double bestRatio = 0;
  for (int64_t p = 1; p <= pieces; ++p) {
    for (int64_t r = 1; r <= rows; ++r) {
      if (pieces % p != 0 || rows % r != 0 ||
          r * p + p + 1 > registers.count - 2)
        continue;
      double ratio = static_cast<double>(r * p) / (r + p);
      if (ratio > bestRatio) {
        bestRatio = ratio;
        best = {r, p};
      }
    }
  }
  return best;
}

/// Whether the accumulator of `op` is the carried value `argument`, or an
/// elementwise function of it, and nothing else reads that value.
static bool isOnlyAccumulatedIn(vector::ContractionOp op,
                                BlockArgument argument) {
  Value value = op.getAcc();
  if (value == argument)
    return argument.hasOneUse();
  Operation *def = value.getDefiningOp();
  return def && def->getBlock() == op->getBlock() && value.hasOneUse() &&
         OpTrait::hasElementwiseMappableTraits(def) && argument.hasOneUse() &&
         llvm::is_contained(def->getOperands(), argument);
}

LogicalResult TileEmitter::emitContraction(vector::ContractionOp op) {
  VectorType type = dyn_cast<VectorType>(op.getResultType());
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  AffineExpr m, n, k;
  bindDims(op.getContext(), m, n, k);
  auto is = [&](AffineMap map, AffineExpr first, AffineExpr second) {
    return map.getResults() == ArrayRef<AffineExpr>{first, second};
  };
  bool transposeLhs = is(maps[0], k, m), transposeRhs = is(maps[1], n, k);
  if (!type || type.getRank() != 2 || !type.getElementType().isF32() ||
      op.getKind() != vector::CombiningKind::ADD ||
      !(transposeLhs || is(maps[0], m, k)) ||
      !(transposeRhs || is(maps[1], k, n)) || !is(maps[2], m, n))
    return op.emitOpError("must be a product of two tiles into f32 for the "
                          "host");

  Value lhs =
      transposeLhs ? getTransposedBuffer(op.getLhs()) : getBuffer(op.getLhs());
  Value rhs =
      transposeRhs ? getTransposedBuffer(op.getRhs()) : getBuffer(op.getRhs());
  // The carried accumulator of a loop is updated in place.
  Value result;
  if (op.getResult().hasOneUse())
    if (auto yield = dyn_cast<scf::YieldOp>(*op.getResult().user_begin()))
      if (auto forOp = dyn_cast<scf::ForOp>(yield->getParentOp())) {
        BlockArgument carried = forOp.getRegionIterArg(
            op.getResult().use_begin()->getOperandNumber());
        if (yield->getBlock() == op->getBlock() &&
            isOnlyAccumulatedIn(op, carried))
          result = tiles.lookup(carried).buffer;
      }
  if (!result)
    result = makeBuffer(type.getShape(), type.getElementType());

  int64_t rows = type.getDimSize(0), columns = type.getDimSize(1);
  int64_t depth = getTileType(op.getLhs()).getDimSize(transposeLhs ? 0 : 1);
  int64_t lanes = registers.lanes;
  while (columns % lanes != 0)
    lanes /= 2;
  auto [blockRows, blockPieces] = chooseBlock(registers, rows, columns / lanes);
  auto pieceType = VectorType::get(lanes, b.getF32Type());
  Tile acc = tiles.lookup(op.getAcc());
  loop(
      columns, blockPieces * lanes,
      [&, blockRows = blockRows, blockPieces = blockPieces](Value column) {
        loop(rows, blockRows, [&](Value row) {
          SmallVector<Value> init;
          for (int64_t r = 0; r < blockRows; ++r)
            for (int64_t p = 0; p < blockPieces; ++p)
              init.push_back(
                  acc.emitPiece(add(row, r), add(column, p * lanes), lanes));
          auto inner =
              scf::ForOp::create(b, index(0), index(depth), index(1), init);
          {
            OpBuilder::InsertionGuard guard(b);
            b.setInsertionPointToStart(inner.getBody());
            Value step = inner.getInductionVar();
            SmallVector<Value> sums(inner.getRegionIterArgs());
            SmallVector<Value> pieces;
            for (int64_t p = 0; p < blockPieces; ++p)
              pieces.push_back(vector::LoadOp::create(
                  b, pieceType, rhs, ValueRange{step, add(column, p * lanes)}));
            for (int64_t r = 0; r < blockRows; ++r) {
              Value value =
                  memref::LoadOp::create(b, lhs, ValueRange{add(row, r), step});
              Value wide = vector::BroadcastOp::create(b, pieceType, value);
              for (int64_t p = 0; p < blockPieces; ++p) {
                Value &sum = sums[r * blockPieces + p];
                sum = vector::FMAOp::create(b, wide, pieces[p], sum);
              }
            }
            scf::YieldOp::create(b, sums);
          }
          for (int64_t r = 0; r < blockRows; ++r)
            for (int64_t p = 0; p < blockPieces; ++p)
              vector::StoreOp::create(
                  b, inner.getResult(r * blockPieces + p), result,
                  ValueRange{add(row, r), add(column, p * lanes)});
        });
      });
  setBuffer(op.getResult(), result);
  return success();
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

LogicalResult TileEmitter::emitFor(scf::ForOp op) {
  // Each carried tile has a buffer of its own, which is also the result. The
  // buffer of a loop whose result only this one uses is taken over.
  SmallVector<Value> buffers(op.getNumRegionIterArgs());
  SmallVector<Value> inits;
  for (auto [i, init] : llvm::enumerate(op.getInitArgs())) {
    VectorType type = getTileType(init);
    if (!type) {
      inits.push_back(lookup(init));
      continue;
    }
    auto before = init.getDefiningOp<scf::ForOp>();
    if (before && init.hasOneUse() && before->getBlock() == op->getBlock()) {
      buffers[i] = tiles.lookup(init).buffer;
      continue;
    }
    buffers[i] = makeBuffer(type.getShape(), getBufferElement(type));
    fill(buffers[i], tiles.lookup(init));
  }

  auto loop = scf::ForOp::create(b, lookup(op.getLowerBound()),
                                 lookup(op.getUpperBound()),
                                 lookup(op.getStep()), inits);
  mapping.map(op.getInductionVar(), loop.getInductionVar());
  unsigned next = 0;
  for (auto [i, argument] : llvm::enumerate(op.getRegionIterArgs())) {
    if (buffers[i]) {
      setBuffer(argument, buffers[i]);
      setBuffer(op.getResult(i), buffers[i]);
    } else {
      mapping.map(argument, loop.getRegionIterArg(next));
      mapping.map(op.getResult(i), loop.getResult(next));
      ++next;
    }
  }

  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  size_t mark = takenBuffers.size();
  if (failed(emitBlock(*op.getBody())))
    return failure();
  auto yield = cast<scf::YieldOp>(op.getBody()->getTerminator());
  SmallVector<Value> yielded;
  SmallVector<std::pair<Value, Tile>> copies;
  for (auto [i, value] : llvm::enumerate(yield.getOperands())) {
    if (!buffers[i]) {
      yielded.push_back(lookup(value));
      continue;
    }
    Tile tile = tiles.lookup(value);
    if (tile.buffer == buffers[i])
      continue;
    // Values are taken before any carried buffer is overwritten.
    if (!tile.buffer || llvm::is_contained(buffers, tile.buffer)) {
      VectorType type = getTileType(value);
      Value temporary = makeBuffer(type.getShape(), getBufferElement(type));
      fill(temporary, tile);
      setBuffer(value, temporary);
    }
    copies.emplace_back(buffers[i], tiles.lookup(value));
  }
  for (auto &[buffer, tile] : copies)
    fill(buffer, tile);
  if (!yielded.empty())
    scf::YieldOp::create(b, yielded);
  freeBuffersSince(mark);
  return success();
}

LogicalResult TileEmitter::emitForall(scf::ForallOp op) {
  if (op.getNumResults() != 0)
    return op.emitOpError("must have no results");
  auto map = [&](ArrayRef<OpFoldResult> bounds) {
    return llvm::map_to_vector(bounds, [&](OpFoldResult bound) {
      if (auto value = dyn_cast<Value>(bound))
        return OpFoldResult(lookup(value));
      return bound;
    });
  };
  auto forall = scf::ForallOp::create(
      b, map(op.getMixedLowerBound()), map(op.getMixedUpperBound()),
      map(op.getMixedStep()), ValueRange(), op.getMapping());
  mapping.map(op.getInductionVars(), forall.getInductionVars());
  OpBuilder::InsertionGuard guard(b);
  Block *outer = std::exchange(bufferBlock, forall.getBody());
  b.setInsertionPointToStart(forall.getBody());
  LogicalResult result = emitBlock(*op.getBody());
  bufferBlock = outer;
  freeBuffers.clear();
  takenBuffers.clear();
  return result;
}

void TileEmitter::emitReduce(ReduceOp op) {
  SmallVector<Value> inits;
  for (unsigned i = 0; i < op.getNumResults(); ++i)
    inits.push_back(index(ReduceOp::getNeutral(op.getKind(i))));
  auto loop =
      scf::ForOp::create(b, index(0), lookup(op.getCount()), index(1), inits);
  mapping.map(op.getBody().getArgument(0), loop.getInductionVar());
  mapping.map(op.getResults(), loop.getResults());
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Block &body = op.getBody().front();
  emitScalars(body);
  SmallVector<Value> results;
  for (auto [n, result] : llvm::enumerate(loop.getRegionIterArgs()))
    results.push_back(vector::makeArithReduction(
        b, b.getLoc(), op.getKind(n), result,
        lookup(body.getTerminator()->getOperand(n))));
  scf::YieldOp::create(b, results);
}

void TileEmitter::emitCompact(CompactOp op) {
  auto loop = scf::ForOp::create(b, index(0), lookup(op.getCount()), index(1),
                                 index(0));
  mapping.map(op.getChosen(), loop.getResult(0));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value i = loop.getInductionVar(), rank = loop.getRegionIterArg(0);
  Block &condition = op.getCondition().front();
  mapping.map(condition.getArgument(0), i);
  emitScalars(condition);
  auto ifOp = scf::IfOp::create(
      b, b.getIndexType(), lookup(condition.getTerminator()->getOperand(0)),
      /*addThenBlock=*/true, /*addElseBlock=*/true);
  scf::YieldOp::create(b, ifOp.getResults());
  b.setInsertionPointToStart(ifOp.elseBlock());
  scf::YieldOp::create(b, rank);
  b.setInsertionPointToStart(ifOp.thenBlock());
  mapping.map(op.getBody().getArguments(), ValueRange{i, rank});
  emitScalars(op.getBody().front());
  Value next = arith::AddIOp::create(b, rank, index(1));
  scf::YieldOp::create(b, next);
}

void TileEmitter::emitEach(EachOp op) {
  auto loop = scf::ForOp::create(b, index(0), lookup(op.getCount()), index(1));
  mapping.map(op.getBody().getArgument(0), loop.getInductionVar());
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  emitScalars(op.getBody().front());
}

void TileEmitter::emitScalars(Block &block) {
  for (Operation &op : block.without_terminator())
    b.clone(op, mapping);
}

LogicalResult TileEmitter::emitIf(scf::IfOp op) {
  // Both branches put tiles into the buffers of the results.
  SmallVector<Value> buffers(op.getNumResults());
  SmallVector<Type> types;
  for (auto [i, result] : llvm::enumerate(op.getResults())) {
    if (VectorType type = getTileType(result)) {
      buffers[i] = makeBuffer(type.getShape(), getBufferElement(type));
      setBuffer(result, buffers[i]);
    } else {
      types.push_back(result.getType());
    }
  }
  auto ifOp = scf::IfOp::create(b, types, lookup(op.getCondition()),
                                /*addThenBlock=*/true,
                                /*addElseBlock=*/op.elseBlock() != nullptr);
  unsigned next = 0;
  for (auto [i, result] : llvm::enumerate(op.getResults()))
    if (!buffers[i])
      mapping.map(result, ifOp.getResult(next++));

  OpBuilder::InsertionGuard guard(b);
  for (auto [source, target] :
       llvm::zip(op->getRegions(), ifOp->getRegions())) {
    if (source.empty())
      continue;
    b.setInsertionPointToStart(&target.front());
    size_t mark = takenBuffers.size();
    if (failed(emitBlock(source.front())))
      return failure();
    SmallVector<Value> yielded;
    for (auto [i, value] :
         llvm::enumerate(source.front().getTerminator()->getOperands())) {
      if (buffers[i])
        fill(buffers[i], tiles.lookup(value));
      else
        yielded.push_back(lookup(value));
    }
    scf::YieldOp::create(b, yielded);
    freeBuffersSince(mark);
  }
  return success();
}

LogicalResult TileEmitter::emitBlock(Block &block) {
  for (Operation &op : block.without_terminator())
    if (failed(emitOp(op)))
      return failure();
  return success();
}

LogicalResult TileEmitter::emitOp(Operation &op) {
  b.setLoc(op.getLoc());
  if (auto forOp = dyn_cast<scf::ForOp>(op))
    return emitFor(forOp);
  if (auto forall = dyn_cast<scf::ForallOp>(op))
    return emitForall(forall);
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return emitReduce(reduce), success();
  if (auto compact = dyn_cast<CompactOp>(op))
    return emitCompact(compact), success();
  if (auto each = dyn_cast<EachOp>(op))
    return emitEach(each), success();
  if (auto atMost = dyn_cast<AtMostOp>(op)) {
    mapping.map(atMost.getResult(),
                arith::MinSIOp::create(b, lookup(atMost.getValue()),
                                       lookup(atMost.getBound()))
                    .getResult());
    return success();
  }
  if (auto ifOp = dyn_cast<scf::IfOp>(op))
    return emitIf(ifOp);
  if (auto load = dyn_cast<LoadOp>(op))
    return emitLoad(load);
  if (auto store = dyn_cast<StoreOp>(op))
    return emitStore(store);
  if (auto packed = dyn_cast<AddPackedOp>(op))
    return emitAddPacked(packed);
  if (auto packed = dyn_cast<LoadPackedOp>(op))
    return emitLoadPacked(packed);
  if (auto map = dyn_cast<MapOp>(op))
    return emitMap(map);
  if (auto mask = dyn_cast<MaskOp>(op))
    return emitMask(mask), success();
  if (auto dropout = dyn_cast<DropoutOp>(op))
    return emitDropout(dropout), success();
  if (auto sum = dyn_cast<PartialSumOp>(op))
    return emitPartialSum(sum);
  if (auto contract = dyn_cast<vector::ContractionOp>(op))
    return emitContraction(contract);
  if (auto reduction = dyn_cast<vector::MultiDimReductionOp>(op))
    return emitReduction(reduction);

  auto isTile = [](Value value) { return getTileType(value) != nullptr; };
  if (llvm::any_of(op.getResults(), isTile) ||
      llvm::any_of(op.getOperands(), isTile)) {
    if (auto constant = dyn_cast<arith::ConstantOp>(op))
      return emitConstant(constant);
    if (auto cast = dyn_cast<vector::ShapeCastOp>(op))
      return emitShapeCast(cast);
    if (auto broadcast = dyn_cast<vector::BroadcastOp>(op))
      return emitBroadcast(broadcast);
    if (OpTrait::hasElementwiseMappableTraits(&op))
      return emitElementwise(op);
    return op.emitOpError("has no form for the host");
  }
  if (isa<AttnTileDialect>(op.getDialect()) || op.getNumRegions() != 0)
    return op.emitOpError("has no form for the host");
  b.clone(op, mapping);
  return success();
}

LogicalResult TileEmitter::emitKernel(KernelOp kernel, func::FuncOp function) {
  Block *entry = function.addEntryBlock();
  mapping.map(kernel.getArguments(), entry->getArguments());
  bufferBlock = entry;
  b.setInsertionPointToStart(entry);
  if (failed(emitBlock(kernel.getBody().front())))
    return failure();
  func::ReturnOp::create(b);
  return success();
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

namespace {
struct ConvertAttnTileToVector
    : attn::impl::ConvertAttnTileToVectorPassBase<ConvertAttnTileToVector> {
  using Base::Base;

  void runOnOperation() override {
    if (vectorBits < 64 || !llvm::isPowerOf2_64(vectorBits)) {
      getOperation().emitError("'vector-bits' must be a power of two of at "
                               "least 64 (was ")
          << vectorBits << ")";
      return signalPassFailure();
    }
    Registers registers{vectorBits / 32, numRegisters};
    SmallVector<KernelOp> kernels;
    SmallVector<LaunchOp> launches;
    getOperation().walk([&](Operation *op) {
      if (auto kernel = dyn_cast<KernelOp>(op))
        kernels.push_back(kernel);
      else if (auto launch = dyn_cast<LaunchOp>(op))
        launches.push_back(launch);
    });
    IRRewriter rewriter(&getContext());
    for (KernelOp kernel : kernels)
      if (failed(convertKernel(rewriter, kernel, registers)))
        return signalPassFailure();
    getOperation().walk([&](FaultWordOp op) {
      // The runtime gives the word of the host without fail.
      rewriter.setInsertionPoint(op);
      auto function = op->getParentOfType<FunctionOpInterface>();
      attn::RuntimeMemRef word = attn::emitFaultWord(
          rewriter, op.getLoc(), getOperation(),
          cast<MemRefType>(op.getWord().getType()), ATTNRT_KIND_HOST,
          &function.getFunctionBody().front());
      rewriter.replaceOp(op, word.memref);
    });
    for (LaunchOp launch : launches) {
      if (!launch.getGrid().empty()) {
        launch.emitOpError("must have no grid for the host");
        return signalPassFailure();
      }
      rewriter.setInsertionPoint(launch);
      rewriter.replaceOpWithNewOp<func::CallOp>(
          launch, launch.getKernel(), TypeRange(), launch.getKernelOperands());
    }
  }

private:
  LogicalResult convertKernel(IRRewriter &rewriter, KernelOp kernel,
                              Registers registers) {
    kernel.walk([&](KeyTilesOp op) { expandKeyTiles(rewriter, op); });
    rewriter.setInsertionPoint(kernel);
    auto function =
        func::FuncOp::create(rewriter, kernel.getLoc(), kernel.getSymName(),
                             kernel.getFunctionType());
    function.setPrivate();
    if (failed(TileEmitter(rewriter, kernel.getLoc(), registers)
                   .emitKernel(kernel, function)))
      return failure();
    rewriter.eraseOp(kernel);

    RewritePatternSet patterns(&getContext());
    vector::populateVectorTransposeLoweringPatterns(
        patterns, vector::VectorTransposeLowering::Shuffle16x16);
    return applyPatternsGreedily(function, std::move(patterns));
  }
};
} // namespace
