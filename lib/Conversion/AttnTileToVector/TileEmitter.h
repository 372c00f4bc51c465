//===- TileEmitter.h - Tiled programs on the host --------------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes the body of a kernel as loops over vectors. The methods are in the
// file of their subject: tiles and buffers in Tiles.cpp, loads and stores in
// Memory.cpp, elementwise operations and reductions in Elementwise.cpp,
// contractions in Contractions.cpp, loops in ControlFlow.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTILETOVECTOR_TILEEMITTER_H
#define ATTN_LIB_CONVERSION_ATTNTILETOVECTOR_TILEEMITTER_H

#include "RegionVectorizer.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/IR/RegisterBlocks.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <functional>

namespace mlir::attn_tile {

/// The size of a cache line, and of the widest vector registers.
inline constexpr int64_t bufferAlignment = 64;

/// The type of tiles; null for anything else, row vectors included.
inline VectorType getTileType(Value value) {
  auto type = dyn_cast<VectorType>(value.getType());
  return type && type.getRank() == 2 ? type : VectorType();
}

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
  /// Emits an operation that is not of kernels alone.
  LogicalResult emitOther(Operation &op);
  void emitAssumeUpperBound(attn_tile::AssumeUpperBoundOp op);
  LogicalResult emitFor(scf::ForOp op);
  /// The buffers of the tiles that `op` carries, which hold its results, too;
  /// null for other values.
  SmallVector<Value> makeCarriedBuffers(scf::ForOp op);
  /// Copies yielded tiles to `buffers` and yields the other values.
  void emitYield(scf::YieldOp op, ArrayRef<Value> buffers);
  LogicalResult emitForall(scf::ForallOp op);
  void emitReduce(ReduceOp op);
  void emitWarpCompact(WarpCompactOp op);
  void emitEach(ThreadForOp op);
  /// Copies the body of a scalar region.
  void emitScalars(Block &block);
  /// Reads an element of a memref, zero if it is empty.
  void emitRead(memref::LoadOp load);
  LogicalResult emitIf(scf::IfOp op);
  LogicalResult emitLoad(LoadOp op);
  LogicalResult emitStore(StoreOp op);
  LogicalResult emitBulkReduceAdd(BulkReduceAddOp op);
  LogicalResult emitStoreFragments(StoreFragmentsOp op);
  LogicalResult emitLoadFragments(LoadFragmentsOp op);
  LogicalResult emitContraction(vector::ContractionOp op);
  /// Emits the products of the rows and columns of a block of registers, from
  /// `row` and `column` on.
  SmallVector<Value> emitProducts(Value lhs, Value rhs, int64_t depth,
                                  const attn_tile::RegisterBlock &block,
                                  Value row, Value column);
  LogicalResult emitReduction(vector::MultiDimReductionOp op);
  void emitSubtractRows(SubtractRowsOp op);
  void emitRescale(RescaleOp op);
  /// Makes `result` the tile of `fn` of the elements of `source` and the
  /// entries of `rows`.
  void emitWithRows(Value source, Value rows, OpResult result,
                    std::function<Value(Value piece, Value row)> fn);
  LogicalResult emitPartialSum(PartialSumOp op);
  LogicalResult emitElementwise(Operation &op);
  LogicalResult emitBroadcast(vector::BroadcastOp op);
  LogicalResult emitShapeCast(vector::ShapeCastOp op);
  LogicalResult emitConstant(arith::ConstantOp op);
  LogicalResult emitMap(MapOp op);
  void emitMask(MaskOp op);
  void emitScatterAdd(ScatterAddOp op);
  using PieceFn = std::function<Value(Value row, Value column, int64_t lanes)>;
  /// Emits whether pairs are kept, as a vector of bits, from vectors of their
  /// positions.
  using IsKeptFn = std::function<Value(Value query, Value key)>;
  /// Returns the function that emits pieces of the keep mask of a tile.
  PieceFn emitKeepMask(KeepMaskType type, Value firstQuery, Value firstKey,
                       IsKeptFn isKept);
  void emitGenerateKeepMask(GenerateKeepMaskOp op);
  void emitLoadKeepMask(LoadKeepMaskOp op);
  /// The value that `emitValue` emits, or `otherwise` where `source` has no
  /// elements.
  Value emitUnlessEmpty(Value source, function_ref<Value()> emitValue,
                        Value otherwise);
  void emitDropout(DropoutOp op);

  //===--------------------------------------------------------------------===//
  // Tiles
  //===--------------------------------------------------------------------===//

  /// Registers the tile of `result`: as an expression if it is used once, in
  /// its own block, else as a buffer.
  void setTile(OpResult result, Tile tile);
  /// Registers a tile whose elements need so much code that it is emitted once,
  /// in loops, instead of at each use.
  void setLongTile(OpResult result, const Tile &tile);
  void setBuffer(Value result, Value buffer);
  /// The tile, of element type `element`, that a buffer holds.
  Tile getBufferTile(Value buffer, Type element);
  /// Evaluates a tile into `buffer`.
  void fill(Value buffer, const Tile &tile);
  /// The buffer of a tile that is an operand of a contraction.
  Value getBuffer(Value value);
  /// The same, transposed.
  Value getTransposedBuffer(Value value);
  /// A buffer with the values of a row vector.
  Value getRows(Value vector);
  /// Transposes `source` into `target`. Rows and columns of `source` start at
  /// the last two of `indices`.
  void emitTranspose(Value source, ValueRange indices, int64_t columns,
                     Value target);
  void emitTileCopy(LoadOp op, Value buffer);
  /// Copies `rows` rows from `indices` on to `buffer`, from row `first` on.
  void emitRowCopy(Value source, ValueRange indices, Value buffer, Value first,
                   Value rows);
  /// Makes rows of `buffer` from `first` on zero, up to `end`.
  void emitZeroRows(Value buffer, Value first, Value end);
  /// Copies a tile of rows that an addressing stores to `buffer`.
  void emitStoredCopy(LoadOp op, Value buffer);
  /// Copies a tile of pages to `buffer`.
  void emitPagedCopy(LoadOp op, Value buffer);
  /// Calls `emit` for each element of a tile in fragment order, with its row,
  /// column and index in `memref`.
  template <typename EmitFn>
  void forEachPacked(Value memref, ValueRange indices, VectorType tile,
                     EmitFn emit);
  template <typename OpTy>
  void forEachFragment(OpTy op,
                       function_ref<void(Value, Value, ValueRange)> emit);

  Value makeBuffer(ArrayRef<int64_t> shape, Type element);
  /// Releases the buffers taken since `takenBuffers` had `mark` elements; tiles
  /// in them must be dead.
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
  /// The number of rows of `memref` from `first` on, clamped to [0, `rows`].
  Value countRows(Value memref, Value first, int64_t rows);
  /// The number of rows of the tile of `op` that exist and belong to its
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
  /// The mask of the elements of a row vector that belong to its sequence; null
  /// without sequences.
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
  /// The position of a piece of a row of the tile of a map or mask.
  template <typename OpTy>
  RowPiece getRowPiece(OpTy op, Value row, Value column, int64_t lanes);
  Value lookup(Value value) { return mapping.lookupOrDefault(value); }

  ImplicitLocOpBuilder b;
  Registers registers;
  /// Values that are not tiles.
  IRMapping mapping;
  DenseMap<Value, Tile> tiles;
  /// Keep masks of dropout.
  DenseMap<Value, PieceFn> keepMasks;
  DenseMap<Value, Value> transposed;
  DenseMap<MemRefType, SmallVector<Value>> freeBuffers;
  SmallVector<Value> takenBuffers;
  /// The block in which buffers of the current work item are allocated.
  Block *bufferBlock = nullptr;
};

} // namespace mlir::attn_tile

#endif // ATTN_LIB_CONVERSION_ATTNTILETOVECTOR_TILEEMITTER_H
