//===- ShardKernels.h - Times of the kernels of shards ----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How long the kernels of parts of an attention take, and which pairs of chunks
// of its queries and keys have anything to attend.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DISTRIBUTED_SHARDKERNELS_H
#define ATTN_LIB_DISTRIBUTED_SHARDKERNELS_H

#include "RingSchedule.h"
#include "attn/Dialect/Attn/IR/TileDensity.h"
#include "attn/Interfaces/CostOpInterface.h"
#include "attn/Interfaces/Target.h"
#include "attn/PerfModel/Calibration.h"

#include <map>
#include <memory>
#include <tuple>
#include <vector>

namespace mlir::attn {

/// The part of an attention that one call of its kernels computes.
struct ShardSizes {
  int64_t queries = 0, keys = 0;
  /// Ranks among which heads are divided. If there are fewer heads of keys than
  /// ranks, each rank has one.
  int64_t headParts = 1;
  /// Whether results are f32, for other parts to be added.
  bool isPartial = false;

  bool operator<(const ShardSizes &other) const {
    return std::tie(queries, keys, headParts, isPartial) <
           std::tie(other.queries, other.keys, other.headParts,
                    other.isPartial);
  }
};

/// The fractions of tiles that are visited, for pairs of chunks.
class ChunkDensities {
public:
  ChunkDensities(int64_t chunks, TileDensity all)
      : chunks(chunks), densities(size_t(chunks * chunks), all) {}

  int64_t getNumChunks() const { return chunks; }
  TileDensity &get(int64_t query, int64_t key) {
    return densities[size_t(query * chunks + key)];
  }
  const TileDensity &get(int64_t query, int64_t key) const {
    return densities[size_t(query * chunks + key)];
  }
  /// Of a chunk of queries and all keys.
  TileDensity getMean(int64_t query) const;
  /// The pairs with tiles that are visited.
  ReachableChunks getReachable() const;

private:
  int64_t chunks;
  std::vector<TileDensity> densities;
};

/// The kernels of the parts of one attention, or of its gradient.
class ShardKernels {
public:
  ShardKernels(AttentionOpInterface op, const Target &target,
               const DeviceModel &device, const CostAssumptions &assumptions);
  ~ShardKernels();

  /// Sets the time for which a rank computes, one kernel after another: power
  /// throttling depends on it, and not on the length of each kernel.
  void setBusySeconds(double seconds) { busySeconds = seconds; }

  /// Seconds of the kernels of a part that visits `density` of its tiles, with
  /// the schedule that the part would get. Without a model of the kernels, the
  /// roofline.
  double getSeconds(const ShardSizes &sizes, TileDensity density);
  /// The same of a part with all queries and keys.
  double getSeconds(const ShardSizes &sizes);

  /// The densities of pairs of `chunks` chunks of queries and of keys, by the
  /// mask of the whole. Some rows of tiles of each chunk are evaluated, the
  /// first and the last one among them.
  ChunkDensities getDensities(const ShardSizes &sizes, int64_t chunks);
  /// The same of a pair of ranks that have every position number `ranks`: all
  /// pairs visit nearly the same tiles, of as many neighbors of the whole.
  TileDensity getStripedDensity(const ShardSizes &sizes, int64_t ranks) {
    return getDensities(sizes, /*chunks=*/1, /*stride=*/ranks).get(0, 0);
  }

private:
  class Part;
  /// The densities of chunks by the mask of the whole, in tiles of `stride`
  /// times as many queries and keys as kernels have.
  ChunkDensities getDensities(const ShardSizes &sizes, int64_t chunks,
                              int64_t stride);
  Part &getPart(const ShardSizes &sizes);
  double throttle(double computing, double waiting) const;

  AttentionOpInterface op;
  const Target &target;
  const DeviceModel &device;
  CostAssumptions assumptions;
  double busySeconds = 0;
  std::map<ShardSizes, std::unique_ptr<Part>> parts;
};

} // namespace mlir::attn

#endif // ATTN_LIB_DISTRIBUTED_SHARDKERNELS_H
