//===- Inverse.cpp - Inversion of triangular tiles ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lowers the inversion of the identity plus a triangular tile. The tile is in
// shared memory meanwhile, and becomes its inverse block by block. The quarter
// above the diagonal holds intermediate results.
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::attn;
using namespace mlir::attn_tile;

namespace {
/// Emits the inversion of a tile of `size` rows.
class InverseEmitter {
public:
  InverseEmitter(OpBuilder &builder, Location loc, Value address,
                 const ThreadPosition &position, int64_t size)
      : builder(builder), loc(loc), base(address), thread(position.thread),
        warp(position.warp), size(size) {}

  /// Inverts the blocks on the diagonal, one for each warp.
  void invertDiagonal();
  /// Makes inverses of blocks of `half` rows to inverses of blocks twice as
  /// large.
  void joinBlocks(int64_t half);
  void storePair(Value row, Value column, Value first, Value second);
  /// Loads two neighbours; elements above the diagonal are zero.
  std::pair<Value, Value> loadPair(Value row, Value column);

  static constexpr int64_t blockRows = 16;

private:
  static constexpr int64_t elementBytes = 4, neighbours = 4;

  Value constant(int64_t value) { return createI32(builder, loc, value); }
  Value add(Value lhs, Value rhs) {
    return arith::AddIOp::create(builder, loc, lhs, rhs);
  }
  Value mul(Value lhs, int64_t rhs) {
    return arith::MulIOp::create(builder, loc, lhs, constant(rhs));
  }
  Value f32(double value) {
    return arith::ConstantOp::create(builder, loc,
                                     builder.getF32FloatAttr(float(value)));
  }
  Value fma(Value lhs, Value rhs, Value sum) {
    return LLVM::FMAOp::create(builder, loc, lhs, rhs, sum);
  }
  Value getPointer(Value row, Value column);
  SmallVector<Value> load(Value row, Value column);
  void store(Value row, Value column, ValueRange values);
  SmallVector<Value> multiply(int64_t depth, int64_t columns, Value lhsRow,
                              Value lhsColumn, Value rhsRow, Value rhsColumn);

  OpBuilder &builder;
  Location loc;
  Value base, thread, warp;
  int64_t size;
};
} // namespace

/// The address of an element. Groups of eight columns, of which a row has eight
/// at least, are permuted in each row, so that neighbouring rows are in
/// different banks.
Value InverseEmitter::getPointer(Value row, Value column) {
  constexpr int64_t groupBits = 3, rowsOfPattern = 8;
  Value pattern = arith::ShLIOp::create(
      builder, loc,
      arith::AndIOp::create(builder, loc, row, constant(rowsOfPattern - 1)),
      constant(groupBits));
  Value permuted = arith::XOrIOp::create(builder, loc, column, pattern);
  Value offset = mul(add(mul(row, size), permuted), elementBytes);
  auto pointer = LLVM::LLVMPointerType::get(
      builder.getContext(),
      static_cast<unsigned>(NVVM::NVVMMemorySpace::Shared));
  return LLVM::IntToPtrOp::create(builder, loc, pointer, add(base, offset));
}

SmallVector<Value> InverseEmitter::load(Value row, Value column) {
  auto type = VectorType::get(neighbours, builder.getF32Type());
  Value words = LLVM::LoadOp::create(
      builder, loc, type, getPointer(row, column), neighbours * elementBytes);
  SmallVector<Value> values;
  for (int64_t i = 0; i < neighbours; ++i)
    values.push_back(
        LLVM::ExtractElementOp::create(builder, loc, words, constant(i)));
  return values;
}

void InverseEmitter::store(Value row, Value column, ValueRange values) {
  for (int64_t i = 0, e = int64_t(values.size()); i < e; i += neighbours)
    LLVM::StoreOp::create(
        builder, loc, joinWords(builder, loc, values.slice(i, neighbours)),
        getPointer(row, add(column, constant(i))), neighbours * elementBytes);
}

void InverseEmitter::storePair(Value row, Value column, Value first,
                               Value second) {
  LLVM::StoreOp::create(builder, loc, joinWords(builder, loc, {first, second}),
                        getPointer(row, column), 2 * elementBytes);
}

std::pair<Value, Value> InverseEmitter::loadPair(Value row, Value column) {
  auto type = VectorType::get(2, builder.getF32Type());
  Value words = LLVM::LoadOp::create(builder, loc, type,
                                     getPointer(row, column), 2 * elementBytes);
  auto get = [&](int64_t i) -> Value {
    Value value =
        LLVM::ExtractElementOp::create(builder, loc, words, constant(i));
    Value isBelow = arith::CmpIOp::create(
        builder, loc, arith::CmpIPredicate::sge, row, add(column, constant(i)));
    return arith::SelectOp::create(builder, loc, isBelow, value, f32(0));
  };
  return {get(0), get(1)};
}

/// A lane has a column, whose rows are known one after the other. The second
/// half of a warp repeats the first one, and stores nothing.
void InverseEmitter::invertDiagonal() {
  Value first = mul(warp, blockRows);
  Value lane =
      arith::AndIOp::create(builder, loc, thread, constant(warpThreads - 1));
  Value number =
      arith::AndIOp::create(builder, loc, lane, constant(blockRows - 1));
  SmallVector<Value> rows;
  for (int64_t row = 0; row < blockRows; ++row) {
    Value isDiagonal = arith::CmpIOp::create(
        builder, loc, arith::CmpIPredicate::eq, number, constant(row));
    Value sum = f32(0);
    for (int64_t other = 0; other < row; other += neighbours) {
      SmallVector<Value> factors =
          load(add(first, constant(row)), add(first, constant(other)));
      for (int64_t i = other; i < std::min(row, other + neighbours); ++i)
        sum = fma(factors[i - other], rows[i], sum);
    }
    Value unit =
        arith::SelectOp::create(builder, loc, isDiagonal, f32(1), f32(0));
    rows.push_back(arith::SubFOp::create(builder, loc, unit, sum));
  }
  NVVM::SyncWarpOp::create(builder, loc, constant(-1));
  emitIf(builder, loc, emitLess(builder, loc, lane, constant(blockRows)),
         [&](OpBuilder &) {
           for (auto [row, value] : llvm::enumerate(rows))
             LLVM::StoreOp::create(
                 builder, loc, value,
                 getPointer(add(first, constant(row)), add(first, number)),
                 elementBytes);
         });
  NVVM::Barrier0Op::create(builder, loc);
}

/// A row of `columns` elements of a matmul over `depth` elements.
SmallVector<Value> InverseEmitter::multiply(int64_t depth, int64_t columns,
                                            Value lhsRow, Value lhsColumn,
                                            Value rhsRow, Value rhsColumn) {
  SmallVector<Value> sums(columns, f32(0));
  for (int64_t k = 0; k < depth; k += neighbours) {
    SmallVector<Value> factors = load(lhsRow, add(lhsColumn, constant(k)));
    for (int64_t i = 0; i < neighbours; ++i)
      for (int64_t column = 0; column < columns; column += neighbours) {
        SmallVector<Value> values = load(add(rhsRow, constant(k + i)),
                                         add(rhsColumn, constant(column)));
        for (auto [j, value] : llvm::enumerate(values))
          sums[column + j] = fma(factors[i], value, sums[column + j]);
      }
  }
  return sums;
}

void InverseEmitter::joinBlocks(int64_t half) {
  constexpr int64_t threadsOfRow = 4;
  int64_t threads = threadsOfRow * half, columns = half / threadsOfRow;
  Value pair = arith::DivUIOp::create(builder, loc, thread, constant(threads));
  Value inPair =
      arith::RemUIOp::create(builder, loc, thread, constant(threads));
  Value row =
      arith::DivUIOp::create(builder, loc, inPair, constant(threadsOfRow));
  Value column =
      mul(arith::RemUIOp::create(builder, loc, inPair, constant(threadsOfRow)),
          columns);
  Value upper = mul(pair, 2 * half), lower = add(upper, constant(half));
  // The first results of all pairs are side by side above the diagonal.
  Value product = add(mul(pair, half), constant(size / 2));
  Value lowerRow = add(lower, row);
  SmallVector<Value> right =
      multiply(half, columns, lowerRow, upper, upper, add(upper, column));
  store(row, add(product, column), right);
  NVVM::Barrier0Op::create(builder, loc);
  SmallVector<Value> below = multiply(half, columns, lowerRow, lower,
                                      constant(0), add(product, column));
  for (Value &value : below)
    value = arith::NegFOp::create(builder, loc, value);
  store(lowerRow, add(upper, column), below);
  NVVM::Barrier0Op::create(builder, loc);
}

namespace {
struct InvertTriangularLowering : public KernelPattern<InvertTriangularOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(InvertTriangularOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    auto type = cast<VectorType>(op.getTile().getType());
    int64_t size = type.getDimSize(0);
    if (!op.getPipe())
      return op.emitOpError("has no pipe; attn-tile-create-pipes gives it one");
    ThreadPosition position = context.getPosition(rewriter, op);
    int64_t warps = position.numThreads / warpThreads;
    if (op->getParentOfType<RoleOp>() ||
        size != warps * InverseEmitter::blockRows)
      return op.emitOpError("must be of all warps of a kernel without roles, ")
             << InverseEmitter::blockRows << " rows for each (was " << size
             << " rows for " << warps << " warps)";
    InverseEmitter emitter(rewriter, loc, adaptor.getPipe().front(), position,
                           size);
    NVVM::Barrier0Op::create(rewriter, loc);
    SmallVector<Value> registers(adaptor.getTile());
    forPairs(rewriter, loc, type, position.thread,
             [&](int64_t number, Value row, Value column) {
               emitter.storePair(row, column, registers[number],
                                 registers[number + 1]);
             });
    NVVM::Barrier0Op::create(rewriter, loc);
    emitter.invertDiagonal();
    for (int64_t half = InverseEmitter::blockRows; half < size; half *= 2)
      emitter.joinBlocks(half);
    forPairs(rewriter, loc, type, position.thread,
             [&](int64_t number, Value row, Value column) {
               std::tie(registers[number], registers[number + 1]) =
                   emitter.loadPair(row, column);
             });
    rewriter.replaceOpWithMultiple(op,
                                   SmallVector<SmallVector<Value>>{registers});
    return success();
  }

private:
  /// Runs `body` for the places of two neighbours in a row that the thread
  /// holds, and the number of the register of the first one.
  void forPairs(OpBuilder &builder, Location loc, VectorType type, Value thread,
                function_ref<void(int64_t, Value, Value)> body) const {
    Value firstRow = context.layout.emitBaseRow(builder, loc, thread);
    Value firstColumn = context.layout.emitBaseColumn(builder, loc, thread);
    int64_t rows = context.getRows(type), columns = context.getColumns(type);
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; column += 2)
        body(row * columns + column,
             emitAdd(builder, loc, firstRow, context.layout.getRowOffset(row)),
             emitAdd(builder, loc, firstColumn,
                     context.layout.getColumnOffset(column)));
  }
};
} // namespace

void attn::populateInversePatterns(RewritePatternSet &patterns,
                                   const TypeConverter &converter,
                                   const KernelContext &context) {
  patterns.add<InvertTriangularLowering>(converter, patterns.getContext(),
                                         context);
}
