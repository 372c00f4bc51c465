//===- ScoreWork.cpp - What is computed for each score --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Follows what values of a region differ by, and counts the operations that are
// repeated for each score.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/ScoreWork.h"
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
/// What the values of a region differ by, from the least work to the most.
enum class Spread { Shared, Query, Key, Pair };

struct ValueUse {
  Spread spread = Spread::Shared;
  /// Sums and differences of positions, also as floats.
  bool isPosition = false;
  /// Made of what was read, and of the score.
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

/// How often one score needs what differs by `spread`: each key that a thread
/// has is shared by two queries.
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
  // What comes from outside, and constants, are shared.
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
  bool isProduct = isa<arith::MulFOp>(op);
  bool hasConstant = op->getNumOperands() == 2 && isConstant(op->getOperand(1));
  if ((isProduct || isa<arith::DivFOp>(op)) && hasConstant) {
    // A constant factor of a function, and of the changed score, which goes to
    // the exponent.
    if (isFactorOfFunction(op))
      return true;
    if (op->hasOneUse() &&
        (*op->user_begin())->hasTrait<OpTrait::IsTerminator>())
      return true;
  }
  if (!isa<arith::AddFOp>(op))
    return false;
  // Products start from what is only added to their result; a sum of a product
  // is one instruction.
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
  // The first operand is what is read.
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

//===----------------------------------------------------------------------===//
// Dropout
//===----------------------------------------------------------------------===//

/// Fitted to `benchmarks/results/dropout.jsonl` (suites attention and grid, an
/// H200, 2026-11-23; `benchmarks/calibrate.py`, see docs/cost-model.md): what
/// does not depend on the generator, in attention and in gradients, and for
/// each instruction per score; and where decisions are read.
static constexpr double clocksPerScoreMade = 0.015;
static constexpr double clocksPerScoreMadeGradient = 0.027;
static constexpr double clocksPerIntegerMade = 0.0026;
static constexpr double clocksPerWideMade = 0.045;
static constexpr double clocksPerScoreRead = 0.010;
static constexpr double clocksPerScoreReadGradient = 0.03;
/// Products of so many channels run nearly all of the time. While they do,
/// instructions are hidden, but wide multiplications wait for them.
static constexpr double channelsOfFullRate = 256, minShareOfProducts = 0.25;
/// Scores that one word decides on.
static constexpr double bitsOfWord = 32;

double attn::getDecisionClocks(Decisions decisions, const RngWork &rng,
                               int64_t channels, bool isGradient) {
  if (decisions == Decisions::Read)
    return isGradient ? clocksPerScoreReadGradient : clocksPerScoreRead;
  double share = std::clamp(double(channels) / channelsOfFullRate,
                            minShareOfProducts, 1.0);
  double wide = clocksPerWideMade * share * double(rng.wideMultiply);
  double integer = clocksPerIntegerMade * double(rng.integer);
  // Gradients have five products, which hide as much at any width.
  if (!isGradient)
    integer /= share;
  return (isGradient ? clocksPerScoreMadeGradient : clocksPerScoreMade) +
         (integer + wide) / bitsOfWord;
}

double attn::getDecisionClocks(AttentionOpInterface op, bool isGradient) {
  int64_t channels = op.getQueryHeadDim() + op.getValueHeadDim();
  if (op.getDropoutMask())
    return getDecisionClocks(Decisions::Read, RngWork(), channels, isGradient);
  if (DropoutAttr dropout = op.getDropoutAttr())
    return getDecisionClocks(Decisions::Made, dropout.countKeepWord(), channels,
                             isGradient);
  return 0;
}
