//===- Report.h - Results of attn-run ---------------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The results of a run, and their two printed forms.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_ATTN_RUN_REPORT_H
#define ATTN_TOOLS_ATTN_RUN_REPORT_H

#include "Arguments.h"

namespace attnrt {

/// Figures of one output, over all its elements.
struct OutputSummary {
  std::string name;
  /// Of the finite elements.
  double rms = 0;
  double maxAbs = 0;
  int64_t numNaN = 0;
  int64_t numInf = 0;
};

/// One output against its reference, over the elements that the reference has.
struct OutputCheck {
  std::string name;
  double maxAbsError = 0;
  double relativeError = 0;
  double tolerance = 0;
  int64_t numMismatches = 0;
  int64_t numNaN = 0;
  int64_t numCompared = 0;
  bool passed = false;
};

struct CheckResult {
  int64_t rowStep = 1;
  std::vector<OutputCheck> outputs;

  bool passed() const;
};

struct BenchResult {
  int repeats = 0;
  double medianMs = 0;
  double minMs = 0;
  double maxMs = 0;
  /// Time the call itself takes on the host; as the others on a host target.
  double hostUs = 0;
  /// Floating point operations, 0 if the artifact does not say.
  int64_t flops = 0;

  double getTflops() const { return flops / medianMs * 1e-9; }
};

struct Report {
  std::string function;
  std::string target;
  std::string producer;
  /// Empty on the host.
  std::string device;
  /// The ranks that have run the function, their threads or processes, and the
  /// bytes that each sent to others; 0 ranks if it ran as a whole.
  int32_t ranks = 0;
  std::string shardMethod;
  std::string transport;
  std::vector<int64_t> bytesSent;
  const std::vector<Argument> *arguments = nullptr;
  std::vector<OutputSummary> outputs;
  std::optional<CheckResult> check;
  std::optional<BenchResult> bench;

  std::string toText() const;
  std::string toJson() const;
};

} // namespace attnrt

#endif // ATTN_TOOLS_ATTN_RUN_REPORT_H
