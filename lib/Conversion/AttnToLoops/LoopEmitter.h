//===- LoopEmitter.h - Loops of attention in f64 ---------------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Common parts of the loops of attention and its gradient: scores, masks and
// regions, and arithmetic on elements as f64.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOLOOPS_LOOPEMITTER_H
#define ATTN_LIB_CONVERSION_ATTNTOLOOPS_LOOPEMITTER_H

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::attn {

/// A sequence: its number, which is the batch entry unless sequences are
/// packed, the rows that hold its first query and its first key, and its
/// lengths.
struct LoopSequence {
  Value number;
  Value firstQueryRow, firstKeyRow;
  Value queryLength, keyLength;
};

/// One (query, key) pair of a sequence.
struct LoopPair {
  /// Where the pair is stored; `keyEntry` is the batch entry or page of the
  /// key.
  Value batch, head;
  KeyValueHeads heads;
  Value queryRow, keyEntry, keyRow;
  /// Its position in its sequence, as regions and masks see it.
  LoopSequence sequence;
  Value query, key;
};

/// Emits code at a builder's insertion point, which moves along.
class LoopEmitter {
public:
  LoopEmitter(OpBuilder &builder, AttentionOpInterface attention,
              const IRMapping &mapping);

protected:
  using BodyFn = function_ref<SmallVector<Value>(Value iv, ValueRange args)>;

  Value lookup(Value value) { return mapping.lookupOrDefault(value); }

  /// Emits the code of `body` for the sequence that contains row `row` of
  /// queries (of keys if not `isQueryRow`), if any, and the position of the row
  /// in it.
  void forSequenceOf(Value batch, Value row, bool isQueryRow,
                     function_ref<void(const LoopSequence &, Value)> body);
  /// The batch entry or page, and the row in it, of key `key` of a sequence of
  /// batch entry `batch`.
  std::pair<Value, Value> getKeyPlace(Value batch, const LoopSequence &sequence,
                                      Value key);
  /// The row of the query or key at `position` of a sequence.
  Value getRow(Value first, Value position) {
    return b.createOrFold<arith::AddIOp>(position, first);
  }
  /// The key head and the value head of query head `head`.
  KeyValueHeads emitKeyValueHeads(Value head);
  /// Applies the score_mod region, if any, to `score`, an f64; it runs in f32.
  Value emitScore(const LoopPair &pair, Value score);
  /// Whether the pair attends; null if all pairs do.
  Value emitMaskMod(const LoopPair &pair);
  /// Emits whether dropout keeps the pair.
  Value emitIsKept(const LoopPair &pair);
  /// Applies dropout to the probability `weight`, an f64, or to its gradient.
  Value emitDropout(const LoopPair &pair, Value weight);
  /// `pair` as masks and regions see it: in the coordinates of the larger
  /// attention if this is a shard.
  LoopPair getMaskedPair(const LoopPair &pair) {
    return attention.isShard() ? getGlobalPair(pair) : pair;
  }
  /// The dot product of two vectors, loaded at the indices and one more.
  Value emitDot(Value lhs, ValueRange lhsIndices, Value rhs,
                ValueRange rhsIndices, Value length);
  /// Clones the body of `region` here. Returns the yielded value.
  Value inlineRegion(Region &region, ValueRange arguments);

  /// Loads an i32 as an index.
  Value loadIndex(Value memref, Value i);
  /// Writes a loop from 0 to `bound`; `body` returns the values to yield.
  SmallVector<Value> loop(Value bound, ValueRange inits, BodyFn body);
  /// The size of a dimension, a constant if it is static.
  Value size(Value memref, int64_t dim);
  /// A buffer of f64 values.
  Value allocate(Value length);
  /// Loads an element as an f64; stores an f64, rounded to the element type.
  Value load(Value memref, ValueRange indices);
  void store(Value value, Value memref, ValueRange indices);
  /// Emits `lhs * rhs + acc`. Additions may be reassociated, so that the loop
  /// can be vectorised.
  Value fma(Value lhs, Value rhs, Value acc);
  Value truncToF32(Value value);
  Value extToF64(Value value);
  Value constant(double value) {
    return arith::ConstantOp::create(b, b.getF64FloatAttr(value));
  }
  Value index(int64_t value) {
    return arith::ConstantIndexOp::create(b, value);
  }

  ImplicitLocOpBuilder b;
  AttentionOpInterface attention;
  IRMapping mapping;
  Value zero, one, minusInfinity;
  Value query, key, value;
  Value storedQueries, storedKeys, qkHeadDim, vHeadDim;
  /// Seed and offset of the dropout, if any.
  Value seed, offset, dropoutMask;

private:
  /// The number of the packed sequence that holds `row`, by the boundaries; the
  /// number of sequences if none does.
  Value findSequence(Value bounds, Value row);

  /// `pair` with the positions and lengths of the larger attention.
  LoopPair getGlobalPair(const LoopPair &pair);

  KVAddressingAttrInterface addressing;
  /// The positions of a shard, or null.
  Value positions;
  Value querySequences, keySequences;
  /// Number of packed sequences.
  Value numPacked;
};

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOLOOPS_LOOPEMITTER_H
