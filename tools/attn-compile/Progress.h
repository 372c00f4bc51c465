//===- Progress.h - Current stage of the compiler ---------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Times stages, and shows the current one if it takes long.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_ATTN_COMPILE_PROGRESS_H
#define ATTN_TOOLS_ATTN_COMPILE_PROGRESS_H

#include "llvm/ADT/StringRef.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

/// Follows the stages of one compilation.
class Progress {
public:
  /// With `verbose`, prints the time of each stage. A stage that takes longer
  /// than two seconds is shown on the standard error if that is a terminal.
  explicit Progress(bool verbose);
  ~Progress();

  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;

  /// Ends the current stage, if any, and starts the stage `name`.
  void start(llvm::StringRef name);

  /// Ends the current stage.
  void finish();

private:
  using Clock = std::chrono::steady_clock;

  /// Redraws the line of a long stage until the compilation is over.
  void watch();
  void finishLocked();

  bool verbose;
  std::mutex mutex;
  std::condition_variable changed;
  std::string current;
  Clock::time_point begin;
  bool isDone = false;
  bool isShown = false;
  std::thread watcher;
};

#endif // ATTN_TOOLS_ATTN_COMPILE_PROGRESS_H
