//===- ScoreWork.cpp - Operations for each score --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Follows what each value of a region depends on, and counts the operations
// that are repeated for each score.
//
//===----------------------------------------------------------------------===//

#include "attn/PerfModel/ScoreWork.h"
#include "attn/Dialect/AttnTile/IR/StreamingOpInterface.h"
#include "attn/Interfaces/ScalarCost.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir;
using namespace mlir::attn;

namespace {
/// What values of the region depend on, from the least work to the most.
enum class Spread { Shared, Query, Key, Pair };

struct ValueUse {
  Spread spread = Spread::Shared;
  /// Sums and differences of positions, also as floats.
  bool isPosition = false;
  /// Computed from values read, or from the score.
  bool isRead = false, isScore = false;
};

class ScoreWorkCounter {
public:
  explicit ScoreWorkCounter(Region &region);

  ScoreWork count();

private:
  ValueUse lookup(Value value) const;
  void visit(Operation *op);
  void visitRead(Operation *op, Spread spread);
  bool isFree(Operation *op, const ValueUse &use) const;

  Region &region;
  llvm::DenseMap<Value, ValueUse> uses;
  ScoreWork work;
};
} // namespace

static Spread join(Spread a, Spread b) {
  if ((a == Spread::Query && b == Spread::Key) ||
      (a == Spread::Key && b == Spread::Query))
    return Spread::Pair;
  return std::max(a, b);
}

/// How often one score needs a value that depends on `spread`: a thread uses
/// each of its keys for two queries.
static double getShare(Spread spread) {
  switch (spread) {
  case Spread::Shared:
  case Spread::Query:
    return 0;
  case Spread::Key:
    return 0.5;
  case Spread::Pair:
    return 1;
  }
  llvm_unreachable("unknown spread");
}

ScoreWorkCounter::ScoreWorkCounter(Region &region) : region(region) {
  ArrayRef<BlockArgument> arguments = region.getArguments();
  for (BlockArgument argument : arguments)
    if (argument.getType().isFloat())
      uses[argument] = {Spread::Pair, false, false, true};
  uses[arguments[arguments.size() - 2]] = {Spread::Query, true};
  uses[arguments.back()] = {Spread::Key, true};
}

ValueUse ScoreWorkCounter::lookup(Value value) const {
  // Constants, and values from outside of the region, are shared.
  auto found = uses.find(value);
  return found == uses.end() ? ValueUse() : found->second;
}

static bool isConstant(Value value) {
  return matchPattern(value, m_Constant());
}

/// Whether all users of the result are functions with a factor of their own.
static bool isFactorOfFunction(Operation *op) {
  return op->hasOneUse() &&
         isa<math::MathDialect>((*op->user_begin())->getDialect());
}

bool ScoreWorkCounter::isFree(Operation *op, const ValueUse &use) const {
  if (use.isPosition || getShare(use.spread) == 0)
    return true;
  bool isMultiply = isa<arith::MulFOp>(op);
  bool hasConstant = op->getNumOperands() == 2 && isConstant(op->getOperand(1));
  if ((isMultiply || isa<arith::DivFOp>(op)) && hasConstant) {
    // A constant factor of a function, or of the modified score, goes to the
    // exponent.
    if (isFactorOfFunction(op))
      return true;
    if (op->hasOneUse() &&
        (*op->user_begin())->hasTrait<OpTrait::IsTerminator>())
      return true;
  }
  if (!isa<arith::AddFOp>(op))
    return false;
  // An accumulator can start from a term that is only added to the score. A
  // multiplication and an addition are one instruction.
  return llvm::any_of(op->getOperands(), [&](Value operand) {
    auto argument = dyn_cast<BlockArgument>(operand);
    if (argument && argument.getOwner() == &region.front() &&
        argument.hasOneUse())
      return true;
    auto product = operand.getDefiningOp<arith::MulFOp>();
    return product && product->hasOneUse();
  });
}

void ScoreWorkCounter::visitRead(Operation *op, Spread spread) {
  double share = getShare(spread);
  Type type = op->getResult(0).getType();
  work.loads += share;
  if (type.isIntOrFloat())
    work.bytes +=
        share * double(llvm::divideCeil(type.getIntOrFloatBitWidth(), 8));
  // The first operand is the tensor to read.
  if (llvm::any_of(llvm::drop_begin(op->getOperands()),
                   [&](Value index) { return lookup(index).isRead; }))
    work.gathers += share;
}

void ScoreWorkCounter::visit(Operation *op) {
  ValueUse use;
  bool arePositions = true;
  for (Value operand : op->getOperands()) {
    ValueUse other = lookup(operand);
    use.spread = join(use.spread, other.spread);
    use.isRead |= other.isRead;
    use.isScore |= other.isScore;
    arePositions &= other.isPosition || other.spread == Spread::Shared;
  }
  bool keepsPositions =
      isa<arith::AddIOp, arith::SubIOp, arith::IndexCastOp, arith::SIToFPOp,
          arith::UIToFPOp, arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp>(
          op) ||
      (isa<arith::MulIOp>(op) && llvm::any_of(op->getOperands(), isConstant));
  use.isPosition =
      keepsPositions && arePositions && use.spread != Spread::Shared;
  if (isa<tensor::ExtractOp, memref::LoadOp>(op)) {
    visitRead(op, use.spread);
    use.isRead = true;
  } else if (op->getNumResults() == 1 && op->getNumRegions() == 0 &&
             !isConstant(op->getResult(0)) && !isFree(op, use)) {
    OpCost cost;
    addScalarOpCost(*op, getShare(use.spread), cost);
    // A division by a constant is a multiplication.
    if (isa<arith::DivFOp>(op) && isConstant(op->getOperand(1)))
      cost.operations(ExecutionUnit::Special) = 0;
    work.special += cost.operations(ExecutionUnit::Special);
    for (double count : cost.counts)
      (use.isScore ? work.instructions : work.ahead) += count;
  }
  for (Value result : op->getResults())
    uses[result] = use;
}

ScoreWork ScoreWorkCounter::count() {
  region.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (!op->hasTrait<OpTrait::IsTerminator>())
      visit(op);
  });
  return work;
}

ScoreWork attn::countScoreWork(Region &region) {
  if (region.empty())
    return {};
  return ScoreWorkCounter(region).count();
}

Region *attn::getScoreModGrad(AttentionOpInterface op) {
  auto gradient =
      dyn_cast<attn_tile::StreamingGradOpInterface>(op.getOperation());
  return gradient ? gradient.getGradOperands().scoreModGrad : nullptr;
}

//===----------------------------------------------------------------------===//
// Dropout
//===----------------------------------------------------------------------===//

/// Scores that one word of the keep mask covers.
static constexpr double bitsOfWord = 32;

double attn::getKeepMaskCycles(KeepMaskSource source, const RngWork &rng,
                               int64_t headDimSum, bool isGradient,
                               const Calibration &fit) {
  if (source == KeepMaskSource::Loaded)
    return isGradient ? fit.gradientLoadedKeepMask : fit.loadedKeepMask;
  double share = std::clamp(double(headDimSum) / fit.keepMaskFullRate,
                            fit.keepMaskLeastRate, 1.0);
  double wide = fit.keepMaskWide * share * double(rng.wideMultiply);
  double integer = fit.keepMaskInteger * double(rng.integer);
  // Gradients have five matmuls, which hide as much at any head dim.
  if (!isGradient)
    integer /= share;
  return (isGradient ? fit.gradientKeepMask : fit.keepMask) +
         (integer + wide) / bitsOfWord;
}

double attn::getKeepMaskCycles(AttentionOpInterface op, bool isGradient,
                               const Calibration &fit) {
  int64_t headDimSum = op.getQKHeadDim() + op.getVHeadDim();
  if (op.getDropoutMask())
    return getKeepMaskCycles(KeepMaskSource::Loaded, RngWork(), headDimSum,
                             isGradient, fit);
  if (DropoutAttr dropout = op.getDropoutAttr())
    return getKeepMaskCycles(KeepMaskSource::Generated, dropout.countKeepWord(),
                             headDimSum, isGradient, fit);
  return 0;
}
