//===- attn-lsp-server.cpp - Language server ------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// mlir-lsp-server with the dialects of the project. It runs in a child process,
// and the proxy between it and the editor adds names and texts of the dialects.
//
//===----------------------------------------------------------------------===//

#include "Proxy.h"
#include "attn/InitAllDialects.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/Support/LLVM.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "llvm/ADT/STLExtras.h"
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using llvm::StringRef;

/// Runs MLIR's server on the standard input and output.
static int runServer(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  mlir::attn::registerAllDialects(registry);
  return llvm::failed(mlir::MlirLspServerMain(argc, argv, registry));
}

namespace {
/// The options of mlir-lsp-server that say how messages are written. The proxy
/// writes and reads them.
struct MessageOptions {
  llvm::lsp::JSONStreamStyle style = llvm::lsp::JSONStreamStyle::Standard;
  bool isPretty = false;
  /// Whether the program only prints something about itself.
  bool isInformation = false;
  std::vector<char *> others;
};
} // namespace

static MessageOptions parseOptions(int argc, char **argv) {
  MessageOptions options;
  for (int i = 0; i < argc; ++i) {
    StringRef argument = argv[i];
    StringRef option = argument.starts_with("-") ? argument.ltrim('-') : "";
    bool isStyle = option == "input-style" && i + 1 < argc;
    StringRef style = isStyle ? argv[i + 1] : option;
    style.consume_front("input-style=");
    if (i > 0 && option == "lit-test") {
      options.style = llvm::lsp::JSONStreamStyle::Delimited;
      options.isPretty = true;
    } else if (i > 0 && option == "pretty") {
      options.isPretty = true;
    } else if (i > 0 && (isStyle || option.starts_with("input-style=")) &&
               (style == "standard" || style == "delimited")) {
      options.style = style == "delimited"
                          ? llvm::lsp::JSONStreamStyle::Delimited
                          : llvm::lsp::JSONStreamStyle::Standard;
      i += isStyle;
    } else {
      options.isInformation |= option == "h" || option.starts_with("help") ||
                               option.starts_with("version");
      options.others.push_back(argv[i]);
    }
  }
  options.others.push_back(nullptr);
  return options;
}

static int reportSystemError(const char *what) {
  fprintf(stderr, "attn-lsp-server: %s: %s\n", what, strerror(errno));
  return 1;
}

/// The exit status of the child process, in the form of a shell.
static int waitForServer(pid_t server) {
  int status;
  while (waitpid(server, &status, 0) < 0)
    if (errno != EINTR)
      return reportSystemError("waitpid");
  if (WIFEXITED(status))
    return WEXITSTATUS(status);
  fprintf(stderr, "attn-lsp-server: MLIR's server ended with signal %d\n",
          WTERMSIG(status));
  return 128 + WTERMSIG(status);
}

int main(int argc, char **argv) {
  MessageOptions options = parseOptions(argc, argv);
  if (options.isInformation)
    return runServer(argc, argv);

  int toServer[2], fromServer[2];
  if (pipe(toServer) || pipe(fromServer))
    return reportSystemError("pipe");
  pid_t server = fork();
  if (server < 0)
    return reportSystemError("fork");
  if (server == 0) {
    dup2(toServer[0], STDIN_FILENO);
    dup2(fromServer[1], STDOUT_FILENO);
    for (int file : {toServer[0], toServer[1], fromServer[0], fromServer[1]})
      close(file);
    return runServer(options.others.size() - 1, options.others.data());
  }
  close(toServer[0]);
  close(fromServer[1]);
  // Writing to a server that has ended is no reason to end before its output is
  // read.
  signal(SIGPIPE, SIG_IGN);

  attn_lsp::Proxy proxy(toServer[1], STDOUT_FILENO, options.isPretty);
  std::thread([&] {
    llvm::lsp::JSONTransportInputOverFile input(stdin, options.style);
    proxy.readEditor(input);
    close(toServer[1]);
  }).detach();
  FILE *output = fdopen(fromServer[0], "r");
  if (!output)
    return reportSystemError("fdopen");
  llvm::lsp::JSONTransportInputOverFile input(output);
  proxy.readServer(input);

  // The server may end while the thread waits for the editor, so that nothing
  // that the thread uses may be destroyed.
  fflush(stderr);
  _exit(waitForServer(server));
}
