//===- LinearShard.h - Linear attention of one rank -------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emits linear attention of one rank, and its gradient, as LASP-2 does (Sun et
// al. 2025, arXiv:2502.07563): each rank computes the state that its own tokens
// add up to, ranks gather these states, and each continues from the state of
// the tokens that it sees on other ranks.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DISTRIBUTED_LINEARSHARD_H
#define ATTN_LIB_DISTRIBUTED_LINEARSHARD_H

#include "RankStates.h"
#include "RankTensors.h"
#include "attn/Dialect/Attn/IR/AttnLinearOps.h"

#include <memory>
#include <tuple>

namespace mlir::attn {

/// The maps of operations before, by their keys, values, log-decays and betas,
/// by whether they are causal, and by the number of heads. A gradient takes the
/// ones of its attention. The factors of states do not depend on values.
struct KnownStateMaps {
  using Operands = std::tuple<Value, Value, Value, Value, Attribute, int64_t>;
  DenseMap<Operands, Value> added;
  DenseMap<Operands, StateMaps> factors;
};

/// Emits the computation of one rank, in place of an operation whose operands
/// with tokens have become chunks of that rank.
class LinearShard {
public:
  virtual ~LinearShard() = default;

  /// The results of the operation.
  virtual SmallVector<Value> emit() = 0;

protected:
  /// Operands and attributes that linear attention and its gradient have.
  struct Inputs {
    Value query, key, value, logDecay, beta, initialState;
    UnitAttr causal;
    FloatAttr scale;
    IntegerAttr chunk;
    MatmulPrecisionAttr precision;
  };

  template <typename OpTy>
  LinearShard(OpBuilder &builder, OpTy op, RankOfGroup group,
              KnownStateMaps &known)
      : b(op.getLoc(), builder),
        inputs{op.getQuery(),        op.getKey(),       op.getValue(),
               op.getLogDecay(),     op.getBeta(),      op.getInitialState(),
               op.getCausalAttr(),   op.getScaleAttr(), op.getChunkAttr(),
               op.getPrecisionAttr()},
        group(group), known(known) {
    b.setInsertionPoint(op);
  }

  /// The effect of the tokens of each rank.
  StateMaps emitMaps();
  /// `part` of all ranks.
  Value emitGathered(Value part) {
    return attn::emitGathered(b, group.ranks, part);
  }
  /// Carries a state over the ranks, or its gradient back.
  RankScan makeScan(const StateMaps &maps, bool isGradient = false);
  /// The state that the tokens of this rank make of `initial`, or of 0 if that
  /// is null.
  Value emitFinalState(Value key, Value value, Value initial);
  /// `state`, which may be null for 0, with the sizes of the queries.
  Value emitGiven(Value state);
  /// A state of 0.
  Value emitNoState();
  /// `destination` as a chunk of this rank.
  Value emitDestination(Value destination) {
    return emitChunkDestination(b, destination, inputs.query, group.ranks);
  }

  ImplicitLocOpBuilder b;
  Inputs inputs;
  RankOfGroup group;

private:
  /// The same without the states that ranks add.
  StateMaps emitFactors();
  /// The type of a state with `columns` columns.
  RankedTensorType getStateType(int64_t columns);
  /// The log-decays of all tokens of this rank, added up: from one for each
  /// head, which are the same on all ranks, and from others.
  Value emitLogDecayOfHeads();
  Value emitLogDecayOfTokens();
  /// The matrix by which the tokens of this rank multiply a state.
  Value emitMatrix();

  KnownStateMaps &known;
};

/// Whether `op` is linear attention or its gradient.
bool isLinearAttention(Operation *op);

/// The operands of `op`, linear attention or its gradient, that have tokens.
SmallVector<ShardedOperand> getTokenOperands(Operation *op);

/// Whether `op` has local blocks, and each of `ranks` ranks has whole ones.
bool hasWholeBlocks(LinearAttentionOp op, int64_t ranks);

/// The output of one rank with whole local blocks, which needs no states.
Value emitWholeBlocks(OpBuilder &builder, LinearAttentionOp op,
                      RankOfGroup group);

/// The emitter for `op`, linear attention or its gradient.
std::unique_ptr<LinearShard> createLinearShard(OpBuilder &builder,
                                               Operation *op, RankOfGroup group,
                                               KnownStateMaps &known);
std::unique_ptr<LinearShard> createLinearAttentionShard(OpBuilder &builder,
                                                        LinearAttentionOp op,
                                                        RankOfGroup group,
                                                        KnownStateMaps &known);
std::unique_ptr<LinearShard> createLinearGradientShard(OpBuilder &builder,
                                                       LinearAttentionGradOp op,
                                                       RankOfGroup group,
                                                       KnownStateMaps &known);

} // namespace mlir::attn

#endif // ATTN_LIB_DISTRIBUTED_LINEARSHARD_H
