//===- SplitRegions.cpp - Take work out of scalar regions -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Splits the regions of maps and masks into computation that is the same for
// all elements, loads of a tile or of a vector of rows, and the rest.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/Transforms/KernelPhase.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/InferIntRangeInterface.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::attn_tile {
#define GEN_PASS_DEF_ATTNTILESPLITREGIONSPASS
#include "attn/Dialect/AttnTile/Transforms/Passes.h.inc"
} // namespace mlir::attn_tile

using namespace mlir;
using namespace mlir::attn_tile;

namespace {
/// The scalar region of a map, mask or addition.
struct ScalarRegion {
  Operation *op;
  Block *body;
  /// The arguments for a position, and the values that replace or bound them.
  BlockArgument batch, head, query, key;
  Value batchValue, headValue, firstQuery, firstKey;

  template <typename OpTy>
  static ScalarRegion get(OpTy op, Region &region, unsigned firstPosition) {
    Block *body = &region.front();
    auto arguments = body->getArguments().slice(firstPosition, 4);
    return {op,
            body,
            arguments[0],
            arguments[1],
            arguments[2],
            arguments[3],
            op.getBatch(),
            op.getHead(),
            op.getFirstQuery(),
            op.getFirstKey()};
  }

  bool isDefinedOutside(Value value) const {
    return !op->isAncestor(value.getParentBlock()->getParentOp());
  }
};
} // namespace

/// Moves `op` before `anchor`, and out of loops as far as its operands allow.
static void hoist(Operation *op, Operation *anchor) {
  op->moveBefore(anchor);
  while (auto loop = dyn_cast<LoopLikeOpInterface>(op->getParentOp())) {
    if (!isa<scf::ForOp>(loop) ||
        !llvm::all_of(op->getOperands(), [&](Value operand) {
          return loop.isDefinedOutsideOfLoop(operand);
        }))
      return;
    op->moveBefore(loop);
  }
}

//===----------------------------------------------------------------------===//
// Loads of tiles
//===----------------------------------------------------------------------===//

/// The pure operations of the region that `value` depends on, in order; fails
/// if it depends on elements or positions of a tile.
static LogicalResult collectUniform(const ScalarRegion &region, Value value,
                                    SetVector<Operation *> &slice) {
  if (region.isDefinedOutside(value))
    return success();
  Operation *def = value.getDefiningOp();
  if (!def || def->getNumRegions() != 0 || !isPure(def))
    return failure();
  for (Value operand : def->getOperands())
    if (failed(collectUniform(region, operand, slice)))
      return failure();
  slice.insert(def);
  return success();
}

/// The load, in the block of `map`, of the keys whose matmul with queries `map`
/// changes, if that is a streamed load.
static LoadOp getStreamOfKeys(MapOp map) {
  auto product =
      map.getSources().front().getDefiningOp<vector::ContractionOp>();
  auto keys = product ? product.getRhs().getDefiningOp<LoadOp>() : LoadOp();
  return keys && keys.getPosition() && keys->getBlock() == map->getBlock()
             ? keys
             : LoadOp();
}

/// Whether bulk copies can stream tiles of `memref` to `map`: `memref` is an
/// argument of the kernel with contiguous rows, and `map` streams no other tile
/// of it.
static bool canStream(MapOp map, Value memref) {
  auto argument = dyn_cast<BlockArgument>(memref);
  auto kernel = map->getParentOfType<KernelOp>();
  auto type = cast<MemRefType>(memref.getType());
  SmallVector<int64_t> strides;
  int64_t offset;
  Type element = type.getElementType();
  return argument && argument.getOwner() == &kernel.getBody().front() &&
         (element.isBF16() || element.isF16() || element.isF32()) &&
         succeeded(type.getStridesAndOffset(strides, offset)) &&
         strides.back() == 1 &&
         llvm::none_of(map.getOthers(), [&](Value other) {
           auto load = other.getDefiningOp<LoadOp>();
           return load && load.getPosition() && load.getSource() == memref;
         });
}

/// Replaces a load whose last indices are the query and the key, or the query,
/// and whose other indices are the same for all elements. With `streamTiles`,
/// tiles are streamed if they can be.
static bool replaceByTile(MapOp map, const ScalarRegion &region,
                          memref::LoadOp load, bool streamTiles) {
  // Booleans and indices are stored in other types.
  Type element = load.getType();
  if (!element.isIntOrFloat() || element.getIntOrFloatBitWidth() % 8 != 0)
    return false;
  SmallVector<Value> indices(load.getIndices());
  int64_t tileRank = 0;
  if (indices.size() >= 2 && indices.back() == region.key &&
      indices[indices.size() - 2] == region.query)
    tileRank = 2;
  else if (!indices.empty() && indices.back() == region.query)
    tileRank = 1;
  if (tileRank == 0 || !region.isDefinedOutside(load.getMemRef()))
    return false;
  SetVector<Operation *> slice;
  for (Value index : ArrayRef<Value>(indices).drop_back(tileRank))
    if (failed(collectUniform(region, index, slice)))
      return false;
  for (Operation *op : slice)
    hoist(op, map);

  indices[indices.size() - tileRank] = region.firstQuery;
  if (tileRank == 2)
    indices.back() = region.firstKey;
  auto shape = cast<VectorType>(map.getResult().getType()).getShape();
  OpBuilder builder(map);
  LoadOp keys = streamTiles && tileRank == 2 ? getStreamOfKeys(map) : LoadOp();
  bool isStream = keys && canStream(map, load.getMemRef());
  auto tile = LoadOp::create(
      builder, load.getLoc(),
      VectorType::get(shape.take_front(tileRank), element), load.getMemRef(),
      indices, isStream ? keys.getPosition() : Value(),
      isStream ? keys.getLength() : Value());
  if (!isStream) {
    tile.setUnaligned(true);
    hoist(tile, map);
  }
  map.getOthersMutable().append(tile.getResult());
  BlockArgument argument = region.body->addArgument(element, load.getLoc());
  load.replaceAllUsesWith(argument);
  load.erase();
  return true;
}

//===----------------------------------------------------------------------===//
// Guards
//===----------------------------------------------------------------------===//

namespace {
/// Ranges of the integers of a region.
class Ranges {
public:
  explicit Ranges(const ScalarRegion &region);

  ConstantIntRanges lookup(Value value) const;

private:
  DenseMap<Value, ConstantIntRanges> ranges;
};
} // namespace

static constexpr unsigned indexBits = IndexType::kInternalStorageBitWidth;

static ConstantIntRanges getIndexRange(int64_t last) {
  return ConstantIntRanges::fromUnsigned(APInt(indexBits, 0),
                                         APInt(indexBits, last));
}

/// The range of an index of a work item, if it is known.
static ConstantIntRanges getWorkItemRange(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  auto forall =
      argument ? dyn_cast<scf::ForallOp>(argument.getOwner()->getParentOp())
               : scf::ForallOp();
  if (forall) {
    auto bounds = forall.getMixedUpperBound();
    if (std::optional<int64_t> size =
            getConstantIntValue(bounds[argument.getArgNumber()]);
        size && *size > 0)
      return getIndexRange(*size - 1);
  }
  return getIndexRange(std::numeric_limits<int32_t>::max());
}

Ranges::Ranges(const ScalarRegion &region) {
  // Positions go beyond the lengths, to the end of the tile.
  ConstantIntRanges position =
      getIndexRange(std::numeric_limits<int32_t>::max());
  ranges.insert({region.batchValue, getWorkItemRange(region.batchValue)});
  ranges.insert({region.headValue, getWorkItemRange(region.headValue)});
  ranges.insert({region.query, position});
  ranges.insert({region.key, position});
  region.body->walk([&](InferIntRangeInterface op) {
    auto isInteger = [](Type type) { return type.isIntOrIndex(); };
    if (!llvm::all_of(op->getOperandTypes(), isInteger))
      return;
    SmallVector<ConstantIntRanges> operands;
    for (Value operand : op->getOperands())
      operands.push_back(lookup(operand));
    op.inferResultRanges(operands,
                         [&](Value value, const ConstantIntRanges &range) {
                           ranges.insert({value, range});
                         });
  });
}

ConstantIntRanges Ranges::lookup(Value value) const {
  if (auto it = ranges.find(value); it != ranges.end())
    return it->second;
  IntegerAttr constant;
  if (matchPattern(value, m_Constant(&constant)))
    return ConstantIntRanges::constant(constant.getValue());
  return ConstantIntRanges::maxRange(
      value.getType().isIndex() ? indexBits
                                : value.getType().getIntOrFloatBitWidth());
}

/// Bounds the `indices` that are not known to be within `memref` and are not in
/// `bounded`. Returns how many.
static int64_t guard(MutableOperandRange indices, Value memref,
                     const Ranges &ranges, ValueRange bounded = {}) {
  int64_t count = 0;
  auto type = cast<MemRefType>(memref.getType());
  OpBuilder builder(indices.getOwner());
  Location loc = indices.getOwner()->getLoc();
  for (auto [dim, operand] : llvm::enumerate(indices)) {
    Value index = operand.get();
    ConstantIntRanges range = ranges.lookup(index);
    if (!type.isDynamicDim(dim) && range.smin().isNonNegative() &&
        range.smax().slt(type.getDimSize(dim)))
      continue;
    if (llvm::is_contained(bounded, index))
      continue;
    Value last;
    if (type.isDynamicDim(dim)) {
      // An empty memref is accessed nowhere, whatever the index.
      Value one = arith::ConstantIndexOp::create(builder, loc, 1);
      Value size = memref::DimOp::create(builder, loc, memref, dim);
      last = arith::SubIOp::create(
          builder, loc, arith::MaxUIOp::create(builder, loc, size, one), one);
    } else {
      last = arith::ConstantIndexOp::create(
          builder, loc, std::max<int64_t>(type.getDimSize(dim) - 1, 0));
    }
    // Read as unsigned, a negative index is a large one.
    operand.set(arith::MinUIOp::create(builder, loc, index, last));
    ++count;
  }
  return count;
}

//===----------------------------------------------------------------------===//
// Uniform work
//===----------------------------------------------------------------------===//

/// Moves computation that is the same for all elements out of the region. Reads
/// may move: they are guarded, and the kernel writes nothing that it reads.
static int64_t hoistUniform(const ScalarRegion &region) {
  int64_t count = 0;
  for (Operation &op :
       llvm::make_early_inc_range(region.body->without_terminator())) {
    bool isUniform = op.getNumRegions() == 0 &&
                     (isPure(&op) || isa<memref::LoadOp>(op)) &&
                     llvm::all_of(op.getOperands(), [&](Value operand) {
                       return region.isDefinedOutside(operand);
                     });
    if (!isUniform)
      continue;
    hoist(&op, region.op);
    ++count;
  }
  return count;
}

/// Turns divisions by values that are the same for all elements, and chains of
/// multiplications by such values, into one multiplication.
static void combineFactors(const ScalarRegion &region) {
  OpBuilder builder(region.op);
  auto emitUniform = [&](Operation *op) {
    hoist(op, region.op);
    return op->getResult(0);
  };
  for (Operation &op :
       llvm::make_early_inc_range(region.body->without_terminator())) {
    if (auto quotient = dyn_cast<arith::DivFOp>(op)) {
      if (!region.isDefinedOutside(quotient.getRhs()) ||
          region.isDefinedOutside(quotient.getLhs()))
        continue;
      auto type = cast<FloatType>(quotient.getType());
      builder.setInsertionPoint(region.op);
      Value one = emitUniform(arith::ConstantOp::create(
          builder, op.getLoc(), builder.getFloatAttr(type, 1.0)));
      Value inverse = emitUniform(
          arith::DivFOp::create(builder, op.getLoc(), one, quotient.getRhs()));
      builder.setInsertionPoint(&op);
      Value product = arith::MulFOp::create(builder, op.getLoc(),
                                            quotient.getLhs(), inverse);
      quotient.replaceAllUsesWith(product);
      quotient.erase();
    }
  }
  auto getFactor = [&](arith::MulFOp product, Value &element) -> Value {
    for (auto [factor, other] : {std::pair(product.getLhs(), product.getRhs()),
                                 std::pair(product.getRhs(), product.getLhs())})
      if (region.isDefinedOutside(factor) && !region.isDefinedOutside(other)) {
        element = other;
        return factor;
      }
    return Value();
  };
  for (auto outer :
       llvm::make_early_inc_range(region.body->getOps<arith::MulFOp>())) {
    Value element, innerElement;
    Value factor = getFactor(outer, element);
    auto inner =
        factor ? element.getDefiningOp<arith::MulFOp>() : arith::MulFOp();
    Value innerFactor = inner ? getFactor(inner, innerElement) : Value();
    if (!innerFactor)
      continue;
    builder.setInsertionPoint(region.op);
    Value combined = emitUniform(
        arith::MulFOp::create(builder, outer.getLoc(), innerFactor, factor));
    outer.getLhsMutable().assign(innerElement);
    outer.getRhsMutable().assign(combined);
    if (inner->use_empty())
      inner.erase();
  }
}

namespace {
struct AttnTileSplitRegionsPass
    : KernelPass<AttnTileSplitRegionsPass,
                 attn_tile::impl::AttnTileSplitRegionsPassBase> {
  using Base::Base;

  static constexpr PhaseContract phases{KernelPhase::Plain, KernelPhase::Plain};

  void runOnKernel() {
    SmallVector<ScalarRegion> regions;
    getOperation().walk([&](Operation *op) {
      if (auto map = dyn_cast<MapOp>(op))
        regions.push_back(
            ScalarRegion::get(map, map.getBody(), map.getSources().size()));
      if (auto mask = dyn_cast<MaskOp>(op); mask && !mask.getMaskMod().empty())
        regions.push_back(ScalarRegion::get(mask, mask.getMaskMod(), 0));
      if (auto scatter = dyn_cast<ScatterAddOp>(op))
        regions.push_back(ScalarRegion::get(scatter, scatter.getBody(), 0));
    });
    for (ScalarRegion &region : regions)
      split(region);
  }

private:
  void split(ScalarRegion &region) {
    region.batch.replaceAllUsesWith(region.batchValue);
    region.head.replaceAllUsesWith(region.headValue);
    if (auto map = dyn_cast<MapOp>(region.op);
        map && loadTiles && !map.getTransposed())
      for (auto load :
           llvm::make_early_inc_range(region.body->getOps<memref::LoadOp>()))
        numTiles += replaceByTile(map, region, load, streamTiles);
    Ranges ranges(region);
    region.body->walk([&](memref::LoadOp load) {
      numGuards += guard(load.getIndicesMutable(), load.getMemRef(), ranges);
    });
    // The lengths already bound the query and the key.
    if (auto scatter = dyn_cast<ScatterAddOp>(region.op))
      numGuards +=
          guard(cast<YieldOp>(region.body->getTerminator()).getValuesMutable(),
                scatter.getDest(), ranges, {region.query, region.key});
    numHoisted += hoistUniform(region);
    combineFactors(region);
  }
};
} // namespace
