//===- LinalgToAttn.cpp - Attention from linalg ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes the matches of `AttentionMatcher` as `attn.attention`.
//
//===----------------------------------------------------------------------===//

#include "MatchAttention.h"
#include "MatchBuilder.h"
#include "RaiseLinearAttention.h"
#include "attn/Conversion/Passes.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/Attn/IR/KeepMaskLayout.h"
#include "attn/Interfaces/Target.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/Support/FormatVariadic.h"

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNRAISELINALGPASS
#include "attn/Conversion/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

namespace {
/// Writes a matched attention before its second matmul.
class AttentionBuilder : public MatchBuilder {
public:
  AttentionBuilder(OpBuilder &builder, const AttentionMatch &match)
      : MatchBuilder(builder, match), match(match) {}

  /// Returns the value that replaces the result of the second matmul.
  Value build();

private:
  void buildScoreMod(AttentionOp op);
  void buildMaskMod(AttentionOp op);
  Value buildDropoutMask(Value query, Value key);

  const AttentionMatch &match;
};
} // namespace

void AttentionBuilder::buildScoreMod(AttentionOp op) {
  if (match.score == match.matmul)
    return;
  OpBuilder::InsertionGuard guard(builder);
  Type index = builder.getIndexType();
  Block *block = builder.createBlock(
      &op.getScoreMod(), {}, {builder.getF32Type(), index, index, index, index},
      SmallVector<Location>(5, loc));
  DenseMap<unsigned, Value> coordinates = emitCoordinates(
      builder, loc, match.at, block->getArguments().drop_front());
  ExprEmitter emitter(builder, loc, match, coordinates);
  emitter.setMatmul(block->getArgument(0));
  Value score = emitter.emit(match.score);
  if (match.scoreFactor != 1) {
    Value factor = arith::ConstantOp::create(
        builder, loc, builder.getF32FloatAttr(float(match.scoreFactor)));
    score = arith::MulFOp::create(builder, loc, score, factor);
  }
  YieldOp::create(builder, loc, score);
}

void AttentionBuilder::buildMaskMod(AttentionOp op) {
  if (match.maskMod.empty())
    return;
  OpBuilder::InsertionGuard guard(builder);
  Type index = builder.getIndexType();
  Block *block =
      builder.createBlock(&op.getMaskMod(), {}, {index, index, index, index},
                          SmallVector<Location>(4, loc));
  DenseMap<unsigned, Value> coordinates =
      emitCoordinates(builder, loc, match.at, block->getArguments());
  YieldOp::create(
      builder, loc,
      ExprEmitter(builder, loc, match, coordinates).emit(match.maskMod));
}

/// Packs the keep mask of dropout into words. Pairs past the lengths repeat the
/// keep mask of the last query or key.
Value AttentionBuilder::buildDropoutMask(Value query, Value key) {
  Type index = builder.getIndexType(), i32 = builder.getI32Type();
  auto size = [&](Value value, unsigned dim) {
    return tensor::getMixedSize(builder, loc, value, dim);
  };
  OpFoldResult numQueries = size(query, 2), numKeys = size(key, 2);
  SmallVector<OpFoldResult> sizes = emitKeepMaskSizes(
      builder, loc, size(query, 0), size(query, 1), numQueries, numKeys);
  Value zero = arith::ConstantIntOp::create(builder, loc, 0, 32);
  Value init = tensor::EmptyOp::create(builder, loc, sizes, i32);
  init = linalg::FillOp::create(builder, loc, zero, init).getResult(0);
  // The loop over the bits of a word needs a tensor that gives its size.
  constexpr int64_t bitsOfWord = 32;
  Value bits = tensor::EmptyOp::create(builder, loc,
                                       {builder.getIndexAttr(bitsOfWord)}, i32);
  auto getLast = [&](OpFoldResult length) -> Value {
    if (std::optional<int64_t> number = getConstantIntValue(length))
      return arith::ConstantIndexOp::create(builder, loc, *number - 1);
    Value one = arith::ConstantIndexOp::create(builder, loc, 1);
    return arith::SubIOp::create(builder, loc, cast<Value>(length), one);
  };
  Value lastQuery = getLast(numQueries), lastKey = getLast(numKeys);

  constexpr unsigned numDims = 4;
  MLIRContext *context = builder.getContext();
  AffineMap words = AffineMap::getMultiDimIdentityMap(numDims + 1, context)
                        .getMajorSubMap(numDims);
  AffineMap bit = AffineMap::get(numDims + 1, 0,
                                 builder.getAffineDimExpr(numDims), context);
  SmallVector<utils::IteratorType> iterators(numDims,
                                             utils::IteratorType::parallel);
  iterators.push_back(utils::IteratorType::reduction);
  auto emitBody = [&](OpBuilder &b, Location, ValueRange arguments) {
    SmallVector<Value> at;
    for (unsigned dim = 0; dim <= numDims; ++dim)
      at.push_back(linalg::IndexOp::create(b, loc, dim));
    auto toWord = [&](Value value) {
      return arith::IndexCastOp::create(b, loc, i32, value);
    };
    KeepBitPlace place{toWord(at[2]), toWord(at[3]), toWord(at[4])};
    KeepBitPair pair = emitKeepBitPair(b, loc, place);
    auto toPosition = [&](Value word, Value last) -> Value {
      Value position = arith::IndexCastOp::create(b, loc, index, word);
      return arith::MinUIOp::create(b, loc, position, last);
    };
    std::array<Value, 4> positions = {at[0], at[1],
                                      toPosition(pair.query, lastQuery),
                                      toPosition(pair.key, lastKey)};
    DenseMap<unsigned, Value> coordinates =
        emitCoordinates(b, loc, match.at, positions);
    Value kept =
        ExprEmitter(b, loc, match, coordinates).emit(match.dropoutKept);
    kept = arith::ExtUIOp::create(b, loc, i32, kept);
    kept = arith::ShLIOp::create(b, loc, kept, place.bit);
    kept = arith::OrIOp::create(b, loc, arguments.back(), kept);
    linalg::YieldOp::create(b, loc, kept);
  };
  return linalg::GenericOp::create(builder, loc, init.getType(), bits, init,
                                   ArrayRef<AffineMap>{bit, words}, iterators,
                                   emitBody)
      .getResult(0);
}

Value AttentionBuilder::build() {
  Value query = buildOperand(match.query);
  Value key = buildOperand(match.key);
  Value value = buildOperand(match.value);
  Type type = getElementTypeOrSelf(match.secondMatmul->getResult(0));
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(builder, loc, query);
  sizes[3] = tensor::getMixedSize(builder, loc, value, 3);
  Value init = tensor::EmptyOp::create(builder, loc, sizes, type);
  FloatAttr scale = builder.getF32FloatAttr(float(match.scale));
  auto op = AttentionOp::create(builder, loc, query, key, value, init, scale);
  auto interface = cast<AttentionOpInterface>(op.getOperation());
  if (interface.getDefaultScale() == float(match.scale))
    op.removeScaleAttr();
  buildScoreMod(op);
  buildMaskMod(op);
  if (!match.dropoutKept.empty()) {
    builder.setInsertionPoint(op);
    op.getDropoutMaskMutable().assign(buildDropoutMask(query, key));
    op.setMaskLayout(MaskLayout::Rows);
    op.setDropProbabilityAttr(builder.getF32FloatAttr(match.dropProbability));
    builder.setInsertionPointAfter(op);
  }
  return buildResult(op->getResult(0));
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

/// Replaces the division that uses `undivided` by its dividend, converted to
/// the layout and type of the result. Returns the producers of its operands.
static SmallVector<Operation *> eraseDivision(RewriterBase &rewriter,
                                              OpOperand &undivided) {
  Operation *division = undivided.getOwner();
  Value value = undivided.get();
  SmallVector<Operation *> producers;
  for (Value operand : division->getOperands())
    if (Operation *producer = operand.getDefiningOp())
      if (!llvm::is_contained(producers, producer))
        producers.push_back(producer);
  rewriter.setInsertionPoint(division);
  Location loc = division->getLoc();
  Type from = getElementTypeOrSelf(value.getType());
  Type to = getElementTypeOrSelf(division->getResult(0).getType());
  auto convert = [&](OpBuilder &builder, Value number, Type type) -> Value {
    if (from == to)
      return number;
    if (from.getIntOrFloatBitWidth() < to.getIntOrFloatBitWidth())
      return arith::ExtFOp::create(builder, loc, type, number);
    return arith::TruncFOp::create(builder, loc, type, number);
  };
  if (auto linalgOp = dyn_cast<linalg::LinalgOp>(division)) {
    OpOperand *init = linalgOp.getDpsInitOperand(0);
    AffineMap map = linalgOp.getMatchingIndexingMap(&undivided);
    AffineMap resultMap = linalgOp.getMatchingIndexingMap(init);
    if (map != resultMap || from != to)
      value = linalg::GenericOp::create(
                  rewriter, loc, init->get().getType(), value, init->get(),
                  ArrayRef<AffineMap>{map, resultMap},
                  linalgOp.getIteratorTypesArray(),
                  [&](OpBuilder &builder, Location, ValueRange arguments) {
                    linalg::YieldOp::create(builder, loc,
                                            convert(builder, arguments[0], to));
                  })
                  .getResult(0);
  } else {
    value = convert(rewriter, value, division->getResult(0).getType());
  }
  Type type = division->getResult(0).getType();
  if (value.getType() != type)
    value = tensor::CastOp::create(rewriter, loc, type, value);
  rewriter.replaceOp(division, value);
  return producers;
}

namespace {
struct AttnRaiseLinalgPass
    : public attn::impl::AttnRaiseLinalgPassBase<AttnRaiseLinalgPass> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<const Target *> found = lookupTarget(getOperation(), target);
    if (failed(found))
      return signalPassFailure();
    // A matmul may be part of an attention that was raised before.
    SmallVector<linalg::LinalgOp> matmuls;
    getOperation()->walk([&](linalg::LinalgOp op) { matmuls.push_back(op); });
    IRRewriter rewriter(&getContext());
    llvm::SmallPtrSet<Operation *, 8> erased;
    TrackErased listener(erased);
    rewriter.setListener(&listener);
    for (linalg::LinalgOp matmul : matmuls)
      if (!erased.contains(matmul))
        raise(rewriter, matmul, **found);
  }

private:
  /// Records erased operations.
  struct TrackErased : public RewriterBase::Listener {
    explicit TrackErased(llvm::SmallPtrSetImpl<Operation *> &erased)
        : erased(erased) {}
    void notifyOperationErased(Operation *op) override { erased.insert(op); }
    llvm::SmallPtrSetImpl<Operation *> &erased;
  };

  void raise(RewriterBase &rewriter, linalg::LinalgOp matmul,
             const Target &target) {
    // Decays are exponentials, as P is: products of scores go first.
    std::string reason;
    FailureOr<unsigned> count =
        raiseLinearAttention(rewriter, matmul, target, reason);
    if (succeeded(count)) {
      numLinear += *count;
      return;
    }
    AttentionMatcher matcher(matmul, {assumeKeptRows, assumeDropoutMasks});
    FailureOr<AttentionMatch> match = matcher.match();
    auto options =
        remark::RemarkOpts::name("attention").category("attn-raise-linalg");
    if (failed(match)) {
      if (!reason.empty())
        remark::missed(matmul.getLoc(), options)
            << "no linear attention: " + reason;
      else if (!matcher.getReason().empty())
        remark::missed(matmul.getLoc(), options)
            << ("no attention: " + matcher.getReason()).str();
      return;
    }
    rewriter.setInsertionPoint(matmul);
    Value result = AttentionBuilder(rewriter, *match).build();
    rewriter.replaceAllUsesWith(matmul->getResult(0), result);
    int64_t keyHeads = match->key.numHeads, valueHeads = match->value.numHeads;
    std::string ofValues;
    if (valueHeads != keyHeads)
      ofValues = llvm::formatv(" and {0} value heads", valueHeads).str();
    remark::passed(result.getLoc(), options)
        << llvm::formatv(
               "raised an attention of {0} query heads{1} {2} key heads{3}{4}",
               match->at.getNumHeads(), ofValues.empty() ? " and" : ",",
               keyHeads, ofValues,
               match->dropoutKept.empty() ? "" : ", with a mask of dropout")
               .str();
    SmallVector<Operation *> unused = {matmul};
    if (match->undivided)
      llvm::append_range(unused, eraseDivision(rewriter, *match->undivided));
    eraseUnused(rewriter, unused);
    ++numRaised;
  }
};
} // namespace
