//===- AttnGradToAttnTile.cpp - Gradients to tiled programs ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes the plain tiled programs of the gradient of attention: weights are
// recomputed tile by tile from the log-sum-exp (Dao et al. 2022).
//
// - The rows kernel computes what there is once for each query: the exponent
//   -log2(e) * lse, and delta = rowsum(dout * out) - dlse.
// - Keys kernels have a tile of keys for each work item, whose gradients stay
// in
//   registers while the queries that attend it go by; rows of their tiles of
//   scores are keys, so that the weights are left-hand sides of the products as
//   they come. Heads that share keys belong to one work item.
// - The queries kernel has a tile of queries for each work item. Instead of it,
//   the keys kernel may add what each step contributes to f32 sums, which the
//   kernel of sums scales and rounds.
//
//===----------------------------------------------------------------------===//

#include "ClassifyTiles.h"
#include "KernelDropout.h"
#include "TileProgramBuilder.h"
#include "attn/Conversion/AttnToAttnTile/AttnToAttnTile.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

#include <limits>
#include <numeric>

using namespace mlir;
using namespace mlir::attn;

static constexpr double infinity = std::numeric_limits<double>::infinity();

namespace {
/// Buffers beside the operands, one row for each query, padded to whole tiles.
struct Workspace {
  /// -log2(e) * lse, or -inf where there is nothing to attend.
  Value exponent;
  /// What is subtracted from the gradient of a weight.
  Value delta;
  /// Sums of the gradients of queries, as packed tiles; null if these have a
  /// kernel of their own.
  Value sums;
};

/// What a kernel computes.
struct Gradients {
  Value query, key, value;
};

/// Writes one of the kernels of a gradient.
class GradKernelWriter {
public:
  GradKernelWriter(OpBuilder &builder, AttentionGradOp op,
                   ScheduleAttrInterface schedule);

  /// The operands of the kernel; `refer` makes one known and gives its number.
  void addOperand(Value operand);
  void addCaptures(ValueRange captures);
  ArrayRef<Value> getOperands() const { return operands; }

  void writeRows(attn_tile::KernelOp kernel, const Workspace &workspace);
  void writeKeys(attn_tile::KernelOp kernel, const Workspace &workspace,
                 const Gradients &results, const ClassifiedTiles &listed);
  void writeQueries(attn_tile::KernelOp kernel, const Workspace &workspace,
                    Value result, const ClassifiedTiles &listed);
  /// Rounds the sums, which a kernel with the tiles of `keys` has made.
  void writeSums(attn_tile::KernelOp kernel, const Workspace &workspace,
                 Value result, ScheduleAttrInterface keys);

private:
  /// Where a tile of scores lies; rows are keys if `transposed`.
  struct ScoreTile {
    Value batch, head, firstQuery, firstKey;
    bool transposed;
    SmallVector<int64_t> shape;
  };
  /// The tiles of queries that a work item of keys visits.
  struct QueryTiles {
    /// The row of the list that names them, if there is one, and the number of
    /// tiles in it that are masked: the first ones. Else they are `count` tiles
    /// from `first` on.
    Value list;
    SmallVector<Value> row;
    Value masked;
    Value first, count;
    /// Tiles in which all pairs are kept; null if that is all of them.
    Value fullBegin, fullEnd;
    /// Whether some keys do not exist.
    Value isPartial;
  };

  void begin(attn_tile::KernelOp kernel);
  /// Whether sums have a row for each channel instead of one for each query:
  /// like all tiles of their kernel, they are to have as many rows as a tile of
  /// keys, or a multiple.
  bool isSumTransposed(int64_t keyTile) const {
    return queryTile % keyTile != 0;
  }
  /// The argument of the kernel that stands for an operand.
  Value get(Value operand) { return captured.lookup(operand); }
  int64_t padHeadDim(Value operand);
  /// Emits the loop over work items (batch, head, tile).
  SmallVector<Value> beginItems(Value heads, Value tiles);

  /// `tile` with elements of the type that those of `other` have: gradients of
  /// the output may be f32 where queries, keys and values are not.
  Value matchElements(Value tile, Value other) {
    Type element = getElementTypeOrSelf(other.getType());
    return element.isF32() ? b.extend(tile) : b.round(tile, element);
  }
  /// A step of a work item of keys, and a part of it.
  struct KeyStep {
    Value batch, head, firstKey, firstQuery, step;
    /// Of the streams of what the loop walks over.
    Value length;
    /// The place among the tiles, and the tile.
    Value turn, tileOfQueries;
    int64_t part;
  };

  QueryTiles emitQueryTiles(Value firstKey);
  QueryTiles emitListedTiles(Value list, ArrayRef<Value> row);
  /// The tile of queries at a place among `tiles`.
  Value emitTileAt(const QueryTiles &tiles, Value turn);
  Value loadIndex(Value memref, ValueRange indices) {
    Value entry = memref::LoadOp::create(b, memref, indices);
    return arith::IndexCastOp::create(b, b.getIndexType(), entry);
  }
  /// Emits what a part of a tile of queries adds to the gradients of keys and
  /// values, which are `carried`, and returns the gradients of its scores, if
  /// those of keys are wanted. `source` is that of the decisions of dropout.
  Value emitKeyPart(const KeyStep &step, const Workspace &workspace,
                    const Gradients &results, Value keys, Value values,
                    const QueryTiles &tiles,
                    const KernelDropout::Source &source,
                    SmallVectorImpl<Value> &carried);
  /// The tile whose columns are those of `tiles`, in order.
  Value joinColumns(ArrayRef<Value> tiles);
  Value emitIsCut(const QueryTiles &tiles, const KeyStep &step);
  /// The scores before the score region, scaled if there is one.
  Value emitRawScores(Value product);
  Value emitScores(const ScoreTile &tile, Value raw);
  Value emitMask(const ScoreTile &tile, Value scores);
  /// Clones the keep region of the operation, if any, to `target`.
  void cloneKeepRegion(Region &target);
  /// exp(score - lse).
  Value emitWeights(const ScoreTile &tile, Value scores, Value exponent);
  /// The decisions of dropout for a tile, or null.
  Value emitDecisions(const ScoreTile &tile,
                      const KernelDropout::Source &source) {
    return dropout.emitDecisions(b, source, tile.firstQuery, tile.firstKey,
                                 tile.shape, tile.transposed);
  }
  /// The gradient of what `emitRawScores` gives, times `getGradFactor`. Dropped
  /// elements of `weightGrad` are zero.
  Value emitScoreGrad(const ScoreTile &tile, Value raw, Value weights,
                      Value weightGrad, Value delta);
  /// With dropout the gradient of a score is `p * (dp / keep - delta)`. It is
  /// computed as `p * (dp - keep * delta)`, where the rows have `keep * delta`
  /// already, and the factor is left to what is stored. Score regions want the
  /// gradient itself.
  double getGradFactor() {
    return op.getScoreRegion().empty() ? dropout.getKeepProbability() : 1;
  }
  void emitStore(Value tile, Value dest, ValueRange indices, double factor,
                 bool isTransposed = false);

  TileProgramBuilder b;
  AttentionGradOp op;
  KernelDropout dropout;
  int64_t queryTile, keyTile, queryParts;
  SmallVector<Value> operands;
  IRMapping captured;
  Value queryLength, keyLength;
  bool mapsScores;
};
} // namespace

GradKernelWriter::GradKernelWriter(OpBuilder &builder, AttentionGradOp op,
                                   ScheduleAttrInterface schedule)
    : b(op.getLoc(), builder), op(op), dropout(op),
      queryTile(schedule.getQueryTile()), keyTile(schedule.getKeyTile()),
      queryParts(schedule.getQueryParts()),
      mapsScores(!op.getScoreRegion().empty() ||
                 !(op.getScaleOrDefault() > 0)) {}

void GradKernelWriter::addOperand(Value operand) {
  if (operand && !llvm::is_contained(operands, operand))
    operands.push_back(operand);
}

void GradKernelWriter::addCaptures(ValueRange captures) {
  for (Value capture : captures)
    addOperand(capture);
}

void GradKernelWriter::begin(attn_tile::KernelOp kernel) {
  Block &entry = kernel.getBody().front();
  captured.map(operands, entry.getArguments());
  b.setInsertionPointToEnd(&entry);
  // Constants that the regions capture; everything else is an argument.
  for (Region &region : op->getRegions())
    visitUsedValuesDefinedAbove(region, [&](OpOperand *use) {
      if (matchPattern(use->get(), m_Constant()) &&
          !captured.contains(use->get()))
        b.clone(*use->get().getDefiningOp(), captured);
    });
}

int64_t GradKernelWriter::padHeadDim(Value operand) {
  return llvm::alignTo(cast<MemRefType>(operand.getType()).getDimSize(3),
                       headDimMultiple);
}

SmallVector<Value> GradKernelWriter::beginItems(Value heads, Value tiles) {
  Value batches = b.size(get(operands.front()), 0);
  auto forall =
      scf::ForallOp::create(b, ArrayRef<OpFoldResult>{batches, heads, tiles},
                            ValueRange(), std::nullopt);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  return forall.getInductionVars();
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

void GradKernelWriter::writeRows(attn_tile::KernelOp kernel,
                                 const Workspace &workspace) {
  begin(kernel);
  Value out = get(op.getOut()), dout = get(op.getDout());
  Value exponents = get(workspace.exponent), deltas = get(workspace.delta);
  queryLength = b.size(out, 2);
  SmallVector<Value> ids =
      beginItems(b.size(out, 1), b.countTiles(b.size(deltas, 2), queryTile));
  Value row = arith::MulIOp::create(b, ids[2], b.index(queryTile));
  Value zero = b.index(0);

  int64_t channels = padHeadDim(op.getOut());
  auto loadWide = [&](Value source) {
    return b.extend(
        b.load({queryTile, channels}, source, {ids[0], ids[1], row, zero}));
  };
  auto loadRows = [&](Value source) {
    return b.load(queryTile, source, {ids[0], ids[1], row});
  };
  Value products = arith::MulFOp::create(b, loadWide(out), loadWide(dout));
  Value delta = vector::MultiDimReductionOp::create(
      b, products, b.splat(queryTile, 0), ArrayRef<bool>{false, true},
      vector::CombiningKind::ADD);
  if (op.getDlse())
    delta = arith::SubFOp::create(b, delta, loadRows(get(op.getDlse())));
  if (dropout)
    delta = arith::MulFOp::create(
        b, delta, b.splat(queryTile, dropout.getKeepProbability()));

  // Queries that do not exist have nothing to attend.
  Value lse = loadRows(get(op.getLse()));
  Value left = arith::MaxSIOp::create(
      b, arith::SubIOp::create(b, queryLength, row).getResult(), zero);
  Value exists = vector::CreateMaskOp::create(
      b, VectorType::get(queryTile, b.getI1Type()), left);
  Value lowest = b.splat(queryTile, -infinity);
  Value attends =
      arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, lse, lowest);
  attends = arith::AndIOp::create(b, attends, exists);
  Value exponent = arith::MulFOp::create(b, lse, b.splat(queryTile, -log2e));
  auto storeRows = [&](Value value, Value otherwise, Value dest) {
    Value stored = arith::SelectOp::create(b, attends, value, otherwise);
    attn_tile::StoreOp::create(b, stored, dest,
                               ValueRange{ids[0], ids[1], row});
  };
  storeRows(exponent, lowest, exponents);
  storeRows(delta, b.splat(queryTile, 0), deltas);
  if (!workspace.sums)
    return;
  Value sums = get(workspace.sums);
  int64_t sumChannels = cast<MemRefType>(sums.getType()).getShape().back();
  attn_tile::StorePackedOp::create(b, b.splat({queryTile, sumChannels}, 0),
                                   sums, ValueRange{ids[0], ids[1], row, zero});
}

void GradKernelWriter::writeSums(attn_tile::KernelOp kernel,
                                 const Workspace &workspace, Value result,
                                 ScheduleAttrInterface keys) {
  begin(kernel);
  queryTile = keys.getQueryTile();
  Value sums = get(workspace.sums), dest = get(result);
  SmallVector<Value> ids =
      beginItems(b.size(dest, 1), b.countTiles(b.size(dest, 2), queryTile));
  Value row = arith::MulIOp::create(b, ids[2], b.index(queryTile));
  SmallVector<Value> corner = {ids[0], ids[1], row, b.index(0)};
  int64_t channels = cast<MemRefType>(sums.getType()).getShape().back();
  bool transposed = isSumTransposed(keys.getKeyTile());
  SmallVector<int64_t> shape = {queryTile, channels};
  if (transposed)
    std::swap(shape[0], shape[1]);
  Value sum =
      attn_tile::LoadPackedOp::create(b, b.f32Vector(shape), sums, corner);
  emitStore(sum, dest, corner, op.getScaleOrDefault() / getGradFactor(),
            transposed);
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

Value GradKernelWriter::emitRawScores(Value product) {
  if (!mapsScores)
    return product;
  auto type = cast<VectorType>(product.getType());
  return arith::MulFOp::create(
      b, product, b.splat(type.getShape(), op.getScaleOrDefault()));
}

Value GradKernelWriter::emitScores(const ScoreTile &tile, Value raw) {
  if (op.getScoreRegion().empty())
    return raw;
  auto map = attn_tile::MapOp::create(b, raw, tile.batch, tile.head,
                                      tile.firstQuery, tile.firstKey,
                                      queryLength, keyLength, tile.transposed);
  OpBuilder::InsertionGuard guard(b);
  SmallVector<Type> types(5, b.getIndexType());
  types[0] = b.getF32Type();
  SmallVector<Location> locs(types.size(), b.getLoc());
  Block *body = b.createBlock(&map.getBody(), {}, types, locs);
  b.cloneRegion(op.getScoreRegion(), body, body->getArguments(), captured);
  return map;
}

Value GradKernelWriter::emitMask(const ScoreTile &tile, Value scores) {
  auto mask = attn_tile::MaskOp::create(
      b, scores, tile.batch, tile.head, tile.firstQuery, tile.firstKey,
      queryLength, keyLength, op.getMaskAttr(), tile.transposed);
  cloneKeepRegion(mask.getKeep());
  return mask;
}

void GradKernelWriter::cloneKeepRegion(Region &target) {
  if (op.getKeepRegion().empty())
    return;
  OpBuilder::InsertionGuard guard(b);
  SmallVector<Type> types(4, b.getIndexType());
  SmallVector<Location> locs(types.size(), b.getLoc());
  Block *body = b.createBlock(&target, {}, types, locs);
  b.cloneRegion(op.getKeepRegion(), body, body->getArguments(), captured);
}

Value GradKernelWriter::emitWeights(const ScoreTile &tile, Value scores,
                                    Value exponent) {
  double factor = mapsScores ? log2e : op.getScaleOrDefault() * log2e;
  Value sum = math::FmaOp::create(b, scores, b.splat(tile.shape, factor),
                                  b.broadcast(exponent, tile.shape));
  return math::Exp2Op::create(b, sum);
}

Value GradKernelWriter::emitScoreGrad(const ScoreTile &tile, Value raw,
                                      Value weights, Value weightGrad,
                                      Value delta) {
  Value deltas = b.broadcast(delta, tile.shape);
  Value centred = arith::SubFOp::create(b, weightGrad, deltas);
  Value grad = arith::MulFOp::create(b, weights, centred);
  if (op.getScoreRegion().empty())
    return grad;
  if (dropout)
    grad = arith::MulFOp::create(
        b, grad, b.splat(tile.shape, 1 / dropout.getKeepProbability()));
  auto map = attn_tile::MapOp::create(b, ValueRange{raw, grad}, tile.batch,
                                      tile.head, tile.firstQuery, tile.firstKey,
                                      queryLength, keyLength, tile.transposed);
  {
    OpBuilder::InsertionGuard guard(b);
    SmallVector<Type> types(6, b.getIndexType());
    types[0] = types[1] = b.getF32Type();
    SmallVector<Location> locs(types.size(), b.getLoc());
    Block *body = b.createBlock(&map.getBody(), {}, types, locs);
    b.cloneRegion(op.getScoreGradRegion(), body, body->getArguments(),
                  captured);
  }
  // Pairs without weight have no gradient, whatever the region makes of them.
  Value zero = b.splat(tile.shape, 0);
  Value counts =
      arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, weights, zero);
  return arith::SelectOp::create(b, counts, map, zero);
}

void GradKernelWriter::emitStore(Value tile, Value dest, ValueRange indices,
                                 double factor, bool isTransposed) {
  auto type = cast<VectorType>(tile.getType());
  if (factor != 1)
    tile = arith::MulFOp::create(b, tile, b.splat(type.getShape(), factor));
  Type element = cast<MemRefType>(dest.getType()).getElementType();
  attn_tile::StoreOp::create(b, b.round(tile, element), dest, indices,
                             isTransposed);
}

//===----------------------------------------------------------------------===//
// Keys
//===----------------------------------------------------------------------===//

GradKernelWriter::QueryTiles GradKernelWriter::emitQueryTiles(Value firstKey) {
  Value zero = b.index(0), one = b.index(1);
  Value endKey = arith::AddIOp::create(b, firstKey, b.index(keyTile));
  QueryTiles tiles;
  tiles.isPartial =
      arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, endKey, keyLength);
  QueryBounds range{};
  if (MaskAttrInterface mask = op.getMaskAttr()) {
    Value end = arith::MinSIOp::create(b, endKey, keyLength);
    Value last = arith::SubIOp::create(b, end, one);
    range = mask.emitQueryRange(b, b.getLoc(),
                                {firstKey, last, queryLength, keyLength});
    // Bounds are only good for ranges that are not empty.
    for (Value *bound :
         {&range.begin, &range.fullBegin, &range.fullEnd, &range.end})
      if (*bound) {
        Value low = arith::MaxSIOp::create(b, *bound, zero);
        *bound = arith::MinSIOp::create(b, low, queryLength);
      }
  }
  auto floorTile = [&](Value query) -> Value {
    return arith::DivUIOp::create(b, query, b.index(queryTile));
  };
  Value endTile = b.countTiles(range.end ? range.end : queryLength, queryTile);
  tiles.first = range.begin ? floorTile(range.begin) : zero;
  tiles.count = endTile;
  if (range.begin)
    tiles.count = arith::MaxSIOp::create(
        b, arith::SubIOp::create(b, endTile, tiles.first).getResult(), zero);

  Value fullBegin = range.fullBegin ? range.fullBegin : range.begin;
  if (fullBegin)
    tiles.fullBegin = b.countTiles(fullBegin, queryTile);
  // Queries that do not exist have no weights, so a tile that the query length
  // cuts is full as well.
  Value fullEnd = range.fullEnd ? range.fullEnd : range.end;
  if (fullEnd) {
    Value isAll = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, fullEnd,
                                        queryLength);
    tiles.fullEnd = arith::SelectOp::create(
        b, isAll, b.countTiles(fullEnd, queryTile), floorTile(fullEnd));
  }
  return tiles;
}

GradKernelWriter::QueryTiles
GradKernelWriter::emitListedTiles(Value list, ArrayRef<Value> row) {
  QueryTiles tiles;
  tiles.list = list;
  tiles.row.assign(row.begin(), row.end());
  auto load = [&](int64_t column) {
    return loadIndex(list, {row[0], row[1], row[2], b.index(column)});
  };
  tiles.masked = load(0);
  tiles.count = load(1);
  return tiles;
}

Value GradKernelWriter::emitTileAt(const QueryTiles &tiles, Value turn) {
  if (!tiles.list)
    return arith::AddIOp::create(b, tiles.first, turn);
  // The masked ones follow the two counts, the others end the row.
  Value isMasked =
      arith::CmpIOp::create(b, arith::CmpIPredicate::slt, turn, tiles.masked);
  Value last = arith::SubIOp::create(b, b.size(tiles.list, 3), b.index(1));
  Value full = arith::SubIOp::create(b, turn, tiles.masked);
  Value column = arith::SelectOp::create(
      b, isMasked, arith::AddIOp::create(b, turn, b.index(2)).getResult(),
      arith::SubIOp::create(b, last, full).getResult());
  SmallVector<Value> indices(tiles.row);
  indices.push_back(column);
  return loadIndex(tiles.list, indices);
}

Value GradKernelWriter::emitIsCut(const QueryTiles &tiles,
                                  const KeyStep &step) {
  if (tiles.list)
    return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, step.turn,
                                 tiles.masked);
  Value cut = tiles.isPartial, tile = step.tileOfQueries;
  if (tiles.fullBegin)
    cut =
        arith::OrIOp::create(b, cut,
                             arith::CmpIOp::create(b, arith::CmpIPredicate::slt,
                                                   tile, tiles.fullBegin));
  if (tiles.fullEnd)
    cut =
        arith::OrIOp::create(b, cut,
                             arith::CmpIOp::create(b, arith::CmpIPredicate::sge,
                                                   tile, tiles.fullEnd));
  return cut;
}

Value GradKernelWriter::joinColumns(ArrayRef<Value> tiles) {
  if (tiles.size() == 1)
    return tiles.front();
  auto type = cast<VectorType>(tiles.front().getType());
  int64_t rows = type.getDimSize(0), columns = type.getDimSize(1);
  auto joinedType =
      VectorType::get({rows, static_cast<int64_t>(tiles.size()) * columns},
                      type.getElementType());
  Value joined =
      arith::ConstantOp::create(b, b.getZeroAttr(joinedType)).getResult();
  for (auto [i, tile] : llvm::enumerate(tiles))
    joined = vector::InsertStridedSliceOp::create(
        b, tile, joined,
        ArrayRef<int64_t>{0, static_cast<int64_t>(i) * columns},
        ArrayRef<int64_t>{1, 1});
  return joined;
}

Value GradKernelWriter::emitKeyPart(const KeyStep &step,
                                    const Workspace &workspace,
                                    const Gradients &results, Value keys,
                                    Value values, const QueryTiles &tiles,
                                    const KernelDropout::Source &source,
                                    SmallVectorImpl<Value> &carried) {
  int64_t rows = queryTile / queryParts;
  Value zero = b.index(0);
  Value firstQuery = step.firstQuery, position = step.step;
  if (queryParts != 1) {
    firstQuery =
        arith::AddIOp::create(b, firstQuery, b.index(step.part * rows));
    Value begin = arith::MulIOp::create(b, position, b.index(queryParts));
    position = arith::AddIOp::create(b, begin, b.index(step.part));
  }
  ScoreTile at{step.batch,    step.head,           firstQuery,
               step.firstKey, /*transposed=*/true, {keyTile, rows}};
  auto loadStaged = [&](Value source, int64_t channels) {
    return b.load({rows, channels}, source,
                  {step.batch, step.head, firstQuery, zero}, position,
                  step.length);
  };
  auto loadRow = [&](Value source) {
    return b.load({1, rows}, get(source), {step.batch, step.head, firstQuery},
                  position, step.length, /*inBounds=*/true);
  };
  Value exponent = loadRow(workspace.exponent);

  Value queries = loadStaged(get(op.getQuery()),
                             cast<VectorType>(keys.getType()).getDimSize(1));
  Value none = b.splat(at.shape, 0);
  Value product = b.contract(keys, queries, none, ContractForm::TransposedRhs);
  Value douts = loadStaged(get(op.getDout()), padHeadDim(op.getValue()));
  Value weightGrad;
  if (results.key)
    weightGrad = b.contract(matchElements(values, douts), douts, none,
                            ContractForm::TransposedRhs);

  Value raw = emitRawScores(product);
  Value scores = emitScores(at, raw);
  if (op.getKeepRegion().empty() || tiles.list) {
    auto ifOp = scf::IfOp::create(b, scores.getType(), emitIsCut(tiles, step),
                                  /*withElseRegion=*/true);
    OpBuilder::InsertionGuard ifGuard(b);
    b.setInsertionPointToStart(ifOp.thenBlock());
    scf::YieldOp::create(b, emitMask(at, scores));
    b.setInsertionPointToStart(ifOp.elseBlock());
    scf::YieldOp::create(b, scores);
    scores = ifOp.getResult(0);
  } else {
    scores = emitMask(at, scores);
  }
  Value decisions = emitDecisions(at, source);
  Value weights = emitWeights(at, scores, exponent);

  if (results.value) {
    Value kept = dropout.emitDrop(b, matchElements(weights, douts), decisions);
    carried.back() =
        b.contract(kept, douts, carried.back(), ContractForm::Plain);
  }
  if (!results.key)
    return Value();
  Value delta = loadRow(workspace.delta);
  weightGrad = dropout.emitDrop(b, weightGrad, decisions);
  Value grad = emitScoreGrad(at, raw, weights, weightGrad, delta);
  grad = matchElements(grad, queries);
  // The products of a warpgroup's own tiles come first: they run while it waits
  // for what the others share.
  carried.front() =
      b.contract(grad, queries, carried.front(), ContractForm::Plain);
  return grad;
}

void GradKernelWriter::writeKeys(attn_tile::KernelOp kernel,
                                 const Workspace &workspace,
                                 const Gradients &results,
                                 const ClassifiedTiles &listed) {
  begin(kernel);
  Value query = get(op.getQuery()), key = get(op.getKey());
  queryLength = b.size(query, 2);
  keyLength = b.size(key, 2);
  int64_t keyChannels = padHeadDim(op.getKey());
  if (workspace.sums)
    keyChannels = cast<MemRefType>(workspace.sums.getType()).getShape().back();
  int64_t valueChannels = padHeadDim(op.getValue());
  int64_t group = op.getGroupSize();
  Value tileCount = b.countTiles(keyLength, keyTile);
  SmallVector<Value> ids = beginItems(b.size(key, 1), tileCount);
  Value zero = b.index(0), one = b.index(1);
  // The first keys have the most queries under a causal mask, and the last
  // work items are expected to be the longest ones.
  Value lastTile = arith::SubIOp::create(b, tileCount, one);
  Value tileOfKeys = arith::SubIOp::create(b, lastTile, ids[2]);
  bool isListedByHead = listed.lists && isMaskedByHead(op);
  Value listHead = isListedByHead ? ids[1] : zero;
  if (listed.lists)
    tileOfKeys = loadIndex(get(listed.order), {ids[0], listHead, ids[2]});
  Value firstKey = arith::MulIOp::create(b, tileOfKeys, b.index(keyTile));

  Value keys = b.load({keyTile, keyChannels}, key,
                      {ids[0], ids[1], firstKey, zero}, zero, one);
  Value values;
  if (results.key)
    values = b.load({keyTile, valueChannels}, get(op.getValue()),
                    {ids[0], ids[1], firstKey, zero}, zero, one);
  QueryTiles tiles =
      listed.lists
          ? emitListedTiles(get(listed.lists), {ids[0], listHead, tileOfKeys})
          : emitQueryTiles(firstKey);
  Value total = tiles.count;
  // Lists that depend on the head hold the tiles of the group.
  if (group != 1 && !isListedByHead)
    total = arith::MulIOp::create(b, tiles.count, b.index(group));
  Value length = total;
  if (queryParts != 1)
    length = arith::MulIOp::create(b, total, b.index(queryParts));

  KernelDropout::Source source;
  if (group == 1)
    source = dropout.emitSource(b, captured, ids[0], ids[1]);
  SmallVector<Value> inits;
  if (results.key)
    inits.push_back(b.splat({keyTile, keyChannels}, 0));
  if (results.value)
    inits.push_back(b.splat({keyTile, valueChannels}, 0));
  auto loop = scf::ForOp::create(b, zero, total, one, inits);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value step = loop.getInductionVar(), head = ids[1], turn = step;
    Value tileOfQueries, member;
    if (isListedByHead && group != 1) {
      Value entry = emitTileAt(tiles, turn);
      Value ofHead = b.countTiles(queryLength, queryTile);
      member = arith::DivUIOp::create(b, entry, ofHead);
      tileOfQueries = arith::RemUIOp::create(b, entry, ofHead);
    } else if (group != 1) {
      member = arith::DivUIOp::create(b, step, tiles.count);
      turn = arith::SubIOp::create(
          b, step, arith::MulIOp::create(b, member, tiles.count).getResult());
    }
    if (!tileOfQueries)
      tileOfQueries = emitTileAt(tiles, turn);
    if (member) {
      head = arith::AddIOp::create(
          b, arith::MulIOp::create(b, head, b.index(group)).getResult(),
          member);
      source = dropout.emitSource(b, captured, ids[0], head);
    }
    Value firstQuery =
        arith::MulIOp::create(b, tileOfQueries, b.index(queryTile));
    ValueRange carried = loop.getRegionIterArgs();
    SmallVector<Value> next(carried), grads;
    for (int64_t part = 0; part < queryParts; ++part) {
      Value grad =
          emitKeyPart({ids[0], head, firstKey, firstQuery, step, length, turn,
                       tileOfQueries, part},
                      workspace, results, keys, values, tiles, source, next);
      if (results.key)
        grads.push_back(grad);
    }
    if (results.key && workspace.sums) {
      Value grad = joinColumns(grads);
      Value sum =
          isSumTransposed(keyTile)
              ? b.contract(keys, grad, b.splat({keyChannels, queryTile}, 0),
                           ContractForm::TransposedLhs)
              : b.contract(grad, keys, b.splat({queryTile, keyChannels}, 0),
                           ContractForm::TransposedLhs);
      attn_tile::AddPackedOp::create(
          b, sum, get(workspace.sums),
          ValueRange{ids[0], head, firstQuery, zero});
    }
    scf::YieldOp::create(b, next);
  }
  SmallVector<Value> indices = {ids[0], ids[1], firstKey, zero};
  if (results.key)
    emitStore(loop.getResults().front(), get(results.key), indices,
              op.getScaleOrDefault() / getGradFactor());
  if (results.value)
    emitStore(loop.getResults().back(), get(results.value), indices,
              1 / dropout.getKeepProbability());
}

//===----------------------------------------------------------------------===//
// Queries
//===----------------------------------------------------------------------===//

void GradKernelWriter::writeQueries(attn_tile::KernelOp kernel,
                                    const Workspace &workspace, Value result,
                                    const ClassifiedTiles &listed) {
  begin(kernel);
  Value query = get(op.getQuery()), key = get(op.getKey());
  Value value = get(op.getValue());
  queryLength = b.size(query, 2);
  keyLength = b.size(key, 2);
  int64_t keyChannels = padHeadDim(op.getKey());
  int64_t valueChannels = padHeadDim(op.getValue());
  SmallVector<Value> ids =
      beginItems(b.size(query, 1), b.countTiles(queryLength, queryTile));
  Value zero = b.index(0), one = b.index(1);
  Value keyHead = ids[1];
  if (int64_t group = op.getGroupSize(); group != 1)
    keyHead = arith::DivUIOp::create(b, keyHead, b.index(group));
  Value tileOfQueries = ids[2];
  SmallVector<Value> row;
  if (listed.lists) {
    row = {ids[0], isMaskedByHead(op) ? ids[1] : zero, ids[2]};
    tileOfQueries = row[2] = loadIndex(get(listed.order), row);
  }
  Value firstQuery =
      arith::MulIOp::create(b, tileOfQueries, b.index(queryTile));

  SmallVector<Value> corner = {ids[0], ids[1], firstQuery, zero};
  Value queries = b.load({queryTile, keyChannels}, query, corner, zero, one);
  Value douts =
      b.load({queryTile, valueChannels}, get(op.getDout()), corner, zero, one);
  ArrayRef<Value> rows = ArrayRef(corner).drop_back();
  Value exponent = b.load(queryTile, get(workspace.exponent), rows, {}, {},
                          /*inBounds=*/true);
  Value delta = b.load(queryTile, get(workspace.delta), rows, {}, {},
                       /*inBounds=*/true);
  auto tiles = attn_tile::KeyTilesOp::create(
      b, ids[0], ids[1], firstQuery, queryTile, keyTile, queryLength, keyLength,
      op.getMaskAttr(), listed.lists ? get(listed.lists) : Value(), row);
  cloneKeepRegion(tiles.getKeep());
  KernelDropout::Source source =
      dropout.emitSource(b, captured, ids[0], ids[1]);
  Value init = b.splat({queryTile, keyChannels}, 0);
  auto loop = scf::ForOp::create(b, zero, tiles.getCount(), one, init);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value step = loop.getInductionVar();
    Value tile = attn_tile::TileAtOp::create(b, tiles.getTiles(), step);
    Value firstKey = arith::MulIOp::create(b, tile, b.index(keyTile));
    ScoreTile at{ids[0],
                 ids[1],
                 firstQuery,
                 firstKey,
                 /*transposed=*/false,
                 {queryTile, keyTile}};
    auto loadStaged = [&](Value source, int64_t channels) {
      return b.load({keyTile, channels}, source,
                    {ids[0], keyHead, firstKey, zero}, step, tiles.getCount());
    };
    Value keys = loadStaged(key, keyChannels);
    Value none = b.splat(at.shape, 0);
    Value product =
        b.contract(queries, keys, none, ContractForm::TransposedRhs);
    Value values = loadStaged(value, valueChannels);
    Value weightGrad = b.contract(douts, matchElements(values, douts), none,
                                  ContractForm::TransposedRhs);
    Value raw = emitRawScores(product);
    Value scores = emitMask(at, emitScores(at, raw));
    Value decisions = emitDecisions(at, source);
    Value weights = emitWeights(at, scores, exponent);
    weightGrad = dropout.emitDrop(b, weightGrad, decisions);
    Value grad = emitScoreGrad(at, raw, weights, weightGrad, delta);
    Value sum = b.contract(matchElements(grad, keys), keys,
                           loop.getRegionIterArg(0), ContractForm::Plain);
    scf::YieldOp::create(b, sum);
  }
  emitStore(loop.getResult(0), get(result), corner,
            op.getScaleOrDefault() / getGradFactor());
}

//===----------------------------------------------------------------------===//
// Entry point
//===----------------------------------------------------------------------===//

namespace {
/// Makes the kernels of one gradient and their launches.
class GradLowering {
public:
  GradLowering(RewriterBase &rewriter, AttentionGradOp op, SymbolTable &symbols)
      : rewriter(rewriter), op(op), symbols(symbols) {}

  LogicalResult lower();

private:
  /// Makes an array of f32 with a row of `channels` values for each query (of
  /// one value for none), and rows up to a multiple.
  Value makeRows(int64_t multiple, int64_t channels = 0);
  /// Makes a kernel with the operands that `writer` knows, and launches it.
  attn_tile::KernelOp addKernel(const GradKernelWriter &writer,
                                ScheduleAttrInterface schedule, StringRef part);

  RewriterBase &rewriter;
  AttentionGradOp op;
  SymbolTable &symbols;
};
} // namespace

Value GradLowering::makeRows(int64_t multiple, int64_t channels) {
  TileProgramBuilder b(op.getLoc(), rewriter);
  auto query = cast<MemRefType>(op.getQuery().getType());
  SmallVector<int64_t> shape(query.getShape().take_front(3));
  SmallVector<Value> sizes;
  if (query.isDynamicDim(0))
    sizes.push_back(b.size(op.getQuery(), 0));
  if (query.isDynamicDim(2)) {
    Value tiles = b.countTiles(b.size(op.getQuery(), 2), multiple);
    sizes.push_back(arith::MulIOp::create(b, tiles, b.index(multiple)));
  } else {
    shape[2] = llvm::alignTo(shape[2], multiple);
  }
  if (channels)
    shape.push_back(channels);
  return memref::AllocOp::create(b, MemRefType::get(shape, b.getF32Type()),
                                 sizes);
}

attn_tile::KernelOp GradLowering::addKernel(const GradKernelWriter &writer,
                                            ScheduleAttrInterface schedule,
                                            StringRef part) {
  std::string name = ("attention_grad_" + part + "_kernel").str();
  Operation *place = op;
  while (place->getParentOp() != symbols.getOp())
    place = place->getParentOp();
  if (auto function = op->getParentOfType<FunctionOpInterface>())
    name = (function.getName() + "_grad_" + part + "_kernel").str();
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(place);
  ArrayRef<Value> operands = writer.getOperands();
  auto kernel = attn_tile::KernelOp::create(
      rewriter, op.getLoc(), name,
      rewriter.getFunctionType(TypeRange(ValueRange(operands)), {}));
  kernel.setScheduleAttr(schedule);
  // Only makes the name unique: the kernel has its place already.
  symbols.insert(kernel);
  rewriter.setInsertionPoint(op);
  attn_tile::LaunchOp::create(rewriter, op.getLoc(), SymbolRefAttr::get(kernel),
                              /*grid=*/ValueRange(), operands,
                              /*groups_per_multiprocessor=*/IntegerAttr());
  return kernel;
}

LogicalResult GradLowering::lower() {
  if (!op.isBufferized())
    return op.emitOpError("must be bufferised");
  if (!op.getScheduleAttr())
    return op.emitOpError("needs a schedule");
  ScheduleAttrInterface schedule = op.getChosenSchedule();
  if (!schedule)
    return op.emitOpError("has a choice of schedules, which "
                          "attn-dispatch-schedules must resolve");
  if (!op.getMaskReads().empty())
    return op.emitOpError("has a mask that reads operands, which "
                          "attn-expand-masks must expand");
  if (op.hasSequences())
    return op.emitOpError("with sequences has no tiled program yet");
  GradSchedules parts = schedule.getGradSchedules();
  if (op.getDeterministic() && !parts.queries)
    return op.emitOpError("must be deterministic, but its schedule adds up the "
                          "gradients of queries in any order");
  if (!op.getDcaptures().empty())
    return op.emitOpError("gradients of captured arrays have no kernel yet");
  if (!op.getScoreRegion().empty() && op.getScoreGradRegion().empty())
    return op.emitOpError("needs the 'score_grad' region that belongs to its "
                          "'score' region");
  KernelDropout dropout(op);
  for (Attribute part : {parts.keys, parts.values, parts.queries})
    if (part && failed(dropout.check(cast<ScheduleAttrInterface>(part))))
      return failure();
  dropout.report();
  SetVector<Value> used;
  getUsedValuesDefinedAbove(op->getRegions(), used);
  dropout.addOperands(used);
  SmallVector<Value> captures;
  for (Value value : used) {
    if (matchPattern(value, m_Constant()))
      continue;
    if (isa<TensorType>(value.getType()))
      return op.emitOpError("captures ")
             << value.getType() << ", which must be bufferised";
    captures.push_back(value);
  }

  int64_t multiple = 1;
  for (Attribute part : {parts.rows, parts.keys, parts.values, parts.queries})
    if (part)
      multiple =
          std::lcm(multiple, cast<ScheduleAttrInterface>(part).getQueryTile());
  rewriter.setInsertionPoint(op);
  Workspace workspace{makeRows(multiple), makeRows(multiple), Value()};
  if (!parts.queries) {
    auto keys = cast<ScheduleAttrInterface>(parts.keys);
    int64_t channels = llvm::alignTo(op.getQueryHeadDim(), headDimMultiple);
    // A sum with a row for each channel has as many as a tile of keys.
    if (keys.getQueryTile() % keys.getKeyTile() != 0)
      channels = llvm::alignTo(channels, keys.getKeyTile());
    workspace.sums = makeRows(multiple, channels);
  }

  auto write = [&](Attribute attribute, StringRef name,
                   ArrayRef<Value> operands, auto writeKernel) {
    auto part = cast<ScheduleAttrInterface>(attribute);
    GradKernelWriter writer(rewriter, op, part);
    for (Value operand : operands)
      writer.addOperand(operand);
    if (name != "rows" && name != "sums")
      writer.addCaptures(captures);
    writeKernel(writer, addKernel(writer, part, name));
  };
  write(parts.rows, "rows",
        {op.getOut(), op.getDout(), op.getLse(), op.getDlse(),
         workspace.exponent, workspace.delta, workspace.sums},
        [&](GradKernelWriter &writer, attn_tile::KernelOp kernel) {
          writer.writeRows(kernel, workspace);
        });
  SmallVector<Value> buffers;
  auto classify = [&](Attribute attribute, StringRef name, MaskDim rows) {
    if (!needsClassification(op))
      return ClassifiedTiles();
    auto part = cast<ScheduleAttrInterface>(attribute);
    ClassifiedTiles listed =
        classifyTiles(rewriter, op,
                      {part.getQueryTile(), part.getKeyTile(),
                       schedule.getPreparation(), rows, ("_" + name).str()},
                      symbols);
    buffers.append({listed.lists, listed.order});
    return listed;
  };
  auto writeKeys = [&](Attribute part, StringRef name,
                       const Gradients &results) {
    ClassifiedTiles listed = classify(part, name, MaskDim::Key);
    write(part, name,
          {op.getQuery(), op.getKey(), results.key ? op.getValue() : Value(),
           op.getDout(), workspace.exponent,
           results.key ? workspace.delta : Value(), results.key, results.value,
           results.key ? workspace.sums : Value(), listed.lists, listed.order},
          [&](GradKernelWriter &writer, attn_tile::KernelOp kernel) {
            writer.writeKeys(kernel, workspace, results, listed);
          });
  };
  Gradients results{op.getDquery(), op.getDkey(), op.getDvalue()};
  if (parts.values)
    writeKeys(parts.values, "values", {Value(), Value(), results.value});
  writeKeys(parts.keys, "keys",
            {Value(), results.key, parts.values ? Value() : results.value});
  if (parts.queries) {
    ClassifiedTiles listed = classify(parts.queries, "queries", MaskDim::Query);
    write(parts.queries, "queries",
          {op.getQuery(), op.getKey(), op.getValue(), op.getDout(),
           workspace.exponent, workspace.delta, results.query, listed.lists,
           listed.order},
          [&](GradKernelWriter &writer, attn_tile::KernelOp kernel) {
            writer.writeQueries(kernel, workspace, results.query, listed);
          });
  } else {
    write(parts.rows, "sums", {results.query, workspace.sums},
          [&](GradKernelWriter &writer, attn_tile::KernelOp kernel) {
            writer.writeSums(kernel, workspace, results.query,
                             cast<ScheduleAttrInterface>(parts.keys));
          });
  }

  buffers.append({workspace.exponent, workspace.delta, workspace.sums});
  for (Value buffer : buffers)
    if (buffer)
      memref::DeallocOp::create(rewriter, op.getLoc(), buffer);
  rewriter.eraseOp(op);
  return success();
}

LogicalResult mlir::attn::lowerAttentionGradToKernels(RewriterBase &rewriter,
                                                      AttentionGradOp op,
                                                      SymbolTable &symbols) {
  OpBuilder::InsertionGuard guard(rewriter);
  return GradLowering(rewriter, op, symbols).lower();
}
