//===- attn-run.cpp - Runs, checks and times compiled functions -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The main program. Like all of attn-run it uses neither LLVM nor MLIR, so that
// artifacts run on machines without them.
//
//===----------------------------------------------------------------------===//

#include "Probe.h"
#include "Runner.h"
#include "attn/Support/TemporaryFolder.h"

#include <cstdio>

int main(int argc, char **argv) {
  mlir::attn::removeTemporaryFolderOnSignals();
  attnrt::Options options;
  auto exitCode = attnrt::parseOptions(argc, argv, options);
  if (!exitCode)
    exitCode = options.probeDevice ? attnrt::probeDevice(options)
                                   : attnrt::runAll(options);
  // A report that did not get out is not a success, and neither is a help text.
  if (fflush(stdout) != 0 || ferror(stdout)) {
    perror("attn-run: error: cannot write to the standard output");
    return attnrt::ExitRuntime;
  }
  return *exitCode;
}
