//===- RaiseMatmul.cpp - Matmuls from linalg ------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Recognises contractions of two matrices by their indexing maps and bodies,
// and moves the elementwise operations that follow them into their epilogues.
//
//===----------------------------------------------------------------------===//

#include "attn/Conversion/Passes.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/AttnTile/IR/AttnTileDialect.h"
#include "attn/Dialect/AttnTile/IR/MatmulInputs.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Utils/Utils.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/DebugLog.h"

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNRAISEMATMULPASS
#include "attn/Conversion/Passes.h.inc"
} // namespace mlir::attn

#define DEBUG_TYPE "attn-raise-matmul"

using namespace mlir;
using namespace mlir::attn;

namespace {
/// A linalg contraction as a matmul.
struct MatchedMatmul {
  Value lhs, rhs, init;
  bool transposeLhs, transposeRhs;
};
} // namespace

static bool isMatrixElement(Type type) {
  return isa<BFloat16Type, Float16Type, Float32Type>(type);
}

/// Whether `attn.matmul` multiplies matrices of these element types.
static bool areInputElements(Type lhs, Type rhs) {
  if (isFloat8(lhs))
    return isFloat8(rhs);
  return lhs == rhs && isMatrixElement(lhs);
}

/// Whether `attn.matmul` of inputs of `element` has outputs of `outElement`.
static bool isOutElement(Type outElement, Type element) {
  if (isFloat8(element))
    return isMatrixElement(outElement);
  return outElement == element || outElement.isF32();
}

/// Whether the map reads a matrix of `row` and `column`, perhaps after `batch`,
/// and if so, whether the matrix is stored transposed.
static std::optional<bool> isTransposed(AffineMap map, AffineExpr batch,
                                        AffineExpr row, AffineExpr column) {
  ArrayRef<AffineExpr> results = map.getResults();
  if (results.size() == 3) {
    if (!batch || results.front() != batch)
      return std::nullopt;
    results = results.drop_front();
  }
  if (results == ArrayRef<AffineExpr>{row, column})
    return false;
  if (results == ArrayRef<AffineExpr>{column, row})
    return true;
  return std::nullopt;
}

/// Whether the body only multiplies, perhaps after widening, and adds.
static bool hasMatmulBody(linalg::LinalgOp op) {
  Block *body = op.getBlock();
  bool isPlain = llvm::all_of(body->without_terminator(), [](Operation &op) {
    return isa<arith::ExtFOp, arith::MulFOp, arith::AddFOp>(op);
  });
  return isPlain && linalg::detail::isContractionBody(
                        *body, [](Operation *first, Operation *second) {
                          return isa<arith::MulFOp>(first) &&
                                 isa<arith::AddFOp>(second);
                        });
}

/// Whether kernels on `target` multiply the inputs of `matched`, if these have
/// 8 bits: other matmuls of 8 bits stay operations of linalg, which have
/// kernels of scalars. So do those whose rows cannot be aligned to 16 bytes, as
/// kernels on GPUs demand.
static bool isMultiplied(const MatchedMatmul &matched, const Target &target) {
  constexpr int64_t alignment = 16;
  attn_tile::MatmulInputs inputs = {getElementTypeOrSelf(matched.lhs),
                                    getElementTypeOrSelf(matched.rhs),
                                    matched.transposeLhs, matched.transposeRhs};
  if (!isFloat8(inputs.lhs))
    return true;
  int64_t depth = cast<ShapedType>(matched.lhs.getType()).getShape().back();
  bool isAligned = ShapedType::isDynamic(depth) || depth % alignment == 0;
  return (target.isHost() || isAligned) &&
         !attn_tile::whyNotMatmul(inputs, target);
}

/// Recognises a matmul that kernels on `target` compute, or says in `reason`
/// why `op` is none.
static std::optional<MatchedMatmul>
matchMatmul(linalg::LinalgOp op, const Target &target, StringRef &reason) {
  if (!op.hasPureTensorSemantics() || op.getNumDpsInputs() != 2 ||
      op.getNumDpsInits() != 1 || op.getNumReductionLoops() != 1 ||
      !hasMatmulBody(op)) {
    reason = "is no contraction of two tensors";
    return std::nullopt;
  }
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  ArrayRef<AffineExpr> out = maps[2].getResults();
  if (!maps[2].isProjectedPermutation() || out.size() < 2 || out.size() > 3 ||
      op.getNumLoops() != out.size() + 1) {
    reason = "has more dimensions than a batch, rows, columns and depth";
    return std::nullopt;
  }
  SmallVector<unsigned> reductions;
  op.getReductionDims(reductions);
  AffineExpr depth = getAffineDimExpr(reductions.front(), op.getContext());
  AffineExpr batch = out.size() == 3 ? out.front() : AffineExpr();
  AffineExpr row = out[out.size() - 2], column = out.back();

  MatchedMatmul matched{op.getDpsInputs()[0], op.getDpsInputs()[1],
                        op.getDpsInits()[0], false, false};
  std::optional<bool> lhs = isTransposed(maps[0], batch, row, depth);
  std::optional<bool> rhs = isTransposed(maps[1], batch, depth, column);
  if (!lhs || !rhs) {
    // The inputs may be swapped.
    std::swap(matched.lhs, matched.rhs);
    lhs = isTransposed(maps[1], batch, row, depth);
    rhs = isTransposed(maps[0], batch, depth, column);
  }
  if (!lhs || !rhs) {
    reason = "has inputs that are no matrices with the batch first";
    return std::nullopt;
  }
  matched.transposeLhs = *lhs;
  matched.transposeRhs = *rhs;
  Type element = getElementTypeOrSelf(matched.lhs.getType());
  Type outElement = getElementTypeOrSelf(matched.init.getType());
  if (!areInputElements(element, getElementTypeOrSelf(matched.rhs.getType())) ||
      !isOutElement(outElement, element)) {
    reason = "has element types that attn.matmul does not";
    return std::nullopt;
  }
  if (!isMultiplied(matched, target)) {
    reason = "has inputs of 8 bits that the target does not multiply as they "
             "are stored";
    return std::nullopt;
  }
  return matched;
}

/// The only use of `value`, if its owner is an elementwise operation that can
/// be part of the epilogue.
static OpOperand *getFusibleUse(Value value) {
  if (!value.hasOneUse())
    return nullptr;
  OpOperand *use = &*value.use_begin();
  auto op = dyn_cast<linalg::LinalgOp>(use->getOwner());
  // Inside a loop the matmul would be recomputed in each iteration.
  if (!op || op->getBlock() != value.getParentBlock() ||
      !op.hasPureTensorSemantics() || op.getNumDpsInits() != 1 ||
      !linalg::isElementwise(op) || !op.isDpsInput(use) ||
      !op.getMatchingIndexingMap(use).isIdentity() ||
      !op.getMatchingIndexingMap(op.getDpsInitOperand(0)).isIdentity())
    return nullptr;
  Type element = getElementTypeOrSelf(op.getDpsInits()[0].getType());
  return isMatrixElement(element) ? use : nullptr;
}

namespace {
/// Writes the epilogue of one matmul.
class EpilogueWriter {
public:
  EpilogueWriter(OpBuilder &builder, MatmulOp matched)
      : b(matched.getLoc(), builder) {
    Type index = b.getIndexType();
    Block *body = b.createBlock(&matched.getEpilogue(), {},
                                {b.getF32Type(), index, index, index},
                                SmallVector<Location>(4, b.getLoc()));
    value = body->getArgument(0);
    ValueRange positions = body->getArguments().drop_front();
    at.assign(positions.begin(), positions.end());
    if (!MatmulOp::isBatched(matched.getOut()))
      at.erase(at.begin());
  }

  /// Adds the element of `tensor` to the value.
  void addElement(Value tensor) {
    value = arith::AddFOp::create(b, value,
                                  convert(read(tensor, at), b.getF32Type()));
  }

  /// Appends `op`, which uses the value as `use`.
  void append(linalg::LinalgOp op, OpOperand *use) {
    IRMapping map;
    for (OpOperand &operand : op->getOpOperands()) {
      BlockArgument argument = op.getMatchingBlockArgument(&operand);
      if (&operand == use) {
        map.map(argument, convert(value, argument.getType()));
        continue;
      }
      if (argument.use_empty())
        continue;
      if (!isa<TensorType>(operand.get().getType())) {
        map.map(argument, operand.get());
        continue;
      }
      SmallVector<Value> indices;
      // A dimension of size one may be indexed by zero.
      for (AffineExpr expr : op.getMatchingIndexingMap(&operand).getResults()) {
        auto dim = dyn_cast<AffineDimExpr>(expr);
        indices.push_back(dim ? at[dim.getPosition()]
                              : arith::ConstantIndexOp::create(b, 0));
      }
      map.map(argument, read(operand.get(), indices));
    }
    for (Operation &nested : op.getBlock()->without_terminator()) {
      if (auto index = dyn_cast<linalg::IndexOp>(nested))
        map.map(index.getResult(), at[index.getDim()]);
      else
        b.clone(nested, map);
    }
    value = map.lookupOrDefault(op.getBlock()->getTerminator()->getOperand(0));
  }

  /// Ends the epilogue. A final rounding to the element type of the output is
  /// dropped, since the store rounds.
  void finish(Type element) {
    auto rounded = value.getDefiningOp<arith::TruncFOp>();
    if (rounded && rounded.getType() == element &&
        rounded.getIn().getType().isF32())
      value = rounded.getIn();
    if (rounded && rounded.use_empty())
      rounded.erase();
    YieldOp::create(b, convert(value, b.getF32Type()));
  }

private:
  Value convert(Value from, Type type) {
    unsigned width = from.getType().getIntOrFloatBitWidth();
    if (from.getType() == type)
      return from;
    if (width < type.getIntOrFloatBitWidth())
      return arith::ExtFOp::create(b, type, from);
    return arith::TruncFOp::create(b, type, from);
  }

  /// Reads an element; broadcasts are read at their source.
  Value read(Value tensor, SmallVector<Value> indices) {
    while (auto broadcast = tensor.getDefiningOp<linalg::BroadcastOp>()) {
      SmallVector<Value> kept;
      for (auto [dim, index] : llvm::enumerate(indices))
        if (!llvm::is_contained(broadcast.getDimensions(), dim))
          kept.push_back(index);
      indices = std::move(kept);
      tensor = broadcast.getInput();
    }
    return tensor::ExtractOp::create(b, tensor, indices);
  }

  ImplicitLocOpBuilder b;
  /// The element so far, and its position in the output.
  Value value;
  SmallVector<Value> at;
};
} // namespace

/// Replaces `op` and the chain of `followers` of its result, which become the
/// epilogue.
static void convert(RewriterBase &rewriter, linalg::LinalgOp op,
                    const MatchedMatmul &matched,
                    ArrayRef<OpOperand *> followers) {
  Location loc = op.getLoc();
  linalg::LinalgOp last = op;
  if (!followers.empty())
    last = cast<linalg::LinalgOp>(followers.back()->getOwner());
  rewriter.setInsertionPoint(last);

  auto fill = matched.init.getDefiningOp<linalg::FillOp>();
  bool isZero =
      fill && matchPattern(fill.getInputs().front(), m_AnyZeroFloat());
  Value out;
  if (!followers.empty())
    out = last.getDpsInits()[0];
  else if (isZero)
    out = fill.getOutputs().front();
  else
    out = tensor::EmptyOp::create(
        rewriter, loc, tensor::getMixedSizes(rewriter, loc, matched.init),
        getElementTypeOrSelf(matched.init.getType()));
  auto matmul = MatmulOp::create(
      rewriter, loc, last->getResult(0).getType(), matched.lhs, matched.rhs,
      out, matched.transposeLhs, matched.transposeRhs, /*precision=*/nullptr,
      /*schedule=*/nullptr);
  if (!isZero || !followers.empty()) {
    OpBuilder::InsertionGuard guard(rewriter);
    EpilogueWriter writer(rewriter, matmul);
    if (!isZero)
      writer.addElement(matched.init);
    for (OpOperand *use : followers)
      writer.append(cast<linalg::LinalgOp>(use->getOwner()), use);
    writer.finish(getElementTypeOrSelf(out.getType()));
  }
  SmallVector<Operation *> replaced;
  for (OpOperand *use : llvm::reverse(followers))
    replaced.push_back(use->get().getDefiningOp());
  rewriter.replaceOp(last, matmul.getResult());
  for (Operation *before : replaced) {
    assert(before->use_empty() && "what follows has been erased");
    rewriter.eraseOp(before);
  }
}

namespace {
struct AttnRaiseMatmulPass
    : public attn::impl::AttnRaiseMatmulPassBase<AttnRaiseMatmulPass> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<linalg::LinalgOp> contractions;
    getOperation()->walk([&](linalg::LinalgOp op) {
      if (op.getNumReductionLoops() != 0)
        contractions.push_back(op);
    });
    FailureOr<const Target *> found = lookupTarget(getOperation(), target);
    if (failed(found))
      return signalPassFailure();
    IRRewriter rewriter(&getContext());
    // Contractions are visited last to first. An operation that follows two
    // matmuls then becomes part of the later one, whose epilogue reads the
    // earlier result from memory.
    for (linalg::LinalgOp op : llvm::reverse(contractions)) {
      StringRef reason;
      std::optional<MatchedMatmul> matched = matchMatmul(op, **found, reason);
      if (!matched) {
        remark::missed(op.getLoc(), remark::RemarkOpts::name("matmul").category(
                                        getArgument()))
            << op->getName().getStringRef() << " " << reason;
        continue;
      }
      // The last follower with a supported element type gives the output.
      Type element = getElementTypeOrSelf(matched->lhs.getType());
      SmallVector<OpOperand *> followers;
      unsigned kept = 0;
      Value result = op->getResult(0);
      while (OpOperand *use = getFusibleUse(result)) {
        followers.push_back(use);
        result = use->getOwner()->getResult(0);
        Type type = getElementTypeOrSelf(result.getType());
        if (isOutElement(type, element))
          kept = followers.size();
      }
      LDBG() << kept << " of " << followers.size()
             << " operations become the epilogue of " << *op;
      followers.truncate(kept);
      convert(rewriter, op, *matched, followers);
      ++numMatmuls;
      numFused += kept;
    }
  }
};
} // namespace
