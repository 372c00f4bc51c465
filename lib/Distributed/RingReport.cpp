//===- RingReport.cpp - Work and messages of a ring -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Says in a remark what the ranks of a ring compute and send.
//
//===----------------------------------------------------------------------===//

#include "RingReport.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/IR/Remarks.h"

#include <numeric>

using namespace mlir;
using namespace mlir::attn;

void attn::reportRing(AttentionOpInterface op, ArrayRef<RingStep> steps,
                      ChunkPlacement placement, std::optional<ChunkRows> sent) {
  ChunkPlacement ring = placement.getRing();
  int64_t ranks = ring.ranks, chunks = ring.getNumChunks();
  int64_t numSent = 0, numReturned = 0;
  SmallVector<int64_t> numAttended(ranks);
  for (const RingStep &step : steps) {
    numSent += step.receivers.count();
    numReturned += step.hasReturn() ? step.lastHolders.count() : 0;
    for (const llvm::BitVector &attending : step.attending)
      for (unsigned rank : attending.set_bits())
        ++numAttended[rank];
  }
  std::string text;
  llvm::raw_string_ostream stream(text);
  bool hasGroups = placement.ulyssesDegree > 1;
  stream << "ring of " << ranks;
  if (hasGroups)
    stream << " groups of " << placement.ulyssesDegree;
  stream << " ranks: " << steps.size() << " of " << ranks << " steps; of "
         << chunks * chunks << " pairs of chunks, "
         << (hasGroups ? "groups" : "ranks") << " attend to "
         << std::accumulate(numAttended.begin(), numAttended.end(), int64_t(0))
         << ", one of them to " << *llvm::max_element(numAttended)
         << ", and send their keys " << numSent << " times";
  if (sent)
    stream << ", rows " << sent->first << " to " << sent->first + sent->size - 1
           << " of " << getDimSize(op.getKey(), sequenceDim);
  if (isa<AttentionGradOp>(op.getOperation()))
    stream << ", gradients of keys " << numSent + numReturned << " times";
  auto options =
      remark::RemarkOpts::name("shard").category("attn-shard-attention");
  remark::passed(op.getLoc(), options) << text;
  if (ShapedType::isDynamic(getDimSize(op.getQuery(), sequenceDim)) ||
      ShapedType::isDynamic(getDimSize(op.getKey(), sequenceDim)))
    remark::missed(op.getLoc(), options)
        << "no step is left out, since lengths are dynamic";
}
