//===- ElementExprs.cpp - Elements of tensors as expressions --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Expressions are interned, so that equality is a comparison of addresses. A
// tensor is evaluated once for each tuple of indices.
//
//===----------------------------------------------------------------------===//

#include "ElementExprs.h"
#include "attn/Interfaces/FusibleOpInterface.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::attn;

/// The most producers on tensors that are followed, one after another.
static constexpr unsigned maxDepth = 200;

void Expr::Profile(llvm::FoldingSetNodeID &id) const {
  id.AddInteger(unsigned(kind));
  id.AddPointer(type.getAsOpaquePointer());
  switch (kind) {
  case Kind::Constant:
    id.AddPointer(constant.getAsOpaquePointer());
    return;
  case Kind::Operation:
    id.AddPointer(op->getName().getAsOpaquePointer());
    id.AddPointer(op->getAttrDictionary().getAsOpaquePointer());
    for (const Expr *operand : operands)
      id.AddPointer(operand);
    return;
  case Kind::Index:
    id.AddPointer(index.getAsOpaquePointer());
    return;
  case Kind::Element:
    for (AffineExpr expr : indices)
      id.AddPointer(expr.getAsOpaquePointer());
    [[fallthrough]];
  case Kind::Captured:
    id.AddPointer(value.getAsOpaquePointer());
    return;
  }
}

/// The type that expressions of type `type` have.
static Type getWorkingType(Type type) {
  return isa<FloatType>(type) ? Float32Type::get(type.getContext()) : type;
}

const Expr *ElementExprs::intern(Expr expr) {
  llvm::FoldingSetNodeID id;
  expr.Profile(id);
  void *position;
  if (Expr *known = expressions.FindNodeOrInsertPos(id, position))
    return known;
  auto copy = [&](auto array) { return ArrayRef(array).copy(allocator); };
  expr.operands = copy(expr.operands);
  expr.indices = copy(expr.indices);
  Expr *result = new (allocator.Allocate<Expr>()) Expr(expr);
  expressions.InsertNode(result, position);
  return result;
}

const Expr *ElementExprs::getLeaf(const ElementRef &ref) {
  Expr expr;
  expr.kind = Expr::Kind::Element;
  expr.type = getWorkingType(getElementTypeOrSelf(ref.tensor.getType()));
  expr.value = ref.tensor;
  expr.indices = ref.indices;
  return intern(expr);
}

const Expr *ElementExprs::getConstant(Attribute value) {
  Expr expr;
  expr.kind = Expr::Kind::Constant;
  if (auto number = dyn_cast<FloatAttr>(value)) {
    APFloat single = number.getValue();
    bool losesInfo;
    single.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven,
                   &losesInfo);
    value = FloatAttr::get(Float32Type::get(context), single);
  }
  expr.constant = cast<TypedAttr>(value);
  expr.type = expr.constant.getType();
  return intern(expr);
}

const Expr *ElementExprs::getCaptured(Value value) {
  Attribute constant;
  if (matchPattern(value, m_Constant(&constant)) &&
      isa<FloatAttr, IntegerAttr>(constant))
    return getConstant(constant);
  Expr expr;
  expr.kind = Expr::Kind::Captured;
  expr.type = getWorkingType(value.getType());
  expr.value = value;
  return intern(expr);
}

const Expr *ElementExprs::getIndex(AffineExpr index) {
  index = simplify(index);
  if (auto constant = dyn_cast<AffineConstantExpr>(index))
    return getConstant(
        IntegerAttr::get(IndexType::get(context), constant.getValue()));
  Expr expr;
  expr.kind = Expr::Kind::Index;
  expr.type = IndexType::get(context);
  expr.index = index;
  return intern(expr);
}

const Expr *ElementExprs::getOperation(Operation *source,
                                       ArrayRef<const Expr *> operands) {
  // Conversions between floating point types are identities here.
  if (isa<arith::ExtFOp, arith::TruncFOp>(source))
    return operands.front();
  Expr expr;
  expr.kind = Expr::Kind::Operation;
  expr.type = getWorkingType(getElementTypeOrSelf(source->getResult(0)));
  expr.op = source;
  expr.operands = operands;
  return intern(expr);
}

//===----------------------------------------------------------------------===//
// Indices
//===----------------------------------------------------------------------===//

std::optional<int64_t> ElementExprs::getBound(AffineExpr expr) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return constant.getValue();
  if (auto dim = dyn_cast<AffineDimExpr>(expr)) {
    int64_t size = sizes[dim.getPosition()];
    return ShapedType::isDynamic(size) ? std::nullopt
                                       : std::optional<int64_t>(size - 1);
  }
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return std::nullopt;
  std::optional<int64_t> lhs = getBound(binary.getLHS());
  auto constant = dyn_cast<AffineConstantExpr>(binary.getRHS());
  switch (expr.getKind()) {
  case AffineExprKind::Add: {
    std::optional<int64_t> rhs = getBound(binary.getRHS());
    return lhs && rhs ? std::optional<int64_t>(*lhs + *rhs) : std::nullopt;
  }
  case AffineExprKind::Mul:
    return lhs && constant ? std::optional<int64_t>(*lhs * constant.getValue())
                           : std::nullopt;
  case AffineExprKind::Mod:
    return constant ? std::optional<int64_t>(constant.getValue() - 1)
                    : std::nullopt;
  case AffineExprKind::FloorDiv:
    return lhs && constant ? std::optional<int64_t>(*lhs / constant.getValue())
                           : std::nullopt;
  default:
    return std::nullopt;
  }
}

/// The `x` of `quotients`, `(x floordiv c) * c`, and `rest`, `x mod c`; null
/// for other expressions.
static AffineExpr getDivided(AffineExpr quotients, AffineExpr rest) {
  auto isOf = [](AffineExpr expr, AffineExprKind kind) {
    return expr.getKind() == kind ? cast<AffineBinaryOpExpr>(expr)
                                  : AffineBinaryOpExpr(nullptr);
  };
  AffineBinaryOpExpr product = isOf(quotients, AffineExprKind::Mul);
  AffineBinaryOpExpr remainder = isOf(rest, AffineExprKind::Mod);
  if (!product || !remainder)
    return {};
  AffineBinaryOpExpr quotient =
      isOf(product.getLHS(), AffineExprKind::FloorDiv);
  if (!quotient || quotient.getLHS() != remainder.getLHS() ||
      quotient.getRHS() != remainder.getRHS() ||
      product.getRHS() != remainder.getRHS())
    return {};
  return quotient.getLHS();
}

AffineExpr ElementExprs::simplify(AffineExpr expr) {
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return sizes[dim.getPosition()] == 1 ? getAffineConstantExpr(0, context)
                                         : expr;
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return expr;
  AffineExpr lhs = simplify(binary.getLHS());
  AffineExpr rhs = simplify(binary.getRHS());
  auto constant = dyn_cast<AffineConstantExpr>(rhs);
  if (constant && constant.getValue() > 0) {
    std::optional<int64_t> bound = getBound(lhs);
    bool isSmall = bound && *bound < constant.getValue();
    if (expr.getKind() == AffineExprKind::Mod && isSmall)
      return lhs;
    if (expr.getKind() == AffineExprKind::FloorDiv && isSmall)
      return getAffineConstantExpr(0, context);
  }
  if (expr.getKind() == AffineExprKind::Add)
    for (auto [quotients, rest] : {std::pair(lhs, rhs), std::pair(rhs, lhs)})
      if (AffineExpr whole = getDivided(quotients, rest))
        return whole;
  AffineExpr result = getAffineBinaryOpExpr(expr.getKind(), lhs, rhs);
  return result == expr ? expr : simplify(result);
}

ElementRef ElementExprs::normalize(Value tensor, ArrayRef<AffineExpr> indices) {
  ElementRef ref{tensor, {}};
  auto type = cast<RankedTensorType>(tensor.getType());
  for (auto [dim, index] : llvm::enumerate(indices))
    ref.indices.push_back(type.getDimSize(dim) == 1
                              ? getAffineConstantExpr(0, context)
                              : simplify(index));
  return ref;
}

ElementRef ElementExprs::getOperandRef(OpOperand &operand,
                                       ArrayRef<AffineExpr> loops) {
  auto op = cast<linalg::LinalgOp>(operand.getOwner());
  AffineMap map = op.getMatchingIndexingMap(&operand);
  SmallVector<AffineExpr> indices;
  for (AffineExpr expr : map.getResults())
    indices.push_back(expr.replaceDims(loops));
  return normalize(operand.get(), indices);
}

FailureOr<SmallVector<AffineExpr>>
ElementExprs::getLoops(linalg::LinalgOp op, AffineMap resultMap,
                       ArrayRef<AffineExpr> indices) {
  SmallVector<AffineExpr> loops(op.getNumLoops());
  for (auto [expr, index] : llvm::zip_equal(resultMap.getResults(), indices))
    if (auto dim = dyn_cast<AffineDimExpr>(expr))
      loops[dim.getPosition()] = index;
  for (auto [loop, type] : llvm::zip_equal(loops, op.getIteratorTypesArray()))
    if (!loop && type == utils::IteratorType::parallel)
      return failure();
  return loops;
}

//===----------------------------------------------------------------------===//
// Views
//===----------------------------------------------------------------------===//

FailureOr<SmallVector<AffineExpr>>
attn::delinearize(ArrayRef<AffineExpr> indices, RankedTensorType large,
                  ArrayRef<ReassociationIndices> groups) {
  SmallVector<AffineExpr> result(large.getRank());
  for (auto [index, group] : llvm::zip_equal(indices, groups)) {
    AffineExpr rest = index;
    // Dimensions of size one need no part of the index.
    SmallVector<int64_t> dims;
    for (int64_t dim : group) {
      if (large.getDimSize(dim) == 1)
        result[dim] = getAffineConstantExpr(0, index.getContext());
      else
        dims.push_back(dim);
    }
    for (int64_t dim : llvm::reverse(dims)) {
      if (dim == dims.front()) {
        result[dim] = rest;
        break;
      }
      int64_t size = large.getDimSize(dim);
      if (ShapedType::isDynamic(size) || size == 0)
        return failure();
      result[dim] = rest % size;
      rest = rest.floorDiv(size);
    }
  }
  return result;
}

FailureOr<SmallVector<AffineExpr>>
attn::linearize(ArrayRef<AffineExpr> indices, RankedTensorType large,
                ArrayRef<ReassociationIndices> groups, MLIRContext *context) {
  SmallVector<AffineExpr> result;
  for (const ReassociationIndices &group : groups) {
    AffineExpr sum = getAffineConstantExpr(0, context);
    for (auto [position, dim] : llvm::enumerate(group)) {
      int64_t size = large.getDimSize(dim);
      if (position > 0) {
        if (ShapedType::isDynamic(size))
          return failure();
        sum = sum * size;
      }
      sum = sum + indices[dim];
    }
    result.push_back(sum);
  }
  return result;
}

/// The operand of `op` that result `number` is a copy of, if it is one.
static OpOperand *getCopiedOperand(linalg::LinalgOp op, unsigned number) {
  auto yield = cast<linalg::YieldOp>(op.getBlock()->getTerminator());
  auto argument = dyn_cast<BlockArgument>(yield.getOperand(number));
  if (!argument || argument.getOwner() != op.getBlock())
    return nullptr;
  return op.getMatchingOpOperand(argument);
}

/// Whether the elements of the results of `op` have expressions of their own.
static bool isElementwise(linalg::LinalgOp op) {
  return op.hasPureTensorSemantics() &&
         op.getNumParallelLoops() == op.getNumLoops() &&
         llvm::hasSingleElement(op->getRegion(0));
}

std::optional<ElementRef> ElementExprs::getViewSource(const ElementRef &ref) {
  Operation *op = ref.tensor.getDefiningOp();
  if (!op)
    return std::nullopt;
  return TypeSwitch<Operation *, std::optional<ElementRef>>(op)
      .Case([&](tensor::CastOp cast) -> std::optional<ElementRef> {
        if (!isa<RankedTensorType>(cast.getSource().getType()))
          return std::nullopt;
        return normalize(cast.getSource(), ref.indices);
      })
      .Case([&](tensor::CollapseShapeOp reshape) -> std::optional<ElementRef> {
        FailureOr<SmallVector<AffineExpr>> indices =
            delinearize(ref.indices, reshape.getSrcType(),
                        reshape.getReassociationIndices());
        if (failed(indices))
          return std::nullopt;
        return normalize(reshape.getSrc(), *indices);
      })
      .Case([&](tensor::ExpandShapeOp reshape) -> std::optional<ElementRef> {
        FailureOr<SmallVector<AffineExpr>> indices =
            linearize(ref.indices, reshape.getResultType(),
                      reshape.getReassociationIndices(), context);
        if (failed(indices))
          return std::nullopt;
        return normalize(reshape.getSrc(), *indices);
      })
      .Case([&](tensor::ExtractSliceOp slice) -> std::optional<ElementRef> {
        if (!slice.hasUnitStride())
          return std::nullopt;
        llvm::SmallBitVector dropped = slice.getDroppedDims();
        SmallVector<AffineExpr> indices;
        const AffineExpr *index = ref.indices.begin();
        for (auto [dim, offset] : llvm::enumerate(slice.getMixedOffsets())) {
          std::optional<int64_t> start = getConstantIntValue(offset);
          if (!start)
            return std::nullopt;
          AffineExpr expr = getAffineConstantExpr(*start, context);
          indices.push_back(dropped.test(dim) ? expr : expr + *index++);
        }
        return normalize(slice.getSource(), indices);
      })
      .Case([&](linalg::LinalgOp linalgOp) -> std::optional<ElementRef> {
        if (!isElementwise(linalgOp))
          return std::nullopt;
        unsigned number = cast<OpResult>(ref.tensor).getResultNumber();
        OpOperand *copied = getCopiedOperand(linalgOp, number);
        if (!copied || !isa<RankedTensorType>(copied->get().getType()))
          return std::nullopt;
        FailureOr<SmallVector<AffineExpr>> loops = getLoops(
            linalgOp,
            linalgOp.getIndexingMapMatchingResult(cast<OpResult>(ref.tensor)),
            ref.indices);
        if (failed(loops))
          return std::nullopt;
        return getOperandRef(*copied, *loops);
      })
      .Default([](Operation *) { return std::nullopt; });
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

const Expr *ElementExprs::getElement(const ElementRef &ref, unsigned depth) {
  ElementRef key = normalize(ref.tensor, ref.indices);
  for (auto &[indices, expr] : elements[key.tensor])
    if (indices == key.indices)
      return expr;
  const Expr *result =
      depth > maxDepth ? getLeaf(key) : computeElement(key, depth + 1);
  // Remember the first tensor that has this element.
  if (result->kind == Expr::Kind::Operation && !result->value) {
    auto *expr = const_cast<Expr *>(result);
    expr->value = key.tensor;
    expr->indices = ArrayRef(key.indices).copy(allocator);
  }
  elements[key.tensor].push_back({key.indices, result});
  return result;
}

const Expr *ElementExprs::computeElement(const ElementRef &ref,
                                         unsigned depth) {
  Operation *op = ref.tensor.getDefiningOp();
  DenseElementsAttr constant;
  if (matchPattern(ref.tensor, m_Constant(&constant))) {
    if (!constant.isSplat())
      return getLeaf(ref);
    return getConstant(*constant.getValues<Attribute>().begin());
  }
  if (!op)
    return getLeaf(ref);
  if (std::optional<ElementRef> source = getViewSource(ref))
    return getElement(*source, depth);
  if (auto splat = dyn_cast<tensor::SplatOp>(op))
    return getCaptured(splat.getInput());
  if (auto elements = dyn_cast<tensor::FromElementsOp>(op)) {
    if (elements.getElements().size() == 1)
      return getCaptured(elements.getElements().front());
    return getLeaf(ref);
  }
  if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op)) {
    if (!isElementwise(linalgOp))
      return getLeaf(ref);
    auto result = cast<OpResult>(ref.tensor);
    FailureOr<SmallVector<AffineExpr>> loops = getLoops(
        linalgOp, linalgOp.getIndexingMapMatchingResult(result), ref.indices);
    const Expr *expr =
        failed(loops)
            ? nullptr
            : getYielded(linalgOp, result.getResultNumber(), *loops, depth);
    return expr ? expr : getLeaf(ref);
  }
  if (op->hasTrait<OpTrait::Elementwise>() &&
      op->hasTrait<OpTrait::Scalarizable>() && isScalarOperation(op)) {
    SmallVector<const Expr *> operands;
    for (Value operand : op->getOperands())
      operands.push_back(isa<RankedTensorType>(operand.getType())
                             ? getElement({operand, ref.indices}, depth)
                             : getCaptured(operand));
    return getOperation(op, operands);
  }
  return getLeaf(ref);
}

const Expr *ElementExprs::getYielded(linalg::LinalgOp op, unsigned number,
                                     ArrayRef<AffineExpr> loops) {
  return getYielded(op, number, loops, 0);
}

const Expr *ElementExprs::getYielded(linalg::LinalgOp op, unsigned number,
                                     ArrayRef<AffineExpr> loops,
                                     unsigned depth) {
  DenseMap<Value, const Expr *> known;
  auto yield = cast<linalg::YieldOp>(op.getBlock()->getTerminator());
  return getScalar(yield.getOperand(number), op, loops, known, depth);
}

/// The element that `extract` reads, if its indices are affine.
static std::optional<ElementRef> getAffineRead(tensor::ExtractOp extract,
                                               ArrayRef<const Expr *> indices) {
  ElementRef ref{extract.getTensor(), {}};
  for (const Expr *expr : indices) {
    if (expr->kind == Expr::Kind::Constant)
      ref.indices.push_back(getAffineConstantExpr(
          cast<IntegerAttr>(expr->constant).getInt(), extract.getContext()));
    else if (expr->kind == Expr::Kind::Index)
      ref.indices.push_back(expr->index);
    else
      return std::nullopt;
  }
  return ref;
}

const Expr *ElementExprs::getScalar(Value value, linalg::LinalgOp op,
                                    ArrayRef<AffineExpr> loops,
                                    DenseMap<Value, const Expr *> &known,
                                    unsigned depth) {
  if (auto it = known.find(value); it != known.end())
    return it->second;
  auto compute = [&]() -> const Expr * {
    if (auto argument = dyn_cast<BlockArgument>(value);
        argument && argument.getOwner() == op.getBlock()) {
      OpOperand *operand = op.getMatchingOpOperand(argument);
      if (!isa<RankedTensorType>(operand->get().getType()))
        return getCaptured(operand->get());
      return getElement(getOperandRef(*operand, loops), depth);
    }
    Operation *source = value.getDefiningOp();
    if (value.getParentRegion() != op.getBlock()->getParent())
      return getCaptured(value);
    if (auto index = dyn_cast<linalg::IndexOp>(source))
      return getIndex(loops[index.getDim()]);
    if (!isScalarOperation(source))
      return nullptr;
    if (source->hasTrait<OpTrait::ConstantLike>())
      return getCaptured(value);
    SmallVector<const Expr *> operands;
    for (Value operand : source->getOperands()) {
      const Expr *expr = getScalar(operand, op, loops, known, depth + 1);
      if (!expr)
        return nullptr;
      operands.push_back(expr);
    }
    if (auto extract = dyn_cast<tensor::ExtractOp>(source))
      if (std::optional<ElementRef> ref =
              getAffineRead(extract, ArrayRef(operands).drop_front()))
        return getElement(*ref, depth);
    return getOperation(source, operands);
  };
  const Expr *result = compute();
  known[value] = result;
  return result;
}

const Expr *ElementExprs::replaceCoordinate(const Expr *expr, unsigned from,
                                            unsigned to) {
  AffineExpr before = getAffineDimExpr(from, context);
  AffineExpr after = getAffineDimExpr(to, context);
  DenseMap<const Expr *, const Expr *> replaced;
  walkExpr(expr, [&](const Expr *part) {
    auto replace = [&]() -> const Expr * {
      switch (part->kind) {
      case Expr::Kind::Constant:
      case Expr::Kind::Captured:
        return part;
      case Expr::Kind::Index:
        return getIndex(part->index.replace(before, after));
      case Expr::Kind::Element: {
        ElementRef ref{part->value, {}};
        for (AffineExpr index : part->indices)
          ref.indices.push_back(index.replace(before, after));
        return getElement(ref);
      }
      case Expr::Kind::Operation:
        break;
      }
      SmallVector<const Expr *> operands;
      for (const Expr *operand : part->operands)
        operands.push_back(replaced.at(operand));
      return getOperation(part->op, operands);
    };
    replaced[part] = replace();
  });
  return replaced.at(expr);
}

//===----------------------------------------------------------------------===//
// Questions
//===----------------------------------------------------------------------===//

std::optional<double> attn::getConstantFloat(const Expr *expr) {
  if (expr->kind != Expr::Kind::Constant)
    return std::nullopt;
  auto number = dyn_cast<FloatAttr>(expr->constant);
  return number ? std::optional(number.getValueAsDouble()) : std::nullopt;
}

void attn::walkExpr(const Expr *expr,
                    function_ref<void(const Expr *)> callback) {
  llvm::SmallDenseSet<const Expr *> seen;
  SmallVector<std::pair<const Expr *, size_t>> stack;
  auto push = [&](const Expr *next) {
    if (seen.insert(next).second)
      stack.push_back({next, 0});
  };
  push(expr);
  while (!stack.empty()) {
    auto &[current, position] = stack.back();
    if (position < current->operands.size()) {
      push(current->operands[position++]);
      continue;
    }
    const Expr *done = current;
    stack.pop_back();
    callback(done);
  }
}

bool attn::usesCoordinate(const Expr *expr,
                          function_ref<bool(unsigned)> predicate) {
  bool result = false;
  auto visit = [&](AffineExpr index) {
    index.walk([&](AffineExpr part) {
      if (auto dim = dyn_cast<AffineDimExpr>(part))
        result |= predicate(dim.getPosition());
    });
  };
  walkExpr(expr, [&](const Expr *part) {
    if (part->kind == Expr::Kind::Index)
      visit(part->index);
    if (part->kind == Expr::Kind::Element)
      llvm::for_each(part->indices, visit);
  });
  return result;
}
