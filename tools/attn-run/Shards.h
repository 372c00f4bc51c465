//===- Shards.h - Parts of arguments ----------------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The parts of the arguments of a function of whole tensors that ranks have.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_ATTN_RUN_SHARDS_H
#define ATTN_TOOLS_ATTN_RUN_SHARDS_H

#include "Arguments.h"

namespace attnrt {

/// The chunks of a tensor that ranks have.
class Placement {
public:
  /// `method` and `ulyssesDegree` are options of attn-run.
  Placement(int32_t ranks, const std::string &method, int32_t ulyssesDegree)
      : ranks(ranks), groupRanks(method == "usp" ? ulyssesDegree : 1),
        isStriped(method == "striped") {
    bool hasGroups = method == "usp" && ulyssesDegree < ranks;
    chunksPerRank = method == "zigzag" || hasGroups ? 2 : 1;
  }

  int32_t getNumRanks() const { return ranks; }
  int64_t getChunksPerRank() const { return chunksPerRank; }
  int64_t getNumChunks() const { return ranks * chunksPerRank; }
  /// The number, in the whole, of chunk `index` of a rank. With two chunks for
  /// each rank, a group has a run of as many as its ranks from either end, and
  /// each of its ranks the next two of them.
  int64_t getChunk(int32_t rank, int64_t index) const {
    if (chunksPerRank == 1)
      return rank;
    int64_t group = rank / groupRanks;
    int64_t ofGroup = rank % groupRanks * chunksPerRank + index;
    if (ofGroup < groupRanks)
      return group * groupRanks + ofGroup;
    return getNumChunks() - (group + 1) * groupRanks + ofGroup - groupRanks;
  }

  /// How many rows of a chunk of `chunkLength` rows are neighbors in the whole.
  int64_t getRunLength(int64_t chunkLength) const {
    return isStriped ? 1 : chunkLength;
  }
  /// The position, in the whole, of row `row` of a rank, of which chunks have
  /// `chunkLength` rows.
  int64_t getPosition(int32_t rank, int64_t row, int64_t chunkLength) const {
    if (isStriped)
      return row * ranks + rank;
    int64_t index = row / chunkLength;
    return row + (getChunk(rank, index) - index) * chunkLength;
  }

private:
  int32_t ranks;
  /// Neighboring ranks that exchange heads for positions.
  int64_t groupRanks;
  /// Whether ranks have every position number `ranks`.
  bool isStriped;
  int64_t chunksPerRank;
};

/// The dimension of a tensor that is distributed, none if ranks have the whole.
using ShardedDim = std::optional<int32_t>;

/// Finds the distributed dimension of each argument of `whole` by the sizes
/// that `ofRank` has.
int32_t findShardedDims(const attn_function &whole, const attn_function &ofRank,
                        const Placement &placement,
                        std::vector<ShardedDim> &dims);

/// The shape of a rank's part of a tensor.
std::vector<int64_t> getShardShape(std::vector<int64_t> shape, ShardedDim dim,
                                   const Placement &placement);

/// Copies the part of rank `rank` from `whole` to `shard`.
void cutShard(const HostTensor &whole, ShardedDim dim,
              const Placement &placement, int32_t rank, HostTensor &shard);

/// Copies the part of rank `rank` from `shard` to `whole`.
void joinShard(const HostTensor &shard, ShardedDim dim,
               const Placement &placement, int32_t rank, HostTensor &whole);

} // namespace attnrt

#endif // ATTN_TOOLS_ATTN_RUN_SHARDS_H
