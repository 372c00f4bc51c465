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

#include "Artifact.h"
#include "Check.h"

#include <functional>

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
  int32_t timeOnDevice(int repeats, double hostMs, std::vector<double> &times,
                       double &submitMs);

  const attn_function &function;
  std::vector<Argument> &arguments;
  int32_t device;
  ViewList views;
  std::vector<void *> buffers;
};

/// Times up to `repeats` calls of `run` on the host, in ms.
int32_t timeCalls(int repeats, const std::function<int32_t()> &run,
                  std::vector<double> &times);

/// Sets the times of the result.
void summarizeTimes(std::vector<double> &times, BenchResult &result);

/// Describes the function in the report.
void startReport(const Artifact &artifact, const attn_function &function,
                 const std::vector<Argument> &arguments, Report &report);

/// Checks that a device is chosen for functions of devices alone.
int32_t checkDeviceOption(const Artifact &artifact,
                          const attn_function &function,
                          const Options &options);

/// Summarizes the outputs, and writes the ones for which there are files.
int32_t reportOutputs(const Options &options,
                      const std::vector<Argument> &arguments, Report &report);

/// Prints the last error, and gives the exit code of `status`.
ExitCode printFailure(int32_t status);

/// Prints the report, and gives the exit code of the run.
ExitCode printReport(const Options &options, const Report &report);

/// Does all that the options ask for.
ExitCode runAll(const Options &options);

} // namespace attnrt

#endif // ATTN_TOOLS_ATTN_RUN_RUNNER_H
