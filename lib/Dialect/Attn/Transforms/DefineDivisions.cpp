//===- DefineDivisions.cpp - Results of all integer divisions -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Integer division by zero, the overflow of a quotient and shifts by at least
// the bit width have no defined result in arith. Processors end the process,
// and LLVM drops the code around them. Here they get the results of traced
// Python functions, which are the same on all targets.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Index/IR/IndexOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/InferIntRangeInterface.h"
#include "mlir/Interfaces/ShapedOpInterfaces.h"
#include "llvm/Support/DebugLog.h"

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNDEFINEDIVISIONSPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace mlir::attn

#define DEBUG_TYPE "attn-define-divisions"

using namespace mlir;
using namespace mlir::attn;

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

static unsigned getWidth(Type type) {
  return type.isIndex() ? IndexType::kInternalStorageBitWidth
                        : type.getIntOrFloatBitWidth();
}

static bool isSignedDivision(Operation *op) {
  return isa<arith::DivSIOp, arith::RemSIOp, arith::FloorDivSIOp,
             arith::CeilDivSIOp, index::DivSOp, index::RemSOp,
             index::FloorDivSOp, index::CeilDivSOp>(op);
}

static bool isRemainder(Operation *op) {
  return isa<arith::RemSIOp, arith::RemUIOp, index::RemSOp, index::RemUOp>(op);
}

static bool isDivision(Operation *op) {
  return isSignedDivision(op) || isRemainder(op) ||
         isa<arith::DivUIOp, arith::CeilDivUIOp, index::DivUOp,
             index::CeilDivUOp>(op);
}

static bool isArithmeticShift(Operation *op) {
  return isa<arith::ShRSIOp, index::ShrSOp>(op);
}

static bool isShift(Operation *op) {
  return isArithmeticShift(op) ||
         isa<arith::ShLIOp, arith::ShRUIOp, index::ShlOp, index::ShrUOp>(op);
}

/// Whether the constant second operand alone makes the result defined.
static bool isDefinedByConstant(Operation *op) {
  APInt constant;
  if (!matchPattern(op->getOperand(1), m_ConstantInt(&constant)))
    return false;
  if (isShift(op))
    return constant.ult(getWidth(op->getResult(0).getType()));
  return !constant.isZero() && !(isSignedDivision(op) && constant.isAllOnes());
}

/// Whether `op` may have no defined result.
static bool isCandidate(Operation *op) {
  return (isDivision(op) || isShift(op)) &&
         op->getResult(0).getType().isIntOrIndex() && !isDefinedByConstant(op);
}

//===----------------------------------------------------------------------===//
// Ranges
//===----------------------------------------------------------------------===//

namespace {
/// Ranges of the integers of the operations that were added.
class IntegerRanges {
public:
  /// Adds the results of `op`, whose operands were added before, and the
  /// arguments of its regions.
  void add(Operation *op);

  ConstantIntRanges lookup(Value value) const;

  bool canBeZero(Value value) const;

  /// Whether lhs / rhs may be one more than the largest integer.
  bool canOverflow(Value lhs, Value rhs) const;

private:
  llvm::DenseMap<Value, ConstantIntRanges> ranges;
};
} // namespace

void IntegerRanges::add(Operation *op) {
  // Positions, batch entries and heads are less than 2^31, and sizes are too.
  unsigned width = IndexType::kInternalStorageBitWidth;
  auto position = ConstantIntRanges::fromUnsigned(APInt(width, 0),
                                                  APInt(width, (1u << 31) - 1));
  if (isa_and_nonnull<AttnDialect>(op->getDialect()))
    for (Region &region : op->getRegions())
      for (BlockArgument argument : region.getArguments())
        if (argument.getType().isIndex())
          ranges.insert({argument, position});
  if (isa<ShapedDimOpInterface>(op))
    ranges.insert({op->getResult(0), position});
  auto isInteger = [](Type type) { return type.isIntOrIndex(); };
  auto inferrable = dyn_cast<InferIntRangeInterface>(op);
  if (!inferrable || !llvm::all_of(op->getOperandTypes(), isInteger) ||
      !llvm::all_of(op->getResultTypes(), isInteger))
    return;
  SmallVector<ConstantIntRanges> operands;
  for (Value operand : op->getOperands())
    operands.push_back(lookup(operand));
  inferrable.inferResultRanges(
      operands, [&](Value value, const ConstantIntRanges &range) {
        ranges.insert({value, range});
      });
}

ConstantIntRanges IntegerRanges::lookup(Value value) const {
  if (auto it = ranges.find(value); it != ranges.end())
    return it->second;
  return ConstantIntRanges::maxRange(getWidth(value.getType()));
}

bool IntegerRanges::canBeZero(Value value) const {
  ConstantIntRanges range = lookup(value);
  if (!range.umin().isZero() || range.smin().isStrictlyPositive() ||
      range.smax().isNegative())
    return false;
  // A select between a value that is not zero and a replacement for zero, such
  // as tracing emits.
  auto select = value.getDefiningOp<arith::SelectOp>();
  auto compare = select ? select.getCondition().getDefiningOp<arith::CmpIOp>()
                        : arith::CmpIOp();
  if (!compare || !matchPattern(compare.getRhs(), m_Zero()))
    return true;
  Value compared = compare.getLhs();
  if (compare.getPredicate() == arith::CmpIPredicate::eq)
    return select.getFalseValue() != compared ||
           canBeZero(select.getTrueValue());
  if (compare.getPredicate() == arith::CmpIPredicate::ne)
    return select.getTrueValue() != compared ||
           canBeZero(select.getFalseValue());
  return true;
}

bool IntegerRanges::canOverflow(Value lhs, Value rhs) const {
  ConstantIntRanges dividend = lookup(lhs), divisor = lookup(rhs);
  APInt minusOne = APInt::getAllOnes(divisor.smin().getBitWidth());
  return dividend.smin().isMinSignedValue() && divisor.smin().sle(minusOne) &&
         divisor.smax().sge(minusOne);
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

static Value createConstant(ImplicitLocOpBuilder &b, Type type,
                            const APInt &value) {
  return arith::ConstantOp::create(b, b.getIntegerAttr(type, value));
}

/// Replaces a division of one-bit integers: its divisor is one if it is not
/// zero, and division by zero gives the dividend.
static void defineBitDivision(ImplicitLocOpBuilder &b, Operation *op) {
  Value result = op->getOperand(0);
  if (isRemainder(op)) {
    Value zero = createConstant(b, result.getType(), APInt(1, 0));
    result = arith::SelectOp::create(b, op->getOperand(1), zero, result);
  }
  op->replaceAllUsesWith(ValueRange(result));
  op->erase();
}

/// Divides by one instead of zero, and instead of minus one where the quotient
/// would overflow. So quotients by zero are the dividend and quotients that
/// overflow wrap around. Remainders of a division by zero are the dividend,
/// too.
static void defineDivision(Operation *op, const IntegerRanges &ranges) {
  Value lhs = op->getOperand(0), rhs = op->getOperand(1);
  Type type = rhs.getType();
  bool canBeZero = ranges.canBeZero(rhs);
  bool canOverflow = isSignedDivision(op) && ranges.canOverflow(lhs, rhs);
  LDBG() << *op << (canBeZero ? ": the divisor can be zero" : "")
         << (canOverflow ? ": can overflow" : "");
  if (!canBeZero && !canOverflow)
    return;
  ImplicitLocOpBuilder b(op->getLoc(), op);
  unsigned width = getWidth(type);
  if (width == 1)
    return defineBitDivision(b, op);
  auto isEqual = [&](Value value, const APInt &constant) -> Value {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, value,
                                 createConstant(b, type, constant));
  };
  Value isZero, isUndefined;
  if (canBeZero)
    isUndefined = isZero = isEqual(rhs, APInt(width, 0));
  if (canOverflow) {
    Value overflows =
        arith::AndIOp::create(b, isEqual(lhs, APInt::getSignedMinValue(width)),
                              isEqual(rhs, APInt::getAllOnes(width)));
    isUndefined = isUndefined ? arith::OrIOp::create(b, isUndefined, overflows)
                              : overflows;
  }
  Value one = createConstant(b, type, APInt(width, 1));
  op->setOperand(1, arith::SelectOp::create(b, isUndefined, one, rhs));
  if (!isRemainder(op) || !isZero)
    return;
  b.setInsertionPointAfter(op);
  Value remainder = op->getResult(0);
  auto select = arith::SelectOp::create(b, isZero, lhs, remainder);
  remainder.replaceAllUsesExcept(select, select);
}

/// Shifts out all bits if the amount is at least the bit width.
static void defineShift(Operation *op, const IntegerRanges &ranges) {
  Value amount = op->getOperand(1);
  Type type = amount.getType();
  unsigned width = getWidth(type);
  if (ranges.lookup(amount).umax().ult(width))
    return;
  ImplicitLocOpBuilder b(op->getLoc(), op);
  Value last = createConstant(b, type, APInt(width, width - 1));
  op->setOperand(1, arith::MinUIOp::create(b, amount, last));
  // A sign that is shifted by all bits but one stays the sign.
  if (isArithmeticShift(op))
    return;
  b.setInsertionPointAfter(op);
  Value shifted = op->getResult(0);
  Value isAll =
      arith::CmpIOp::create(b, arith::CmpIPredicate::ugt, amount, last);
  Value zero = createConstant(b, type, APInt(width, 0));
  auto select = arith::SelectOp::create(b, isAll, zero, shifted);
  shifted.replaceAllUsesExcept(select, select);
}

namespace {
struct AttnDefineDivisionsPass
    : attn::impl::AttnDefineDivisionsPassBase<AttnDefineDivisionsPass> {
  using Base::Base;

  void runOnOperation() override {
    WalkResult found = getOperation()->walk([](Operation *op) {
      return isCandidate(op) ? WalkResult::interrupt() : WalkResult::advance();
    });
    if (!found.wasInterrupted())
      return markAllAnalysesPreserved();
    IntegerRanges ranges;
    SmallVector<Operation *> candidates;
    // Operands of an operation come before it.
    getOperation()->walk<WalkOrder::PreOrder>([&](Operation *op) {
      ranges.add(op);
      if (isCandidate(op))
        candidates.push_back(op);
    });
    for (Operation *op : candidates)
      isShift(op) ? defineShift(op, ranges) : defineDivision(op, ranges);
  }
};
} // namespace
