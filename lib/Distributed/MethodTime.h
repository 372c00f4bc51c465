//===- MethodTime.h - Times of methods of sharding --------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How long ranks take for attention and its gradient with each method, by the
// models of their kernels and of their links. See docs/cost-model.md.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DISTRIBUTED_METHODTIME_H
#define ATTN_LIB_DISTRIBUTED_METHODTIME_H

#include "ShardKernels.h"
#include "attn/Distributed/RankSimulation.h"

#include <optional>
#include <string>
#include <tuple>

namespace mlir::attn {

/// How ranks share an attention.
enum class RankMethod {
  AllGather,
  Ring,
  Zigzag,
  /// A ring in which ranks have every n-th position (Striped Attention, Brandon
  /// et al. 2023).
  Striped,
  /// Ranks that would be idle in a step of `Ring` compute for other ranks
  /// (DISTFLASHATTN, Li et al. 2023).
  LightSeq,
  /// Ranks exchange positions for heads before attention, and back after it
  /// (DeepSpeed-Ulysses, Jacobs et al. 2023).
  Ulysses,
  /// `Ulysses` in groups of ranks, `Zigzag` between the groups (USP, Fang and
  /// Zhao 2024).
  Usp
};

ArrayRef<RankMethod> getRankMethods();
StringRef stringifyRankMethod(RankMethod method);

/// The links of ranks that are devices with `figures`. Devices without links
/// exchange messages through memory.
RankLinks getRankLinks(const DeviceFigures &figures);

/// The time of a method, or why it cannot be had.
struct MethodTime {
  RankMethod method = RankMethod::Ring;
  /// The reason why ranks cannot use the method; empty if they can.
  std::string obstacle;
  /// How many neighboring ranks exchange heads for positions.
  int64_t ulyssesDegree = 1;
  double seconds = 0;
  /// Of the busiest rank.
  double computation = 0, exposed = 0, bytesSent = 0;
  /// On the critical path.
  double criticalComputation = 0;
  double hiddenShare = 1, imbalance = 1;
};

/// The first clause of `op`, if any, whose positions or tensors would have to
/// be distributed, too. `takesKeyLengths` says whether `key_lengths` can be.
std::optional<StringRef> findOtherClause(AttentionOpInterface op,
                                         bool takesKeyLengths = false);

/// Why `value`, operand `name` of `op`, cannot be cut into equal chunks, in
/// which words of keep masks begin if `op` has dropout; empty if it can.
std::string whyNotCut(Operation *op, StringRef name, Value value,
                      ChunkPlacement placement);

/// Why ranks that have positions by `placement` cannot add up the gradients of
/// captured tensors of `op`, if there are any; empty if they can.
std::string whyNotCapture(AttentionOpInterface op, ChunkPlacement placement);

/// Why heads of `op` cannot be divided among `ranks` ranks; empty if they can.
std::string whyNotDivideHeads(AttentionOpInterface op, int64_t ranks);

/// The most neighboring ranks of `ranks`, in equal groups on one host each,
/// that can divide the heads of `ops`. A host has `hostRanks` ranks; 0 if all
/// are on one.
int64_t chooseUlyssesDegree(ArrayRef<AttentionOpInterface> ops, int64_t ranks,
                            int64_t hostRanks);

/// Why operands of `ops` with positions cannot be cut; empty if they can.
std::string whyNotCut(ArrayRef<AttentionOpInterface> ops,
                      ChunkPlacement placement);

/// The model of some attentions and gradients, which ranks compute one after
/// another. Several of them share keys that they gather or exchange.
class MethodModel {
public:
  MethodModel(ArrayRef<AttentionOpInterface> ops, const Target &target,
              const DeviceModel &device, const CostAssumptions &assumptions);
  ~MethodModel();

  /// Seconds of one rank alone.
  double getWholeSeconds();
  /// How many neighboring ranks exchange heads for positions.
  int64_t getUlyssesDegree(RankMethod method, int64_t ranks) const;
  MethodTime estimate(RankMethod method, int64_t ranks);
  /// The times of `methods`, fastest first; then the methods that cannot serve.
  SmallVector<MethodTime> estimateAll(ArrayRef<RankMethod> methods,
                                      int64_t ranks);

private:
  std::string whyNot(RankMethod method, int64_t ranks);
  /// Sets how long ranks compute without throttling, on which it depends.
  void setBusySeconds(double seconds);
  double getWholeSeconds(double busySeconds);

  const DeviceModel &device;
  RankLinks links;
  CostAssumptions assumptions;
  SmallVector<AttentionOpInterface> ops;
  std::vector<std::unique_ptr<ShardKernels>> kernels;
};

} // namespace mlir::attn

#endif // ATTN_LIB_DISTRIBUTED_METHODTIME_H
