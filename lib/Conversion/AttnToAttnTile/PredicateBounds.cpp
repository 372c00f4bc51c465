//===- PredicateBounds.cpp - Bounds of a predicate in a tile --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PredicateBounds.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

#include <limits>
#include <numeric>

using namespace mlir;
using namespace mlir::attn;
using arith::CmpIPredicate;

static constexpr int64_t least = std::numeric_limits<int32_t>::min();
/// The smallest blocks of positions that are worth an evaluation of their own.
static constexpr int64_t minCellSize = 16;
static constexpr int64_t most = std::numeric_limits<int32_t>::max();

/// The width of an integer or index type; nothing for other types.
static std::optional<unsigned> getWidth(Type type) {
  if (type.isIndex())
    return IndexType::kInternalStorageBitWidth;
  if (auto integer = dyn_cast<IntegerType>(type))
    return integer.getWidth();
  return std::nullopt;
}

/// Whether values of the type can have bounds.
static bool canBeBounded(Type type) {
  std::optional<unsigned> width = getWidth(type);
  return width && *width <= 64;
}

/// Whether bounds of the results follow from bounds of the operands.
static bool isBounded(Operation *op) {
  if (!llvm::all_of(op->getOperandTypes(), canBeBounded) ||
      !llvm::all_of(op->getResultTypes(), canBeBounded))
    return false;
  if (auto compare = dyn_cast<arith::CmpIOp>(op))
    return !compare.getLhs().getType().isInteger(1);
  // Quotients grow with the dividend if the divisor is positive.
  if (isa<arith::DivSIOp, arith::DivUIOp, arith::FloorDivSIOp>(op)) {
    APInt divisor;
    return matchPattern(op->getOperand(1), m_ConstantInt(&divisor)) &&
           divisor.isStrictlyPositive();
  }
  bool isBoolean = op->getResult(0).getType().isInteger(1);
  if (isa<arith::AndIOp, arith::OrIOp, arith::XOrIOp>(op))
    return isBoolean;
  if (isa<arith::SelectOp>(op))
    return true;
  return !isBoolean && isa<arith::AddIOp, arith::SubIOp, arith::MulIOp,
                           arith::MinSIOp, arith::MaxSIOp, math::AbsIOp,
                           arith::IndexCastOp, arith::IndexCastUIOp,
                           arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp>(op);
}

/// Whether a value that depends on one side grows or falls with the position,
/// so that its bounds are its values at the first and the last one.
bool PredicateBounds::isMonotonic(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return true;
  if (!isa<arith::AddIOp, arith::SubIOp>(op) || !isBounded(op))
    return false;
  bool isLhsFixed = dependences.lookup(op->getOperand(0)) == Nothing;
  bool isRhsFixed = dependences.lookup(op->getOperand(1)) == Nothing;
  return isLhsFixed != isRhsFixed &&
         isMonotonic(op->getOperand(isLhsFixed ? 1 : 0));
}

//===----------------------------------------------------------------------===//
// Shorthands
//===----------------------------------------------------------------------===//

Value PredicateBounds::constant(int64_t value) {
  return arith::ConstantIntOp::create(b, value, 64);
}

Value PredicateBounds::boolean(bool value) {
  return arith::ConstantIntOp::create(b, value, 1);
}

Value PredicateBounds::isLess(Value lhs, Value rhs) {
  return b.createOrFold<arith::CmpIOp>(CmpIPredicate::slt, lhs, rhs);
}

Value PredicateBounds::isAtMost(Value lhs, Value rhs) {
  return b.createOrFold<arith::CmpIOp>(CmpIPredicate::sle, lhs, rhs);
}

Value PredicateBounds::invert(Value condition) {
  return create<arith::XOrIOp>(condition, boolean(true));
}

Value PredicateBounds::both(Value lhs, Value rhs) {
  if (!lhs || !rhs)
    return lhs ? lhs : rhs;
  return create<arith::AndIOp>(lhs, rhs);
}

//===----------------------------------------------------------------------===//
// Parts of the predicate
//===----------------------------------------------------------------------===//

PredicateBounds::PredicateBounds(ImplicitLocOpBuilder &builder,
                                 PredicateBlock &block)
    : b(builder), block(block) {
  dependences[block.getPositions().query] = Query;
  dependences[block.getPositions().key] = Key;
  cellSizes[block.getPositions().query] = {1, 0};
  cellSizes[block.getPositions().key] = {0, 1};
  for (Operation &op : *block.getBlock()) {
    unsigned dependence = Nothing;
    op.walk([&](Operation *nested) {
      for (Value operand : nested->getOperands())
        dependence |= dependences.lookup(operand);
    });
    CellSize size = getCellSize(&op);
    for (Value result : op.getResults()) {
      dependences[result] = dependence;
      cellSizes[result] = size;
    }
  }
  addLeaves(block.getPredicate());
}

void PredicateBounds::emitUniform(const IRMapping &mapping) {
  uniform = mapping;
  clone(Nothing, uniform);
}

void PredicateBounds::clone(unsigned dependence, IRMapping &mapping) {
  for (Operation &op : *block.getBlock())
    if (op.getNumResults() != 0 &&
        dependences.lookup(op.getResult(0)) == dependence)
      b.clone(op, mapping);
}

Value PredicateBounds::emitCount(Value firstKey, Value count) {
  Value zero = arith::ConstantIndexOp::create(b, 0);
  Value one = arith::ConstantIndexOp::create(b, 1);
  auto sum = attn_tile::ReduceOp::create(b, count, vector::CombiningKind::ADD);
  OpBuilder::InsertionGuard guard(b);
  Block *body = b.createBlock(&sum.getBody(), {}, b.getIndexType(), b.getLoc());
  IRMapping mapping = uniform;
  Value key = arith::AddIOp::create(b, firstKey, body->getArgument(0));
  mapping.map(block.getPositions().key, key);
  clone(Key, mapping);
  auto rows = scf::ForOp::create(b, zero, queries.count, one, zero);
  attn_tile::YieldOp::create(b, rows.getResults());
  b.setInsertionPointToStart(rows.getBody());
  Value query = arith::AddIOp::create(b, queries.first, rows.getInductionVar());
  mapping.map(block.getPositions().query, query);
  clone(Query, mapping);
  clone(Both, mapping);
  Value holds = mapping.lookupOrDefault(block.getPredicate());
  Value kept = arith::AddIOp::create(b, rows.getRegionIterArg(0),
                                     select(holds, one, zero));
  scf::YieldOp::create(b, kept);
  return sum.getResult(0);
}

//===----------------------------------------------------------------------===//
// Blocks of positions
//===----------------------------------------------------------------------===//

PredicateBounds::CellSize PredicateBounds::getCellSize(Operation *op) {
  // A quotient of a position, which is not negative.
  APInt divisor;
  if (isa<arith::DivSIOp, arith::DivUIOp, arith::FloorDivSIOp>(op) &&
      isa<BlockArgument>(op->getOperand(0)) &&
      matchPattern(op->getOperand(1), m_ConstantInt(&divisor)) &&
      divisor.isStrictlyPositive()) {
    CellSize size = cellSizes.lookup(op->getOperand(0));
    return {size.query * divisor.getSExtValue(),
            size.key * divisor.getSExtValue()};
  }
  CellSize size;
  op->walk([&](Operation *nested) {
    for (Value operand : nested->getOperands()) {
      CellSize other = cellSizes.lookup(operand);
      size = {std::gcd(size.query, other.query), std::gcd(size.key, other.key)};
    }
  });
  return size;
}

/// Whether a value that depends on both is the same for blocks of positions.
bool PredicateBounds::isCell(Value value) {
  CellSize size = cellSizes.lookup(value);
  return canBeBounded(value.getType()) && size.query >= minCellSize &&
         size.key >= minCellSize;
}

/// Whether bounds of the operands are too loose for a value that depends on
/// both.
bool PredicateBounds::needsCells(Value value) {
  if (dependences.lookup(value) != Both)
    return false;
  Operation *op = value.getDefiningOp();
  return !isBounded(op) || llvm::any_of(op->getOperands(), [&](Value operand) {
    return needsCells(operand);
  });
}

/// Emits the smallest and the largest value of `value` in the blocks that the
/// tile meets.
void PredicateBounds::emitCells(Value value) {
  Value one = arith::ConstantIndexOp::create(b, 1);
  CellSize size = cellSizes.lookup(value);
  struct Side {
    Value first, count, size;
  };
  auto getSide = [&](const Positions &positions, int64_t size) {
    Value divisor = arith::ConstantIndexOp::create(b, size);
    Value first = arith::DivUIOp::create(b, positions.first, divisor);
    Value last = arith::DivUIOp::create(b, positions.last, divisor);
    Value count = arith::AddIOp::create(
        b, arith::SubIOp::create(b, last, first).getResult(), one);
    return Side{first, count, divisor};
  };
  Side rows = getSide(queries, size.query), columns = getSide(keys, size.key);
  Value count = arith::MulIOp::create(b, rows.count, columns.count);
  SmallVector<vector::CombiningKind> kinds;
  addKinds(value, kinds);
  // A position of the block that is in the tile.
  auto getPosition = [&](const Side &side, const Positions &positions,
                         Value number) -> Value {
    Value cell = arith::AddIOp::create(b, side.first, number);
    Value position = arith::MulIOp::create(b, cell, side.size);
    return arith::MaxSIOp::create(b, position, positions.first);
  };
  ResultRange results = emitReduction(count, kinds, [&](Value number) {
    IRMapping mapping = uniform;
    mapping.map(block.getPositions().query,
                getPosition(rows, queries,
                            arith::DivUIOp::create(b, number, columns.count)));
    mapping.map(block.getPositions().key,
                getPosition(columns, keys,
                            arith::RemUIOp::create(b, number, columns.count)));
    // Clones more than `value` needs; dead code elimination removes the rest.
    clone(Query, mapping);
    clone(Key, mapping);
    clone(Both, mapping);
    SmallVector<Value> yielded;
    yieldBounds(value, mapping.lookup(value), yielded);
    return yielded;
  });
  auto next = results.begin();
  takeBounds(value, next);
}

ResultRange
PredicateBounds::emitReduction(Value count,
                               ArrayRef<vector::CombiningKind> kinds,
                               function_ref<SmallVector<Value>(Value)> body) {
  OpBuilder::InsertionGuard guard(b);
  if (!isSerial()) {
    auto reduce = attn_tile::ReduceOp::create(b, count, kinds);
    Block *block =
        b.createBlock(&reduce.getBody(), {}, b.getIndexType(), b.getLoc());
    attn_tile::YieldOp::create(b, body(block->getArgument(0)));
    return reduce.getResults();
  }
  Value zero = arith::ConstantIndexOp::create(b, 0);
  Value one = arith::ConstantIndexOp::create(b, 1);
  SmallVector<Value> inits;
  for (vector::CombiningKind kind : kinds)
    inits.push_back(attn_tile::ReduceOp::emitNeutral(b, b.getLoc(), kind,
                                                     b.getIndexType()));
  auto loop = scf::ForOp::create(b, zero, count, one, inits);
  b.setInsertionPointToStart(loop.getBody());
  SmallVector<Value> values = body(loop.getInductionVar());
  for (auto [value, kind, sum] :
       llvm::zip_equal(values, kinds, loop.getRegionIterArgs()))
    value = vector::makeArithReduction(b, b.getLoc(), kind, sum, value);
  scf::YieldOp::create(b, values);
  return loop.getResults();
}

//===----------------------------------------------------------------------===//
// Bounds
//===----------------------------------------------------------------------===//

PredicateBounds::Result PredicateBounds::emit(const Positions &queries,
                                              const Positions &keys) {
  this->queries = queries;
  this->keys = keys;
  emitLeaves(Query);
  emitLeaves(Key);
  for (Value cell : cells)
    emitCells(cell);
  Bounds result = get(block.getPredicate());
  return {result.low, result.high};
}

/// Finds the values that depend on one side and that bounds of `value` need.
void PredicateBounds::addLeaves(Value value) {
  unsigned dependence = dependences.lookup(value);
  if (dependence == Nothing || !canBeBounded(value.getType()))
    return;
  if (dependence != Both) {
    if (!isMonotonic(value))
      leaves.insert(value);
    return;
  }
  if (isCell(value) && needsCells(value)) {
    cells.insert(value);
    return;
  }
  Operation *op = value.getDefiningOp();
  if (!isBounded(op))
    return;
  for (Value operand : op->getOperands())
    addLeaves(operand);
}

/// Emits the smallest and the largest value of each leaf that depends on
/// `side`.
void PredicateBounds::emitLeaves(Dependence side) {
  SmallVector<Value> values;
  SmallVector<vector::CombiningKind> kinds;
  for (Value leaf : leaves) {
    if (dependences.lookup(leaf) != side)
      continue;
    values.push_back(leaf);
    addKinds(leaf, kinds);
  }
  if (values.empty())
    return;

  const Positions &positions = side == Query ? queries : keys;
  ResultRange results =
      emitReduction(positions.count, kinds, [&](Value number) {
        IRMapping mapping = uniform;
        Value position = arith::AddIOp::create(b, positions.first, number);
        mapping.map(side == Query ? block.getPositions().query
                                  : block.getPositions().key,
                    position);
        clone(side, mapping);
        SmallVector<Value> yielded;
        for (Value leaf : values)
          yieldBounds(leaf, mapping.lookup(leaf), yielded);
        return yielded;
      });
  auto next = results.begin();
  for (Value leaf : values)
    takeBounds(leaf, next);
}

void PredicateBounds::addKinds(Value leaf,
                               SmallVectorImpl<vector::CombiningKind> &kinds) {
  using vector::CombiningKind;
  kinds.append({CombiningKind::MINSI, CombiningKind::MAXSI});
  if (*getWidth(leaf.getType()) > 32)
    kinds.push_back(CombiningKind::MINSI);
}

void PredicateBounds::yieldBounds(Value leaf, Value value,
                                  SmallVectorImpl<Value> &yielded) {
  Value fits;
  if (*getWidth(leaf.getType()) > 32) {
    if (value.getType().isIndex())
      value = arith::IndexCastOp::create(b, b.getI64Type(), value);
    else if (value.getType() != b.getI64Type())
      value = arith::ExtSIOp::create(b, b.getI64Type(), value);
    Value narrow = arith::TruncIOp::create(b, b.getI32Type(), value);
    Value wide = arith::ExtSIOp::create(b, b.getI64Type(), narrow);
    fits = arith::CmpIOp::create(b, CmpIPredicate::eq, value, wide);
    value = narrow;
  }
  Type index = b.getIndexType();
  if (value.getType().isInteger(1))
    value = arith::IndexCastUIOp::create(b, index, value);
  else
    value = arith::IndexCastOp::create(b, index, value);
  yielded.append({value, value});
  if (fits)
    yielded.push_back(arith::IndexCastUIOp::create(b, index, fits));
}

void PredicateBounds::takeBounds(Value leaf, ResultRange::iterator &next) {
  Value zero = arith::ConstantIndexOp::create(b, 0);
  auto isSet = [&](Value value) -> Value {
    return arith::CmpIOp::create(b, CmpIPredicate::ne, value, zero);
  };
  Value low = *next++, high = *next++;
  if (leaf.getType().isInteger(1)) {
    bounds[leaf] = {isSet(low), isSet(high), Value()};
    return;
  }
  low = arith::IndexCastOp::create(b, b.getI64Type(), low);
  high = arith::IndexCastOp::create(b, b.getI64Type(), high);
  bounds[leaf] = {low, high, Value()};
  if (*getWidth(leaf.getType()) > 32)
    bounds[leaf].isKnown = isSet(*next++);
}

PredicateBounds::Bounds PredicateBounds::getUnknown(Type type) {
  if (type.isInteger(1))
    return {boolean(false), boolean(true), Value()};
  return {constant(0), constant(0), boolean(false)};
}

/// Bounds of a value that is the same for all pairs.
PredicateBounds::Bounds PredicateBounds::getFixed(Value value) {
  value = uniform.lookupOrDefault(value);
  Type type = value.getType();
  if (type.isInteger(1))
    return {value, value, Value()};
  if (type.isIndex())
    value = arith::IndexCastOp::create(b, b.getI64Type(), value);
  else if (type != b.getI64Type())
    value = arith::ExtSIOp::create(b, b.getI64Type(), value);
  return narrow(value, value, {});
}

PredicateBounds::Bounds PredicateBounds::narrow(Value low, Value high,
                                                ArrayRef<Bounds> operands) {
  Value isKnown =
      both(isAtMost(constant(least), low), isAtMost(high, constant(most)));
  for (const Bounds &operand : operands)
    isKnown = both(isKnown, operand.isKnown);
  return {low, high, isKnown};
}

PredicateBounds::Bounds PredicateBounds::get(Value value) {
  auto known = bounds.find(value);
  if (known != bounds.end())
    return known->second;
  Bounds result = getUncached(value);
  bounds[value] = result;
  return result;
}

PredicateBounds::Bounds PredicateBounds::getUncached(Value value) {
  if (!canBeBounded(value.getType()))
    return getUnknown(value.getType());
  unsigned dependence = dependences.lookup(value);
  if (dependence == Nothing)
    return getFixed(value);
  Operation *op = value.getDefiningOp();
  if (!op) {
    const Positions &positions = dependence == Query ? queries : keys;
    auto widen = [&](Value position) -> Value {
      return arith::IndexCastOp::create(b, b.getI64Type(), position);
    };
    return {widen(positions.first), widen(positions.last), Value()};
  }
  return isBounded(op) ? combine(op) : getUnknown(value.getType());
}

/// Bounds of the result of an operation for which `isBounded` holds.
PredicateBounds::Bounds PredicateBounds::combine(Operation *op) {
  if (isa<arith::CmpIOp>(op))
    return compare(op);
  Type type = op->getResult(0).getType();
  if (type.isInteger(1))
    return combineBooleans(op);

  auto min = [&](Value lhs, Value rhs) {
    return create<arith::MinSIOp>(lhs, rhs);
  };
  auto max = [&](Value lhs, Value rhs) {
    return create<arith::MaxSIOp>(lhs, rhs);
  };
  if (isa<arith::SelectOp>(op)) {
    Bounds condition = get(op->getOperand(0));
    Bounds yes = get(op->getOperand(1)), no = get(op->getOperand(2));
    Value isNo = invert(condition.high);
    auto choose = [&](Value ifYes, Value ifNo, Value ifEither) {
      return select(condition.low, ifYes, select(isNo, ifNo, ifEither));
    };
    return {choose(yes.low, no.low, min(yes.low, no.low)),
            choose(yes.high, no.high, max(yes.high, no.high)),
            both(yes.isKnown, no.isKnown)};
  }

  SmallVector<Bounds, 2> operands;
  for (Value operand : op->getOperands())
    operands.push_back(get(operand));
  const Bounds &lhs = operands.front(), &rhs = operands.back();
  Value zero = constant(0);
  return TypeSwitch<Operation *, Bounds>(op)
      .Case([&](arith::AddIOp) {
        return narrow(create<arith::AddIOp>(lhs.low, rhs.low),
                      create<arith::AddIOp>(lhs.high, rhs.high), operands);
      })
      .Case([&](arith::SubIOp) {
        return narrow(create<arith::SubIOp>(lhs.low, rhs.high),
                      create<arith::SubIOp>(lhs.high, rhs.low), operands);
      })
      .Case([&](arith::MulIOp) {
        Value corners[] = {create<arith::MulIOp>(lhs.low, rhs.low),
                           create<arith::MulIOp>(lhs.low, rhs.high),
                           create<arith::MulIOp>(lhs.high, rhs.low),
                           create<arith::MulIOp>(lhs.high, rhs.high)};
        return narrow(
            min(min(corners[0], corners[1]), min(corners[2], corners[3])),
            max(max(corners[0], corners[1]), max(corners[2], corners[3])),
            operands);
      })
      .Case([&](arith::MinSIOp) {
        return narrow(min(lhs.low, rhs.low), min(lhs.high, rhs.high), operands);
      })
      .Case([&](arith::MaxSIOp) {
        return narrow(max(lhs.low, rhs.low), max(lhs.high, rhs.high), operands);
      })
      .Case([&](math::AbsIOp) {
        Value negated = create<arith::SubIOp>(zero, lhs.low);
        Value low =
            max(zero, max(lhs.low, create<arith::SubIOp>(zero, lhs.high)));
        return narrow(low, max(negated, lhs.high), operands);
      })
      .Case<arith::DivSIOp, arith::DivUIOp>([&](auto quotient) {
        Bounds result =
            narrow(create<arith::DivSIOp>(lhs.low, rhs.low),
                   create<arith::DivSIOp>(lhs.high, rhs.low), operands);
        if (isa<arith::DivUIOp>(op))
          result.isKnown = both(result.isKnown, isAtMost(zero, lhs.low));
        return result;
      })
      .Case([&](arith::FloorDivSIOp) {
        return narrow(create<arith::FloorDivSIOp>(lhs.low, rhs.low),
                      create<arith::FloorDivSIOp>(lhs.high, rhs.low), operands);
      })
      .Case<arith::IndexCastUIOp, arith::ExtUIOp>([&](auto) {
        if (op->getOperand(0).getType().isInteger(1)) {
          Value one = constant(1);
          return Bounds{select(lhs.low, one, zero), select(lhs.high, one, zero),
                        Value()};
        }
        Bounds result = lhs;
        result.isKnown = both(result.isKnown, isAtMost(zero, lhs.low));
        return result;
      })
      .Case<arith::IndexCastOp, arith::ExtSIOp, arith::TruncIOp>([&](auto) {
        // Only between types that hold the 32-bit range of known bounds.
        if (*getWidth(op->getOperand(0).getType()) < 2 || *getWidth(type) < 32)
          return getUnknown(type);
        return lhs;
      })
      .Default([&](Operation *) { return getUnknown(type); });
}

PredicateBounds::Bounds PredicateBounds::combineBooleans(Operation *op) {
  auto conjoin = [&](Value lhs, Value rhs) {
    return create<arith::AndIOp>(lhs, rhs);
  };
  auto disjoin = [&](Value lhs, Value rhs) {
    return create<arith::OrIOp>(lhs, rhs);
  };
  Bounds lhs = get(op->getOperand(0)), rhs = get(op->getOperand(1));
  if (isa<arith::AndIOp>(op))
    return {conjoin(lhs.low, rhs.low), conjoin(lhs.high, rhs.high), Value()};
  if (isa<arith::OrIOp>(op))
    return {disjoin(lhs.low, rhs.low), disjoin(lhs.high, rhs.high), Value()};
  Value isNotLhs = invert(lhs.high);
  if (isa<arith::XOrIOp>(op)) {
    Value isNotRhs = invert(rhs.high);
    Value differ =
        disjoin(conjoin(lhs.low, isNotRhs), conjoin(isNotLhs, rhs.low));
    Value agree =
        disjoin(conjoin(lhs.low, rhs.low), conjoin(isNotLhs, isNotRhs));
    return {differ, invert(agree), Value()};
  }
  Bounds other = get(cast<arith::SelectOp>(op).getFalseValue());
  Value low = disjoin(conjoin(lhs.low, rhs.low), conjoin(isNotLhs, other.low));
  Value high = disjoin(conjoin(lhs.high, rhs.high),
                       conjoin(invert(lhs.low), other.high));
  return {disjoin(low, conjoin(rhs.low, other.low)),
          conjoin(high, disjoin(rhs.high, other.high)), Value()};
}

PredicateBounds::Bounds PredicateBounds::compare(Operation *op) {
  auto cmp = cast<arith::CmpIOp>(op);
  Bounds lhs = get(cmp.getLhs()), rhs = get(cmp.getRhs());
  Value isKnown = both(lhs.isKnown, rhs.isKnown);
  CmpIPredicate predicate = cmp.getPredicate();
  switch (predicate) {
  case CmpIPredicate::ult:
  case CmpIPredicate::ule:
  case CmpIPredicate::ugt:
  case CmpIPredicate::uge: {
    Value zero = constant(0);
    isKnown =
        both(isKnown, both(isAtMost(zero, lhs.low), isAtMost(zero, rhs.low)));
    break;
  }
  default:
    break;
  }
  Value all, any;
  switch (predicate) {
  case CmpIPredicate::eq:
  case CmpIPredicate::ne: {
    auto isSame = [&](Value x, Value y) {
      return b.createOrFold<arith::CmpIOp>(CmpIPredicate::eq, x, y);
    };
    all = both(isSame(lhs.low, rhs.high), isSame(lhs.high, rhs.low));
    all = both(all, isSame(lhs.low, lhs.high));
    any = both(isAtMost(lhs.low, rhs.high), isAtMost(rhs.low, lhs.high));
    if (predicate == CmpIPredicate::ne) {
      std::swap(all, any);
      all = invert(all);
      any = invert(any);
    }
    break;
  }
  case CmpIPredicate::sgt:
  case CmpIPredicate::ugt:
    std::swap(lhs, rhs);
    [[fallthrough]];
  case CmpIPredicate::slt:
  case CmpIPredicate::ult:
    all = isLess(lhs.high, rhs.low);
    any = isLess(lhs.low, rhs.high);
    break;
  case CmpIPredicate::sge:
  case CmpIPredicate::uge:
    std::swap(lhs, rhs);
    [[fallthrough]];
  case CmpIPredicate::sle:
  case CmpIPredicate::ule:
    all = isAtMost(lhs.high, rhs.low);
    any = isAtMost(lhs.low, rhs.high);
    break;
  }
  if (!isKnown)
    return {all, any, Value()};
  return {both(all, isKnown), create<arith::OrIOp>(any, invert(isKnown)),
          Value()};
}
