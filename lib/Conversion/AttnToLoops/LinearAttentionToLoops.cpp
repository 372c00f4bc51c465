//===- LinearAttentionToLoops.cpp - Linear attention to plain loops -------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes linear attention and its gradient as the recurrence over tokens, in
// f64. The gradient keeps the states before all tokens.
//
//===----------------------------------------------------------------------===//

#include "LinearAttentionToLoops.h"
#include "F64Builder.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::attn;

namespace {
/// The recurrence.
class LinearLoopWriter : protected F64Builder {
protected:
  template <typename OpTy>
  LinearLoopWriter(OpBuilder &builder, OpTy op, const IRMapping &mapping)
      : F64Builder(op.getLoc(), builder, mapping), query(get(op.getQuery())),
        key(get(op.getKey())), value(get(op.getValue())),
        logDecay(get(op.getLogDecay())), beta(get(op.getBeta())),
        initialState(get(op.getInitialState())),
        sequences(get(op.getSequences())), isCausal(op.getCausal()),
        factor(op.getScaleOrDefault()), length(size(query, 2)),
        keyDim(size(query, 3)), valueDim(size(value, 3)),
        keyGroup(op.getNumHeads() / getDimSize(op.getKey(), 1)),
        valueGroup(op.getNumHeads() / getDimSize(op.getValue(), 1)) {}

  /// Adds `term` to an element.
  void accumulate(Value term, Value memref, ValueRange at) {
    store(add(load(memref, at), term), memref, at);
  }
  void loop(Value bound, function_ref<void(Value)> body) {
    auto loop = scf::ForOp::create(b, index(0), bound, index(1));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    body(loop.getInductionVar());
  }
  Value sum(Value bound, function_ref<Value(Value)> term) {
    auto loop = scf::ForOp::create(b, index(0), bound, index(1), constant(0));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value next = add(loop.getRegionIterArg(0), term(loop.getInductionVar()));
    scf::YieldOp::create(b, next);
    return loop.getResult(0);
  }
  /// A buffer of f64; memory is freed at the end of `writeItems`.
  Value allocate(ArrayRef<Value> sizes) {
    SmallVector<int64_t> shape(sizes.size(), ShapedType::kDynamic);
    Value buffer = memref::AllocOp::create(
        b, MemRefType::get(shape, b.getF64Type()), ValueRange(sizes));
    buffers.push_back(buffer);
    return buffer;
  }
  void
  writeItems(function_ref<void()> body, function_ref<void()> prologue = [] {});
  void writeItem(function_ref<void()> body);
  void writeSequences(function_ref<void()> body);
  /// Writes loops over the tokens of the batch entry, or of its sequence.
  void forTokens(function_ref<void(Value)> body) {
    loop(numTokens, [&](Value number) {
      body(arith::AddIOp::create(b, firstToken, number));
    });
  }
  void forTokensReversed(function_ref<void(Value)> body) {
    Value end = arith::AddIOp::create(b, firstToken, numTokens);
    Value last = arith::SubIOp::create(b, end, index(1));
    loop(numTokens,
         [&](Value number) { body(arith::SubIOp::create(b, last, number)); });
  }
  Value emitDecay(Value token, Value element);
  void forState(function_ref<void(Value, Value)> body) {
    loop(keyDim,
         [&](Value d) { loop(valueDim, [&](Value e) { body(d, e); }); });
  }
  void writeInitialState(Value to);
  void writeStep(Value token);
  Value next(Value token) { return arith::AddIOp::create(b, token, index(1)); }
  Value keyAt(Value token, Value d) {
    return load(key, {batch, keyHead, token, d});
  }
  Value valueAt(Value token, Value e) {
    return load(value, {batch, valueHead, token, e});
  }
  Value queryAt(Value token, Value d) {
    return load(query, {batch, head, token, d});
  }

  Value query, key, value, logDecay, beta, initialState, sequences;
  /// The given states and the destinations of states; null if absent.
  SmallVector<Value> allStates;
  bool isCausal;
  double factor;
  Value length, keyDim, valueDim;
  int64_t keyGroup, valueGroup;
  SmallVector<Value> buffers;
  /// Of the current work item: the number of its given states, its tokens, the
  /// state after the current token, and the value that it takes.
  Value stateNumber, batch, head, keyHead, valueHead, firstToken, numTokens,
      state, update;
};

/// Writes `attn.linear_attention`.
class OutputLoopWriter : LinearLoopWriter {
public:
  OutputLoopWriter(OpBuilder &builder, LinearAttentionOp op,
                   const IRMapping &mapping)
      : LinearLoopWriter(builder, op, mapping), out(get(op.getOut())),
        finalState(get(op.getFinalState())) {
    allStates = {initialState, finalState};
  }

  void write();

private:
  void writeOut(Value token);

  Value out, finalState;
};

/// Writes `attn.linear_attention_grad`.
class GradientLoopWriter : LinearLoopWriter {
public:
  GradientLoopWriter(OpBuilder &builder, LinearAttentionGradOp op,
                     const IRMapping &mapping)
      : LinearLoopWriter(builder, op, mapping), dout(get(op.getDout())),
        dfinalState(get(op.getDfinalState())), dquery(get(op.getDquery())),
        dkey(get(op.getDkey())), dvalue(get(op.getDvalue())),
        dlogDecay(get(op.getDlogDecay())), dbeta(get(op.getDbeta())),
        dinitialState(get(op.getDinitialState())) {
    allStates = {initialState, dfinalState, dinitialState};
  }

  void write();

private:
  void writeStates();
  void addQueries(Value token);
  void writeToken(Value token);
  void writeDeltaRule(Value token);
  void writeDecay(Value token);
  Value gradientAt(Value token, Value e) {
    return mul(load(dout, {batch, head, token, e}), constant(factor));
  }
  Value stateAt(Value number, Value d, Value e) {
    return load(states, {number, d, e});
  }
  /// An element of the state before a token, after its decay.
  Value decayedAt(Value token, Value d, Value e) {
    return mul(stateAt(token, d, e), emitDecay(token, d));
  }

  Value dout, dfinalState, dquery, dkey, dvalue, dlogDecay, dbeta,
      dinitialState;
  /// The states before all tokens and the last one; the gradients of the state,
  /// and of the update and the key of the current token.
  Value states, dstate, dupdate, dkeys;
};
} // namespace

/// Writes a batch entry and head, or a sequence of it.
void LinearLoopWriter::writeItem(function_ref<void()> body) {
  state = allocate({keyDim, valueDim});
  update = allocate(valueDim);
  body();
  for (Value buffer : buffers)
    memref::DeallocOp::create(b, buffer);
}

/// Writes all work items. `prologue` is written once for each batch entry and
/// head.
void LinearLoopWriter::writeItems(function_ref<void()> body,
                                  function_ref<void()> prologue) {
  scf::ParallelOp::create(b, ValueRange{index(0), index(0)},
                          ValueRange{size(query, 0), size(query, 1)},
                          ValueRange{index(1), index(1)},
                          [&](OpBuilder &, Location, ValueRange ids) {
                            auto shared = [&](int64_t group) -> Value {
                              return group == 1 ? head
                                                : arith::DivUIOp::create(
                                                      b, head, index(group));
                            };
                            batch = ids[0];
                            head = ids[1];
                            keyHead = shared(keyGroup);
                            valueHead = shared(valueGroup);
                            prologue();
                            if (sequences)
                              return writeSequences(body);
                            stateNumber = batch;
                            firstToken = index(0);
                            numTokens = length;
                            writeItem(body);
                          });
}

/// Writes the packed sequences of a batch entry and head, one after the other.
void LinearLoopWriter::writeSequences(function_ref<void()> body) {
  Value one = index(1);
  Value number = arith::SubIOp::create(
      b, arith::MaxUIOp::create(b, size(sequences, 0), one), one);
  // Sequences that have no states are not computed.
  for (Value states : allStates)
    if (states)
      number = arith::MinUIOp::create(b, number, size(states, 0));
  loop(number, [&](Value sequence) {
    auto getBoundary = [&](Value at) -> Value {
      Value token = memref::LoadOp::create(b, sequences, at);
      token = arith::IndexCastOp::create(b, b.getIndexType(), token);
      token = arith::MaxSIOp::create(b, token, index(0));
      return arith::MinSIOp::create(b, token, length);
    };
    stateNumber = sequence;
    firstToken = getBoundary(sequence);
    Value end =
        arith::MaxSIOp::create(b, getBoundary(next(sequence)), firstToken);
    numTokens = arith::SubIOp::create(b, end, firstToken);
    writeItem(body);
  });
}

Value LinearLoopWriter::emitDecay(Value token, Value element) {
  if (!logDecay)
    return constant(1);
  int64_t rank = cast<MemRefType>(logDecay.getType()).getRank();
  SmallVector<Value> at = {head};
  if (rank > 1)
    at = {batch, head, token};
  if (rank == 4)
    at.push_back(element);
  return math::ExpOp::create(
      b, arith::MinimumFOp::create(b, load(logDecay, at), constant(0)));
}

void LinearLoopWriter::writeInitialState(Value to) {
  forState([&](Value d, Value e) {
    Value element = initialState ? load(initialState, {stateNumber, head, d, e})
                                 : constant(0);
    store(element, to, {d, e});
  });
}

/// Writes the state after a token to `state`, and the value that it takes to
/// `update`.
void LinearLoopWriter::writeStep(Value token) {
  if (logDecay)
    forState([&](Value d, Value e) {
      store(mul(load(state, {d, e}), emitDecay(token, d)), state, {d, e});
    });
  loop(valueDim, [&](Value e) {
    Value taken = valueAt(token, e);
    if (beta) {
      Value known = sum(keyDim, [&](Value d) {
        return mul(keyAt(token, d), load(state, {d, e}));
      });
      taken = mul(load(beta, {batch, head, token}), sub(taken, known));
    }
    store(taken, update, e);
  });
  forState([&](Value d, Value e) {
    accumulate(mul(keyAt(token, d), load(update, e)), state, {d, e});
  });
}

void OutputLoopWriter::writeOut(Value token) {
  loop(valueDim, [&](Value e) {
    Value result = sum(keyDim, [&](Value d) {
      return mul(queryAt(token, d), load(state, {d, e}));
    });
    store(mul(result, constant(factor)), out, {batch, head, token, e});
  });
}

void OutputLoopWriter::write() {
  writeItems([&] {
    writeInitialState(state);
    forTokens([&](Value token) {
      writeStep(token);
      if (isCausal)
        writeOut(token);
    });
    if (!isCausal)
      forTokens([&](Value token) { writeOut(token); });
    if (finalState)
      forState([&](Value d, Value e) {
        store(load(state, {d, e}), finalState, {stateNumber, head, d, e});
      });
  });
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

void GradientLoopWriter::writeStates() {
  states = allocate({next(length), keyDim, valueDim});
  auto keep = [&](Value number) {
    forState([&](Value d, Value e) {
      store(load(state, {d, e}), states, {number, d, e});
    });
  };
  writeInitialState(state);
  keep(firstToken);
  forTokens([&](Value token) {
    writeStep(token);
    keep(next(token));
  });
}

/// Adds the part of a token's output to the gradient of the state, and writes
/// the gradient of its query.
void GradientLoopWriter::addQueries(Value token) {
  Value seen = isCausal ? next(token) : length;
  loop(keyDim, [&](Value d) {
    Value gradient = sum(valueDim, [&](Value e) {
      return mul(gradientAt(token, e), stateAt(seen, d, e));
    });
    store(gradient, dquery, {batch, head, token, d});
  });
  forState([&](Value d, Value e) {
    accumulate(mul(queryAt(token, d), gradientAt(token, e)), dstate, {d, e});
  });
}

/// Passes the gradient of a token's update on to its value, key and beta and to
/// the state.
void GradientLoopWriter::writeDeltaRule(Value token) {
  Value factorOfToken = load(beta, {batch, head, token});
  auto residualAt = [&](Value e) {
    Value known = sum(keyDim, [&](Value d) {
      return mul(keyAt(token, d), decayedAt(token, d, e));
    });
    return sub(valueAt(token, e), known);
  };
  if (dbeta)
    store(sum(valueDim,
              [&](Value e) { return mul(load(dupdate, e), residualAt(e)); }),
          dbeta, {batch, head, token});
  loop(valueDim, [&](Value e) {
    store(mul(load(dupdate, e), factorOfToken), dupdate, e);
  });
  loop(keyDim, [&](Value d) {
    Value term = sum(valueDim, [&](Value e) {
      return mul(load(dupdate, e), decayedAt(token, d, e));
    });
    Value before = load(dkeys, d);
    store(sub(before, term), dkeys, d);
  });
  forState([&](Value d, Value e) {
    Value term = mul(keyAt(token, d), load(dupdate, e));
    store(sub(load(dstate, {d, e}), term), dstate, {d, e});
  });
}

void GradientLoopWriter::writeDecay(Value token) {
  int64_t rank = cast<MemRefType>(logDecay.getType()).getRank();
  auto ofElement = [&](Value d) {
    return sum(valueDim, [&](Value e) {
      return mul(load(dstate, {d, e}), decayedAt(token, d, e));
    });
  };
  if (dlogDecay && rank == 4)
    loop(keyDim, [&](Value d) {
      store(ofElement(d), dlogDecay, {batch, head, token, d});
    });
  else if (dlogDecay && rank == 3)
    store(sum(keyDim, ofElement), dlogDecay, {batch, head, token});
  else if (dlogDecay)
    accumulate(sum(keyDim, ofElement), dlogDecay, {batch, head});
  forState([&](Value d, Value e) {
    store(mul(load(dstate, {d, e}), emitDecay(token, d)), dstate, {d, e});
  });
}

void GradientLoopWriter::writeToken(Value token) {
  if (isCausal)
    addQueries(token);
  loop(valueDim, [&](Value e) {
    Value taken = valueAt(token, e);
    if (beta)
      taken = mul(load(beta, {batch, head, token}),
                  sub(taken, sum(keyDim, [&](Value d) {
                        return mul(keyAt(token, d), decayedAt(token, d, e));
                      })));
    store(taken, update, e);
    store(sum(keyDim,
              [&](Value d) {
                return mul(keyAt(token, d), load(dstate, {d, e}));
              }),
          dupdate, e);
  });
  loop(keyDim, [&](Value d) {
    store(sum(valueDim,
              [&](Value e) {
                return mul(load(update, e), load(dstate, {d, e}));
              }),
          dkeys, d);
  });
  if (beta)
    writeDeltaRule(token);
  loop(keyDim,
       [&](Value d) { store(load(dkeys, d), dkey, {batch, head, token, d}); });
  loop(valueDim, [&](Value e) {
    store(load(dupdate, e), dvalue, {batch, head, token, e});
  });
  if (logDecay)
    writeDecay(token);
}

void GradientLoopWriter::write() {
  bool isOfHeads =
      dlogDecay && cast<MemRefType>(dlogDecay.getType()).getRank() == 2;
  auto prologue = [&] {
    if (isOfHeads)
      store(constant(0), dlogDecay, {batch, head});
  };
  auto body = [&] {
    dstate = allocate({keyDim, valueDim});
    dupdate = allocate(valueDim);
    dkeys = allocate(keyDim);
    writeStates();
    forState([&](Value d, Value e) {
      Value element = dfinalState ? load(dfinalState, {stateNumber, head, d, e})
                                  : constant(0);
      store(element, dstate, {d, e});
    });
    if (!isCausal)
      forTokens([&](Value token) { addQueries(token); });
    forTokensReversed([&](Value token) { writeToken(token); });
    if (dinitialState)
      forState([&](Value d, Value e) {
        store(load(dstate, {d, e}), dinitialState, {stateNumber, head, d, e});
      });
  };
  writeItems(body, prologue);
}

void attn::writeLinearAttentionGradLoops(OpBuilder &builder,
                                         LinearAttentionGradOp op,
                                         const IRMapping &mapping) {
  GradientLoopWriter(builder, op, mapping).write();
}

void attn::writeLinearAttentionLoops(OpBuilder &builder, LinearAttentionOp op,
                                     const IRMapping &mapping) {
  OutputLoopWriter(builder, op, mapping).write();
}
