//===- MatchAttention.cpp - Attention in linalg on tensors ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The elements of P are decomposed as scalar expressions: a softmax of scores,
// which are a function of the elements of a matmul.
//
//===----------------------------------------------------------------------===//

#include "MatchAttention.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <limits>
#include <utility>

using namespace mlir;
using namespace mlir::attn;

/// The most producers that are searched for a division.
static constexpr unsigned maxProducers = 32;

//===----------------------------------------------------------------------===//
// Softmax
//===----------------------------------------------------------------------===//

bool attn::hasExponential(const Expr *expr) {
  bool found = false;
  walkExpr(expr, [&](const Expr *part) {
    found |= part->isa<math::ExpOp>() || part->isa<math::Exp2Op>();
    found |= part->kind == Expr::Kind::Element &&
             part->value.getDefiningOp<linalg::SoftmaxOp>();
  });
  return found;
}

LogicalResult AttentionMatcher::matchSum(const Expr *sum,
                                         const Expr *numerator) {
  if (sum->kind != Expr::Kind::Element)
    return fail("the exponentials are not divided by their sum");
  auto op = sum->value.getDefiningOp<linalg::LinalgOp>();
  if (!op || !op.hasPureTensorSemantics() || op.getNumReductionLoops() != 1)
    return fail("the exponentials are divided by the result of " +
                getProducerName(sum->value) +
                ", which is not the sum over one dimension");
  auto opResult = cast<OpResult>(sum->value);
  FailureOr<SmallVector<AffineExpr>> loops = exprs->getLoops(
      op, op.getIndexingMapMatchingResult(opResult), sum->indices);
  if (failed(loops))
    return fail("the sum of the exponentials has another shape");
  SmallVector<unsigned> reduced;
  op.getReductionDims(reduced);
  (*loops)[reduced.front()] =
      getAffineDimExpr(result.at.key, matmul.getContext());
  int64_t size = op.getStaticLoopRanges()[reduced.front()];
  const Expr *term = exprs->getYielded(op, opResult.getResultNumber(), *loops);
  if (size != result.at.sizes[result.at.key] || !term ||
      !term->isa<arith::AddFOp>())
    return fail("the exponentials are not divided by their sum over all keys");
  bool isFirst = term->operands.front() == numerator;
  std::optional<double> start =
      getConstantFloat(term->operands[isFirst ? 1 : 0]);
  if (!isFirst && term->operands.back() != numerator)
    return fail("what the exponentials are divided by is the sum of something "
                "else");
  if (start != 0.0)
    return fail("the sum of the exponentials does not start from zero");
  return success();
}

const Expr *AttentionMatcher::matchExponential(const Expr *numerator,
                                               const Expr *denominator) {
  if (numerator->isa<math::Exp2Op>())
    result.scoreFactor = llvm::numbers::ln2;
  else if (!numerator->isa<math::ExpOp>())
    return (void)fail("what is divided by a sum is no exponential"), nullptr;
  if (failed(matchSum(denominator, numerator)))
    return nullptr;
  const Expr *scores = numerator->operands.front();
  // The differences may have a common factor.
  while (scores->isa<arith::MulFOp>()) {
    unsigned inner = getConstantFloat(scores->operands[0]) ? 1 : 0;
    std::optional<double> factor =
        getConstantFloat(scores->operands[1 - inner]);
    if (!factor || !(*factor > 0) || !std::isfinite(*factor))
      break;
    result.scoreFactor *= *factor;
    scores = scores->operands[inner];
  }
  // The constants that change the base are rounded.
  if (std::abs(result.scoreFactor - 1) <= std::numeric_limits<float>::epsilon())
    result.scoreFactor = 1;
  // Any value of the row may be subtracted, usually its maximum.
  if (scores->isa<arith::SubFOp>() && isIndependentOfKey(scores->operands[1]))
    return scores->operands.front();
  return scores;
}

/// The indices of the result element of `use`'s owner that is computed from the
/// element at `indices` of `use`. Fails unless it is exactly one.
FailureOr<SmallVector<AffineExpr>>
AttentionMatcher::getResultIndices(OpOperand &use,
                                   ArrayRef<AffineExpr> indices) {
  Operation *op = use.getOwner();
  SmallVector<AffineExpr> found;
  auto simplified = [&](FailureOr<SmallVector<AffineExpr>> exprsOfResult) {
    if (succeeded(exprsOfResult))
      for (AffineExpr &expr : *exprsOfResult)
        expr = exprs->simplify(expr);
    return exprsOfResult;
  };
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op))
    return simplified(linearize(indices, collapse.getSrcType(),
                                collapse.getReassociationIndices(),
                                matmul.getContext()));
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op))
    return simplified(delinearize(indices, expand.getResultType(),
                                  expand.getReassociationIndices()));
  if (isa<tensor::CastOp>(op) ||
      (op->getNumResults() == 1 && op->hasTrait<OpTrait::Elementwise>()))
    return llvm::to_vector(indices);
  auto linalgOp = dyn_cast<linalg::LinalgOp>(op);
  if (!linalgOp || !linalgOp.hasPureTensorSemantics() ||
      op->getNumResults() != 1 || !linalgOp.isDpsInput(&use) ||
      linalgOp.getNumParallelLoops() != linalgOp.getNumLoops())
    return failure();
  AffineMap map = linalgOp.getMatchingIndexingMap(&use);
  if (!map.isPermutation())
    return failure();
  SmallVector<AffineExpr> loops(map.getNumDims());
  for (auto [expr, index] : llvm::zip(map.getResults(), indices))
    loops[cast<AffineDimExpr>(expr).getPosition()] = index;
  for (AffineExpr expr :
       linalgOp.getIndexingMapMatchingResult(op->getResult(0)).getResults())
    found.push_back(exprs->simplify(expr.replaceDims(loops)));
  return found;
}

/// The indices of the second matmul's result, by coordinates.
SmallVector<AffineExpr> AttentionMatcher::getSecondMatmulIndices() {
  SmallVector<AffineExpr> loops;
  for (ArrayRef<unsigned> coordinates : result.loops) {
    AffineExpr loop = getAffineConstantExpr(0, matmul.getContext());
    for (unsigned coordinate : coordinates) {
      AffineExpr dim = getAffineDimExpr(coordinate, matmul.getContext());
      int64_t size = result.at.sizes[coordinate];
      loop = coordinate == coordinates.front() ? dim : loop * size + dim;
    }
    loops.push_back(loop);
  }
  SmallVector<AffineExpr> indices;
  for (AffineExpr expr :
       matmul.getMatchingIndexingMap(matmul.getDpsInitOperand(0)).getResults())
    indices.push_back(exprs->simplify(expr.replaceDims(loops)));
  return indices;
}

/// The divisor, if `quotient` is `dividend` divided by it or multiplied by its
/// inverse.
static const Expr *getDivisor(const Expr *quotient, const Expr *dividend) {
  if (quotient->isa<arith::DivFOp>() && quotient->operands[0] == dividend)
    return quotient->operands[1];
  if (!quotient->isa<arith::MulFOp>())
    return nullptr;
  for (unsigned factor : {0, 1}) {
    const Expr *inverse = quotient->operands[factor];
    if (quotient->operands[1 - factor] == dividend &&
        inverse->isa<arith::DivFOp>() &&
        getConstantFloat(inverse->operands[0]) == 1.0)
      return inverse->operands[1];
  }
  return nullptr;
}

/// Finds the divisor of the result of the second matmul. The row sums of P
/// divide either P itself or that result.
const Expr *AttentionMatcher::findSumOfResult() {
  auto fails = [&](const Twine &text) {
    return (void)fail(
               "the attention probabilities are not divided by their sum" +
               text),
           nullptr;
  };
  Value value = matmul->getResult(0);
  SmallVector<AffineExpr> indices = getSecondMatmulIndices();
  const Expr *whole = exprs->getElement({value, indices});
  for (unsigned i = 0; i < maxProducers; ++i) {
    auto uses = llvm::make_filter_range(value.getUses(), [](OpOperand &use) {
      return !isa<tensor::DimOp>(use.getOwner());
    });
    if (llvm::range_size(uses) > 1)
      return fails(", and their matmul with the values is used more than "
                   "once before it is");
    if (uses.empty() ||
        (*uses.begin()).getOwner()->hasTrait<OpTrait::IsTerminator>())
      return fails("");
    OpOperand &only = *uses.begin();
    FailureOr<SmallVector<AffineExpr>> next = getResultIndices(only, indices);
    if (failed(next))
      return fails(", nor is their matmul with the values, which '" +
                   only.getOwner()->getName().getStringRef() + "' uses");
    value = only.getOwner()->getResult(0);
    indices = *next;
    const Expr *element = exprs->getElement({value, indices});
    if (element == whole)
      continue;
    result.undivided = &only;
    if (const Expr *divisor = getDivisor(element, whole))
      return divisor;
    return fails(", nor is their matmul with the values, which '" +
                 only.getOwner()->getName().getStringRef() +
                 "' uses, by that alone");
  }
  return fails("");
}

const Expr *AttentionMatcher::matchSoftmax(const Expr *probabilities) {
  ProbabilityFactors factors;
  if (failed(splitProbabilities(probabilities, /*isInverse=*/false, factors)))
    return nullptr;
  const Expr *numerator = factors.numerator;
  if (!numerator)
    return (void)fail("what is divided by a sum is no exponential"), nullptr;
  bool isSoftmax = numerator->kind == Expr::Kind::Element;
  if (factors.denominators.size() > (isSoftmax ? 0 : 1))
    return (void)fail("the attention probabilities are divided after the "
                      "softmax by a value that is not constant"),
           nullptr;
  if (failed(matchDropout(factors.number)))
    return nullptr;
  if (!isSoftmax) {
    const Expr *sum = factors.denominators.empty()
                          ? findSumOfResult()
                          : factors.denominators.front();
    return sum ? matchExponential(numerator, sum) : nullptr;
  }
  auto softmax = numerator->value.getDefiningOp<linalg::SoftmaxOp>();
  AffineExpr key = getAffineDimExpr(result.at.key, matmul.getContext());
  if (numerator->indices[softmax.getDimension()] != key ||
      llvm::count(numerator->indices, key) != 1)
    return (void)fail("the softmax is not over the keys"), nullptr;
  return exprs->getElement(
      {softmax.getInput(), llvm::to_vector(numerator->indices)});
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

LogicalResult AttentionMatcher::matchFirstMatmul(const Expr *scores) {
  AttentionCoordinates &at = result.at;
  Value opaque;
  SmallVector<const Expr *> leaves;
  walkExpr(scores, [&](const Expr *part) {
    if (part->kind == Expr::Kind::Element)
      leaves.push_back(part);
  });
  for (const Expr *leaf : leaves) {
    auto op = leaf->value.getDefiningOp<linalg::LinalgOp>();
    if (isIndependentOfKey(leaf))
      continue;
    if (!isMatmul(op)) {
      if (!at.query || usesCoordinate(leaf, [&](unsigned coordinate) {
            return at.isQuery(coordinate);
          }))
        opaque = leaf->value;
      continue;
    }
    if (failed(matchQueriesAndKeys(op, leaf)))
      return failure();
    if (result.matmul)
      break;
  }
  if (!result.matmul && opaque)
    return fail("the scores come from " + getProducerName(opaque) +
                ", which is no matmul of queries and keys");
  if (!result.matmul)
    return fail("the scores are no function of a matmul of queries and keys");
  for (const Expr *leaf : leaves)
    if (leaf != result.matmul && leaf->value == result.matmul->value)
      return fail("a score depends on several elements of the matmul of "
                  "queries and keys");
  return success();
}

void AttentionMatcher::matchScale() {
  while (true) {
    const Expr *scaled = nullptr;
    unsigned numUsers = 0;
    walkExpr(result.score, [&](const Expr *part) {
      if (!llvm::is_contained(part->operands, result.matmul))
        return;
      ++numUsers;
      scaled = part;
    });
    if (numUsers != 1)
      return;
    bool isFirst = scaled->operands.front() == result.matmul;
    if (!(scaled->isa<arith::MulFOp>() ||
          (scaled->isa<arith::DivFOp>() && isFirst)))
      return;
    std::optional<double> factor =
        getConstantFloat(scaled->operands[isFirst ? 1 : 0]);
    if (!factor || !std::isfinite(*factor) || *factor == 0.0)
      return;
    result.scale *= scaled->isa<arith::MulFOp>() ? *factor : 1 / *factor;
    result.matmul = scaled;
  }
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

LogicalResult AttentionMatcher::checkUses() {
  SmallVector<Operation *> worklist = {result.firstMatmul};
  llvm::SmallPtrSet<Operation *, 16> seen;
  while (!worklist.empty()) {
    Operation *op = worklist.pop_back_val();
    bool isLast = op == matmul ||
                  (result.undivided && op == result.undivided->getOwner());
    if (isLast || !seen.insert(op).second)
      continue;
    if (op->hasTrait<OpTrait::IsTerminator>() || !isMemoryEffectFree(op))
      return fail(
          "the scores or the attention probabilities are used elsewhere, too");
    for (Operation *user : op->getUsers()) {
      Operation *outer = op->getBlock()->findAncestorOpInBlock(*user);
      worklist.push_back(outer ? outer : user);
    }
  }
  bool usesScores = false;
  for (const PairCondition &kept : result.dropoutKept)
    walkExpr(kept.condition, [&](const Expr *part) {
      bool isLeaf = part->kind == Expr::Kind::Element ||
                    part->kind == Expr::Kind::Captured;
      usesScores |= isLeaf && seen.contains(part->value.getDefiningOp());
    });
  if (usesScores)
    return fail(
        "which attention probabilities are dropped depends on the scores");
  return success();
}

LogicalResult AttentionMatcher::match(unsigned probabilitiesOperandNumber) {
  result = AttentionMatch();
  result.secondMatmul = matmul;
  FailureOr<SmallVector<AffineExpr>> loops =
      findCoordinates(probabilitiesOperandNumber);
  if (failed(loops))
    return failure();
  exprs.emplace(matmul.getContext(), result.at.sizes);
  const Expr *element = exprs->getElement(exprs->getOperandRef(
      matmul->getOpOperand(probabilitiesOperandNumber), *loops));
  if (!hasExponential(element))
    return failure();
  const AttentionCoordinates &at = result.at;
  if (llvm::any_of(at.heads, [&](unsigned head) {
        return ShapedType::isDynamic(at.sizes[head]);
      }))
    return fail("the number of heads is not static");
  const Expr *scores = matchSoftmax(element);
  if (!scores || failed(matchFirstMatmul(scores)) || failed(checkUses()))
    return failure();
  std::optional<double> start = getConstantFloat(exprs->getElement(
      exprs->getOperandRef(*matmul.getDpsInitOperand(0), *loops)));
  if (start != 0.0)
    return fail("the matmul with the values is added to a tensor");
  result.score = matchMasks(scores);
  matchScale();
  if (result.score == result.matmul)
    result.scale *= std::exchange(result.scoreFactor, 1);
  ElementRef value = exprs->getOperandRef(
      matmul->getOpOperand(1 - probabilitiesOperandNumber), *loops);
  if (failed(matchOperands(queryRef, keyRef, value, /*isLinear=*/false)))
    return failure();
  Type type = getElementTypeOrSelf(result.query.tensor.getType());
  if (!isa<BFloat16Type, Float16Type, Float32Type>(type)) {
    std::string name;
    llvm::raw_string_ostream(name) << type;
    return fail("the element type " + name + " is not supported");
  }
  if (ShapedType::isDynamic(at.sizes[at.qkHeadDimCoordinate]) ||
      ShapedType::isDynamic(at.sizes[*at.vHeadDimCoordinate]))
    return fail("the head dim is not static");
  return success();
}

FailureOr<AttentionMatch> AttentionMatcher::match() {
  if (!isMatmul(matmul))
    return failure();
  for (unsigned probabilitiesOperandNumber : {0, 1}) {
    if (succeeded(match(probabilitiesOperandNumber)))
      return std::move(result);
    if (!reason.empty())
      return failure();
  }
  return failure();
}
