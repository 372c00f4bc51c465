//===- ElementExprs.h - Elements of tensors as expressions -----*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An element of a tensor as a scalar expression of coordinates. In this view of
// linalg on tensors, it makes no difference which operations compute a value,
// in which order of dimensions and in how many steps.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_LINALGTOATTN_ELEMENTEXPRS_H
#define ATTN_LIB_CONVERSION_LINALGTOATTN_ELEMENTEXPRS_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/FoldingSet.h"
#include "llvm/Support/Allocator.h"

#include <optional>

namespace mlir::attn {

/// An element of a tensor.
struct ElementRef {
  Value tensor;
  SmallVector<AffineExpr> indices;
};

/// A scalar expression. Expressions of one `ElementExprs` are equal if they are
/// the same object.
struct Expr : public llvm::FoldingSetNode {
  enum class Kind {
    /// A number.
    Constant,
    /// The result of a scalar operation like `op` with the given operands.
    Operation,
    /// An affine expression of coordinates, of type `index`.
    Index,
    /// An element of a tensor whose producer is not analyzed.
    Element,
    /// A value that is the same for all elements.
    Captured
  };

  // FoldingSet calls it by this name.
  // NOLINTNEXTLINE(readability-identifier-naming)
  void Profile(llvm::FoldingSetNodeID &id) const;

  /// Whether this is an operation of type `OpTy`.
  template <typename OpTy>
  bool isa() const {
    return kind == Kind::Operation && ::llvm::isa<OpTy>(op);
  }

  Kind kind;
  /// The type of its values. Floating point numbers are f32.
  Type type;
  /// Operation: one like it; its own operands are irrelevant.
  Operation *op = nullptr;
  ArrayRef<const Expr *> operands;
  /// Constant.
  TypedAttr constant;
  /// Index.
  AffineExpr index;
  /// Element and Captured: the tensor or value. Other expressions: a tensor
  /// that has an element of this value, or null.
  Value value;
  /// The indices of the element of `value`.
  ArrayRef<AffineExpr> indices;
};

/// Creates expressions of the elements of tensors. Elements of constants, and
/// of results of elementwise operations, broadcasts, transpositions and
/// reshapes, become expressions of elements of their operands.
///
/// All floating point arithmetic is treated as f32: conversions between
/// floating point types are identities.
class ElementExprs {
public:
  /// `sizes` are the static sizes of the coordinates, or dynamic: a coordinate
  /// is less than its size.
  ElementExprs(MLIRContext *context, ArrayRef<int64_t> sizes)
      : context(context), sizes(sizes) {}

  /// The element of `ref`.
  const Expr *getElement(const ElementRef &ref) { return getElement(ref, 0); }

  /// The value of result `number` of `op` in the iteration with the given loop
  /// indices; the element of the destination if the body reads it.
  const Expr *getYielded(linalg::LinalgOp op, unsigned number,
                         ArrayRef<AffineExpr> loops);

  /// An operation like `source`, which has one result and no region, with other
  /// operands.
  const Expr *getOperation(Operation *source, ArrayRef<const Expr *> operands);

  /// `expr` at another position: with the coordinate `to` in the place of
  /// `from`.
  const Expr *replaceCoordinate(const Expr *expr, unsigned from, unsigned to);

  /// The element that `ref` is a copy or view of; none if it is computed.
  std::optional<ElementRef> getViewSource(const ElementRef &ref);

  /// The loop indices of `op` for an element of its result; reduction loops are
  /// null. Fails if the element does not determine all parallel loops.
  FailureOr<SmallVector<AffineExpr>> getLoops(linalg::LinalgOp op,
                                              AffineMap resultMap,
                                              ArrayRef<AffineExpr> indices);

  /// The element of `operand` that an iteration reads.
  ElementRef getOperandRef(OpOperand &operand, ArrayRef<AffineExpr> loops);

  /// An affine expression, simplified by the sizes of coordinates.
  AffineExpr simplify(AffineExpr expr);

  MLIRContext *getContext() const { return context; }

private:
  const Expr *getElement(const ElementRef &ref, unsigned depth);
  const Expr *computeElement(const ElementRef &ref, unsigned depth);
  const Expr *getYielded(linalg::LinalgOp op, unsigned number,
                         ArrayRef<AffineExpr> loops, unsigned depth);
  const Expr *getScalar(Value value, linalg::LinalgOp op,
                        ArrayRef<AffineExpr> loops,
                        DenseMap<Value, const Expr *> &known, unsigned depth);
  const Expr *getLeaf(const ElementRef &ref);
  const Expr *getCaptured(Value value);
  const Expr *getConstant(Attribute value);
  const Expr *getIndex(AffineExpr expr);
  const Expr *intern(Expr expr);
  /// The largest value of `expr`, if it has a bound.
  std::optional<int64_t> getBound(AffineExpr expr);
  ElementRef normalize(Value tensor, ArrayRef<AffineExpr> indices);

  MLIRContext *context;
  SmallVector<int64_t> sizes;
  llvm::BumpPtrAllocator allocator;
  llvm::FoldingSet<Expr> expressions;
  DenseMap<Value, SmallVector<std::pair<SmallVector<AffineExpr>, const Expr *>>>
      elements;
};

/// Converts an index into a reshaped tensor, whose dimensions are the `groups`
/// of dimensions of `large`, to an index into `large`. Fails if a size other
/// than the first of a group is dynamic.
FailureOr<SmallVector<AffineExpr>>
delinearize(ArrayRef<AffineExpr> indices, RankedTensorType large,
            ArrayRef<ReassociationIndices> groups);

/// Converts an index into `large` to an index into the reshaped tensor.
FailureOr<SmallVector<AffineExpr>>
linearize(ArrayRef<AffineExpr> indices, RankedTensorType large,
          ArrayRef<ReassociationIndices> groups, MLIRContext *context);

/// The number of a constant `expr`.
std::optional<double> getConstantFloat(const Expr *expr);

/// Whether `expr` uses a coordinate for which `predicate` holds.
bool usesCoordinate(const Expr *expr, function_ref<bool(unsigned)> predicate);

/// Calls `callback` once for each subexpression of `expr`, operands first.
void walkExpr(const Expr *expr, function_ref<void(const Expr *)> callback);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_LINALGTOATTN_ELEMENTEXPRS_H
