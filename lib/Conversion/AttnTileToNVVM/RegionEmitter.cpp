//===- RegionEmitter.cpp - Scalar regions on registers ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Evaluates a scalar region for the registers of a thread, keeping positions
// linear as long as possible.
//
//===----------------------------------------------------------------------===//

#include "RegionEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::attn;

/// Lets the back end fuse multiplications and additions in `op` and its
/// regions.
static void allowContraction(Operation *op) {
  op->walk([](arith::ArithFastMathInterface math) {
    auto flags = math.getFastMathFlagsAttr();
    auto all = (flags ? flags.getValue() : arith::FastMathFlags::none) |
               arith::FastMathFlags::contract;
    math->setAttr(math.getFastMathAttrName(),
                  arith::FastMathFlagsAttr::get(math->getContext(), all));
  });
}

void RegionEmitter::set(BlockArgument argument, Varies varies,
                        ValueRange registers) {
  Terms &terms = values[argument];
  terms.varies = varies;
  for (Value value : registers)
    terms.terms.push_back({value});
}

void RegionEmitter::setPositions(BlockArgument argument, Varies varies,
                                 Value base, ArrayRef<int64_t> offsets) {
  Terms &terms = values[argument];
  terms.varies = varies;
  for (int64_t offset : offsets)
    terms.terms.push_back({base, offset});
}

int64_t RegionEmitter::getNumTerms(Varies varies) const {
  return (varies & ByRow ? rows : 1) * (varies & ByColumn ? columns : 1);
}

RegionEmitter::Term &RegionEmitter::getTerm(Value value, int64_t row,
                                            int64_t column) {
  Terms &terms = values.find(value)->second;
  switch (terms.varies) {
  case Never:
    return terms.terms.front();
  case ByRow:
    return terms.terms[row];
  case ByColumn:
    return terms.terms[column];
  case ByElement:
    return terms.terms[row * columns + column];
  }
  llvm_unreachable("unknown variation");
}

RegionEmitter::Varies RegionEmitter::getVariation(Operation *op) const {
  unsigned varies = Never;
  op->walk([&](Operation *nested) {
    for (Value operand : nested->getOperands())
      if (auto it = values.find(operand); it != values.end())
        varies |= it->second.varies;
  });
  return static_cast<Varies>(varies);
}

Value RegionEmitter::materialize(Location loc, const Term &term) {
  if (term.isPlain())
    return term.base;
  Type type = term.base.getType();
  if (type.isIntOrIndex()) {
    Value offset = arith::ConstantOp::create(
        builder, loc, builder.getIntegerAttr(type, term.offset));
    return arith::AddIOp::create(builder, loc, term.base, offset);
  }
  Value offset = arith::ConstantOp::create(
      builder, loc,
      builder.getFloatAttr(type, static_cast<double>(term.offset)));
  if (!term.factor)
    return arith::AddFOp::create(builder, loc, term.base, offset);
  return math::FmaOp::create(builder, loc, term.factor, offset, term.base);
}

/// Emits `op` on other operands, only once for the same operands.
Value RegionEmitter::emitOnBases(Operation *op, Value lhs, Value rhs) {
  Value &result = bases[{op, lhs, rhs}];
  if (!result) {
    Operation *copy = builder.clone(*op);
    copy->setOperand(0, lhs);
    if (rhs)
      copy->setOperand(1, rhs);
    allowContraction(copy);
    result = copy->getResult(0);
  }
  return result;
}

/// Index arithmetic has enough bits by definition.
bool RegionEmitter::isExact(Value value) {
  if (value.getType().isIndex())
    return true;
  auto it = ranges.find(value);
  if (it == ranges.end())
    return false;
  unsigned width = it->second.smin().getBitWidth();
  return !(it->second == ConstantIntRanges::maxRange(width));
}

/// Operations that keep a term linear; nothing for other ones.
std::optional<RegionEmitter::Term>
RegionEmitter::emitLinear(Operation *op, ArrayRef<Term> operands) {
  auto isPlain = [](const Term &term) { return term.isPlain(); };
  if (op->getNumRegions() != 0 || llvm::all_of(operands, isPlain))
    return std::nullopt;
  using Result = std::optional<Term>;
  auto sum = [&](int64_t sign) -> Result {
    const Term &lhs = operands[0], &rhs = operands[1];
    // A term can keep only one of two offsets with factors.
    if (!lhs.isPlain() && !rhs.isPlain() && (lhs.factor || rhs.factor))
      return std::nullopt;
    // A factor cannot be negated, but its offset can.
    return Term{emitOnBases(op, lhs.base, rhs.base),
                lhs.offset + sign * rhs.offset,
                lhs.isPlain() ? rhs.factor : lhs.factor};
  };
  return TypeSwitch<Operation *, Result>(op)
      .Case<arith::AddIOp, arith::AddFOp>([&](auto) { return sum(1); })
      .Case<arith::SubIOp, arith::SubFOp>([&](auto) { return sum(-1); })
      .Case<arith::IndexCastOp, arith::ExtSIOp>([&](Operation *cast) -> Result {
        if (!isExact(cast->getOperand(0)))
          return std::nullopt;
        return Term{emitOnBases(cast, operands[0].base), operands[0].offset};
      })
      .Case<arith::SIToFPOp>([&](Operation *cast) -> Result {
        if (!isExact(cast->getOperand(0)) ||
            !cast->getResult(0).getType().isF32())
          return std::nullopt;
        return Term{emitOnBases(cast, operands[0].base), operands[0].offset};
      })
      .Case<arith::MulFOp>([&](Operation *product) -> Result {
        bool isLhs = !operands[0].isPlain();
        const Term &linear = operands[isLhs ? 0 : 1];
        const Term &other = operands[isLhs ? 1 : 0];
        if (!other.isPlain())
          return std::nullopt;
        Value factor = linear.factor
                           ? emitOnBases(product, linear.factor, other.base)
                           : other.base;
        return Term{emitOnBases(product, linear.base, other.base),
                    linear.offset, factor};
      })
      .Case<arith::NegFOp>([&](Operation *negation) -> Result {
        return Term{emitOnBases(negation, operands[0].base),
                    -operands[0].offset, operands[0].factor};
      })
      .Default([](Operation *) { return std::nullopt; });
}

/// Extends a bf16 half of a word to f32: its bits are the upper half of the
/// f32. This is one instruction, where the assembler has two for the second
/// half. Null for other operations.
static Value emitExtension(OpBuilder &builder, Operation *op, Value half) {
  auto extract = half.getDefiningOp<LLVM::ExtractElementOp>();
  auto pair = extract ? extract.getVector().getDefiningOp<LLVM::BitcastOp>()
                      : LLVM::BitcastOp();
  APInt index;
  if (!isa<arith::ExtFOp>(op) || !op->getResult(0).getType().isF32() ||
      !half.getType().isBF16() || !pair ||
      !pair.getArg().getType().isInteger(32) ||
      !matchPattern(extract.getPosition(), m_ConstantInt(&index)))
    return nullptr;
  Location loc = op->getLoc();
  auto constant = [&](uint32_t value) {
    return arith::ConstantIntOp::create(builder, loc, builder.getI32Type(),
                                        static_cast<int32_t>(value));
  };
  Value bits =
      index.isZero()
          ? arith::ShLIOp::create(builder, loc, pair.getArg(), constant(16))
                .getResult()
          : arith::AndIOp::create(builder, loc, pair.getArg(),
                                  constant(0xffff0000))
                .getResult();
  return arith::BitcastOp::create(builder, loc, builder.getF32Type(), bits);
}

void RegionEmitter::emit(Operation *op, int64_t row, int64_t column) {
  if (op->getNumResults() == 1) {
    SmallVector<Term> operands;
    for (Value operand : op->getOperands())
      operands.push_back(values.contains(operand)
                             ? getTerm(operand, row, column)
                             : Term{operand});
    if (std::optional<Term> term = emitLinear(op, operands)) {
      getTerm(op->getResult(0), row, column) = *term;
      return;
    }
    if (operands.size() == 1 && operands.front().isPlain())
      if (Value wide = emitExtension(builder, op, operands.front().base)) {
        getTerm(op->getResult(0), row, column) = Term{wide};
        return;
      }
  }
  IRMapping mapping;
  op->walk([&](Operation *nested) {
    for (Value operand : nested->getOperands())
      if (values.contains(operand) && !mapping.contains(operand))
        mapping.map(operand,
                    materialize(op->getLoc(), getTerm(operand, row, column)));
  });
  Operation *copy = builder.clone(*op, mapping);
  allowContraction(copy);
  for (auto [from, to] : llvm::zip(op->getResults(), copy->getResults()))
    getTerm(from, row, column) = Term{to};
}

/// Computes ranges of integers whose type is not `index`.
void RegionEmitter::inferRanges() {
  constexpr unsigned indexBits = IndexType::kInternalStorageBitWidth;
  auto getWidth = [](Type type) {
    return type.isIndex() ? indexBits : type.getIntOrFloatBitWidth();
  };
  auto lookup = [&](Value value) {
    if (auto it = ranges.find(value); it != ranges.end())
      return it->second;
    IntegerAttr constant;
    if (matchPattern(value, m_Constant(&constant)))
      return ConstantIntRanges::constant(constant.getValue());
    return ConstantIntRanges::maxRange(getWidth(value.getType()));
  };
  // Positions are less than 2^31.
  for (BlockArgument argument : body.getArguments())
    if (argument.getType().isIndex())
      ranges.insert({argument, ConstantIntRanges::fromUnsigned(
                                   APInt(indexBits, 0),
                                   APInt(indexBits, (1u << 31) - 1))});
  for (Operation &op : body.without_terminator()) {
    auto inferrable = dyn_cast<InferIntRangeInterface>(op);
    auto isInteger = [](Type type) { return type.isIntOrIndex(); };
    if (!inferrable || !llvm::all_of(op.getOperandTypes(), isInteger))
      continue;
    SmallVector<ConstantIntRanges> operands;
    for (Value operand : op.getOperands())
      operands.push_back(lookup(operand));
    inferrable.inferResultRanges(
        operands, [&](Value value, const ConstantIntRanges &range) {
          ranges.insert({value, range});
        });
  }
}

void RegionEmitter::emitShared(unsigned maxLoads) {
  inferRanges();
  unsigned numLoads = 0;
  for (Operation &op : body.without_terminator()) {
    Varies varies = getVariation(&op);
    for (Value result : op.getResults())
      values[result] = {varies, SmallVector<Term>(getNumTerms(varies))};
    if (varies == ByElement) {
      elementOps.push_back(&op);
      continue;
    }
    if (varies == ByColumn) {
      columnOps.push_back(&op);
      if (!isMemoryEffectFree(&op))
        ++numLoads;
      continue;
    }
    for (int64_t row = 0, e = varies & ByRow ? rows : 1; row < e; ++row)
      emit(&op, row, 0);
  }
  if (numLoads > maxLoads)
    return;
  for (Operation *op : columnOps)
    for (int64_t column = 0; column < columns; ++column)
      emit(op, 0, column);
  columnOps.clear();
}

void RegionEmitter::emitEach(
    function_ref<void(int64_t, int64_t, ArrayRef<Term>)> use) {
  // Columns are the outer loop: neighbours in a column have more values in
  // common than neighbours in a row, and these values are dead soon.
  Operation *yield = body.getTerminator();
  Varies varies = getYieldVariation();
  for (int64_t column = 0, e = varies & ByColumn ? columns : 1; column < e;
       ++column) {
    for (Operation *op : columnOps)
      emit(op, 0, column);
    for (int64_t row = 0, e = varies & ByRow ? rows : 1; row < e; ++row) {
      for (Operation *op : elementOps)
        emit(op, row, column);
      auto yielded =
          llvm::map_to_vector(yield->getOperands(), [&](Value value) {
            return values.contains(value) ? getTerm(value, row, column)
                                          : Term{value};
          });
      use(row, column, yielded);
    }
  }
}

SmallVector<Value> RegionEmitter::emitElements() {
  SmallVector<Value> results(rows * columns);
  Varies varies = getYieldVariation();
  emitEach([&](int64_t row, int64_t column, ArrayRef<Term> yielded) {
    Value value = materialize(body.getTerminator()->getLoc(), yielded.front());
    for (int64_t r = row, e = varies & ByRow ? row + 1 : rows; r < e; ++r)
      for (int64_t c = column, e = varies & ByColumn ? column + 1 : columns;
           c < e; ++c)
        results[r * columns + c] = value;
  });
  return results;
}
