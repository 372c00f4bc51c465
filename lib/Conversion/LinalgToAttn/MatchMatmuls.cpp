//===- MatchMatmuls.cpp - The two matmuls of an attention -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The elements of the operands of both matmuls show the role of each dimension.
//
//===----------------------------------------------------------------------===//

#include "MatchMatmuls.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/STLExtras.h"

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

LogicalResult MatmulMatcher::fail(const Twine &text) {
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

bool attn::isMatmul(linalg::LinalgOp op) {
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

/// The loops of the second matmul, by the operands that they index.
struct MatmulMatcher::Loops {
  Loops() = default;
  Loops(ArrayRef<unsigned> probabilityLoops, ArrayRef<unsigned> valueLoops,
        ArrayRef<unsigned> outLoops);

  /// The last one of `rows` is the query. A sum has no loop of the head dim.
  SmallVector<unsigned> batches, rows, keys, headDim;
};

MatmulMatcher::Loops::Loops(ArrayRef<unsigned> probabilityLoops,
                            ArrayRef<unsigned> valueLoops,
                            ArrayRef<unsigned> outLoops) {
  for (unsigned loop : probabilityLoops) {
    bool isOfValues = llvm::is_contained(valueLoops, loop);
    if (!llvm::is_contained(outLoops, loop))
      keys.push_back(loop);
    else
      (isOfValues ? batches : rows).push_back(loop);
  }
  for (unsigned loop : valueLoops)
    if (!llvm::is_contained(probabilityLoops, loop))
      headDim.push_back(loop);
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

/// Makes coordinates of `loops`. Batch coordinates may be split as the
/// dimensions of `operands` were.
SmallVector<AffineExpr>
MatmulMatcher::addCoordinates(const Loops &loopsOfMatmul,
                              ArrayRef<OpOperand *> operands) {
  SmallVector<int64_t> sizes = matmul.getStaticLoopRanges();
  AttentionCoordinates &at = found.at;
  const auto &[batches, rows, keys, headDim] = loopsOfMatmul;

  // Each loop is one coordinate, unless it is a collapsed dimension.
  found.loops.assign(sizes.size(), {});
  SmallVector<AffineExpr> exprsOfLoops(sizes.size());
  auto addLoop = [&](unsigned loop, ArrayRef<int64_t> factors) {
    AffineExpr expr = getAffineConstantExpr(0, matmul.getContext());
    for (int64_t size : factors) {
      unsigned coordinate = at.sizes.size();
      at.sizes.push_back(size);
      found.loops[loop].push_back(coordinate);
      AffineExpr dim = getAffineDimExpr(coordinate, matmul.getContext());
      expr = factors.size() == 1 ? dim : expr * size + dim;
    }
    exprsOfLoops[loop] = expr;
  };
  SmallVector<unsigned> outer;
  for (unsigned loop : batches) {
    addLoop(loop, getFactors(operands, loop, sizes[loop]));
    llvm::append_range(outer, found.loops[loop]);
  }
  for (unsigned loop : rows) {
    addLoop(loop, sizes[loop]);
    if (loop == rows.back())
      at.query = found.loops[loop].front();
    else
      outer.push_back(found.loops[loop].front());
  }
  addLoop(keys.front(), sizes[keys.front()]);
  at.key = found.loops[keys.front()].front();
  if (!headDim.empty()) {
    addLoop(headDim.front(), sizes[headDim.front()]);
    at.vHeadDimCoordinate = found.loops[headDim.front()].front();
  }
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

FailureOr<SmallVector<AffineExpr>>
MatmulMatcher::findCoordinates(unsigned probabilitiesOperandNumber) {
  OpOperand &probabilities = matmul->getOpOperand(probabilitiesOperandNumber);
  OpOperand &values = matmul->getOpOperand(1 - probabilitiesOperandNumber);
  Loops loops(getLoopsOf(probabilities), getLoopsOf(values),
              getLoopsOf(*matmul.getDpsInitOperand(0)));
  if (loops.keys.size() != 1 || loops.headDim.size() != 1)
    return failure();
  return addCoordinates(loops, {&values, &probabilities});
}

FailureOr<SmallVector<AffineExpr>>
MatmulMatcher::findSumCoordinates(unsigned queryLoop) {
  Loops loops;
  matmul.getReductionDims(loops.keys);
  matmul.getParallelDims(loops.batches);
  llvm::erase(loops.batches, queryLoop);
  loops.rows.push_back(queryLoop);
  // Only operands that all loops of the weights index show how these are split.
  SmallVector<OpOperand *> operands;
  for (OpOperand *operand : matmul.getDpsInputOperands())
    if (matmul.getMatchingIndexingMap(operand).isPermutation())
      operands.push_back(operand);
  if (loops.keys.size() != 1 || operands.empty())
    return failure();
  return addCoordinates(loops, operands);
}

bool MatmulMatcher::isIndependentOfKey(const Expr *expr) {
  return !usesCoordinate(expr, [&](unsigned at) { return found.at.isKey(at); });
}

bool MatmulMatcher::isIndependentOfQuery(const Expr *expr) {
  return !usesCoordinate(expr,
                         [&](unsigned at) { return found.at.isQuery(at); });
}
//===----------------------------------------------------------------------===//
// Queries and keys
//===----------------------------------------------------------------------===//

/// Whether an index of `ref` uses a coordinate.
static bool isIndexedBy(const ElementRef &ref, unsigned coordinate) {
  return llvm::any_of(ref.indices, [&](AffineExpr index) {
    return index.isFunctionOfDim(coordinate);
  });
}

/// Takes `op`, of which `leaf` is an element, as the matmul of queries and
/// keys, if one operand is indexed by queries and the other one by keys.
LogicalResult MatmulMatcher::matchQueriesAndKeys(linalg::LinalgOp op,
                                                 const Expr *leaf) {
  AttentionCoordinates &at = found.at;
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
    found.firstMatmul = op;
    found.matmul = leaf;
    at.sizes[at.qkHeadDimCoordinate] =
        op.getStaticLoopRanges()[reduced.front()];
    queryRef = query;
    keyRef = key;
    break;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

namespace {
/// A dimension of a tensor that nothing is known of, or a number of type index.
struct UnknownSize {
  Value value;
  unsigned dim = 0;
};
} // namespace

/// Where the dynamic size of a dimension comes from.
static UnknownSize getOrigin(TensorDim at) {
  for (unsigned i = 0; i < maxProducers; ++i) {
    Operation *op = at.tensor.getDefiningOp();
    if (auto empty = dyn_cast_if_present<tensor::EmptyOp>(op)) {
      Value size = empty.getDynamicSize(at.dim);
      auto dim = size.getDefiningOp<tensor::DimOp>();
      std::optional<int64_t> number =
          dim ? dim.getConstantIndex() : std::nullopt;
      if (!number || !isa<RankedTensorType>(dim.getSource().getType()))
        return {size};
      at = {dim.getSource(), unsigned(*number)};
      continue;
    }
    std::optional<TensorDim> next;
    if (auto structured = dyn_cast_if_present<DestinationStyleOpInterface>(op))
      next = TensorDim{
          structured.getTiedOpOperand(cast<OpResult>(at.tensor))->get(),
          at.dim};
    else
      next = getSourceDim(at);
    if (!next ||
        !cast<RankedTensorType>(next->tensor.getType()).isDynamicDim(next->dim))
      break;
    at = *next;
  }
  return {at.tensor, at.dim};
}

bool attn::haveEqualSizes(Value lhs, unsigned lhsDim, Value rhs,
                          unsigned rhsDim) {
  int64_t left = cast<RankedTensorType>(lhs.getType()).getDimSize(lhsDim);
  int64_t right = cast<RankedTensorType>(rhs.getType()).getDimSize(rhsDim);
  if (!ShapedType::isDynamic(left) || !ShapedType::isDynamic(right))
    return left == right;
  UnknownSize first = getOrigin({lhs, lhsDim}),
              second = getOrigin({rhs, rhsDim});
  return first.value == second.value && first.dim == second.dim;
}

/// Whether an operation on pairs of queries and keys, which reads `scores` with
/// these dimensions, reads two equal dimensions with both.
static bool readsEqualSizes(linalg::LinalgOp op, OpOperand &scores,
                            unsigned rows, unsigned columns) {
  AffineMap map = op.getMatchingIndexingMap(&scores);
  AffineExpr query = map.getResult(rows), key = map.getResult(columns);
  SmallVector<TensorDim> ofQuery, ofKey;
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isa<RankedTensorType>(operand.get().getType()))
      continue;
    for (auto [dim, expr] :
         llvm::enumerate(op.getMatchingIndexingMap(&operand).getResults())) {
      if (expr == query)
        ofQuery.push_back({operand.get(), unsigned(dim)});
      if (expr == key)
        ofKey.push_back({operand.get(), unsigned(dim)});
    }
  }
  return llvm::any_of(ofQuery, [&](const TensorDim &row) {
    return llvm::any_of(ofKey, [&](const TensorDim &column) {
      return haveEqualSizes(row.tensor, row.dim, column.tensor, column.dim);
    });
  });
}

bool MatmulMatcher::haveEqualLengths() {
  const AttentionCoordinates &at = found.at;
  if (!at.query)
    return false;
  int64_t numQueries = at.sizes[*at.query], numKeys = at.sizes[at.key];
  if (!ShapedType::isDynamic(numQueries) || !ShapedType::isDynamic(numKeys))
    return numQueries == numKeys;
  // The dimension of an element's tensor that a coordinate indexes.
  auto findDim = [&](ArrayRef<AffineExpr> indices,
                     unsigned coordinate) -> std::optional<unsigned> {
    const auto *it =
        llvm::find(indices, getAffineDimExpr(coordinate, matmul.getContext()));
    if (it == indices.end())
      return std::nullopt;
    return it - indices.begin();
  };
  const Expr *scores = found.matmul;
  std::optional<unsigned> rows = findDim(scores->indices, *at.query);
  std::optional<unsigned> columns = findDim(scores->indices, at.key);
  if (rows && columns) {
    if (haveEqualSizes(scores->value, *rows, scores->value, *columns))
      return true;
    for (OpOperand &use : scores->value.getUses()) {
      auto op = dyn_cast<linalg::LinalgOp>(use.getOwner());
      if (op && op.hasPureTensorSemantics() &&
          readsEqualSizes(op, use, *rows, *columns))
        return true;
    }
  }
  std::optional<unsigned> queries = findDim(queryRef.indices, *at.query);
  std::optional<unsigned> keys = findDim(keyRef.indices, at.key);
  return queries && keys &&
         haveEqualSizes(queryRef.tensor, *queries, keyRef.tensor, *keys);
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
MatmulMatcher::matchLayout(const ElementRef &ref,
                           std::optional<unsigned> position,
                           unsigned headDimCoordinate) {
  const AttentionCoordinates &at = found.at;
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
/// The body of a parallel `linalg` operation, for one element of its found.
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

/// The candidate tensors of an operand with the element `ref`, the farthest one
/// last.
SmallVector<AttentionOperandMatch>
MatmulMatcher::findOperands(ElementRef ref, std::optional<unsigned> position,
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
}

static Type getElementType(const AttentionOperandMatch &match) {
  return getElementTypeOrSelf(match.tensor.getType());
}

LogicalResult MatmulMatcher::matchOperands(ElementRef query, ElementRef key,
                                           std::optional<ElementRef> value,
                                           bool isLinear) {
  const AttentionCoordinates &at = found.at;
  auto queries = findOperands(query, at.query, at.qkHeadDimCoordinate);
  auto keys = findOperands(key, at.key, at.qkHeadDimCoordinate);
  // The values of a sum fit any keys.
  bool isSum = !value;
  auto values =
      value ? findOperands(*value, at.key, *at.vHeadDimCoordinate) : keys;
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
  for (const AttentionOperandMatch &query : llvm::reverse(queries)) {
    for (const AttentionOperandMatch &key : llvm::reverse(keys)) {
      for (const AttentionOperandMatch &value : llvm::reverse(values)) {
        if (getElementType(query) != getElementType(key) ||
            getElementType(query) != getElementType(value) ||
            (!isLinear && value.factor != 1))
          continue;
        found.query = query;
        found.key = key;
        found.value = value;
        found.scale *= query.factor * key.factor;
        if (isLinear && !isSum)
          found.scale *= value.factor;
        return success();
      }
    }
  }
  return fail("queries, keys and values differ in their element type, or "
              "values have a factor");
}
