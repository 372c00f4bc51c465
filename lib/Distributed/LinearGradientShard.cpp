//===- LinearGradientShard.cpp - Its gradient of one rank -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks gather the states again, and then the gradients of the states before
// them that the outputs of each rank add up to. The same maps, transposed,
// carry these back: a rank has the gradient of the state after its tokens, as
// if it were the gradient of a final state. So the gradients of all operands of
// the rank follow from the operation itself.
//
//===----------------------------------------------------------------------===//

#include "LinearShard.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

using namespace mlir;
using namespace mlir::attn;

namespace {
/// Emits the gradient of linear attention of one rank.
class LinearGradientShard : public LinearShard {
public:
  LinearGradientShard(OpBuilder &builder, LinearAttentionGradOp op,
                      RankOfGroup group, KnownStateMaps &known)
      : LinearShard(builder, op, group, known), op(op) {}

  SmallVector<Value> emit() override;

private:
  /// The destinations of an operation; null for results that it has not.
  struct Destinations {
    Value dquery, dkey, dvalue, dlogDecay, dbeta, dinitialState;
  };
  LinearAttentionGradOp emitGradient(Value initialState, Value dfinalState,
                                     const Destinations &destinations,
                                     ScheduleAttrInterface schedule);
  /// The gradient of the state before this rank's tokens that their outputs add
  /// up to.
  Value emitGradientOfOutputs();
  /// The gradient of log-decays: a sum over all ranks if there is one for each
  /// head, of which this rank has `part`.
  Value emitDecayGradient(Value part);

  LinearAttentionGradOp op;
};
} // namespace

std::unique_ptr<LinearShard>
attn::createLinearGradientShard(OpBuilder &builder, LinearAttentionGradOp op,
                                RankOfGroup group, KnownStateMaps &known) {
  return std::make_unique<LinearGradientShard>(builder, op, group, known);
}

LinearAttentionGradOp
LinearGradientShard::emitGradient(Value initialState, Value dfinalState,
                                  const Destinations &destinations,
                                  ScheduleAttrInterface schedule) {
  SmallVector<Type> types;
  for (Value destination :
       {destinations.dquery, destinations.dkey, destinations.dvalue,
        destinations.dlogDecay, destinations.dbeta, destinations.dinitialState})
    if (destination)
      types.push_back(destination.getType());
  return LinearAttentionGradOp::create(
      b, types, inputs.query, inputs.key, inputs.value, op.getDout(),
      inputs.logDecay, inputs.beta, initialState, dfinalState,
      /*sequences=*/Value(), destinations.dquery, destinations.dkey,
      destinations.dvalue, destinations.dlogDecay, destinations.dbeta,
      destinations.dinitialState, /*whole_chunks=*/UnitAttr(), inputs.causal,
      inputs.scale, inputs.chunk, inputs.precision, schedule);
}

Value LinearGradientShard::emitGradientOfOutputs() {
  // Without decays, it is a sum over tokens as the state is.
  if (!inputs.logDecay && !inputs.beta) {
    Value sum = emitFinalState(inputs.query, op.getDout(), /*initial=*/nullptr);
    SmallVector<AffineMap> maps = {b.getMultiDimIdentityMap(4)};
    auto scaled = linalg::GenericOp::create(
        b, sum.getType(), ValueRange(), sum, maps,
        SmallVector<utils::IteratorType>(4, utils::IteratorType::parallel),
        [&](OpBuilder &body, Location loc, ValueRange arguments) {
          Value scale = arith::ConstantOp::create(
              body, loc, body.getF32FloatAttr(float(op.getScaleOrDefault())));
          Value result = arith::MulFOp::create(body, loc, arguments[0], scale);
          linalg::YieldOp::create(body, loc, result);
        });
    return scaled.getResult(0);
  }
  // It depends on no state. A gradient needs one.
  Value none = emitNoState();
  auto emitLike = [&](Value value) {
    return emitEmpty(b, getTensorType(value), value);
  };
  Destinations destinations;
  destinations.dquery = emitLike(inputs.query);
  destinations.dkey = emitLike(inputs.key);
  destinations.dvalue = emitLike(inputs.value);
  destinations.dinitialState = emitLike(none);
  return emitGradient(none, /*dfinalState=*/nullptr, destinations,
                      /*schedule=*/nullptr)
      ->getResults()
      .back();
}

Value LinearGradientShard::emitDecayGradient(Value part) {
  Value destination = op.getDlogDecay();
  if (getTensorType(destination).getRank() > 2)
    return part;
  return emitRounded(b, emitSumOfParts(b, emitGathered(part)), destination);
}

SmallVector<Value> LinearGradientShard::emit() {
  StateMaps maps = emitMaps();
  Value seen = makeScan(maps).emitSeen(emitGiven(inputs.initialState));
  StateMaps gradientMaps = maps;
  gradientMaps.added = emitGathered(emitGradientOfOutputs());
  RankScan scan = makeScan(gradientMaps, /*isGradient=*/true);
  Value last = emitGiven(op.getDfinalState());
  Value dfinalState = scan.emitSeen(last);
  Destinations destinations;
  destinations.dquery = emitDestination(op.getDquery());
  destinations.dkey = emitDestination(op.getDkey());
  destinations.dvalue = emitDestination(op.getDvalue());
  if (Value dlogDecay = op.getDlogDecay())
    destinations.dlogDecay =
        getTensorType(dlogDecay).getRank() > 2
            ? emitDestination(dlogDecay)
            : emitEmpty(b, getTensorType(dlogDecay), inputs.query);
  if (Value dbeta = op.getDbeta())
    destinations.dbeta = emitDestination(dbeta);
  SmallVector<Value> results(
      emitGradient(seen, dfinalState, destinations, op.getScheduleAttr())
          ->getResults());
  if (op.getDlogDecay())
    results[3] = emitDecayGradient(results[3]);
  if (Value destination = op.getDinitialState())
    results.push_back(
        emitRounded(b, scan.emitTotal(last, dfinalState), destination));
  return results;
}
