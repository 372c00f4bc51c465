//===- RankSimulation.h - A discrete-event model of ranks -------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// When ranks that compute and exchange messages finish. It knows nothing of
// attention: programs say how long computations take and how large messages
// are. See docs/cost-model.md.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DISTRIBUTED_RANKSIMULATION_H
#define ATTN_DISTRIBUTED_RANKSIMULATION_H

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <limits>
#include <vector>

namespace mlir::attn {

/// A way between two ranks.
struct RankLink {
  /// Of one direction.
  double bytesPerSecond = std::numeric_limits<double>::infinity();
  /// Seconds of a message without contents.
  double latency = 0;

  double getSeconds(double bytes) const {
    return latency + bytes / bytesPerSecond;
  }
};

/// The links of a group of ranks. Each rank has one port to ranks of its own
/// host and one to other hosts, and each port has two directions.
struct RankLinks {
  RankLink local, network;
  /// Consecutive ranks of a host; 0 if all ranks are on one host.
  int64_t hostRanks = 0;

  bool isLocal(int64_t rank, int64_t other) const {
    return hostRanks == 0 || rank / hostRanks == other / hostRanks;
  }
  const RankLink &get(int64_t rank, int64_t other) const {
    return isLocal(rank, other) ? local : network;
  }
};

/// Seconds in which each of `ranks` ranks sends `bytes` to each other one.
double getAllToAllSeconds(const RankLinks &links, int64_t ranks, double bytes);

/// Seconds in which each of `ranks` ranks gets the `bytes` that every other one
/// has. Ranks of a host share the copies that come from other hosts, and each
/// of them receives its part of these copies.
double getAllGatherSeconds(const RankLinks &links, int64_t ranks, double bytes);

/// What ranks do: a list of steps for each. A step begins when all of the step
/// before has ended, and its computation and its messages run concurrently.
/// Ranks cannot wait for one another without end, since exchanges belong to the
/// last steps at the time.
class RankPrograms {
public:
  explicit RankPrograms(int64_t ranks) : steps(ranks) {}

  int64_t getNumRanks() const { return int64_t(steps.size()); }

  /// Adds a step to the program of `rank`, which computes for `seconds`.
  void addStep(int64_t rank, double seconds);
  /// Adds a message to the last steps of two different ranks. It travels when
  /// both have begun.
  void addMessage(int64_t from, int64_t to, double bytes);
  /// Adds communication of `ranks`, of `seconds` from when all of them have
  /// begun, to their last steps.
  void addCollective(llvm::ArrayRef<int64_t> ranks, double seconds);

private:
  friend class RankSimulator;

  /// A message or collective communication.
  struct Exchange {
    /// Its members, neighbors in `members`. The first one sends a message.
    uint32_t firstMember, numMembers;
    bool isMessage;
    /// Bytes of a message, seconds of collective communication.
    double amount;
  };
  /// A rank that takes part in an exchange, and the next exchange of its step.
  struct Member {
    int32_t rank, step, exchange, next;
  };
  struct Step {
    double seconds = 0;
    /// The first and the last member that belong to the step, or -1, and their
    /// number.
    int32_t firstMember = -1, lastMember = -1, numMembers = 0;
  };

  void addMember(int64_t rank);

  std::vector<std::vector<Step>> steps;
  std::vector<Exchange> exchanges;
  std::vector<Member> members;
};

/// Where the time of one rank goes. All are seconds.
struct RankTimes {
  double finish = 0;
  double computation = 0;
  /// Messages of the rank travel or wait for a port; the part of this time in
  /// which it does not compute.
  double transfer = 0, exposed = 0;

  /// The rank waits until others send or receive.
  double getWaiting() const { return finish - computation - exposed; }
};

/// A part of the critical path: what no rank could have begun earlier.
struct PathSegment {
  bool isComputation;
  /// The rank that computes or sends.
  int64_t rank;
  double begin, seconds;
};

/// The course of programs.
struct RankTimeline {
  std::vector<RankTimes> ranks;
  /// From the beginning to the end of the last rank.
  std::vector<PathSegment> criticalPath;

  /// When the last rank finishes.
  double getSeconds() const;
  /// Seconds of computation on the critical path.
  double getCriticalComputation() const;
  /// The part of the time of messages in which ranks compute; 1 without
  /// messages.
  double getHiddenShare() const;
  /// The computation of the busiest rank over the mean of all ranks; 1 if none
  /// computes.
  double getImbalance() const;
};

/// Runs `programs`, with exchanges in the order in which they can begin. Each
/// direction of a port serves one message after another.
RankTimeline simulateRanks(const RankPrograms &programs,
                           const RankLinks &links);

} // namespace mlir::attn

#endif // ATTN_DISTRIBUTED_RANKSIMULATION_H
