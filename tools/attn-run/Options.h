//===- Options.h - Command line of attn-run ---------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The options of a command line.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_ATTN_RUN_OPTIONS_H
#define ATTN_TOOLS_ATTN_RUN_OPTIONS_H

#include "HostTensor.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace attnrt {

/// The exit codes of attn-run.
enum ExitCode {
  ExitOk = 0,
  ExitCheckFailed = 1,
  ExitUsage = 2,
  ExitRuntime = 3
};

/// The exit code for a failure with the given status: the user's input was
/// wrong, or running it failed.
ExitCode getExitCode(int32_t status);

/// "NAME=VALUE", or a VALUE alone with an empty name.
using NamedValue = std::pair<std::string, std::string>;

struct Options {
  std::string input;
  std::string function;
  /// Split at use, when the names of arguments are known.
  std::vector<std::string> inputs;
  std::vector<NamedValue> shapes;
  std::vector<NamedValue> fills;
  std::vector<NamedValue> outputs;
  std::vector<std::pair<std::string, double>> tolerances;
  uint64_t seed = 0;
  bool list = false;
  /// Measure the device; there is no module then.
  bool probeDevice = false;
  bool check = false;
  /// Rows between those checked; 0 to choose.
  int64_t rowStep = 0;
  bool bench = false;
  int repeats = 20;
  int warmup = 3;
  bool json = false;
  bool outputF32 = false;
  std::string target = "auto";
  int device = 0;
  Layout layout = Layout::BHSD;
  std::string compiler;
  std::vector<std::string> compilerOptions;
  /// The ranks that attention is distributed over; 0 to run the whole.
  int32_t ranks = 0;
  std::string shardMethod = "ring";
  /// The neighboring ranks that exchange heads for positions with "usp".
  int32_t ulyssesDegree = 0;
  /// "auto", "threads" or "mpi".
  std::string transport = "auto";
  /// How long ranks wait for one another.
  int64_t timeLimitS = 600;
};

/// Parses the command line. If there is nothing more to do (help was asked for,
/// or the command line is wrong and a message was printed), gives an exit code.
std::optional<ExitCode> parseOptions(int argc, char **argv, Options &options);

} // namespace attnrt

#endif // ATTN_TOOLS_ATTN_RUN_OPTIONS_H
