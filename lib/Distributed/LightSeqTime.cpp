//===- LightSeqTime.cpp - Times of a balanced schedule --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Follows LightSeqShard.cpp: the kernels and the messages of each step.
//
//===----------------------------------------------------------------------===//

#include "LightSeqTime.h"
#include "LightSeqSchedule.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"

using namespace mlir;
using namespace mlir::attn;

namespace {
/// Writes the steps of one attention.
class LightSeqWriter {
public:
  LightSeqWriter(ProgramWriter &writer, AttentionOpInterface op,
                 ShardKernels &kernels, const CostAssumptions &assumptions);

  void write();

private:
  /// The results of a chunk of which a rank has several, one for each term.
  struct Results {
    double bytes = 0;
    int64_t numTerms = 0;
  };

  void addComputation(const LightSeqStep &step, bool isLast);
  double countReturned(bool isFirst, bool isLast);
  void addChunks(const LightSeqStep &next);
  void addReturnDestinations(const LightSeqStep &step);
  void addReturns(const LightSeqStep &step);
  void addMessages(const LightSeqStep &step, const llvm::BitVector &receivers,
                   double bytes);
  double getTotalSeconds(const Results &results) const;
  bool hasReturnedKeys(const LightSeqStep &step) const {
    return step.distance != 0 && ofKeys.bytes > 0 && step.owners.any();
  }
  bool hasReturns(const LightSeqStep &step) const {
    return step.helpers.any() || hasReturnedKeys(step);
  }

  ProgramWriter &writer;
  bool isGradient;
  PairTimes pairs;
  SmallVector<LightSeqStep> steps;
  /// Bytes of a chunk of keys and values, and of what helpers get of queries.
  double keyBytes = 0, rowBytes = 0;
  /// Bytes that the conversion of a rank's gradients reads and writes.
  double roundedBytes = 0;
  Results ofQueries, ofKeys;
};
} // namespace

LightSeqWriter::LightSeqWriter(ProgramWriter &writer, AttentionOpInterface op,
                               ShardKernels &kernels,
                               const CostAssumptions &assumptions)
    : writer(writer), isGradient(attn::isGradient(op)) {
  int64_t ranks = writer.getNumRanks();
  AttentionBytes bytes(op, assumptions);
  ShardSizes sizes{bytes.queries / ranks, bytes.keys / ranks, /*headParts=*/1,
                   /*isPartial=*/true};
  pairs = PairTimes(op, kernels, sizes, ChunkPlacement{ranks});
  steps = scheduleLightSeq(pairs.reachable);
  auto getChunk = [&](double of) { return of / double(ranks); };
  keyBytes = getChunk(bytes.getKeyValues());
  if (!isGradient) {
    rowBytes = getChunk(bytes.query);
    ofQueries.bytes = getChunk(bytes.getPartial());
    return;
  }
  auto grad = cast<AttentionGradOp>(op.getOperation());
  double numLses = grad.getDlse() ? 2 : 1;
  rowBytes = getChunk(bytes.query + 2 * bytes.out + numLses * bytes.lse);
  ofQueries.bytes = getChunk(bytes.queryF32);
  ofKeys.bytes = getChunk(bytes.getKeyGradients());
  roundedBytes = getChunk(bytes.query + bytes.getKeyValues()) +
                 ofQueries.bytes + ofKeys.bytes;
}

/// Seconds of the merge or the sum of all terms.
double LightSeqWriter::getTotalSeconds(const Results &results) const {
  if (results.numTerms < 2 || results.bytes == 0)
    return 0;
  return writer.getMoveSeconds(double(results.numTerms + 1) * results.bytes);
}

/// Adds the kernels of `step` to the programs of all ranks.
void LightSeqWriter::addComputation(const LightSeqStep &step, bool isLast) {
  auto count = [&](Results &results, bool hasTerm) -> double {
    results.numTerms += hasTerm ? 1 : 0;
    if (isLast)
      return 0;
    double seconds = getTotalSeconds(results);
    results.numTerms = std::min(results.numTerms, int64_t(1));
    return seconds;
  };
  bool isFirst = step.distance == 0, hasState = !isGradient && !isFirst;
  bool hasOwners = step.owners.any(), hasHelpers = step.helpers.any();
  double seconds = count(ofKeys, hasHelpers || isFirst);
  seconds +=
      isGradient ? count(ofQueries, hasOwners) : countReturned(isFirst, isLast);
  // Ranks fill the results of pairs that they do not compute. Attention reads
  // the results so far, and ranks that do not attend copy them.
  double nothing = ofQueries.bytes + ofKeys.bytes;
  double read = hasState ? ofQueries.bytes : 0;
  double kept = hasState ? 2 * ofQueries.bytes : nothing;
  writer.addSteps([&](int64_t rank) {
    std::optional<ChunkPair> pair = step.getPair(rank);
    double ofPair = pair ? pairs.get(pair->query, pair->key) : 0;
    double moved = 0;
    if (hasOwners)
      moved += step.owners.test(rank) ? read : kept;
    if (hasHelpers && !step.helpers.test(rank))
      moved += nothing;
    double ofMoves = moved > 0 ? writer.getMoveSeconds(moved) : 0;
    return seconds + ofPair + ofMoves;
  });
}

/// Counts the results of queries, which are the ones of a rank's own pairs and
/// others that came back. Returns the seconds in which these are merged.
double LightSeqWriter::countReturned(bool isFirst, bool isLast) {
  if (isFirst)
    ofQueries.numTerms = 1;
  if (isLast || ofQueries.numTerms <= maxReturnedResults)
    return 0;
  // The results that came back, and their total.
  double seconds =
      writer.getMoveSeconds(double(ofQueries.numTerms) * ofQueries.bytes);
  ofQueries.numTerms = 2;
  return seconds;
}

/// Adds messages from the sources of `receivers` to the last steps.
void LightSeqWriter::addMessages(const LightSeqStep &step,
                                 const llvm::BitVector &receivers,
                                 double bytes) {
  int64_t ranks = writer.getNumRanks();
  for (unsigned rank : receivers.set_bits())
    writer.addMessage((rank + ranks - step.distance) % ranks, rank, bytes);
}

void LightSeqWriter::addChunks(const LightSeqStep &next) {
  addMessages(next, next.owners, keyBytes);
  addMessages(next, next.helpers, rowBytes);
}

/// Fills the destinations of results that come back, on ranks that get none.
void LightSeqWriter::addReturnDestinations(const LightSeqStep &step) {
  double bytes = 0;
  if (step.helpers.any() && !step.helpers.all())
    bytes += ofQueries.bytes;
  if (hasReturnedKeys(step) && !step.owners.all())
    bytes += ofKeys.bytes;
  writer.addMove(bytes);
}

/// Adds the messages that return results of `step` to the last steps.
void LightSeqWriter::addReturns(const LightSeqStep &step) {
  int64_t ranks = writer.getNumRanks();
  auto addReturn = [&](const llvm::BitVector &senders, Results &results) {
    for (unsigned rank : senders.set_bits())
      writer.addMessage(rank, (rank + ranks - step.distance) % ranks,
                        results.bytes);
    ++results.numTerms;
  };
  if (step.helpers.any())
    addReturn(step.helpers, ofQueries);
  if (hasReturnedKeys(step))
    addReturn(step.owners, ofKeys);
}

void LightSeqWriter::write() {
  const LightSeqStep *previous = nullptr;
  for (const LightSeqStep &step : steps) {
    bool isLast = &step == &steps.back();
    if (previous)
      addReturnDestinations(*previous);
    addComputation(step, isLast);
    if (!isLast)
      addChunks(*(&step + 1));
    if (previous)
      addReturns(*previous);
    previous = &step;
  }
  if (hasReturns(steps.back())) {
    addReturnDestinations(steps.back());
    writer.addSteps([](int64_t) { return 0.0; });
    addReturns(steps.back());
  }
  double seconds = getTotalSeconds(ofQueries) + getTotalSeconds(ofKeys);
  // Results that none came back to are copied.
  if (!isGradient && steps.size() > 1 && ofQueries.numTerms == 1)
    seconds += writer.getMoveSeconds(2 * ofQueries.bytes);
  writer.addSteps([&](int64_t) { return seconds; });
  // Gradients are rounded.
  if (isGradient)
    writer.addMove(roundedBytes);
}

void attn::writeLightSeq(ProgramWriter &writer, AttentionOpInterface op,
                         ShardKernels &kernels,
                         const CostAssumptions &assumptions) {
  LightSeqWriter(writer, op, kernels, assumptions).write();
}
