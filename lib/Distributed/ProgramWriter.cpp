//===- ProgramWriter.cpp - Programs of ranks ------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramWriter.h"
#include "StripedShard.h"
#include "attn/Analysis/MaskArea.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/PerfModel/Capacity.h"

using namespace mlir;
using namespace mlir::attn;

bool attn::isGradient(AttentionOpInterface op) {
  return isa<AttentionGradOp>(op.getOperation());
}

AttentionBytes::AttentionBytes(AttentionOpInterface op,
                               const CostAssumptions &assumptions) {
  VisitedTiles tiles(op, assumptions);
  queries = tiles.getNumQueries();
  keys = tiles.getNumKeys();
  double heads = tiles.getNumHeads();
  double batch = heads / double(op.getNumQueryHeads());
  lse = heads * double(queries) * f32Bytes;
  auto count = [&](double rows, int64_t headDim) {
    return rows * double(headDim);
  };
  auto getHeads = [&](Value value) { return double(getDimSize(value, 1)); };
  double queryRows = heads * double(queries);
  double keyRows = batch * getHeads(op.getKey()) * double(keys);
  double valueRows = batch * getHeads(op.getValue()) * double(keys);
  queryF32 = f32Bytes * count(queryRows, op.getQKHeadDim());
  outF32 = f32Bytes * count(queryRows, op.getVHeadDim());
  keyF32 = f32Bytes * count(keyRows, op.getQKHeadDim());
  valueF32 = f32Bytes * count(valueRows, op.getVHeadDim());
  auto scale = [&](double bytes, Value value) {
    return bytes / f32Bytes * double(getElementBytes(value));
  };
  query = scale(queryF32, op.getQuery());
  out = scale(outF32, op.getQuery());
  key = scale(keyF32, op.getKey());
  value = scale(valueF32, op.getValue());
}

void AttentionBytes::repeatHeads(AttentionOpInterface op, int64_t headParts) {
  if (headParts == 1)
    return;
  auto getCopies = [&](Value tensor) {
    int64_t heads = getDimSize(tensor, 1);
    return double(headParts) / double(std::min(headParts, heads));
  };
  key *= getCopies(op.getKey());
  keyF32 *= getCopies(op.getKey());
  value *= getCopies(op.getValue());
  valueF32 *= getCopies(op.getValue());
}

/// The most chunks of which all pairs are analysed.
static constexpr int64_t mostAnalysedChunks = 64;
/// Of more chunks, pairs of which kernels visit so few scores: a tile that is
/// in two chunks may be all that they visit.
static constexpr double mostScoresOfNeighbors = 256 * 256;

/// The pairs of chunks that `densities` has tiles of, without pairs of which a
/// neighbor has these tiles.
static ReachableChunks findReachable(AttentionOpInterface op,
                                     const ChunkDensities &densities,
                                     const ShardSizes &sizes) {
  ReachableChunks reachable = densities.getReachable();
  ReachableChunks doubtful = reachable;
  double scores = double(sizes.queries) * double(sizes.keys);
  for (auto [query, ofQuery] : llvm::enumerate(reachable))
    for (unsigned key : ofQuery.set_bits())
      if (densities.get(int64_t(query), key).visited * scores >
          mostScoresOfNeighbors)
        doubtful[query].reset(key);
  ReachableChunks found =
      findReachableChunks(op, densities.getNumChunks(), &doubtful);
  for (auto [ofQuery, foundOfQuery] : llvm::zip_equal(reachable, found))
    ofQuery &= foundOfQuery;
  return reachable;
}

PairTimes::PairTimes(AttentionOpInterface op, ShardKernels &kernels,
                     const ShardSizes &sizes, ChunkPlacement placement)
    : chunks(placement.getNumChunks()) {
  ChunkDensities densities =
      placement.isStriped
          ? ChunkDensities(chunks, kernels.getStripedDensity(sizes, chunks))
          : kernels.getDensities(sizes, chunks);
  // The lengths of the operands say whether pairs can be left out.
  bool isStatic =
      !ShapedType::isDynamic(getDimSize(op.getQuery(), sequenceDim)) &&
      !ShapedType::isDynamic(getDimSize(op.getKey(), sequenceDim));
  if (placement.isStriped)
    reachable = findReachableStripes(op, chunks);
  else if (isStatic && chunks > mostAnalysedChunks)
    reachable = findReachable(op, densities, sizes);
  else
    reachable = findReachableChunks(op, chunks);
  seconds.reserve(size_t(chunks * chunks));
  for (int64_t query = 0; query < chunks; ++query)
    for (int64_t key = 0; key < chunks; ++key) {
      const TileDensity &density = densities.get(query, key);
      seconds.push_back(
          reachable[query].test(key) ? kernels.getSeconds(sizes, density) : 0);
    }
}
