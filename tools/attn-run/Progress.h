//===- Progress.h - Signs of life during long steps -------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Shows a user at a terminal the name of a step that takes more than two
// seconds.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_ATTN_RUN_PROGRESS_H
#define ATTN_TOOLS_ATTN_RUN_PROGRESS_H

#include <condition_variable>
#include <mutex>
#include <thread>

namespace attnrt {

/// Prints `what` and the time passed to stderr while it lives, if stderr is a
/// terminal.
class Progress {
public:
  explicit Progress(const char *what);
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;
  ~Progress();

private:
  void loop();

  const char *what;
  bool finished = false;
  std::mutex mutex;
  std::condition_variable finish;
  std::thread thread;
};

} // namespace attnrt

#endif // ATTN_TOOLS_ATTN_RUN_PROGRESS_H
