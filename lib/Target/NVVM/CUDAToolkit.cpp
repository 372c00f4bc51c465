//===- CUDAToolkit.cpp - Finding NVIDIA's tools ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where the assembler and the device library are on this machine.
//
//===----------------------------------------------------------------------===//

#include "attn/Target/CUDAToolkit.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"

using namespace mlir;

/// Folders of toolkits, the preferred one first.
static llvm::SmallVector<std::string> getToolkits(llvm::StringRef toolkit) {
  if (!toolkit.empty())
    return {toolkit.str()};
  llvm::SmallVector<std::string> folders;
  for (const char *variable : {"CUDA_ROOT", "CUDA_HOME", "CUDA_PATH"})
    if (std::optional<std::string> folder =
            llvm::sys::Process::GetEnv(variable))
      if (!folder->empty())
        folders.push_back(*folder);
  folders.push_back(ATTN_CUDA_TOOLKIT_DIR);
  folders.push_back("/usr/local/cuda");
  return folders;
}

static std::string findFile(llvm::ArrayRef<std::string> toolkits,
                            llvm::StringRef folder, llvm::StringRef name) {
  for (const std::string &toolkit : toolkits) {
    if (toolkit.empty())
      continue;
    llvm::SmallString<128> path(toolkit);
    llvm::sys::path::append(path, folder, name);
    if (llvm::sys::fs::exists(path))
      return path.str().str();
  }
  return {};
}

std::string attn::findPtxas(llvm::StringRef toolkit) {
  llvm::SmallVector<std::string> toolkits = getToolkits(toolkit);
  // The last two are guesses: what the user has in the path goes before them.
  constexpr size_t numGuesses = 2;
  llvm::ArrayRef<std::string> all(toolkits);
  if (!toolkit.empty())
    return findFile(all, "bin", "ptxas");
  std::string found = findFile(all.drop_back(numGuesses), "bin", "ptxas");
  if (!found.empty())
    return found;
  if (llvm::ErrorOr<std::string> program =
          llvm::sys::findProgramByName("ptxas"))
    return *program;
  return findFile(all.take_back(numGuesses), "bin", "ptxas");
}

std::string attn::findLibdevice(llvm::StringRef toolkit) {
  return findFile(getToolkits(toolkit), "nvvm/libdevice", "libdevice.10.bc");
}
