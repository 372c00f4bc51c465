//===- Progress.cpp - Signs of life during long steps ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A thread that wakes up once a second.
//
//===----------------------------------------------------------------------===//

#include "Progress.h"

#include <chrono>
#include <cstdio>
#include <unistd.h>

using namespace attnrt;

Progress::Progress(const char *what) : what(what) {
  if (isatty(STDERR_FILENO))
    thread = std::thread([this] { loop(); });
}

Progress::~Progress() {
  if (!thread.joinable())
    return;
  {
    std::lock_guard<std::mutex> lock(mutex);
    finished = true;
  }
  finish.notify_one();
  thread.join();
}

void Progress::loop() {
  std::unique_lock<std::mutex> lock(mutex);
  int seconds = 2;
  auto next = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  bool printed = false;
  while (!finish.wait_until(lock, next, [this] { return finished; })) {
    fprintf(stderr, "\rattn-run: %s (%d s)", what, seconds);
    fflush(stderr);
    printed = true;
    ++seconds;
    next += std::chrono::seconds(1);
  }
  if (printed) {
    fputs("\r\033[K", stderr);
    fflush(stderr);
  }
}
