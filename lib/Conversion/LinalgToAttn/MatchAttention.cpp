//===- MatchAttention.cpp - Attention in linalg on tensors ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The elements of P are decomposed as scalar expressions: a softmax of scores,
// which are a function of the elements of a matmul. The elements of the
// operands of both matmuls then show the role of each dimension.
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

/// The most producers that are searched for the shape of a dimension.
static constexpr unsigned maxProducers = 32;

int64_t AttentionCoordinates::getNumHeads() const {
  int64_t count = 1;
  for (unsigned head : heads)
    count *= sizes[head];
  return count;
}

LogicalResult AttentionMatcher::fail(const Twine &text) {
  reason = text.str();
  return failure();
}

std::string attn::getProducerName(Value value) {
  if (Operation *op = value.getDefiningOp())
    return ("'" + op->getName().getStringRef() + "'").str();
  return "an argument";
}

//===----------------------------------------------------------------------===//
// Matmuls
//===----------------------------------------------------------------------===//

/// Whether `op` is a matmul of floating point tensors.
static bool isMatmul(linalg::LinalgOp op) {
  return op && op.hasPureTensorSemantics() &&
         linalg::isaContractionOpInterface(op) &&
         llvm::all_of(*op.getBlock(), [](Operation &nested) {
           return isa<arith::MulFOp, arith::AddFOp, arith::ExtFOp,
                      arith::TruncFOp, linalg::YieldOp>(nested);
         });
}

/// The loops that index `operand`, one for each of its dimensions.
static SmallVector<unsigned> getLoopsOf(OpOperand &operand) {
  auto op = cast<linalg::LinalgOp>(operand.getOwner());
  SmallVector<unsigned> loops;
  for (AffineExpr expr : op.getMatchingIndexingMap(&operand).getResults())
    loops.push_back(cast<AffineDimExpr>(expr).getPosition());
  return loops;
}

namespace {
/// A dimension of a tensor.
struct TensorDim {
  Value tensor;
  unsigned dim;
};
} // namespace

/// The dimension of `reshape`'s source of which dimension `dim` consists, apart
/// from sizes of one.
static TensorDim getSourceDim(tensor::CollapseShapeOp reshape, unsigned dim) {
  ReassociationIndices group = reshape.getReassociationIndices()[dim];
  auto *it = llvm::find_if(group, [&](int64_t inner) {
    return reshape.getSrcType().getDimSize(inner) != 1;
  });
  return {reshape.getSrc(), unsigned(it == group.end() ? group.front() : *it)};
}

static std::optional<TensorDim> getSourceDim(tensor::ExpandShapeOp reshape,
                                             unsigned dim) {
  auto groups = reshape.getReassociationIndices();
  auto *it = llvm::find_if(groups, [&](const ReassociationIndices &group) {
    return llvm::is_contained(group, dim);
  });
  unsigned source = it - groups.begin();
  // Only sizes of one may be collapsed with the dimension.
  if (reshape.getResultType().getDimSize(dim) !=
      reshape.getSrcType().getDimSize(source))
    return std::nullopt;
  return TensorDim{reshape.getSrc(), source};
}

/// The dimension of an input that has the same loop.
static std::optional<TensorDim> getSourceDim(linalg::LinalgOp op,
                                             OpResult result, unsigned dim) {
  if (!op.hasPureTensorSemantics())
    return std::nullopt;
  AffineMap map = op.getIndexingMapMatchingResult(result);
  auto loop = dyn_cast<AffineDimExpr>(map.getResult(dim));
  if (!loop)
    return std::nullopt;
  for (OpOperand *input : op.getDpsInputOperands())
    if (std::optional<unsigned> position =
            op.getMatchingIndexingMap(input).getResultPosition(loop))
      return TensorDim{input->get(), *position};
  return std::nullopt;
}

/// The dimension of an operand of the producer that `at` comes from.
static std::optional<TensorDim> getSourceDim(const TensorDim &at) {
  Operation *op = at.tensor.getDefiningOp();
  if (auto reshape = dyn_cast_if_present<tensor::CollapseShapeOp>(op))
    return getSourceDim(reshape, at.dim);
  if (auto reshape = dyn_cast_if_present<tensor::ExpandShapeOp>(op))
    return getSourceDim(reshape, at.dim);
  if (auto cast = dyn_cast_if_present<tensor::CastOp>(op))
    return TensorDim{cast.getSource(), at.dim};
  if (auto structured = dyn_cast_if_present<linalg::LinalgOp>(op))
    return getSourceDim(structured, cast<OpResult>(at.tensor), at.dim);
  return std::nullopt;
}

/// The sizes of the dimensions that were collapsed to dimension `dim` of
/// `value`.
static SmallVector<int64_t> findFactors(Value value, unsigned dim) {
  std::optional<TensorDim> at = TensorDim{value, dim};
  for (unsigned i = 0; at && i < maxProducers; ++i) {
    if (auto reshape = at->tensor.getDefiningOp<tensor::CollapseShapeOp>()) {
      ReassociationIndices group = reshape.getReassociationIndices()[at->dim];
      SmallVector<int64_t> sizes;
      for (int64_t inner : group)
        if (int64_t size = reshape.getSrcType().getDimSize(inner); size != 1)
          sizes.push_back(size);
      if (sizes.size() > 1)
        return sizes;
    }
    at = getSourceDim(*at);
  }
  return {};
}

namespace {
/// The loops of the second matmul, by the operands that they index.
struct SecondMatmulLoops {
  SmallVector<unsigned> batches, rows, keys, headDim;
};
} // namespace

static SecondMatmulLoops classifyLoops(ArrayRef<unsigned> probabilityLoops,
                                       ArrayRef<unsigned> valueLoops,
                                       ArrayRef<unsigned> outLoops) {
  SecondMatmulLoops loops;
  for (unsigned loop : probabilityLoops) {
    bool isOfValues = llvm::is_contained(valueLoops, loop);
    if (!llvm::is_contained(outLoops, loop))
      loops.keys.push_back(loop);
    else
      (isOfValues ? loops.batches : loops.rows).push_back(loop);
  }
  for (unsigned loop : valueLoops)
    if (!llvm::is_contained(probabilityLoops, loop))
      loops.headDim.push_back(loop);
  return loops;
}

/// The sizes of the coordinates that were collapsed to `loop`, or its own size.
static SmallVector<int64_t> getFactors(ArrayRef<OpOperand *> operands,
                                       unsigned loop, int64_t size) {
  for (OpOperand *operand : operands) {
    SmallVector<unsigned> loops = getLoopsOf(*operand);
    auto *it = llvm::find(loops, loop);
    SmallVector<int64_t> factors =
        findFactors(operand->get(), it - loops.begin());
    if (!factors.empty() &&
        llvm::none_of(ArrayRef(factors).drop_front(), ShapedType::isDynamic))
      return factors;
  }
  return {size};
}

FailureOr<SmallVector<AffineExpr>>
AttentionMatcher::findCoordinates(unsigned probabilitiesOperandNumber) {
  OpOperand &probabilitiesOperand =
      matmul->getOpOperand(probabilitiesOperandNumber);
  OpOperand &valuesOperand =
      matmul->getOpOperand(1 - probabilitiesOperandNumber);
  SmallVector<int64_t> sizes = matmul.getStaticLoopRanges();

  AttentionCoordinates &at = result.at;
  auto [batches, rows, keys, headDim] =
      classifyLoops(getLoopsOf(probabilitiesOperand), getLoopsOf(valuesOperand),
                    getLoopsOf(*matmul.getDpsInitOperand(0)));
  if (keys.size() != 1 || headDim.size() != 1)
    return failure();

  // Each loop is one coordinate, unless it is a collapsed dimension.
  result.loops.assign(sizes.size(), {});
  SmallVector<AffineExpr> exprsOfLoops(sizes.size());
  auto addCoordinates = [&](unsigned loop, ArrayRef<int64_t> factors) {
    AffineExpr expr = getAffineConstantExpr(0, matmul.getContext());
    for (int64_t size : factors) {
      unsigned coordinate = at.sizes.size();
      at.sizes.push_back(size);
      result.loops[loop].push_back(coordinate);
      AffineExpr dim = getAffineDimExpr(coordinate, matmul.getContext());
      expr = factors.size() == 1 ? dim : expr * size + dim;
    }
    exprsOfLoops[loop] = expr;
  };
  SmallVector<unsigned> outer;
  for (unsigned loop : batches) {
    addCoordinates(loop, getFactors({&valuesOperand, &probabilitiesOperand},
                                    loop, sizes[loop]));
    llvm::append_range(outer, result.loops[loop]);
  }
  for (unsigned loop : rows) {
    addCoordinates(loop, sizes[loop]);
    if (loop == rows.back())
      at.query = result.loops[loop].front();
    else
      outer.push_back(result.loops[loop].front());
  }
  addCoordinates(keys.front(), sizes[keys.front()]);
  at.key = result.loops[keys.front()].front();
  addCoordinates(headDim.front(), sizes[headDim.front()]);
  at.vHeadDimCoordinate = result.loops[headDim.front()].front();
  at.qkHeadDimCoordinate = at.sizes.size();
  at.sizes.push_back(ShapedType::kDynamic);

  // A single outer coordinate of static size is taken as the head. Otherwise
  // the first one is the batch.
  bool hasBatch =
      outer.size() > 1 ||
      (outer.size() == 1 && ShapedType::isDynamic(at.sizes[outer.front()]));
  if (hasBatch)
    at.batch = outer.front();
  at.heads.assign(outer.begin() + hasBatch, outer.end());
  return exprsOfLoops;
}

//===----------------------------------------------------------------------===//
// Softmax
//===----------------------------------------------------------------------===//

bool AttentionMatcher::isIndependentOfKey(const Expr *expr) {
  return !usesCoordinate(expr,
                         [&](unsigned at) { return result.at.isKey(at); });
}

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

/// Whether an index of `ref` uses a coordinate.
static bool isIndexedBy(const ElementRef &ref, unsigned coordinate) {
  return llvm::any_of(ref.indices, [&](AffineExpr index) {
    return index.isFunctionOfDim(coordinate);
  });
}

/// Takes `op`, of which `leaf` is an element, as the matmul of queries and
/// keys, if one operand is indexed by queries and the other one by keys.
LogicalResult AttentionMatcher::matchQueriesAndKeys(linalg::LinalgOp op,
                                                    const Expr *leaf) {
  AttentionCoordinates &at = result.at;
  SmallVector<unsigned> reduced;
  op.getReductionDims(reduced);
  FailureOr<SmallVector<AffineExpr>> loops = exprs->getLoops(
      op, op.getMatchingIndexingMap(op.getDpsInitOperand(0)), leaf->indices);
  if (failed(loops) || reduced.size() != 1)
    return success();
  (*loops)[reduced.front()] =
      getAffineDimExpr(at.qkHeadDimCoordinate, matmul.getContext());
  for (unsigned i : {0, 1}) {
    ElementRef query = exprs->getOperandRef(op->getOpOperand(i), *loops);
    ElementRef key = exprs->getOperandRef(op->getOpOperand(1 - i), *loops);
    if (isIndexedBy(query, at.key) || !isIndexedBy(key, at.key) ||
        (at.query && isIndexedBy(key, *at.query)))
      continue;
    std::optional<double> start = getConstantFloat(exprs->getElement(
        exprs->getOperandRef(*op.getDpsInitOperand(0), *loops)));
    if (start != 0.0)
      return fail("the matmul of queries and keys is added to a tensor");
    result.firstMatmul = op;
    result.matmul = leaf;
    at.sizes[at.qkHeadDimCoordinate] =
        op.getStaticLoopRanges()[reduced.front()];
    queryRef = query;
    keyRef = key;
    break;
  }
  return success();
}

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
// Operands
//===----------------------------------------------------------------------===//

namespace {
/// The range of head coordinates that a dimension of a tensor covers, and the
/// divisor of the head index.
struct HeadsOfDim {
  unsigned begin, end, dim;
  int64_t divisor;
};
} // namespace

/// The heads that dimension `dim`, of size `size` and with the index `index`,
/// covers, if any.
static std::optional<HeadsOfDim> matchHeads(ElementExprs &exprs,
                                            const AttentionCoordinates &at,
                                            AffineExpr index, unsigned dim,
                                            int64_t size) {
  MLIRContext *context = index.getContext();
  int64_t divisor = 1;
  if (index.getKind() == AffineExprKind::FloorDiv) {
    auto binary = cast<AffineBinaryOpExpr>(index);
    auto constant = dyn_cast<AffineConstantExpr>(binary.getRHS());
    if (!constant)
      return std::nullopt;
    divisor = constant.getValue();
    index = binary.getLHS();
  }
  for (unsigned begin = 0; begin < at.heads.size(); ++begin) {
    AffineExpr expr = getAffineConstantExpr(0, context);
    int64_t numHeads = 1;
    for (unsigned end = begin; end < at.heads.size(); ++end) {
      int64_t factor = at.sizes[at.heads[end]];
      numHeads *= factor;
      expr = exprs.simplify(expr * factor +
                            getAffineDimExpr(at.heads[end], context));
      if (expr == index && size * divisor == numHeads)
        return HeadsOfDim{begin, end + 1, dim, divisor};
    }
  }
  return std::nullopt;
}

/// Sets the heads of `match` in the order of their coordinates. Fails unless
/// the dimensions cover a first part of these.
static LogicalResult setHeads(SmallVector<HeadsOfDim> headDims,
                              const AttentionCoordinates &at,
                              AttentionOperandMatch &match) {
  auto type = cast<RankedTensorType>(match.tensor.getType());
  llvm::sort(headDims, [](const HeadsOfDim &a, const HeadsOfDim &b) {
    return a.begin < b.begin;
  });
  unsigned next = 0;
  for (const HeadsOfDim &heads : headDims) {
    while (next < heads.begin && at.sizes[at.heads[next]] == 1)
      ++next;
    if (next != heads.begin)
      return failure();
    // No head coordinate may follow a divided one.
    next = heads.divisor == 1 ? heads.end : at.heads.size();
    match.heads.push_back(heads.dim);
    match.numHeads *= type.getDimSize(heads.dim);
  }
  return success();
}

FailureOr<AttentionOperandMatch>
AttentionMatcher::matchLayout(const ElementRef &ref,
                              std::optional<unsigned> position,
                              unsigned headDimCoordinate) {
  const AttentionCoordinates &at = result.at;
  auto type = cast<RankedTensorType>(ref.tensor.getType());
  AttentionOperandMatch match;
  match.tensor = ref.tensor;
  std::optional<unsigned> headDimAxis;
  SmallVector<HeadsOfDim> headDims;
  for (auto [dim, index] : llvm::enumerate(ref.indices)) {
    int64_t size = type.getDimSize(dim);
    if (isa<AffineConstantExpr>(index)) {
      if (size != 1)
        return failure();
      continue;
    }
    if (auto heads = matchHeads(*exprs, at, index, dim, size)) {
      headDims.push_back(*heads);
      continue;
    }
    auto coordinate = dyn_cast<AffineDimExpr>(index);
    if (!coordinate || at.sizes[coordinate.getPosition()] != size)
      return failure();
    std::optional<unsigned> *found = nullptr;
    if (coordinate.getPosition() == at.batch)
      found = &match.batch;
    else if (coordinate.getPosition() == position)
      found = &match.position;
    else if (coordinate.getPosition() == headDimCoordinate)
      found = &headDimAxis;
    if (!found || *found)
      return failure();
    *found = dim;
  }
  bool isMissing =
      !headDimAxis || (position && !match.position && at.sizes[*position] != 1);
  if (isMissing || failed(setHeads(headDims, at, match)))
    return failure();
  match.headDimAxis = *headDimAxis;
  return match;
}

namespace {
/// The body of a parallel `linalg` operation, for one element of its result.
class ElementBody {
public:
  ElementBody(ElementExprs &exprs, linalg::LinalgOp op,
              ArrayRef<AffineExpr> loops)
      : exprs(exprs), op(op), loops(loops) {}

  /// The operand's element that `value`, a value of the body, is; none if
  /// `value` is no argument for a tensor.
  std::optional<ElementRef> getOperandRef(Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    if (!argument || argument.getOwner() != op.getBlock())
      return std::nullopt;
    OpOperand *operand = op.getMatchingOpOperand(argument);
    if (!isa<RankedTensorType>(operand->get().getType()))
      return std::nullopt;
    return exprs.getOperandRef(*operand, loops);
  }

  std::optional<double> getNumber(Value value) {
    FloatAttr number;
    if (matchPattern(value, m_Constant(&number)))
      return number.getValueAsDouble();
    std::optional<ElementRef> ref = getOperandRef(value);
    return ref ? getConstantFloat(exprs.getElement(*ref)) : std::nullopt;
  }

  /// The value of which `value` is a multiple by a constant, which multiplies
  /// `factor`, or a widened copy; null if there is none.
  Value peelFactor(Value value, double &factor) {
    if (auto extend = value.getDefiningOp<arith::ExtFOp>())
      return extend.getIn();
    if (auto multiply = value.getDefiningOp<arith::MulFOp>()) {
      std::optional<double> left = getNumber(multiply.getLhs());
      std::optional<double> right = getNumber(multiply.getRhs());
      if (!left && !right)
        return nullptr;
      factor *= left ? *left : *right;
      return left ? multiply.getRhs() : multiply.getLhs();
    }
    auto divide = value.getDefiningOp<arith::DivFOp>();
    std::optional<double> right =
        divide ? getNumber(divide.getRhs()) : std::nullopt;
    if (!right || *right == 0)
      return nullptr;
    factor /= *right;
    return divide.getLhs();
  }

private:
  ElementExprs &exprs;
  linalg::LinalgOp op;
  ArrayRef<AffineExpr> loops;
};
} // namespace

/// The same as `peel`, for a `linalg` operation.
static std::optional<ElementRef>
peelBody(ElementExprs &exprs, const ElementRef &ref, double &factor) {
  auto op = ref.tensor.getDefiningOp<linalg::LinalgOp>();
  if (!op || !op.hasPureTensorSemantics() ||
      op.getNumParallelLoops() != op.getNumLoops())
    return std::nullopt;
  auto opResult = cast<OpResult>(ref.tensor);
  FailureOr<SmallVector<AffineExpr>> loops = exprs.getLoops(
      op, op.getIndexingMapMatchingResult(opResult), ref.indices);
  if (failed(loops))
    return std::nullopt;
  ElementBody body(exprs, op, *loops);
  double product = 1;
  Value value =
      op.getBlock()->getTerminator()->getOperand(opResult.getResultNumber());
  while (value && value.getDefiningOp())
    value = body.peelFactor(value, product);
  std::optional<ElementRef> source =
      value ? body.getOperandRef(value) : std::nullopt;
  if (source)
    factor *= product;
  return source;
}

/// The element that `ref` is a view or widened copy of, or a multiple of by a
/// constant, which multiplies `factor`.
static std::optional<ElementRef> peel(ElementExprs &exprs, ElementRef ref,
                                      double &factor) {
  if (std::optional<ElementRef> source = exprs.getViewSource(ref))
    return source;
  Operation *op = ref.tensor.getDefiningOp();
  if (isa_and_present<arith::ExtFOp>(op))
    return ElementRef{op->getOperand(0), ref.indices};
  if (isa_and_present<arith::MulFOp>(op)) {
    for (unsigned i : {0, 1}) {
      std::optional<double> number =
          getConstantFloat(exprs.getElement({op->getOperand(i), ref.indices}));
      if (!number)
        continue;
      factor *= *number;
      return ElementRef{op->getOperand(1 - i), ref.indices};
    }
  }
  return peelBody(exprs, ref, factor);
}

LogicalResult AttentionMatcher::matchOperands(ElementRef query, ElementRef key,
                                              ElementRef value) {
  // The candidate tensors of each operand, the farthest one last.
  auto getCandidates = [&](ElementRef ref, std::optional<unsigned> position,
                           unsigned headDimCoordinate) {
    SmallVector<AttentionOperandMatch> candidates;
    double factor = 1;
    std::optional<ElementRef> next = ref;
    for (unsigned i = 0; next && i < maxProducers; ++i) {
      FailureOr<AttentionOperandMatch> match =
          matchLayout(*next, position, headDimCoordinate);
      if (succeeded(match)) {
        match->factor = factor;
        candidates.push_back(*match);
      }
      next = peel(*exprs, *next, factor);
    }
    return candidates;
  };
  const AttentionCoordinates &at = result.at;
  auto queries = getCandidates(query, at.query, at.qkHeadDimCoordinate);
  auto keys = getCandidates(key, at.key, at.qkHeadDimCoordinate);
  auto values = getCandidates(value, at.key, at.vHeadDimCoordinate);
  for (auto [candidates, name] :
       {std::pair(&queries, "queries"), std::pair(&keys, "keys"),
        std::pair(&values, "values")})
    if (candidates->empty())
      return fail(Twine("the dimensions of the ") + name +
                  " are not batch, heads, positions and head dim");
  llvm::erase_if(queries, [&](const AttentionOperandMatch &match) {
    return match.numHeads != at.getNumHeads();
  });
  if (queries.empty())
    return fail("the queries are not those of all heads");
  auto getType = [](const AttentionOperandMatch &match) {
    return getElementTypeOrSelf(match.tensor.getType());
  };
  // Keys and values must have the same number of heads.
  for (const AttentionOperandMatch &query : llvm::reverse(queries)) {
    for (const AttentionOperandMatch &key : llvm::reverse(keys)) {
      for (const AttentionOperandMatch &value : llvm::reverse(values)) {
        if (getType(query) != getType(key) ||
            getType(query) != getType(value) || key.numHeads != value.numHeads)
          continue;
        result.query = query;
        result.key = key;
        result.value = value;
        result.scale *= query.factor * key.factor;
        return success();
      }
    }
  }
  return fail("queries, keys and values differ in their element type or in "
              "their heads");
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
  if (failed(matchOperands(queryRef, keyRef, value)))
    return failure();
  Type type = getElementTypeOrSelf(result.query.tensor.getType());
  if (!isa<BFloat16Type, Float16Type, Float32Type>(type)) {
    std::string name;
    llvm::raw_string_ostream(name) << type;
    return fail("the element type " + name + " is not supported");
  }
  if (ShapedType::isDynamic(at.sizes[at.qkHeadDimCoordinate]) ||
      ShapedType::isDynamic(at.sizes[at.vHeadDimCoordinate]))
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
