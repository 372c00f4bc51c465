//===- MaskArea.cpp - Number of scores that a mask leaves -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Evaluates named masks at some rows, and the code that finds the tiles of
// rows.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/MaskArea.h"
#include "attn/Analysis/MaskTiles.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/Attn/IR/TileDensity.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>
#include <tuple>

using namespace mlir;
using namespace mlir::attn;

/// Calls `visit` for at most `most` elements of `[0, size)` at equal distances,
/// each with the number of elements that it stands for.
static void forEachSample(int64_t size, int64_t most,
                          function_ref<void(int64_t, double)> visit) {
  int64_t samples = std::min(size, most);
  if (samples == 0)
    return;
  // The middles of equal parts, `(2 * i + 1) * size / (2 * samples)`, computed
  // without an overflow of the numerator.
  int64_t whole = size / (2 * samples), rest = size % (2 * samples);
  for (int64_t i = 0; i < samples; ++i)
    visit((2 * i + 1) * whole + (2 * i + 1) * rest / (2 * samples),
          double(size) / double(samples));
}

static std::pair<int64_t, int64_t>
getLengths(AttentionOpInterface op, const CostAssumptions &assumptions) {
  return {assumptions.getSize(getDimSize(op.getQuery(), 2)),
          assumptions.getSize(
              op.getAddressing().getMaxKeys(op.getKey(), op.getPageTable()))};
}

//===----------------------------------------------------------------------===//
// Rows of tiles
//===----------------------------------------------------------------------===//

namespace {
/// The code that computes which tiles a row of tiles visits, run by folding it.
/// A row has the queries, or the keys, of a tile.
class RowProgram {
public:
  RowProgram(AttentionOpInterface op, bool hasMaskMod, int64_t batch,
             int64_t head, int64_t queries, int64_t keys, MaskDim dim,
             int64_t rowTile, int64_t streamedTile,
             WorkBudget *budget = nullptr);

  /// The tiles that the row visits whose first position is `first`;
  /// `std::nullopt` if they depend on values that are not known.
  std::optional<TileRow> run(int64_t first);

private:
  Attribute lookup(Value value) const;
  bool addRanges(ArrayRef<IndexRange> ranges,
                 SmallVectorImpl<TileRow::Range> &row) const;

  Region region;
  Block *block;
  TileRanges ranges;
  llvm::DenseMap<Value, Attribute> values;
};
} // namespace

RowProgram::RowProgram(AttentionOpInterface op, bool hasMaskMod, int64_t batch,
                       int64_t head, int64_t queries, int64_t keys, MaskDim dim,
                       int64_t rowTile, int64_t streamedTile,
                       WorkBudget *budget) {
  OpBuilder builder(op->getContext());
  Location loc = op.getLoc();
  block = builder.createBlock(&region, {}, builder.getIndexType(), loc);
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(builder, loc, value);
  };
  // Only the code of its tables knows which pairs a mask with operands keeps.
  ScoreMask mask = {op.getMaskReads().empty() ? op.getMaskAttr() : nullptr,
                    hasMaskMod ? &op.getMaskMod() : nullptr,
                    constant(batch),
                    constant(head),
                    constant(queries),
                    constant(keys)};
  ranges = emitTileRanges(builder, loc, mask, dim, block->getArgument(0),
                          rowTile, streamedTile, /*isLimited=*/nullptr, budget);
}

Attribute RowProgram::lookup(Value value) const {
  if (Attribute known = values.lookup(value))
    return known;
  Attribute constant;
  matchPattern(value, m_Constant(&constant));
  return constant;
}

bool RowProgram::addRanges(ArrayRef<IndexRange> ranges,
                           SmallVectorImpl<TileRow::Range> &row) const {
  for (const IndexRange &range : ranges) {
    auto begin = dyn_cast_if_present<IntegerAttr>(lookup(range.begin));
    auto end = dyn_cast_if_present<IntegerAttr>(lookup(range.end));
    if (!begin || !end)
      return false;
    if (begin.getInt() < end.getInt())
      row.push_back({begin.getInt(), end.getInt()});
  }
  return true;
}

std::optional<TileRow> RowProgram::run(int64_t first) {
  values.clear();
  Value argument = block->getArgument(0);
  values[argument] = IntegerAttr::get(argument.getType(), first);
  SmallVector<Attribute> operands;
  SmallVector<OpFoldResult> results;
  for (Operation &op : *block) {
    operands.clear();
    results.clear();
    for (Value operand : op.getOperands())
      operands.push_back(lookup(operand));
    // A result that does not fold, or only becomes another operation, is
    // unknown.
    if (failed(op.fold(operands, results)))
      continue;
    for (auto [result, folded] : llvm::zip(op.getResults(), results)) {
      auto known = dyn_cast<Attribute>(folded);
      values[result] = known ? known : lookup(cast<Value>(folded));
    }
  }
  TileRow row;
  if (!addRanges(ranges.masked, row.masked) ||
      !addRanges(ranges.full, row.full))
    return std::nullopt;
  return row;
}

//===----------------------------------------------------------------------===//
// Attended pairs
//===----------------------------------------------------------------------===//

/// A number in [0, 1) that seems random (SplitMix64).
static double scatter(uint64_t number) {
  number *= 0x9e3779b97f4a7c15;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9;
  number = (number ^ (number >> 27)) * 0x94d049bb133111eb;
  number ^= number >> 31;
  return double(number >> 11) * 0x1p-53;
}

/// The number of keys in `range` that the mask keeps for `row`. Of more than
/// `most` keys, `most` are evaluated, one in each equal part, at scattered
/// places: masks may be periodic.
static double countInRange(MaskAttrInterface mask, int64_t row,
                           TileRow::Range range, int64_t rows, int64_t columns,
                           int64_t most) {
  int64_t size = range.second - range.first;
  if (size <= 0)
    return 0;
  int64_t samples = std::min(size, most);
  double part = double(size) / double(samples);
  int64_t attended = 0;
  for (int64_t i = 0; i < samples; ++i) {
    int64_t offset = i;
    if (samples < size) {
      double place = double(i) + scatter(uint64_t(row) * uint64_t(most) + i);
      offset = std::min(int64_t(place * part), size - 1);
    }
    attended += mask.isAttended(row, range.first + offset, rows, columns);
  }
  return double(attended) * part;
}

double attn::countAttendedPairs(AttentionOpInterface op,
                                const CostAssumptions &assumptions) {
  constexpr int64_t mostRows = 512, mostKeys = 1024;
  auto [rows, columns] = getLengths(op, assumptions);
  MaskAttrInterface mask = op.getMaskAttr();
  if (!mask)
    return double(rows) * double(columns);
  // The code that finds tiles knows most keys of long rows: with tiles of one
  // pair, a tile is full where the mask keeps the pair.
  std::optional<RowProgram> program;
  if (columns > mostKeys && op.getMaskReads().empty())
    program.emplace(op, /*hasMaskMod=*/false, /*batch=*/0, /*head=*/0, rows,
                    columns, MaskDim::Query, /*rowTile=*/1, /*streamedTile=*/1);
  double pairs = 0;
  forEachSample(
      rows, mostRows,
      [&, rows = rows, columns = columns](int64_t row, double weight) {
        std::optional<TileRow> known;
        if (program)
          known = program->run(row);
        if (!known)
          known = TileRow{/*masked=*/{{0, columns}}, /*full=*/{}};
        double attended = 0;
        for (auto [begin, end] : known->full)
          attended += double(end - begin);
        for (TileRow::Range range : known->masked)
          attended += countInRange(mask, row, range, rows, columns, mostKeys);
        pairs += weight * attended;
      });
  return pairs;
}

//===----------------------------------------------------------------------===//
// Visited tiles
//===----------------------------------------------------------------------===//

/// Work of all analyses of the masks of one attention, in operations on
/// coefficients, which take about 2 ns each: as much as three analyses that
/// reach their own limits.
static constexpr int64_t maxTilesWork = 400'000'000;

std::shared_ptr<WorkBudget> VisitedTiles::createBudget() {
  return std::make_shared<WorkBudget>(maxTilesWork);
}

VisitedTiles::VisitedTiles(AttentionOpInterface op,
                           const CostAssumptions &assumptions, int64_t batch,
                           int64_t head, std::shared_ptr<WorkBudget> shared)
    : op(op), assumptions(assumptions), batch(batch), head(head),
      budget(shared ? std::move(shared) : createBudget()) {
  // Operands give the sum of the sequence lengths, or the longest length.
  if (op.getAddressing().isListed())
    queries = keys = assumptions.dynamicSize;
  else
    std::tie(queries, keys) = getLengths(op, assumptions);
}

double VisitedTiles::getNumHeads() const {
  AttentionOpInterface op = this->op;
  int64_t batch = op.getAddressing().isListed()
                      ? assumptions.dynamicBatch
                      : assumptions.getBatch(getDimSize(op.getQuery(), 0));
  return double(batch) * double(op.getNumQueryHeads());
}

int64_t VisitedTiles::getNumRows(int64_t queryTile) const {
  return llvm::divideCeil(queries, queryTile);
}

std::optional<std::vector<TileRow>>
VisitedTiles::getRows(int64_t queryTile, int64_t keyTile) const {
  return getRows(queryTile, keyTile,
                 llvm::to_vector(llvm::seq(getNumRows(queryTile))));
}

std::optional<std::vector<TileRow>>
VisitedTiles::getRows(int64_t queryTile, int64_t keyTile,
                      ArrayRef<int64_t> numbers) const {
  AttentionOpInterface op = this->op;
  if (!op.getMaskReads().empty())
    return std::nullopt;
  RowProgram program(op, /*hasMaskMod=*/true, batch, head, queries, keys,
                     MaskDim::Query, queryTile, keyTile);
  std::vector<TileRow> rows;
  for (int64_t number : numbers) {
    std::optional<TileRow> tiles = program.run(number * queryTile);
    if (!tiles)
      return std::nullopt;
    rows.push_back(std::move(*tiles));
  }
  return rows;
}

const TileCounts &VisitedTiles::count(int64_t queryTile, int64_t keyTile,
                                      MaskDim dim) const {
  auto [it, isNew] = counted.try_emplace({queryTile, keyTile, dim});
  if (isNew)
    it->second = compute(queryTile, keyTile, dim);
  return it->second;
}

static int64_t countTiles(ArrayRef<TileRow::Range> ranges) {
  int64_t count = 0;
  for (const TileRow::Range &range : ranges)
    count += range.second - range.first;
  return count;
}

/// The tiles that `program` visits in `numRows` rows; `std::nullopt` if they
/// depend on values that are not known. If `isClassified`, which of them are
/// partial is known at run time only, and all of them count as such.
static std::optional<TileCounts> countRows(RowProgram &program, int64_t numRows,
                                           int64_t rowTile, bool isClassified) {
  constexpr int64_t mostRows = 1024;
  TileCounts counts;
  bool isKnown = true;
  auto add = [&](int64_t row, double weight) {
    std::optional<TileRow> tiles =
        isKnown ? program.run(row * rowTile) : std::nullopt;
    if (!tiles) {
      isKnown = false;
      return;
    }
    int64_t masked = countTiles(tiles->masked);
    int64_t visited = masked + countTiles(tiles->full);
    if (isClassified)
      masked = visited;
    counts.total += weight * double(visited);
    counts.masked += weight * double(masked);
    counts.most = std::max(counts.most, visited);
    counts.mostMasked = std::max(counts.mostMasked, masked);
    if (numRows <= mostRows)
      counts.rows.push_back({visited, masked});
  };
  forEachSample(numRows, mostRows, add);
  if (numRows > mostRows)
    add(numRows - 1, /*weight=*/0);
  if (!isKnown)
    return std::nullopt;
  return counts;
}

TileCounts VisitedTiles::compute(int64_t queryTile, int64_t keyTile,
                                 MaskDim dim) const {
  AttentionOpInterface op = this->op;
  bool isByQuery = dim == MaskDim::Query;
  int64_t rowTile = isByQuery ? queryTile : keyTile;
  int64_t streamedTile = isByQuery ? keyTile : queryTile;
  int64_t numRows = llvm::divideCeil(isByQuery ? queries : keys, rowTile);
  // The named mask alone is known without run-time values. Of a mask_mod region
  // whose tiles have no closed form, the analysis finds nothing.
  std::optional<TileDensity> density = getTileDensity(op);
  bool isClassified = op->hasAttr(AttnDialect::getClassifiedTilesAttrName()) &&
                      !op.getMaskMod().empty();
  for (bool hasMaskMod : {true, false}) {
    if (density)
      break;
    if (hasMaskMod && isClassified)
      continue;
    RowProgram program(op, hasMaskMod, batch, head, queries, keys, dim, rowTile,
                       streamedTile, budget.get());
    if (std::optional<TileCounts> counts =
            countRows(program, numRows, rowTile, isClassified))
      return *counts;
  }
  // Nothing is known of a named mask whose code does not fold. If its density
  // is assumed, all rows are taken to visit equally many tiles.
  TileCounts counts;
  auto all = double(llvm::divideCeil(isByQuery ? keys : queries, streamedTile));
  TileDensity assumed = density.value_or(TileDensity());
  counts.most = int64_t(std::ceil(all * assumed.visited));
  counts.mostMasked = int64_t(std::ceil(all * assumed.cut));
  counts.total = double(numRows) * all * assumed.visited;
  counts.masked = double(numRows) * all * assumed.cut;
  return counts;
}
