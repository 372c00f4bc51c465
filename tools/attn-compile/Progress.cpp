//===- Progress.cpp - Current stage of the compiler -----------------------===//
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

#include "Progress.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/raw_ostream.h"

static constexpr std::chrono::seconds patience(2);

Progress::Progress(bool verbose) : verbose(verbose) {
  if (llvm::sys::Process::StandardErrIsDisplayed())
    watcher = std::thread([this] { watch(); });
}

Progress::~Progress() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    finishLocked();
    isDone = true;
  }
  changed.notify_all();
  if (watcher.joinable())
    watcher.join();
}

void Progress::start(llvm::StringRef name) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    finishLocked();
    current = name.str();
    begin = Clock::now();
  }
  changed.notify_all();
}

void Progress::finish() {
  std::lock_guard<std::mutex> lock(mutex);
  finishLocked();
}

void Progress::finishLocked() {
  if (current.empty())
    return;
  if (isShown)
    llvm::errs() << "\r\033[K";
  isShown = false;
  if (verbose) {
    std::chrono::duration<double> time = Clock::now() - begin;
    llvm::errs() << llvm::format("%-10s %8.3f s\n", current.c_str(),
                                 time.count());
  }
  current.clear();
}

void Progress::watch() {
  std::unique_lock<std::mutex> lock(mutex);
  while (!isDone) {
    changed.wait_for(lock, std::chrono::milliseconds(500));
    if (isDone || current.empty() || Clock::now() - begin < patience)
      continue;
    std::chrono::duration<double> time = Clock::now() - begin;
    llvm::errs() << "\r\033[K"
                 << llvm::format("attn-compile: %s ... %.0f s", current.c_str(),
                                 time.count());
    isShown = true;
  }
}
