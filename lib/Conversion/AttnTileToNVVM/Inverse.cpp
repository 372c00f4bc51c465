//===- Inverse.cpp - Inversion of triangular tiles ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lowers the inversion of the identity plus a triangular tile. The negated tile
// is in shared memory meanwhile, and becomes the inverse block by block.
//
// Each warp inverts 16 rows on the diagonal by substitution in f32. Blocks are
// joined by MMAs with three tf32 terms, whose operands are in the order of the
// accumulator (`#attn_tile.mma_sync`). A warp computes eight columns of both
// matmuls of a join, so that the second one reads no first result of another
// warp.
//
// The quarter of the tile above the diagonal holds the first results. The last
// join also stores its second results there: other warps may still read the
// negated tile below the diagonal.
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"
#include "attn/Target/MmaSync.h"

using namespace mlir;
using namespace mlir::attn;
using namespace mlir::attn_tile;

namespace {
/// Emits the inversion of a tile of `size` rows. The place of an element is the
/// offset of another one, which depends on the lane, and a constant row and
/// column that are added to its row and column without a carry.
class InverseEmitter {
public:
  InverseEmitter(OpBuilder &builder, Location loc, Value address,
                 const ThreadPosition &position, int64_t size);

  /// Stores the negated tile, of which a thread holds `registers`.
  void storeTile(const KernelContext &context, VectorType type,
                 ValueRange registers);
  /// Inverts the blocks on the diagonal, one for each warp.
  void invertDiagonal();
  /// Makes inverses of blocks of `half` rows to inverses of blocks twice as
  /// large.
  void joinBlocks(int64_t half);
  /// The registers of the inverse.
  SmallVector<Value> loadInverse(const KernelContext &context, VectorType type);

  static constexpr int64_t blockRows = 16;

private:
  static constexpr int64_t elementBytes = 4, mmaColumns = 8, halfBlock = 8;
  static constexpr int64_t numTerms = 3;
  /// One accumulator for each term, so that fewer MMAs wait for one another.
  using Sums = std::array<MmaBlock, numTerms>;

  Value constant(int64_t value) { return createI32(builder, loc, value); }
  Value add(Value lhs, Value rhs) {
    return arith::AddIOp::create(builder, loc, lhs, rhs);
  }
  Value mul(Value lhs, int64_t rhs) {
    return arith::MulIOp::create(builder, loc, lhs, constant(rhs));
  }
  Value bitAnd(Value lhs, int64_t rhs) {
    return arith::AndIOp::create(builder, loc, lhs, constant(rhs));
  }
  Value f32(double value) {
    return arith::ConstantOp::create(builder, loc,
                                     builder.getF32FloatAttr(float(value)));
  }
  Value select(Value condition, Value first, Value second) {
    return arith::SelectOp::create(builder, loc, condition, first, second);
  }
  Value isAtLeast(Value value, int64_t bound) {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::uge, value,
                                 constant(bound));
  }

  static int64_t getPattern(int64_t row);
  Value getOffset(Value row, Value column);
  Value getPointer(Value offset, int64_t row, int64_t column);
  SmallVector<Value> load(int64_t count, Value offset, int64_t row,
                          int64_t column);
  void store(ValueRange values, Value offset, int64_t row, int64_t column);
  void forPairs(
      const KernelContext &context, VectorType type,
      function_ref<void(int64_t number, int64_t row, int64_t column)> body);

  SmallVector<Value> substitute(Value block, int64_t first, ValueRange sums);
  SmallVector<Value> addUpperRows(Value first, ValueRange rows);

  MmaFragment loadLhs(Value offset, int64_t row, int64_t column);
  MmaFragment loadRhs(Value offset, int64_t row);
  SmallVector<Sums> makeSums(int64_t half);
  void multiply(const MmaFragment &lhs, const MmaFragment &rhs, Sums &sums);
  void addTo(MmaBlock &sums, const MmaBlock &values);
  void storeSums(ArrayRef<Sums> sums, Value offset);

  OpBuilder &builder;
  Location loc;
  MmaAttrInterface mma;
  Value base, warp, lane;
  /// A lane's row and first column of eight of an accumulator.
  Value laneRow, laneColumn;
  int64_t size;
};
} // namespace

InverseEmitter::InverseEmitter(OpBuilder &builder, Location loc, Value address,
                               const ThreadPosition &position, int64_t size)
    : builder(builder), loc(loc),
      mma(MmaSyncAttr::get(builder.getContext(),
                           FloatTF32Type::get(builder.getContext()), numTerms)),
      base(address), warp(position.warp), size(size) {
  lane = bitAnd(position.thread, warpThreads - 1);
  laneRow = arith::ShRUIOp::create(builder, loc, lane, constant(2));
  laneColumn = mul(bitAnd(lane, 3), 2);
}

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

/// Groups of eight columns, of which a row has eight at least, are permuted in
/// each row. Rows 0 to 3, 4 to 7, the even and the odd ones of eight are each
/// in different banks: the first ones for operands on the left and results, the
/// latter for operands on the right. The pattern of a row is the exclusive or
/// of the patterns of its bits.
int64_t InverseEmitter::getPattern(int64_t row) {
  return (row ^ (row >> 2 & 1)) & 7;
}

/// The offset of an element, in bytes.
Value InverseEmitter::getOffset(Value row, Value column) {
  Value highest =
      bitAnd(arith::ShRUIOp::create(builder, loc, row, constant(2)), 1);
  Value pattern = bitAnd(arith::XOrIOp::create(builder, loc, row, highest), 7);
  Value permuted =
      arith::XOrIOp::create(builder, loc, column, mul(pattern, mmaColumns));
  return mul(add(mul(row, size), permuted), elementBytes);
}

Value InverseEmitter::getPointer(Value offset, int64_t row, int64_t column) {
  int64_t permuted = column ^ (getPattern(row) * mmaColumns);
  Value inRow = arith::XOrIOp::create(builder, loc, offset,
                                      constant(permuted * elementBytes));
  auto type = LLVM::LLVMPointerType::get(
      builder.getContext(),
      static_cast<unsigned>(NVVM::NVVMMemorySpace::Shared));
  Value pointer =
      LLVM::IntToPtrOp::create(builder, loc, type, add(base, inRow));
  return LLVM::GEPOp::create(
      builder, loc, type, builder.getI8Type(), pointer,
      ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(row * size * elementBytes)});
}

SmallVector<Value> InverseEmitter::load(int64_t count, Value offset,
                                        int64_t row, int64_t column) {
  Type f32 = builder.getF32Type();
  Value words = LLVM::LoadOp::create(
      builder, loc, count == 1 ? f32 : VectorType::get(count, f32),
      getPointer(offset, row, column), unsigned(count * elementBytes));
  if (count == 1)
    return {words};
  SmallVector<Value> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(
        LLVM::ExtractElementOp::create(builder, loc, words, constant(i)));
  return values;
}

void InverseEmitter::store(ValueRange values, Value offset, int64_t row,
                           int64_t column) {
  LLVM::StoreOp::create(
      builder, loc,
      values.size() == 1 ? values[0] : joinWords(builder, loc, values),
      getPointer(offset, row, column), unsigned(values.size() * elementBytes));
}

/// Runs `body` for two neighbours in a row that a thread holds: the number of
/// the register of the first one, and its place from the thread's first one on.
void InverseEmitter::forPairs(
    const KernelContext &context, VectorType type,
    function_ref<void(int64_t number, int64_t row, int64_t column)> body) {
  int64_t rows = context.getRows(type), columns = context.getColumns(type);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; column += 2)
      body(row * columns + column, context.layout.getRowOffset(row),
           context.layout.getColumnOffset(column));
}

/// Each warp stores the rows of its block.
void InverseEmitter::storeTile(const KernelContext &context, VectorType type,
                               ValueRange registers) {
  Value offset = getOffset(add(mul(warp, blockRows), laneRow), laneColumn);
  auto negate = [&](Value value) -> Value {
    return arith::NegFOp::create(builder, loc, value);
  };
  forPairs(context, type, [&](int64_t number, int64_t row, int64_t column) {
    store({negate(registers[number]), negate(registers[number + 1])}, offset,
          row, column);
  });
}

SmallVector<Value> InverseEmitter::loadInverse(const KernelContext &context,
                                               VectorType type) {
  Value row = add(mul(warp, blockRows), laneRow);
  Value isBelow = isAtLeast(row, size / 2);
  Value half = constant(size / 2);
  Value offset = getOffset(row, laneColumn);
  Value ofQuarter =
      getOffset(arith::SubIOp::create(builder, loc, row, half),
                arith::OrIOp::create(builder, loc, laneColumn, half));
  Value left = select(isBelow, ofQuarter, offset);
  SmallVector<Value> registers;
  forPairs(context, type, [&](int64_t, int64_t row, int64_t column) {
    bool isRight = column >= size / 2;
    for (Value value : load(2, isRight ? offset : left, row, column))
      registers.push_back(isRight ? select(isBelow, value, f32(0)) : value);
  });
  return registers;
}

//===----------------------------------------------------------------------===//
// Substitution
//===----------------------------------------------------------------------===//

/// Rows of the column of a lane of an inverse, given `sums` over the rows
/// before `first`. `block` is the first element of the negated tile. Rows are
/// known one after the other.
SmallVector<Value> InverseEmitter::substitute(Value block, int64_t first,
                                              ValueRange sums) {
  constexpr int64_t words = 4;
  SmallVector<Value> rows;
  for (int64_t row = 0, e = int64_t(sums.size()); row < e; ++row) {
    Value sum = sums[row];
    for (int64_t other = 0; other < row; other += words) {
      SmallVector<Value> factors =
          load(words, block, first + row, first + other);
      for (int64_t i = other; i < std::min(row, other + words); ++i)
        sum =
            LLVM::FMAOp::create(builder, loc, factors[i - other], rows[i], sum);
    }
    rows.push_back(sum);
  }
  return rows;
}

/// Sums of the rows from `halfBlock` on over `rows`, which are before. Half a
/// warp adds up half of the rows.
SmallVector<Value> InverseEmitter::addUpperRows(Value first, ValueRange rows) {
  constexpr int64_t words = 4;
  Value isSecond = isAtLeast(lane, warpThreads / 2);
  Value row = select(isSecond, constant(halfBlock / 2), constant(0));
  Value offset = getOffset(add(first, row), first);
  SmallVector<Value> upper, lower;
  for (int64_t i = 0; i < halfBlock / 2; ++i) {
    Value sum = f32(0);
    for (int64_t k = 0; k < halfBlock; k += words)
      for (auto [j, factor] :
           llvm::enumerate(load(words, offset, halfBlock + i, k)))
        sum = LLVM::FMAOp::create(builder, loc, factor, rows[k + int64_t(j)],
                                  sum);
    Value other = emitShuffle(builder, loc, sum, warpThreads / 2);
    upper.push_back(select(isSecond, other, sum));
    lower.push_back(select(isSecond, sum, other));
  }
  llvm::append_range(upper, lower);
  return upper;
}

/// A lane has a column, and so has one of the other half of the warp.
void InverseEmitter::invertDiagonal() {
  Value first = mul(warp, blockRows);
  Value column = bitAnd(lane, blockRows - 1);
  SmallVector<Value> units;
  for (int64_t row = 0; row < blockRows; ++row) {
    Value isDiagonal = arith::CmpIOp::create(
        builder, loc, arith::CmpIPredicate::eq, column, constant(row));
    units.push_back(select(isDiagonal, f32(1), f32(0)));
  }
  Value block = getOffset(first, first);
  SmallVector<Value> rows =
      substitute(block, 0, ValueRange(units).take_front(halfBlock));
  SmallVector<Value> sums = addUpperRows(first, rows);
  for (auto [row, sum] : llvm::enumerate(sums))
    sum = arith::AddFOp::create(builder, loc, units[halfBlock + row], sum);
  llvm::append_range(rows, substitute(block, halfBlock, sums));
  NVVM::SyncWarpOp::create(builder, loc, constant(-1));
  // Both halves of a warp store, to different banks: rows whose bit 1 is 0, and
  // the others.
  constexpr int64_t bit = 2;
  Value isSecond = isAtLeast(lane, warpThreads / 2);
  Value ofHalf = select(isSecond, constant(bit), constant(0));
  Value offset = getOffset(add(first, ofHalf), add(first, column));
  for (int64_t row = 0; row < blockRows; ++row)
    if ((row & bit) == 0)
      store(select(isSecond, rows[row + bit], rows[row]), offset, row, 0);
  NVVM::Barrier0Op::create(builder, loc);
}

//===----------------------------------------------------------------------===//
// Joins
//===----------------------------------------------------------------------===//

/// The operand of 16 rows and eight columns.
MmaFragment InverseEmitter::loadLhs(Value offset, int64_t row, int64_t column) {
  SmallVector<Value> upper = load(2, offset, row, column);
  SmallVector<Value> lower = load(2, offset, row + halfBlock, column);
  return makeMmaFragment(builder, loc, mma,
                         {upper[0], lower[0], upper[1], lower[1]},
                         TF32Split::Rounded);
}

/// The operand of eight rows.
MmaFragment InverseEmitter::loadRhs(Value offset, int64_t row) {
  Value first = load(1, offset, row, 0)[0];
  Value second = load(1, offset, row + 1, 0)[0];
  return makeMmaFragment(builder, loc, mma, {first, second},
                         TF32Split::Rounded);
}

/// Sums for each 16 rows of `half` rows: zeros, but none yet of the largest
/// term.
SmallVector<InverseEmitter::Sums> InverseEmitter::makeSums(int64_t half) {
  Sums sums;
  for (MmaBlock &block : MutableArrayRef(sums).drop_back())
    block.fill(f32(0));
  return SmallVector<Sums>(half / blockRows, sums);
}

/// Tensor cores truncate when they accumulate: f32 additions round the term
/// that is not small.
void InverseEmitter::multiply(const MmaFragment &lhs, const MmaFragment &rhs,
                              Sums &sums) {
  auto terms = getMmaTerms(lhs, rhs);
  for (auto [term, block] : llvm::zip_equal(ArrayRef(terms).drop_back(),
                                            MutableArrayRef(sums).drop_back()))
    emitMmaSync(builder, loc, mma, term.first, term.second, block);
  MmaBlock largest;
  largest.fill(f32(0));
  emitMmaSync(builder, loc, mma, terms.back().first, terms.back().second,
              largest);
  addTo(sums.back(), largest);
}

/// Adds `values` to `sums`, which may not have begun.
void InverseEmitter::addTo(MmaBlock &sums, const MmaBlock &values) {
  for (auto [sum, value] : llvm::zip_equal(sums, values))
    sum = sum ? arith::AddFOp::create(builder, loc, sum, value).getResult()
              : value;
}

/// Stores results of 16 rows each, the smallest terms added first.
void InverseEmitter::storeSums(ArrayRef<Sums> sums, Value offset) {
  for (auto [number, ofRows] : llvm::enumerate(sums)) {
    MmaBlock result = ofRows[0];
    for (const MmaBlock &block : ArrayRef(ofRows).drop_front())
      addTo(result, block);
    int64_t row = int64_t(number) * blockRows;
    store(ArrayRef(result).take_front(2), offset, row, 0);
    store(ArrayRef(result).drop_front(2), offset, row + halfBlock, 0);
  }
}

/// Below the diagonal, the inverse of a pair of blocks is the inverse of the
/// second one times the negated tile times the inverse of the first one.
void InverseEmitter::joinBlocks(int64_t half) {
  bool isLast = 2 * half == size;
  int64_t warps = 2 * half / blockRows;
  Value pair = arith::DivUIOp::create(builder, loc, warp, constant(warps));
  Value tile = arith::RemUIOp::create(builder, loc, warp, constant(warps));
  Value first = mul(pair, 2 * half), second = add(first, constant(half));
  Value inPair = mul(tile, mmaColumns), column = add(first, inPair);
  // The first results of all pairs are side by side above the diagonal.
  Value aside = add(add(mul(pair, half), constant(size / 2)), inPair);
  Value asideOffset = getOffset(laneRow, add(aside, laneColumn));
  Value lhs = getOffset(add(second, laneRow), add(first, laneColumn));

  // Above the diagonal, the inverse of the first block is zero.
  Value rhs = getOffset(add(first, laneColumn), add(column, laneRow));
  SmallVector<Sums> right = makeSums(half);
  for (int64_t k = 0; k < half; k += mmaColumns) {
    MmaFragment values = loadRhs(rhs, k);
    for (auto [number, sums] : llvm::enumerate(right))
      multiply(loadLhs(lhs, int64_t(number) * blockRows, k), values, sums);
  }
  storeSums(right, asideOffset);

  // No row of the inverse of the second block has elements beyond its own.
  auto getFirstBlock = [](int64_t k) { return k / blockRows; };
  SmallVector<MmaFragment> inverse;
  for (int64_t k = 0; k < half; k += mmaColumns)
    for (int64_t block = getFirstBlock(k); block < half / blockRows; ++block)
      inverse.push_back(loadLhs(lhs, block * blockRows, half + k));
  if (isLast)
    NVVM::SyncWarpOp::create(builder, loc, constant(-1));
  else
    NVVM::Barrier0Op::create(builder, loc);
  rhs = getOffset(laneColumn, add(aside, laneRow));
  SmallVector<Sums> below = makeSums(half);
  const MmaFragment *factors = inverse.begin();
  for (int64_t k = 0; k < half; k += mmaColumns) {
    MmaFragment values = loadRhs(rhs, k);
    for (Sums &sums : MutableArrayRef(below).drop_front(getFirstBlock(k)))
      multiply(*factors++, values, sums);
  }
  if (isLast)
    NVVM::SyncWarpOp::create(builder, loc, constant(-1));
  storeSums(below,
            isLast ? asideOffset
                   : getOffset(add(second, laneRow), add(column, laneColumn)));
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
    emitter.storeTile(context, type, adaptor.getTile());
    NVVM::SyncWarpOp::create(rewriter, loc, createI32(rewriter, loc, -1));
    emitter.invertDiagonal();
    for (int64_t half = InverseEmitter::blockRows; half < size; half *= 2)
      emitter.joinBlocks(half);
    rewriter.replaceOpWithMultiple(op, SmallVector<SmallVector<Value>>{
                                           emitter.loadInverse(context, type)});
    return success();
  }
};
} // namespace

void attn::populateInversePatterns(RewritePatternSet &patterns,
                                   const TypeConverter &converter,
                                   const KernelContext &context) {
  patterns.add<InvertTriangularLowering>(converter, patterns.getContext(),
                                         context);
}
