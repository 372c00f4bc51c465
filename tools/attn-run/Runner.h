//===- Runner.h - Runs a function -------------------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Puts arguments where the function wants them, calls it, and times it.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_ATTN_RUN_RUNNER_H
#define ATTN_TOOLS_ATTN_RUN_RUNNER_H

#include "Check.h"

namespace attnrt {

/// A function with arguments in the memory of the device it runs on.
class Runner {
public:
  /// `device` is ATTN_DEVICE_HOST or a CUDA device.
  Runner(const attn_function &function, std::vector<Argument> &arguments,
         int32_t device)
      : function(function), arguments(arguments), device(device),
        views(arguments) {}
  Runner(const Runner &) = delete;
  Runner &operator=(const Runner &) = delete;
  ~Runner();

  /// Copies all arguments to the device.
  int32_t upload();

  /// Calls the function once and waits for it.
  int32_t run();

  /// Copies the outputs back.
  int32_t download();

  int32_t bench(int warmup, int repeats, BenchResult &result);

private:
  bool isHost() const { return device == ATTN_DEVICE_HOST; }
  int32_t call() {
    return function.call(views.getPointers(), function.num_args,
                         /*stream=*/nullptr);
  }
  int32_t timeOnHost(int repeats, std::vector<double> &times);
  int32_t timeOnDevice(int repeats, double hostMs, std::vector<double> &times,
                       double &submitMs);

  const attn_function &function;
  std::vector<Argument> &arguments;
  int32_t device;
  ViewList views;
  std::vector<void *> buffers;
};

/// Does all that the options ask for.
ExitCode runAll(const Options &options);

} // namespace attnrt

#endif // ATTN_TOOLS_ATTN_RUN_RUNNER_H
