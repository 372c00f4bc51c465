//===- RaiseLinearAttention.cpp - Linear attention from linalg ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A sum of weights is linear attention whose values are ones. Factors of
// queries multiply the result, factors of keys the values.
//
//===----------------------------------------------------------------------===//

#include "RaiseLinearAttention.h"
#include "MatchBuilder.h"
#include "attn/Dialect/Attn/IR/AttnLinearOps.h"
#include "attn/Interfaces/Target.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/FormatVariadic.h"

#include <memory>

using namespace mlir;
using namespace mlir::attn;

/// Columns of the ones whose product with the weights is their sum: kernels
/// have head dims that are multiples of it.
static constexpr int64_t columnsOfSum = 8;

/// A difference of cumulative log-decays of at most this part of them is the
/// rounding of a sum, not growth.
static constexpr float maxRelativeRounding = 0x1p-20F;

//===----------------------------------------------------------------------===//
// Linear attention
//===----------------------------------------------------------------------===//

namespace {
/// Emits scalars in the body of an operation, at a position.
class ScalarEmitter {
public:
  /// `position` is that of the query and of the key.
  ScalarEmitter(OpBuilder &builder, Location loc,
                const LinearAttentionMatch &match, Value batch, Value head,
                Value position)
      : b(loc, builder),
        coordinates(emitCoordinates(builder, loc, match.at,
                                    {batch, head, position, position})),
        emitter(builder, loc, match, coordinates) {}

  Value emit(const LinearFactor &factor);
  /// The product of the number and the factors of `term`.
  Value emitFactors(const LinearTerm &term);
  Value emitPosition(const LinearTerm &term) {
    return emitter.emit(term.position);
  }
  /// `value` times `factors`, or 0 if a condition does not hold.
  Value emitProduct(Value value, ArrayRef<LinearFactor> factors,
                    ArrayRef<PairCondition> conditions);

private:
  ImplicitLocOpBuilder b;
  DenseMap<unsigned, Value> coordinates;
  ExprEmitter emitter;
};

/// Writes matched linear attention before its second operation.
class LinearAttentionBuilder : public MatchBuilder {
public:
  LinearAttentionBuilder(OpBuilder &builder, const LinearAttentionMatch &match)
      : MatchBuilder(builder, match), match(match) {}

  /// Returns the value that replaces the result of the second operation.
  Value build();

private:
  /// Emits an element of a result from the element of a tensor, at a position.
  using EmitElement =
      llvm::function_ref<Value(OpBuilder &, ScalarEmitter &, Value)>;

  Value mapElements(Value source, Type elementType, EmitElement emit);
  Value buildHeads(const AttentionOperandMatch &operand);
  Value buildOnes(ArrayRef<OpFoldResult> sizesOfQuery, Type elementType);
  Value buildValues(ArrayRef<OpFoldResult> sizesOfQuery, Type elementType);
  Value buildLogDecay(ArrayRef<OpFoldResult> sizesOfQuery);
  Value buildLogDecayOfHeads();
  Value buildSumResult(Value result, ArrayRef<OpFoldResult> sizes);

  const LinearAttentionMatch &match;
};
} // namespace

static Value getF32(ImplicitLocOpBuilder &b, double number) {
  return arith::ConstantOp::create(b, b.getF32FloatAttr(float(number)));
}

Value ScalarEmitter::emit(const LinearFactor &factor) {
  Value value = emitter.emit(factor.expr);
  switch (factor.kind) {
  case LinearFactor::Kind::Plain:
    return value;
  case LinearFactor::Kind::Inverse:
    return arith::DivFOp::create(b, getF32(b, 1), value);
  case LinearFactor::Kind::Logarithm:
    return math::LogOp::create(b, value);
  }
  llvm_unreachable("unknown kind of factor");
}

Value ScalarEmitter::emitFactors(const LinearTerm &term) {
  Value value = getF32(b, term.number);
  for (const LinearFactor &factor : term.factors)
    value = arith::MulFOp::create(b, value, emit(factor));
  return value;
}

Value ScalarEmitter::emitProduct(Value value, ArrayRef<LinearFactor> factors,
                                 ArrayRef<PairCondition> conditions) {
  for (const LinearFactor &factor : factors) {
    Value other = emitter.emit(factor.expr);
    if (factor.kind == LinearFactor::Kind::Inverse)
      value = arith::DivFOp::create(b, value, other);
    else
      value = arith::MulFOp::create(b, value, other);
  }
  if (conditions.empty())
    return value;
  return arith::SelectOp::create(b, emitter.emit(conditions), value,
                                 getF32(b, 0));
}

/// `value` as a number of another type.
static Value convert(OpBuilder &builder, Location loc, Value value, Type type) {
  Type from = value.getType();
  if (from == type)
    return value;
  if (from.getIntOrFloatBitWidth() < type.getIntOrFloatBitWidth())
    return arith::ExtFOp::create(builder, loc, type, value);
  if (from.getIntOrFloatBitWidth() > type.getIntOrFloatBitWidth())
    return arith::TruncFOp::create(builder, loc, type, value);
  value = arith::ExtFOp::create(builder, loc, builder.getF32Type(), value);
  return arith::TruncFOp::create(builder, loc, type, value);
}

/// Computes each element of `[batch, heads, positions, ...]` from the element
/// of `source`, as f32.
Value LinearAttentionBuilder::mapElements(Value source, Type elementType,
                                          EmitElement emit) {
  auto type = cast<RankedTensorType>(source.getType());
  Value init = tensor::EmptyOp::create(
      builder, loc, tensor::getMixedSizes(builder, loc, source), elementType);
  SmallVector<AffineMap> maps(2,
                              builder.getMultiDimIdentityMap(type.getRank()));
  SmallVector<utils::IteratorType> iterators(type.getRank(),
                                             utils::IteratorType::parallel);
  auto emitBody = [&](OpBuilder &b, Location, ValueRange arguments) {
    SmallVector<Value> at;
    for (unsigned dim = 0; dim < 3; ++dim)
      at.push_back(linalg::IndexOp::create(b, loc, dim));
    ScalarEmitter scalars(b, loc, match, at[0], at[1], at[2]);
    Value value = convert(b, loc, arguments[0], b.getF32Type());
    value = emit(b, scalars, value);
    linalg::YieldOp::create(b, loc, convert(b, loc, value, elementType));
  };
  return linalg::GenericOp::create(builder, loc, init.getType(), source, init,
                                   maps, iterators, emitBody)
      .getResult(0);
}

/// `[batch, heads, positions, head dim]` of an operand, widened if kernels are
/// to compute in f32.
Value LinearAttentionBuilder::buildHeads(const AttentionOperandMatch &operand) {
  Value value = buildOperand(operand);
  if (!match.isWidened)
    return value;
  return mapElements(
      value, builder.getF32Type(),
      [](OpBuilder &, ScalarEmitter &, Value element) { return element; });
}

Value LinearAttentionBuilder::buildOnes(ArrayRef<OpFoldResult> sizesOfQuery,
                                        Type elementType) {
  SmallVector<OpFoldResult> sizes = llvm::to_vector(sizesOfQuery);
  if (!match.hasKeyFactorsOfHeads)
    sizes[1] = builder.getIndexAttr(1);
  sizes[3] = builder.getIndexAttr(columnsOfSum);
  Value one = arith::ConstantOp::create(builder, loc,
                                        builder.getFloatAttr(elementType, 1));
  Value init = tensor::EmptyOp::create(builder, loc, sizes, elementType);
  return linalg::FillOp::create(builder, loc, one, init).getResult(0);
}

Value LinearAttentionBuilder::buildValues(ArrayRef<OpFoldResult> sizesOfQuery,
                                          Type elementType) {
  Value values = match.isSum ? buildOnes(sizesOfQuery, elementType)
                             : buildHeads(match.value);
  if (match.keyFactors.empty() && match.keyConditions.empty())
    return values;
  return mapElements(values, elementType,
                     [&](OpBuilder &, ScalarEmitter &scalars, Value element) {
                       return scalars.emitProduct(element, match.keyFactors,
                                                  match.keyConditions);
                     });
}

/// One log-decay for each head.
Value LinearAttentionBuilder::buildLogDecayOfHeads() {
  int64_t numHeads = match.at.getNumHeads();
  auto type = RankedTensorType::get(numHeads, builder.getF32Type());
  double sum = 0;
  bool isConstant = true;
  for (const LinearTerm &term : match.rates) {
    isConstant &= term.factors.empty();
    sum += term.number;
  }
  Value init = tensor::EmptyOp::create(builder, loc, type.getShape(),
                                       type.getElementType());
  if (isConstant) {
    // A constant tensor would be in the memory of the host.
    Value rate = arith::ConstantOp::create(builder, loc,
                                           builder.getF32FloatAttr(float(sum)));
    return linalg::FillOp::create(builder, loc, rate, init).getResult(0);
  }
  auto emitBody = [&](OpBuilder &builder, Location, ValueRange) {
    ImplicitLocOpBuilder b(loc, builder);
    Value head = linalg::IndexOp::create(b, 0);
    Value zero = arith::ConstantIndexOp::create(b, 0);
    ScalarEmitter scalars(builder, loc, match, zero, head, zero);
    Value sum;
    for (const LinearTerm &term : match.rates) {
      Value rate = scalars.emitFactors(term);
      sum = sum ? arith::AddFOp::create(b, sum, rate).getResult() : rate;
    }
    linalg::YieldOp::create(b, sum);
  };
  return linalg::GenericOp::create(builder, loc, type, ValueRange(), init,
                                   builder.getMultiDimIdentityMap(1),
                                   utils::IteratorType::parallel, emitBody)
      .getResult(0);
}

/// One log-decay for each head, or for each token and head.
Value LinearAttentionBuilder::buildLogDecay(
    ArrayRef<OpFoldResult> sizesOfQuery) {
  if (match.rates.empty() && match.cumulative.empty())
    return nullptr;
  bool isOfHeads = match.cumulative.empty();
  for (const LinearTerm &term : match.rates)
    for (const LinearFactor &factor : term.factors)
      isOfHeads &= !usesCoordinate(factor.expr, [&](unsigned coordinate) {
        return match.at.batch == coordinate;
      });
  if (isOfHeads)
    return buildLogDecayOfHeads();
  Value init = tensor::EmptyOp::create(builder, loc, sizesOfQuery.drop_back(),
                                       builder.getF32Type());
  auto emitBody = [&](OpBuilder &builder, Location, ValueRange) {
    ImplicitLocOpBuilder b(loc, builder);
    SmallVector<Value> at;
    for (unsigned dim = 0; dim < 3; ++dim)
      at.push_back(linalg::IndexOp::create(b, dim));
    Value zero = arith::ConstantIndexOp::create(b, 0);
    Value one = arith::ConstantIndexOp::create(b, 1);
    Value isFirst =
        arith::CmpIOp::create(b, arith::CmpIPredicate::eq, at[2], zero);
    Value before = arith::SubIOp::create(b, at[2], one);
    before = arith::SelectOp::create(b, isFirst, zero, before);
    ScalarEmitter scalars(builder, loc, match, at[0], at[1], at[2]);
    ScalarEmitter earlier(builder, loc, match, at[0], at[1], before);
    Value none = getF32(b, 0), sum = none, magnitude = none;
    for (const LinearTerm &term : match.cumulative) {
      Value factor = scalars.emitFactors(term);
      Value here = scalars.emitPosition(term);
      Value there = earlier.emitPosition(term);
      here = arith::MulFOp::create(b, here, factor);
      there = arith::MulFOp::create(b, there, factor);
      Value difference = arith::SubFOp::create(b, here, there);
      sum = arith::AddFOp::create(b, sum, difference);
      for (Value part : {here, there})
        magnitude =
            arith::AddFOp::create(b, magnitude, math::AbsFOp::create(b, part));
    }
    for (const LinearTerm &term : match.rates)
      sum = arith::AddFOp::create(b, sum, scalars.emitFactors(term));
    // Cumulative sums are rounded, so that a difference may seem to grow.
    Value rounding =
        arith::MulFOp::create(b, magnitude, getF32(b, maxRelativeRounding));
    auto compare = [&](arith::CmpFPredicate predicate, Value lhs, Value rhs) {
      return arith::CmpFOp::create(b, predicate, lhs, rhs).getResult();
    };
    Value isSmall = compare(arith::CmpFPredicate::OLE, sum, rounding);
    Value isAbove = compare(arith::CmpFPredicate::OGT, sum, none);
    Value isNone = arith::AndIOp::create(b, isSmall, isAbove);
    // There is no state before the first token.
    isNone = arith::OrIOp::create(b, isNone, isFirst);
    linalg::YieldOp::create(
        b, arith::SelectOp::create(b, isNone, none, sum).getResult());
  };
  SmallVector<utils::IteratorType> iterators(3, utils::IteratorType::parallel);
  return linalg::GenericOp::create(builder, loc, init.getType(), ValueRange(),
                                   init, builder.getMultiDimIdentityMap(3),
                                   iterators, emitBody)
      .getResult(0);
}

/// The first column, without its dimension.
Value LinearAttentionBuilder::buildSumResult(Value result,
                                             ArrayRef<OpFoldResult> sizes) {
  auto type = cast<RankedTensorType>(result.getType());
  SmallVector<OpFoldResult> offsets(4, builder.getIndexAttr(0));
  SmallVector<OpFoldResult> strides(4, builder.getIndexAttr(1));
  SmallVector<OpFoldResult> column = llvm::to_vector(sizes);
  column[3] = builder.getIndexAttr(1);
  auto columnType =
      RankedTensorType::get(type.getShape().drop_back(), type.getElementType());
  return tensor::ExtractSliceOp::create(builder, loc, columnType, result,
                                        offsets, column, strides);
}

Value LinearAttentionBuilder::build() {
  Value query = buildHeads(match.query);
  Value key = buildHeads(match.key);
  Type type = getElementTypeOrSelf(query.getType());
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(builder, loc, query);
  Value value = buildValues(sizes, type);
  Value logDecay = buildLogDecay(sizes);
  SmallVector<OpFoldResult> outSizes = sizes;
  outSizes[3] = tensor::getMixedSize(builder, loc, value, 3);
  Value out = tensor::EmptyOp::create(builder, loc, outSizes, type);
  auto op = LinearAttentionOp::create(
      builder, loc, TypeRange(out.getType()), query, key, value, logDecay,
      /*beta=*/Value(), /*initial_state=*/Value(), out,
      /*final_state=*/Value(),
      match.isCausal ? builder.getUnitAttr() : UnitAttr(),
      builder.getF32FloatAttr(float(match.scale)), /*chunk=*/IntegerAttr(),
      /*precision=*/MatmulPrecisionAttr(),
      /*schedule=*/ScheduleAttrInterface());
  float scale = float(match.scale);
  op.removeScaleAttr();
  if (float(op.getScaleOrDefault()) != scale)
    op.setScaleAttr(builder.getF32FloatAttr(scale));
  Value result = op->getResult(0);
  if (match.isSum)
    result = buildSumResult(result, outSizes);
  Type resultType = getElementTypeOrSelf(match.secondMatmul->getResult(0));
  if (resultType != type || !match.queryFactors.empty() ||
      !match.queryConditions.empty())
    result =
        mapElements(result, resultType,
                    [&](OpBuilder &, ScalarEmitter &scalars, Value element) {
                      return scalars.emitProduct(element, match.queryFactors,
                                                 match.queryConditions);
                    });
  return buildResult(result);
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

namespace {
/// All operations that add up weights of the same scores.
class ScoreUsers {
public:
  explicit ScoreUsers(const Target &target) : target(target) {}

  /// Finds them, from one. Fails with a reason if scores are used elsewhere, or
  /// if `op` is none.
  LogicalResult find(linalg::LinalgOp op, std::string &reason);

  ArrayRef<LinearAttentionMatch> getMatches() const { return matches; }

private:
  /// Whether `op` adds up weights of the scores of `firstMatmul`, or of any for
  /// null.
  bool match(linalg::LinalgOp op, Operation *firstMatmul, std::string *reason);

  const Target &target;
  /// They own the expressions of `matches`.
  SmallVector<std::unique_ptr<LinearAttentionMatcher>> matchers;
  SmallVector<LinearAttentionMatch, 2> matches;
};
} // namespace

bool ScoreUsers::match(linalg::LinalgOp op, Operation *firstMatmul,
                       std::string *reason) {
  if (!LinearAttentionMatcher::isCandidate(op))
    return false;
  auto matcher = std::make_unique<LinearAttentionMatcher>(op, target);
  FailureOr<LinearAttentionMatch> match = matcher->match();
  if (failed(match)) {
    if (reason)
      *reason = matcher->getReason().str();
    return false;
  }
  if (firstMatmul && match->firstMatmul != firstMatmul)
    return false;
  matches.push_back(*match);
  matchers.push_back(std::move(matcher));
  return true;
}

LogicalResult ScoreUsers::find(linalg::LinalgOp op, std::string &reason) {
  if (!match(op, nullptr, &reason))
    return failure();
  Operation *firstMatmul = matches.front().firstMatmul;
  SmallVector<Operation *> worklist;
  llvm::SmallPtrSet<Operation *, 16> seen = {op};
  auto addUsers = [&](Operation *next) {
    for (Operation *user : next->getUsers()) {
      Operation *outer = next->getBlock()->findAncestorOpInBlock(*user);
      worklist.push_back(outer ? outer : user);
    }
  };
  addUsers(firstMatmul);
  while (!worklist.empty()) {
    Operation *next = worklist.pop_back_val();
    if (!seen.insert(next).second || isa<tensor::DimOp>(next))
      continue;
    auto user = dyn_cast<linalg::LinalgOp>(next);
    if (user && match(user, firstMatmul, nullptr))
      continue;
    bool isReduction = user && user.getNumReductionLoops() != 0;
    if (isReduction || next->hasTrait<OpTrait::IsTerminator>() ||
        !isMemoryEffectFree(next)) {
      reason = ("the scores or weights are used elsewhere, too, by '" +
                next->getName().getStringRef() + "'")
                   .str();
      return failure();
    }
    addUsers(next);
  }
  return success();
}

FailureOr<unsigned> attn::raiseLinearAttention(RewriterBase &rewriter,
                                               linalg::LinalgOp op,
                                               const Target &target,
                                               std::string &reason) {
  ScoreUsers users(target);
  if (failed(users.find(op, reason))) {
    // A sum is a part of attention only next to a matmul, which has a reason.
    if (!isMatmul(op))
      reason.clear();
    return failure();
  }
  SmallVector<Operation *> unused;
  auto raise = [&](const LinearAttentionMatch &match) {
    Operation *replaced = match.secondMatmul;
    rewriter.setInsertionPoint(replaced);
    Value result = LinearAttentionBuilder(rewriter, match).build();
    rewriter.replaceAllUsesWith(replaced->getResult(0), result);
    unused.push_back(replaced);
    bool hasDecay = !match.cumulative.empty() || !match.rates.empty();
    remark::passed(
        replaced->getLoc(),
        remark::RemarkOpts::name("attention").category("attn-raise-linalg"))
        << llvm::formatv("raised {0}linear attention of {1} query heads{2}{3}",
                         match.isCausal ? "causal " : "",
                         match.at.getNumHeads(),
                         hasDecay ? ", with decays" : "",
                         match.isSum ? ", as a sum of weights" : "")
               .str();
  };
  // Factors of queries may be functions of a sum, which is replaced last.
  for (bool isSum : {false, true})
    for (const LinearAttentionMatch &match : users.getMatches())
      if (match.isSum == isSum)
        raise(match);
  eraseUnused(rewriter, unused);
  return users.getMatches().size();
}
