//===- Ranks.h - Runs a function on several ranks ---------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rank 0 makes the arguments of the whole, gives each rank its parts, has all
// ranks call the function of one rank, and joins their results. Ranks are
// threads of the process or processes under MPI; their messages are the same.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_ATTN_RUN_RANKS_H
#define ATTN_TOOLS_ATTN_RUN_RANKS_H

#include "Artifact.h"
#include "Check.h"
#include "Shards.h"
#include "attn-runtime/attn_comm.h"

#include <thread>

namespace attnrt {

/// One rank: its communicator, and its arguments of the function.
class Rank {
public:
  /// Takes the communicator. Calls of the function are recorded.
  int32_t open(attn_comm *given);
  Rank() = default;
  Rank(const Rank &) = delete;
  Rank &operator=(const Rank &) = delete;
  ~Rank();

  int32_t getNumber() const { return comm->rank; }
  int32_t getNumRanks() const { return comm->size; }
  /// Messages that are not recorded.
  int32_t send(int32_t to, const void *data, int64_t bytes);
  int32_t receive(int32_t from, void *data, int64_t bytes);
  /// Ends the calls of all ranks by `status` and the text of the last error.
  int32_t abort(int32_t status);

  /// Makes the tensor of the next argument of `function`.
  int32_t addArgument(const attn_function &function,
                      const std::vector<int64_t> &shape, Layout layout);
  std::vector<Argument> &getArguments() { return arguments; }
  int32_t call(const attn_function &function);
  /// The bytes that the rank has sent to others in calls of functions.
  int32_t getBytesSent(int64_t &bytes) const;

  /// Does what rank 0 asks for until it is done.
  int32_t serve(const attn_function &function, Layout layout);

private:
  int32_t receiveArguments(const attn_function &function, Layout layout);
  int32_t sendOutputs();

  attn_comm *comm = nullptr;
  /// The communicator below the one that records.
  attn_comm *inner = nullptr;
  std::vector<Argument> arguments;
};

/// All ranks, as rank 0 sees them.
class RankedRunner {
public:
  RankedRunner(Rank &rank, const attn_function &whole,
               const attn_function &ofRank, const Options &options,
               std::vector<Argument> &arguments)
      : rank(rank), whole(whole), ofRank(ofRank), options(options),
        arguments(arguments),
        placement(options.ranks, options.shardMethod, options.ulyssesDegree) {}

  /// Gives all ranks their parts of the arguments.
  int32_t scatter();
  /// Calls the function on all ranks.
  int32_t run();
  /// Joins the outputs.
  int32_t gather(std::vector<int64_t> &bytesSent);
  int32_t bench(BenchResult &result);
  /// Lets the other ranks end.
  int32_t finish();

private:
  int32_t tellAll(int64_t command);
  int32_t joinOutput(size_t arg, int32_t from, const HostTensor &shard);

  Rank &rank;
  const attn_function &whole, &ofRank;
  const Options &options;
  std::vector<Argument> &arguments;
  Placement placement;
  std::vector<ShardedDim> dims;
};

/// Does all that the options ask for, with several ranks.
ExitCode runRanks(const Options &options);

} // namespace attnrt

#endif // ATTN_TOOLS_ATTN_RUN_RANKS_H
