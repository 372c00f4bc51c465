//===- RegionVectorizer.cpp - Scalar regions on vectors -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Only one position, usually the key, varies along a row. Values that depend
// neither on it nor on the elements stay scalars. A value that is this position
// plus a scalar is kept as the scalar, so that reads at such positions are
// known to be consecutive.
//
//===----------------------------------------------------------------------===//

#include "RegionVectorizer.h"
#include "attn/Analysis/BoundedReads.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace mlir::attn_tile;

namespace {
class RegionVectorizer {
public:
  RegionVectorizer(ImplicitLocOpBuilder &b, Block &body, ValueRange elements,
                   const RowPiece &at, const IRMapping &captured)
      : b(b), body(body), elements(elements), at(at), scalars(captured) {}

  Value run();

private:
  /// Whether every operation has a vector form, or does not depend on the lane.
  bool isVectorizable();
  Value runVectorized();
  Value runPerLane();

  void vectorize(Operation &op);
  /// Vectorizes a sum of the position and a scalar; returns whether `op` is
  /// one.
  bool vectorizeRamp(Operation &op);
  void vectorizeLoad(memref::LoadOp load);

  bool isUniform(Value value) {
    return !ramps.contains(value) && !vectors.contains(value);
  }
  VectorType vectorOf(Type element) {
    return VectorType::get(at.lanes, element);
  }
  /// The value in all lanes.
  Value getVector(Value value);
  /// The positions of the lanes, clamped to the last existing one.
  Value getPositions();
  /// The lanes whose position exists.
  Value getValidLanes();

  /// The position that varies from lane to lane, and the one that does not.
  Value getLaneArgument() {
    return getPositionArguments()[at.transposed ? 2 : 3];
  }
  Value getFixedArgument() {
    return getPositionArguments()[at.transposed ? 3 : 2];
  }
  ValueRange getPositionArguments() {
    return body.getArguments().drop_front(elements.size());
  }

  ImplicitLocOpBuilder &b;
  Block &body;
  SmallVector<Value> elements;
  const RowPiece &at;
  /// Values of the block that are the same in all lanes.
  IRMapping scalars;
  /// Values that are the lane's position plus a scalar (null for zero).
  DenseMap<Value, Value> ramps;
  /// All other values.
  DenseMap<Value, Value> vectors;
  Value positions, validLanes;
};
} // namespace

Value RegionVectorizer::run() {
  ValueRange position = getPositionArguments();
  scalars.map(position[0], at.batch);
  scalars.map(position[1], at.head);
  scalars.map(getFixedArgument(), at.transposed ? at.key : at.query);
  return isVectorizable() ? runVectorized() : runPerLane();
}

bool RegionVectorizer::isVectorizable() {
  DenseSet<Value> varying = {getLaneArgument()};
  for (Value element : body.getArguments().take_front(elements.size()))
    varying.insert(element);
  for (Operation &op : body.without_terminator()) {
    bool varies = false;
    op.walk([&](Operation *nested) {
      varies |= llvm::any_of(nested->getOperands(), [&](Value operand) {
        return varying.contains(operand);
      });
    });
    if (!varies)
      continue;
    auto isScalar = [](Type type) {
      return VectorType::isValidElementType(type);
    };
    if (!llvm::all_of(op.getResultTypes(), isScalar))
      return false;
    if (auto load = dyn_cast<memref::LoadOp>(op)) {
      // The lane may only select along the last, contiguous dimension.
      if (llvm::any_of(load.getIndices().drop_back(),
                       [&](Value index) { return varying.contains(index); }) ||
          !load.getMemRefType().isLastDimUnitStride())
        return false;
      // Bits are packed in vectors but not in memrefs.
      if (load.getType().isInteger(1))
        return false;
    } else if (!OpTrait::hasElementwiseMappableTraits(&op)) {
      return false;
    }
    varying.insert(op.result_begin(), op.result_end());
  }
  return true;
}

Value RegionVectorizer::getPositions() {
  if (positions)
    return positions;
  VectorType type = vectorOf(b.getIndexType());
  Value one = arith::ConstantIndexOp::create(b, 1);
  Value last = arith::SubIOp::create(b, at.laneLength, one);
  Value first = vector::BroadcastOp::create(b, type, at.getFirst());
  Value step = vector::StepOp::create(b, type);
  positions = arith::AddIOp::create(b, first, step);
  positions = arith::MinSIOp::create(
      b, positions, vector::BroadcastOp::create(b, type, last));
  return positions;
}

Value RegionVectorizer::getValidLanes() {
  if (!validLanes) {
    Value left = arith::SubIOp::create(b, at.laneLength, at.getFirst());
    validLanes = vector::CreateMaskOp::create(b, vectorOf(b.getI1Type()), left);
  }
  return validLanes;
}

Value RegionVectorizer::getVector(Value value) {
  if (auto it = vectors.find(value); it != vectors.end())
    return it->second;
  auto ramp = ramps.find(value);
  if (ramp == ramps.end())
    return vector::BroadcastOp::create(b, vectorOf(value.getType()),
                                       scalars.lookupOrDefault(value));
  Value vector = getPositions();
  if (Value offset = ramp->second)
    vector = arith::AddIOp::create(
        b, vector,
        vector::BroadcastOp::create(b, vectorOf(value.getType()), offset));
  vectors[value] = vector;
  return vector;
}

Value RegionVectorizer::runVectorized() {
  for (auto [argument, vector] : llvm::zip(body.getArguments(), elements))
    vectors[argument] = vector;
  ramps[getLaneArgument()] = Value();
  for (Operation &op : body.without_terminator())
    vectorize(op);
  return getVector(body.getTerminator()->getOperand(0));
}

void RegionVectorizer::vectorize(Operation &op) {
  bool uniform = true;
  op.walk([&](Operation *nested) {
    uniform &= llvm::all_of(nested->getOperands(),
                            [&](Value operand) { return isUniform(operand); });
  });
  if (uniform) {
    attn::cloneBounded(b, op, scalars);
    return;
  }
  if (auto load = dyn_cast<memref::LoadOp>(op))
    return vectorizeLoad(load);

  if (vectorizeRamp(op))
    return;

  OperationState state(b.getLoc(), op.getName());
  for (Value operand : op.getOperands())
    state.operands.push_back(getVector(operand));
  for (Type type : op.getResultTypes())
    state.types.push_back(vectorOf(type));
  state.attributes = llvm::to_vector(op.getAttrs());
  Operation *vectorOp = b.create(state);
  for (auto [scalar, vector] :
       llvm::zip_equal(op.getResults(), vectorOp->getResults()))
    vectors[scalar] = vector;
}

bool RegionVectorizer::vectorizeRamp(Operation &op) {
  bool isSum = isa<arith::AddIOp>(op);
  if ((!isSum && !isa<arith::SubIOp>(op)) ||
      !op.getResult(0).getType().isIndex())
    return false;
  Value lhs = op.getOperand(0), rhs = op.getOperand(1);
  if (isSum && isUniform(lhs))
    std::swap(lhs, rhs);
  if (!ramps.contains(lhs) || !isUniform(rhs))
    return false;
  Value offset = ramps[lhs];
  Value scalar = scalars.lookupOrDefault(rhs);
  if (!offset && isSum) {
    offset = scalar;
  } else {
    if (!offset)
      offset = arith::ConstantIndexOp::create(b, 0);
    offset = isSum ? arith::AddIOp::create(b, offset, scalar).getResult()
                   : arith::SubIOp::create(b, offset, scalar).getResult();
  }
  ramps[op.getResult(0)] = offset;
  return true;
}

void RegionVectorizer::vectorizeLoad(memref::LoadOp load) {
  SmallVector<Value> indices;
  Value memref = scalars.lookupOrDefault(load.getMemRef());
  for (auto [dim, index] : llvm::enumerate(load.getIndices().drop_back()))
    indices.push_back(attn::boundIndex(
        b, b.getLoc(), scalars.lookupOrDefault(index), memref, dim));
  Type element = load.getType();
  VectorType type = vectorOf(element);
  Value last = load.getIndices().back();
  int64_t lastDim = indices.size();
  Value hasElements = attn::emitHasElements(b, b.getLoc(), memref);
  auto gather = [&]() -> Value {
    Value positions = getVector(last);
    Value limit = vector::BroadcastOp::create(
        b, positions.getType(),
        attn::getLastIndex(b, b.getLoc(), memref, lastDim));
    positions = arith::MinUIOp::create(b, positions, limit);
    Value lanes = getValidLanes();
    if (hasElements)
      lanes = arith::AndIOp::create(
          b, lanes,
          vector::BroadcastOp::create(b, lanes.getType(), hasElements));
    SmallVector<Value> base(indices);
    base.push_back(arith::ConstantIndexOp::create(b, 0));
    Value zeros = arith::ConstantOp::create(b, b.getZeroAttr(type));
    return vector::GatherOp::create(b, type, memref, base, positions, lanes,
                                    zeros);
  };

  auto ramp = ramps.find(last);
  if (ramp == ramps.end()) {
    vectors[load] = gather();
    return;
  }
  // Consecutive elements are one read, if all of them exist.
  Value first = at.getFirst();
  if (Value offset = ramp->second)
    first = arith::AddIOp::create(b, first, offset);
  auto read = [&]() -> Value {
    SmallVector<Value> base(indices);
    base.push_back(first);
    return vector::LoadOp::create(b, type, memref, base);
  };
  // Both are used after the conditional.
  getVector(last);
  getValidLanes();
  Value size = b.createOrFold<memref::DimOp>(memref, lastDim);
  Value end = arith::AddIOp::create(
      b, first, arith::ConstantIndexOp::create(b, at.lanes).getResult());
  Value isInside =
      arith::CmpIOp::create(b, arith::CmpIPredicate::sle, end, size);
  // The lanes begin at a position that exists.
  if (ramp->second) {
    Value zero = arith::ConstantIndexOp::create(b, 0);
    isInside = arith::AndIOp::create(
        b, isInside,
        arith::CmpIOp::create(b, arith::CmpIPredicate::sge, first, zero));
  }
  if (hasElements)
    isInside = arith::AndIOp::create(b, isInside, hasElements);
  auto choose = [&](function_ref<Value()> emit) {
    return
        [&, emit](OpBuilder &, Location) { scf::YieldOp::create(b, emit()); };
  };
  vectors[load] =
      scf::IfOp::create(b, isInside, choose(read), choose(gather)).getResult(0);
}

Value RegionVectorizer::runPerLane() {
  Type element = body.getTerminator()->getOperand(0).getType();
  // Booleans are stored as bytes.
  Type stored = element.isInteger(1) ? b.getI8Type() : element;
  Value zero = arith::ConstantIndexOp::create(b, 0);
  Value one = arith::ConstantIndexOp::create(b, 1);
  Value result = at.makeBuffer(stored);
  SmallVector<Value> sources;
  for (Value vector : elements) {
    sources.push_back(at.makeBuffer(getElementTypeOrSelf(vector.getType())));
    vector::StoreOp::create(b, vector, sources.back(), zero);
  }
  // Lanes past the end must hold numbers, although their results are unused.
  auto type = VectorType::get(at.lanes, stored);
  vector::StoreOp::create(
      b, arith::ConstantOp::create(b, b.getZeroAttr(type)).getResult(), result,
      zero);
  Value end = arith::SubIOp::create(b, at.laneLength, at.getFirst());
  end = arith::MinSIOp::create(
      b, end, arith::ConstantIndexOp::create(b, at.lanes).getResult());
  auto loop = scf::ForOp::create(b, zero, end, one);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value lane = loop.getInductionVar();
    IRMapping mapping(scalars);
    for (auto [argument, source] : llvm::zip(body.getArguments(), sources))
      mapping.map(argument,
                  memref::LoadOp::create(b, source, lane).getResult());
    mapping.map(getLaneArgument(),
                arith::AddIOp::create(b, at.getFirst(), lane).getResult());
    for (Operation &op : body.without_terminator())
      attn::cloneBounded(b, op, mapping);
    Value value = mapping.lookupOrDefault(body.getTerminator()->getOperand(0));
    if (stored != element)
      value = arith::ExtUIOp::create(b, stored, value);
    memref::StoreOp::create(b, value, result, lane);
  }
  Value all = vector::LoadOp::create(b, vectorOf(stored), result, zero);
  if (stored != element)
    all = arith::TruncIOp::create(b, vectorOf(element), all);
  return all;
}

Value mlir::attn_tile::vectorizeRegion(ImplicitLocOpBuilder &b, Block &body,
                                       ValueRange elements, const RowPiece &at,
                                       const IRMapping &captured) {
  return RegionVectorizer(b, body, elements, at, captured).run();
}
