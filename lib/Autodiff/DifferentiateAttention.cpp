//===- DifferentiateAttention.cpp - Gradients of attention ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Attention becomes `attn.attention_grad`; the gradient of its score_mod region
// is derived operation by operation.
//
//===----------------------------------------------------------------------===//

#include "DifferentiateLinearAttention.h"
#include "DifferentiateMerge.h"
#include "Differentiation.h"
#include "attn/Autodiff/Differentiation.h"
#include "attn/Autodiff/Passes.h"
#include "attn/Support/DeadOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <limits>

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNDERIVESCOREGRADPASS
#include "attn/Autodiff/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;

//===----------------------------------------------------------------------===//
// Score_mod regions
//===----------------------------------------------------------------------===//

namespace {
/// Gradients in a score_mod region. Gradients of elements of captured tensors
/// are added to destinations.
class ScoreState : public GradientState {
public:
  void setDestination(Value captured, Value destination) {
    setActive(captured);
    destinations[captured] = destination;
  }

  LogicalResult addElementGradient(OpBuilder &builder, Operation *op,
                                   Value tensor, ValueRange indices,
                                   Value gradient) override {
    Value destination = destinations.lookup(tensor);
    if (!destination)
      return op->emitError("cannot differentiate '")
             << op->getName()
             << "' of a tensor that is made in the score_mod region";
    emitAccumulate(builder, op->getLoc(), gradient, destination, indices);
    return success();
  }

  bool addsElementsOutside() const override { return true; }

  /// Adds the gradients of captured scalars to their destinations.
  void flushScalars(OpBuilder &builder, Location loc) {
    for (auto [captured, destination] : destinations)
      if (isa<FloatType>(captured.getType()))
        if (Value gradient = getGradient(captured))
          emitAccumulate(builder, loc, gradient, destination, {});
  }

private:
  static void emitAccumulate(OpBuilder &builder, Location loc, Value gradient,
                             Value destination, ValueRange indices) {
    gradient = convertFloat(builder, loc, gradient, builder.getF32Type());
    AccumulateOp::create(builder, loc, gradient, destination, indices);
  }

  llvm::MapVector<Value, Value> destinations;
};
} // namespace

LogicalResult attn::deriveScoreGrad(OpBuilder &builder, Region &score,
                                    Region &scoreGrad, ValueRange captured,
                                    TypeRange destinationTypes) {
  MLIRContext *context = builder.getContext();
  Location loc = score.getLoc();
  SmallVector<Type> types(2, Float32Type::get(context));
  types.append(4, IndexType::get(context));
  unsigned numScalars = types.size();
  llvm::append_range(types, destinationTypes);
  OpBuilder::InsertionGuard guard(builder);
  Block *block = builder.createBlock(&scoreGrad, scoreGrad.end(), types,
                                     SmallVector<Location>(types.size(), loc));
  Value result = block->getArgument(1);
  if (score.empty()) {
    YieldOp::create(builder, loc, result);
    return success();
  }

  IRMapping mapping;
  mapping.map(score.getArgument(0), block->getArgument(0));
  for (unsigned i = 1, e = score.getNumArguments(); i < e; ++i)
    mapping.map(score.getArgument(i), block->getArgument(i + 1));
  ScoreState state;
  state.setActive(block->getArgument(0));
  for (auto [value, destination] :
       llvm::zip_equal(captured, block->getArguments().drop_front(numScalars)))
    state.setDestination(value, destination);
  SmallVector<Operation *> ops;
  for (Operation &op : score.front().without_terminator()) {
    ops.push_back(builder.clone(op, mapping));
    state.propagateActivity(ops.back());
  }
  auto yield = cast<YieldOp>(score.front().getTerminator());
  state.addGradient(builder, loc, mapping.lookupOrDefault(yield.getValue()),
                    result);
  if (failed(emitGradients(builder, ops, state)))
    return failure();
  state.flushScalars(builder, loc);
  Value gradient = state.getGradient(block->getArgument(0));
  if (!gradient)
    gradient =
        arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(0));
  YieldOp::create(builder, loc,
                  convertFloat(builder, loc, gradient, builder.getF32Type()));
  eraseDeadOps(*block);
  return success();
}

namespace {
struct AttnDeriveScoreGradPass
    : public attn::impl::AttnDeriveScoreGradPassBase<AttnDeriveScoreGradPass> {
  using Base::Base;

  void runOnOperation() override {
    WalkResult result = getOperation()->walk([](AttentionGradOp op) {
      if (op.getScoreMod().empty() || op.statesScoreGrad())
        return WalkResult::advance();
      OpBuilder builder(op);
      return WalkResult(deriveScoreGrad(builder, op.getScoreMod(),
                                        op.getScoreModGrad(), {}, {}));
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// Emits whether row `i` of batch entry `b` belongs to a sequence.
static Value emitIsInSequence(OpBuilder &builder, Location loc,
                              AttentionOp attention, Value b, Value i) {
  auto bound = [&](Value index) -> Value {
    Value element = tensor::ExtractOp::create(
        builder, loc, attention.getQuerySequences(), index);
    return arith::IndexCastOp::create(builder, loc, builder.getIndexType(),
                                      element);
  };
  auto isBefore = [&](Value end) -> Value {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, i,
                                 end);
  };
  if (!attention.getAddressing().packsQueries())
    return isBefore(bound(b));
  Value zero = arith::ConstantIndexOp::create(builder, loc, 0);
  Value one = arith::ConstantIndexOp::create(builder, loc, 1);
  Value count =
      tensor::DimOp::create(builder, loc, attention.getQuerySequences(), zero);
  Value last = arith::SubIOp::create(builder, loc, count, one);
  Value begins = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sge,
                                       i, bound(zero));
  return arith::AndIOp::create(builder, loc, begins, isBefore(bound(last)));
}

/// Emits the key or value head that entry `head` of `map` names.
static Value emitMappedHead(OpBuilder &builder, AttentionOp attention,
                            Value map, Value head) {
  Location loc = attention.getLoc();
  // As attention reads them, entries are unsigned and bounded.
  Value entry = tensor::ExtractOp::create(builder, loc, map, head);
  entry =
      arith::IndexCastOp::create(builder, loc, builder.getIndexType(), entry);
  return arith::MinUIOp::create(
      builder, loc, entry,
      arith::ConstantIndexOp::create(builder, loc,
                                     attention.getNumKeyHeads() - 1)
          .getResult());
}

/// Emits the value head that query head `head` attends.
static Value emitValueHead(OpBuilder &builder, AttentionOp attention,
                           Value head) {
  if (Value map = attention.getHeadMap())
    return emitMappedHead(builder, attention, map, head);
  return attention.emitKeyValueHeads(builder, attention.getLoc(), head).value;
}

/// Emits, as f32, the element of the value that `identity` gives to a row, or
/// zero if there is no such key, in a linalg operation whose loops are the
/// dimensions of the output.
static Value emitOwnValue(OpBuilder &b, AttentionOp attention) {
  Location loc = attention.getLoc();
  Value value = attention.getValue();
  Value keys = tensor::DimOp::create(b, loc, value, 2);
  Value queries = tensor::DimOp::create(b, loc, attention.getQuery(), 2);
  SmallVector<Value> at;
  for (int64_t dim = 0; dim < 4; ++dim)
    at.push_back(linalg::IndexOp::create(b, loc, dim));
  at[1] = emitValueHead(b, attention, at[1]);
  Value shift = arith::SubIOp::create(b, loc, keys, queries);
  at[2] = arith::AddIOp::create(b, loc, at[2], shift);
  // A negative position is a large one.
  Value exists =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, at[2], keys);
  auto own = scf::IfOp::create(
      b, loc, exists,
      [&](OpBuilder &then, Location) {
        Value read = tensor::ExtractOp::create(then, loc, value, at);
        scf::YieldOp::create(then, loc, read);
      },
      [&](OpBuilder &otherwise, Location) {
        Type element = getElementTypeOrSelf(value);
        Value zero = arith::ConstantOp::create(
            otherwise, loc, otherwise.getFloatAttr(element, 0));
        scf::YieldOp::create(otherwise, loc, zero);
      });
  return convertFloat(b, loc, own.getResult(0), b.getF32Type());
}

/// Emits the gradient of the sinks. A sink has probability `exp(sink - lse)` in
/// each row and no value, so that its gradient is minus the sum over the rows
/// of `exp(sink - lse) * (dot(dout, out) - dlse)`, where `out` is the output
/// without the value that `identity` adds.
static Value emitSinkGradient(OpBuilder &builder, AttentionOp attention,
                              Value dout, Value dlse) {
  Location loc = attention.getLoc();
  MLIRContext *context = builder.getContext();
  Type f32 = builder.getF32Type();
  Value out = attention->getResult(0), lse = attention->getResult(1);
  using utils::IteratorType;
  AffineMap full = builder.getMultiDimIdentityMap(4);
  AffineMap row = full.dropResult(3);
  SmallVector<Value> factors = {out, dout};
  SmallVector<AffineMap> mapsOfFactors = {full, full};
  if (Value identity = attention.getIdentity()) {
    factors.push_back(identity);
    mapsOfFactors.push_back(AffineMap::get(4, 0, getAffineDimExpr(1, context)));
  }
  mapsOfFactors.push_back(row);
  auto delta = linalg::GenericOp::create(
      builder, loc, lse.getType(), factors, emitZeros(builder, loc, lse, f32),
      mapsOfFactors,
      ArrayRef<IteratorType>{IteratorType::parallel, IteratorType::parallel,
                             IteratorType::parallel, IteratorType::reduction},
      [&](OpBuilder &b, Location, ValueRange arguments) {
        Value element = convertFloat(b, loc, arguments[0], f32);
        if (attention.getIdentity()) {
          Value added = arith::MulFOp::create(
              b, loc, convertFloat(b, loc, arguments[2], f32),
              emitOwnValue(b, attention));
          element = arith::SubFOp::create(b, loc, element, added);
        }
        Value product = arith::MulFOp::create(
            b, loc, element, convertFloat(b, loc, arguments[1], f32));
        Value sum = arith::AddFOp::create(b, loc, arguments.back(), product);
        linalg::YieldOp::create(b, loc, sum);
      });

  // Loops are heads, batch entries, rows.
  AffineMap byHead = AffineMap::get(3, 0, getAffineDimExpr(0, context));
  AffineMap byRow =
      AffineMap::getPermutationMap(ArrayRef<unsigned>{1, 0, 2}, context);
  SmallVector<Value> inputs = {attention.getSinks(), lse, delta.getResult(0)};
  SmallVector<AffineMap> maps = {byHead, byRow, byRow};
  if (dlse) {
    inputs.push_back(dlse);
    maps.push_back(byRow);
  }
  maps.push_back(byHead);
  auto sum = linalg::GenericOp::create(
      builder, loc,
      cast<RankedTensorType>(attention.getSinks().getType()).clone(f32), inputs,
      emitZeros(builder, loc, attention.getSinks(), f32), maps,
      ArrayRef<IteratorType>{IteratorType::parallel, IteratorType::reduction,
                             IteratorType::reduction},
      [&](OpBuilder &b, Location, ValueRange arguments) {
        Value sink = convertFloat(b, loc, arguments[0], f32);
        Value weight = math::ExpOp::create(
            b, loc, arith::SubFOp::create(b, loc, sink, arguments[1]));
        Value rowGrad = arguments[2];
        if (dlse)
          rowGrad = arith::SubFOp::create(b, loc, rowGrad, arguments[3]);
        Value product = arith::MulFOp::create(b, loc, weight, rowGrad);
        // A sink of -inf has probability 0, even in a row without keys.
        Value lowest = arith::ConstantOp::create(
            b, loc, b.getF32FloatAttr(-std::numeric_limits<float>::infinity()));
        Value counts = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE,
                                             sink, lowest);
        if (attention.getAddressing().isListed()) {
          Value inSequence = emitIsInSequence(
              b, loc, attention, linalg::IndexOp::create(b, loc, 1),
              linalg::IndexOp::create(b, loc, 2));
          counts = arith::AndIOp::create(b, loc, counts, inSequence);
        }
        Value zero = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0));
        product = arith::SelectOp::create(b, loc, counts, product, zero);
        linalg::YieldOp::create(
            b, loc,
            arith::SubFOp::create(b, loc, arguments.back(), product)
                .getResult());
      });
  return sum.getResult(0);
}

/// Emits exp(state_lse - lse), the weight of the state in a row of a linalg
/// operation whose first and third loop are batch entries and rows. It is at
/// most 1, although log-sum-exps are rounded; it is 0 for a state without keys,
/// and in rows of no sequence.
static Value emitStateWeight(OpBuilder &b, AttentionOp attention,
                             Value stateLse, Value lse, Value zero) {
  Location loc = attention.getLoc();
  Value difference = arith::SubFOp::create(b, loc, stateLse, lse);
  Value weight = math::ExpOp::create(
      b, loc, arith::MinNumFOp::create(b, loc, difference, zero).getResult());
  Value lowest = arith::ConstantOp::create(
      b, loc, b.getF32FloatAttr(-std::numeric_limits<float>::infinity()));
  Value counts = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE,
                                       stateLse, lowest);
  if (attention.getAddressing().isListed())
    counts = arith::AndIOp::create(
        b, loc, counts,
        emitIsInSequence(b, loc, attention, linalg::IndexOp::create(b, loc, 0),
                         linalg::IndexOp::create(b, loc, 2)));
  return arith::SelectOp::create(b, loc, counts, weight, zero);
}

/// Emits `weight` times `value`, or zero where the weight is zero: the output
/// of a state without keys, and gradients of rows of no sequence, may be NaN.
static Value emitWeighted(OpBuilder &b, Location loc, Value weight, Value value,
                          Value zero) {
  Value product = arith::MulFOp::create(b, loc, weight, value);
  Value isNone =
      arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, weight, zero);
  return arith::SelectOp::create(b, loc, isNone, zero, product);
}

/// Emits the gradient of the output of the state: its weight times `dout`.
static Value emitStateOutGradient(OpBuilder &builder, AttentionOp attention,
                                  Value dout) {
  Location loc = attention.getLoc();
  Type f32 = builder.getF32Type();
  Value stateOut = attention.getStateOut();
  Type element = getElementTypeOrSelf(stateOut);
  AffineMap full = builder.getMultiDimIdentityMap(4), row = full.dropResult(3);
  Value init = tensor::EmptyOp::create(
      builder, loc, tensor::getMixedSizes(builder, loc, stateOut), element);
  auto gradient = linalg::GenericOp::create(
      builder, loc, init.getType(),
      ValueRange{dout, attention.getStateLse(), attention->getResult(1)}, init,
      ArrayRef<AffineMap>{full, row, row, full},
      SmallVector<utils::IteratorType>(4, utils::IteratorType::parallel),
      [&](OpBuilder &b, Location, ValueRange arguments) {
        Value zero = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0));
        Value weight =
            emitStateWeight(b, attention, arguments[1], arguments[2], zero);
        Value product = emitWeighted(
            b, loc, weight, convertFloat(b, loc, arguments[0], f32), zero);
        linalg::YieldOp::create(b, loc, convertFloat(b, loc, product, element));
      });
  return gradient.getResult(0);
}

/// Emits the gradient of the log-sum-exp of the state: its weight times
/// `dot(dout, state_out - out) + dlse`.
static Value emitStateLseGradient(OpBuilder &builder, AttentionOp attention,
                                  Value dout, Value dlse) {
  Location loc = attention.getLoc();
  Type f32 = builder.getF32Type();
  Value stateLse = attention.getStateLse();
  using utils::IteratorType;
  AffineMap full = builder.getMultiDimIdentityMap(4), row = full.dropResult(3);
  auto delta = linalg::GenericOp::create(
      builder, loc, stateLse.getType(),
      ValueRange{dout, attention.getStateOut(), attention->getResult(0)},
      emitZeros(builder, loc, stateLse, f32),
      ArrayRef<AffineMap>{full, full, full, row},
      ArrayRef<IteratorType>{IteratorType::parallel, IteratorType::parallel,
                             IteratorType::parallel, IteratorType::reduction},
      [&](OpBuilder &b, Location, ValueRange arguments) {
        Value difference = arith::SubFOp::create(
            b, loc, convertFloat(b, loc, arguments[1], f32),
            convertFloat(b, loc, arguments[2], f32));
        Value product = arith::MulFOp::create(
            b, loc, convertFloat(b, loc, arguments[0], f32), difference);
        linalg::YieldOp::create(
            b, loc,
            arith::AddFOp::create(b, loc, arguments[3], product).getResult());
      });

  SmallVector<Value> inputs = {stateLse, attention->getResult(1),
                               delta.getResult(0)};
  if (dlse)
    inputs.push_back(dlse);
  Value init = tensor::EmptyOp::create(
      builder, loc, tensor::getMixedSizes(builder, loc, stateLse), f32);
  auto gradient = linalg::GenericOp::create(
      builder, loc, init.getType(), inputs, init,
      SmallVector<AffineMap>(inputs.size() + 1,
                             builder.getMultiDimIdentityMap(3)),
      SmallVector<IteratorType>(3, IteratorType::parallel),
      [&](OpBuilder &b, Location, ValueRange arguments) {
        Value zero = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0));
        Value weight =
            emitStateWeight(b, attention, arguments[0], arguments[1], zero);
        Value sum = arguments[2];
        if (dlse)
          sum = arith::AddFOp::create(b, loc, sum, arguments[3]);
        linalg::YieldOp::create(b, loc,
                                emitWeighted(b, loc, weight, sum, zero));
      });
  return gradient.getResult(0);
}

/// Emits keys or values with a head for each query head.
static Value emitMappedHeads(OpBuilder &builder, AttentionOp attention,
                             Value heads) {
  Location loc = attention.getLoc();
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(builder, loc, heads);
  sizes[1] = builder.getIndexAttr(attention.getNumQueryHeads());
  Value init =
      tensor::EmptyOp::create(builder, loc, sizes, getElementTypeOrSelf(heads));
  auto gather = linalg::GenericOp::create(
      builder, loc, init.getType(), ValueRange(), init,
      builder.getMultiDimIdentityMap(4),
      SmallVector<utils::IteratorType>(4, utils::IteratorType::parallel),
      [&](OpBuilder &b, Location, ValueRange) {
        SmallVector<Value> at;
        for (int64_t dim = 0; dim < 4; ++dim)
          at.push_back(linalg::IndexOp::create(b, loc, dim));
        at[1] = emitMappedHead(b, attention, attention.getHeadMap(), at[1]);
        Value element = tensor::ExtractOp::create(b, loc, heads, at);
        linalg::YieldOp::create(b, loc, element);
      });
  return gather.getResult(0);
}

/// Emits the gradient of keys or values `heads` from the gradient of
/// `emitMappedHeads`: adds up the query heads that attend each head.
static Value emitMappedGradient(OpBuilder &builder, AttentionOp attention,
                                Value heads, Value gradient) {
  Location loc = attention.getLoc();
  Type f32 = builder.getF32Type();
  using utils::IteratorType;
  // Loops are the dimensions of the result, and query heads.
  AffineMap full = builder.getMultiDimIdentityMap(5);
  SmallVector<AffineExpr> read(full.getResults().take_front(4));
  read[1] = full.getResult(4);
  Value init = emitZeros(builder, loc, heads, f32);
  SmallVector<IteratorType> loops(4, IteratorType::parallel);
  loops.push_back(IteratorType::reduction);
  auto sum = linalg::GenericOp::create(
      builder, loc, init.getType(), gradient, init,
      ArrayRef<AffineMap>{AffineMap::get(5, 0, read, builder.getContext()),
                          full.dropResult(4)},
      loops, [&](OpBuilder &b, Location, ValueRange arguments) {
        Value head = emitMappedHead(b, attention, attention.getHeadMap(),
                                    linalg::IndexOp::create(b, loc, 4));
        Value attends = arith::CmpIOp::create(
            b, loc, arith::CmpIPredicate::eq, head,
            linalg::IndexOp::create(b, loc, 1).getResult());
        Value zero = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0));
        Value term = arith::SelectOp::create(
            b, loc, attends, convertFloat(b, loc, arguments[0], f32), zero);
        linalg::YieldOp::create(
            b, loc,
            arith::AddFOp::create(b, loc, arguments[1], term).getResult());
      });
  return sum.getResult(0);
}

/// Emits the gradient of `identity`: the sum over the rows of `dot(dout, own -
/// plain)`, where `own` is the value that belongs to the row and `plain` is the
/// output without the identity. `plain` is computed again, since the output
/// does not contain it where `identity` is 1.
static Value emitIdentityGradient(OpBuilder &builder, AttentionOp attention,
                                  Value dout) {
  Location loc = attention.getLoc();
  Type f32 = builder.getF32Type();
  auto plain = cast<AttentionOp>(builder.clone(*attention));
  plain.getIdentityMutable().clear();

  using utils::IteratorType;
  AffineMap full = builder.getMultiDimIdentityMap(4);
  AffineMap byHead = full.getSubMap(1);
  auto sum = linalg::GenericOp::create(
      builder, loc,
      cast<RankedTensorType>(attention.getIdentity().getType()).clone(f32),
      ValueRange{dout, plain->getResult(0)},
      emitZeros(builder, loc, attention.getIdentity(), f32),
      ArrayRef<AffineMap>{full, full, byHead},
      ArrayRef<IteratorType>{IteratorType::reduction, IteratorType::parallel,
                             IteratorType::reduction, IteratorType::reduction},
      [&](OpBuilder &b, Location, ValueRange arguments) {
        Value difference =
            arith::SubFOp::create(b, loc, emitOwnValue(b, attention),
                                  convertFloat(b, loc, arguments[1], f32));
        Value product = arith::MulFOp::create(
            b, loc, convertFloat(b, loc, arguments[0], f32), difference);
        linalg::YieldOp::create(
            b, loc,
            arith::AddFOp::create(b, loc, arguments.back(), product)
                .getResult());
      });
  return sum.getResult(0);
}

namespace {
struct AttentionModel
    : public DifferentiableOpInterface::ExternalModel<AttentionModel,
                                                      AttentionOp> {
  /// The gradient needs the log-sum-exp.
  Operation *prepareForGradient(Operation *op, RewriterBase &rewriter) const {
    auto attention = cast<AttentionOp>(op);
    if (attention.getLse())
      return op;
    OpBuilder::InsertionGuard guard(rewriter);
    rewriter.setInsertionPoint(op);
    Location loc = op->getLoc();
    SmallVector<OpFoldResult> sizes =
        tensor::getMixedSizes(rewriter, loc, attention.getQuery());
    Value lse = tensor::EmptyOp::create(
        rewriter, loc, ArrayRef<OpFoldResult>(sizes).drop_back(),
        rewriter.getF32Type());
    SmallVector<Type> types(op->getResultTypes());
    types.push_back(lse.getType());
    auto replacement = AttentionOp::create(
        rewriter, loc, types, attention.getQuery(), attention.getKey(),
        attention.getValue(), attention.getOut(), lse, attention.getStateOut(),
        attention.getStateLse(), attention.getSinks(), attention.getHeadMap(),
        attention.getIdentity(), attention.getQuerySequences(),
        attention.getKeySequences(), attention.getKeyLengths(),
        attention.getPageTable(), attention.getPositions(),
        attention.getMaskReads(), attention.getSeed(), attention.getOffset(),
        attention.getDropoutMask(), attention.getBlockMask(),
        attention.getSequenceLayoutAttr(), attention.getScaleAttr(),
        attention.getMaskAttr(), attention.getDropoutAttr(),
        attention.getMaskLayoutAttr(), attention.getDropProbabilityAttr(),
        attention.getDropoutOnlyAttr(), attention.getPrecisionAttr(),
        attention.getScheduleAttr());
    replacement->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    for (auto [from, to] :
         llvm::zip_equal(op->getRegions(), replacement->getRegions()))
      rewriter.inlineRegionBefore(from, to, to.end());
    rewriter.replaceOp(op, replacement->getResults().drop_back());
    return replacement;
  }

  LogicalResult emitGradients(Operation *op, OpBuilder &builder,
                              GradientState &state) const {
    auto attention = cast<AttentionOp>(op);
    if (failed(verifyDifferentiable(attention, state)))
      return failure();
    Location loc = op->getLoc();
    Value out = op->getResult(0);
    Value dout = state.getGradient(out);
    if (!dout)
      dout = emitZeros(builder, loc, out, getElementTypeOrSelf(out));
    Value dlse = state.getGradient(op->getResult(1));

    // Values that the score_mod region reads and that need a gradient.
    SetVector<Value> used;
    getUsedValuesDefinedAbove(attention.getScoreMod(), used);
    SmallVector<Value> captured = llvm::filter_to_vector(
        used, [&](Value value) { return state.isActive(value); });
    FailureOr<AttentionGradOp> grad =
        emitGradOp(builder, attention, state, dout, dlse, captured);
    if (failed(grad))
      return failure();
    addGradients(builder, attention, *grad, captured, state);
    if (attention.getSinks() && state.isActive(attention.getSinks()))
      state.addGradient(builder, loc, attention.getSinks(),
                        emitSinkGradient(builder, attention, dout, dlse));
    if (attention.getStateOut()) {
      if (state.isActive(attention.getStateOut()))
        state.addGradient(builder, loc, attention.getStateOut(),
                          emitStateOutGradient(builder, attention, dout));
      if (state.isActive(attention.getStateLse()))
        state.addGradient(builder, loc, attention.getStateLse(),
                          emitStateLseGradient(builder, attention, dout, dlse));
    }
    if (wantsIdentityGrad(attention, state))
      state.addGradient(builder, loc, attention.getIdentity(),
                        emitIdentityGradient(builder, attention, dout));
    return success();
  }

private:
  static bool wantsIdentityGrad(AttentionOp attention,
                                const GradientState &state) {
    return attention.getIdentity() && state.isActive(attention.getIdentity());
  }

  static LogicalResult verifyDifferentiable(AttentionOp attention,
                                            const GradientState &state) {
    auto emitError = [&] {
      return attention->emitError("cannot differentiate '")
             << attention->getName();
    };
    if (Type out = getElementTypeOrSelf(attention.getOut()); isFloat8(out))
      return emitError() << "' with an output of " << out
                         << ": gradients need the output before it is rounded "
                            "to 8 bits";
    if (!attention.getQueryRegion().empty() || !attention.getEpilogue().empty())
      return emitError() << "' with a query or epilogue region: differentiate "
                            "before attn-fuse";
    if (attention.getKeyLengths() || attention.hasPackedQueries())
      return emitError() << "' with '"
                         << (attention.getPageTable()    ? "page_table"
                             : attention.getKeyLengths() ? "key_lengths"
                                                         : "packed_queries")
                         << "': gradients of a KV cache are not supported";
    if (wantsIdentityGrad(attention, state) &&
        attention.getAddressing().isListed())
      return emitError() << "' with sequences by the weights of the identity";
    if (attention.getIdentity() && attention.getSinks() &&
        state.isActive(attention.getSinks()) &&
        attention.getAddressing().isListed())
      return emitError() << "' with sequences and 'identity' by 'sinks'";
    return success();
  }

  /// Emits the tensors to which the gradients of captured values are added.
  static SmallVector<Value> emitDestinations(OpBuilder &builder, Location loc,
                                             ArrayRef<Value> captured) {
    SmallVector<Value> destinations;
    Type f32 = builder.getF32Type();
    for (Value value : captured) {
      Value shape = value;
      if (isa<FloatType>(value.getType()))
        shape = tensor::EmptyOp::create(builder, loc, ArrayRef<int64_t>(), f32);
      destinations.push_back(emitZeros(builder, loc, shape, f32));
    }
    return destinations;
  }

  /// Emits the operation that computes the gradients of queries, keys, values
  /// and captured values.
  static FailureOr<AttentionGradOp> emitGradOp(OpBuilder &builder,
                                               AttentionOp attention,
                                               const GradientState &state,
                                               Value dout, Value dlse,
                                               ArrayRef<Value> captured) {
    Location loc = attention.getLoc();
    SmallVector<Value> destinations = emitDestinations(builder, loc, captured);
    // With a head map, gradients are computed for each query head, as no kernel
    // knows beforehand which heads share keys.
    Value query = attention.getQuery(), keys = attention.getKey(),
          values = attention.getValue();
    if (attention.getHeadMap()) {
      keys = emitMappedHeads(builder, attention, keys);
      values = emitMappedHeads(builder, attention, values);
    }
    SmallVector<Value> inits;
    for (Value operand : {query, keys, values}) {
      Type element = getElementTypeOrSelf(getGradientType(operand.getType()));
      // Rows that belong to no sequence have a gradient of 0.
      if (attention.getAddressing().isListed())
        inits.push_back(emitZeros(builder, loc, operand, element));
      else
        inits.push_back(tensor::EmptyOp::create(
            builder, loc, tensor::getMixedSizes(builder, loc, operand),
            element));
    }
    SmallVector<Type> types(ValueRange(inits).getTypes());
    llvm::append_range(types, ValueRange(destinations).getTypes());
    auto grad = AttentionGradOp::create(
        builder, loc, types, query, keys, values, attention->getResult(0),
        attention->getResult(1), dout, dlse, inits[0], inits[1], inits[2],
        destinations, attention.getIdentity(), attention.getQuerySequences(),
        attention.getKeySequences(), attention.getPositions(),
        attention.getMaskReads(), attention.getSeed(), attention.getOffset(),
        attention.getDropoutMask(), attention.getSequenceLayoutAttr(),
        attention.getScaleAttr(), attention.getMaskAttr(),
        attention.getDropoutAttr(), attention.getMaskLayoutAttr(),
        attention.getDropProbabilityAttr(), attention.getDropoutOnlyAttr(),
        attention.getPrecisionAttr(), /*schedule=*/Attribute(),
        state.isDeterministic() ? builder.getUnitAttr() : UnitAttr());
    IRMapping mapping;
    attention.getScoreMod().cloneInto(&grad.getScoreMod(), mapping);
    attention.getMaskMod().cloneInto(&grad.getMaskMod(), mapping);
    if (!attention.getScoreMod().empty() &&
        failed(deriveScoreGrad(builder, grad.getScoreMod(),
                               grad.getScoreModGrad(), captured,
                               ValueRange(destinations).getTypes())))
      return failure();
    return grad;
  }

  /// Adds the gradients that `grad` computes.
  static void addGradients(OpBuilder &builder, AttentionOp attention,
                           AttentionGradOp grad, ArrayRef<Value> captured,
                           GradientState &state) {
    Location loc = attention.getLoc();
    state.addGradient(builder, loc, attention.getQuery(), grad->getResult(0));
    for (auto [operand, gradient] :
         {std::pair(attention.getKey(), grad->getResult(1)),
          std::pair(attention.getValue(), grad->getResult(2))})
      state.addGradient(
          builder, loc, operand,
          attention.getHeadMap()
              ? emitMappedGradient(builder, attention, operand, gradient)
              : Value(gradient));
    for (auto [value, gradient] :
         llvm::zip_equal(captured, grad->getResults().drop_front(3))) {
      Value result = gradient;
      if (isa<FloatType>(value.getType()))
        result = tensor::ExtractOp::create(builder, loc, result, ValueRange());
      state.addGradient(builder, loc, value, result);
    }
  }
};

struct AttentionGradModel
    : public DifferentiableOpInterface::ExternalModel<AttentionGradModel,
                                                      AttentionGradOp> {
  LogicalResult emitGradients(Operation *op, OpBuilder &,
                              GradientState &) const {
    return op->emitError("cannot differentiate '")
           << op->getName()
           << "': second derivatives of attention are not supported";
  }
};
} // namespace

void attn::registerAttentionGradientModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, AttnDialect *) {
    AttentionOp::attachInterface<AttentionModel>(*context);
    AttentionGradOp::attachInterface<AttentionGradModel>(*context);
  });
}

void attn::registerDifferentiableOpInterfaceExternalModels(
    DialectRegistry &registry) {
  registerScalarGradientModels(registry);
  registerTensorGradientModels(registry);
  registerRegionGradientModels(registry);
  registerAttentionGradientModels(registry);
  registerLinearAttentionGradientModels(registry);
  registerMergeGradientModels(registry);
}
