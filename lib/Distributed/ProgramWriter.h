//===- ProgramWriter.h - Programs of ranks ----------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The parts that programs of ranks have in common, for all methods.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DISTRIBUTED_PROGRAMWRITER_H
#define ATTN_LIB_DISTRIBUTED_PROGRAMWRITER_H

#include "ShardKernels.h"
#include "attn/Distributed/RankSimulation.h"
#include "attn/PerfModel/DeviceTime.h"

namespace mlir::attn {

inline constexpr double f32Bytes = 4;

bool isGradient(AttentionOpInterface op);

/// Bytes of the tensors of one attention, for all positions and heads.
struct AttentionBytes {
  double query, key, value, out, lse;
  /// The same in f32.
  double queryF32, keyF32, valueF32, outF32;
  int64_t queries, keys;

  AttentionBytes(AttentionOpInterface op, const CostAssumptions &assumptions);

  /// Counts keys and values as often as `headParts` ranks that divide the heads
  /// have them.
  void repeatHeads(AttentionOpInterface op, int64_t headParts);

  double getKeyValues() const { return key + value; }
  /// Gradients of keys and values that are not rounded yet.
  double getKeyGradients() const { return keyF32 + valueF32; }
  /// Partial results of attention.
  double getPartial() const { return outF32 + lse; }
};

/// The pairs of chunks that a mask reaches, and seconds of their kernels.
class PairTimes {
public:
  PairTimes() = default;
  PairTimes(AttentionOpInterface op, ShardKernels &kernels,
            const ShardSizes &sizes, ChunkPlacement placement);

  /// Seconds of a pair, 0 if it is not reached.
  double get(int64_t query, int64_t key) const {
    return seconds[size_t(query * chunks + key)];
  }

  /// All pairs if lengths are dynamic. With many chunks, some pairs count as
  /// reached that are not.
  ReachableChunks reachable;

private:
  int64_t chunks = 0;
  std::vector<double> seconds;
};

/// Writes the programs of a group of ranks.
class ProgramWriter {
public:
  ProgramWriter(int64_t ranks, const RankLinks &links,
                const DeviceModel &device)
      : programs(ranks), links(links), device(device), sent(size_t(ranks)) {}

  int64_t getNumRanks() const { return programs.getNumRanks(); }
  const RankPrograms &get() const { return programs; }
  const RankLinks &getLinks() const { return links; }
  double getMostSent() const { return *llvm::max_element(sent); }

  /// Seconds of a kernel that moves `bytes`.
  double getMoveSeconds(double bytes) const {
    return double(device.launchNs) * 1e-9 +
           getMemorySeconds(bytes, Traffic::ReadAndWrite, device);
  }
  /// Adds a step to the program of each rank.
  void addSteps(function_ref<double(int64_t)> getSeconds) {
    for (int64_t rank = 0; rank < getNumRanks(); ++rank)
      programs.addStep(rank, getSeconds(rank));
  }
  /// Adds a step in which each rank moves `bytes`, unless there are none.
  void addMove(double bytes) {
    if (bytes > 0)
      addSteps([&](int64_t) { return getMoveSeconds(bytes); });
  }
  /// Adds a step in which each rank adds up `parts` f32 tensors of `bytes`.
  void addSum(double bytes, int64_t parts) {
    double seconds = getMoveSeconds(double(parts + 1) * bytes) +
                     device.calibration.gradientPart * bytes / f32Bytes;
    addSteps([&](int64_t) { return seconds; });
  }
  /// Adds a step in which each rank orders `bytes` by heads, or by positions.
  void addOrder(double bytes) {
    addMove((1 + device.calibration.headOrder) * 2 * bytes);
  }
  void addMessage(int64_t from, int64_t to, double bytes) {
    programs.addMessage(from, to, bytes);
    sent[size_t(from)] += bytes;
  }
  /// Adds a step in which all ranks exchange: `seconds` are by a closed form,
  /// and each rank sends `bytes`.
  void addCollective(double seconds, double bytes) {
    addSteps([](int64_t) { return 0.0; });
    auto all = llvm::to_vector(llvm::seq(getNumRanks()));
    programs.addCollective(all, seconds);
    for (double &of : sent)
      of += bytes;
  }

private:
  RankPrograms programs;
  RankLinks links;
  const DeviceModel &device;
  SmallVector<double> sent;
};

} // namespace mlir::attn

#endif // ATTN_LIB_DISTRIBUTED_PROGRAMWRITER_H
