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
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"

#include <dlfcn.h>

using namespace mlir;

namespace {
/// Where to look for the files of a toolkit.
struct Toolkits {
  /// Folders that users chose, the preferred one first.
  llvm::SmallVector<std::string> chosen;
  /// Folders to try after the programs in $PATH.
  llvm::SmallVector<std::string> guesses;
};
} // namespace

/// Names of the entries of `folder` that begin with `prefix`, the last one
/// first.
static llvm::SmallVector<std::string> listFolder(llvm::StringRef folder,
                                                 llvm::StringRef prefix) {
  llvm::SmallVector<std::string> names;
  std::error_code error;
  for (llvm::sys::fs::directory_iterator it(folder, error), end;
       !error && it != end; it.increment(error))
    if (llvm::StringRef name = llvm::sys::path::filename(it->path());
        name.starts_with(prefix))
      names.push_back(name.str());
  llvm::sort(names, std::greater<>());
  return names;
}

/// Adds the folders of NVIDIA's packages for Python in `packages`, a folder
/// site-packages. The package nvidia-cuda-nvcc is laid out like a toolkit.
static void addPackages(llvm::SmallString<128> packages,
                        llvm::SmallVectorImpl<std::string> &folders) {
  llvm::sys::path::append(packages, "nvidia");
  for (const std::string &package : listFolder(packages, "cu")) {
    llvm::SmallString<128> folder(packages);
    llvm::sys::path::append(folder, package);
    folders.push_back(folder.str().str());
  }
}

/// The file that has this code: a shared library or a program.
static std::string getOwnFile() {
  auto *self = reinterpret_cast<void *>(&getOwnFile);
  // A program may be known by a relative name.
  Dl_info info;
  if (dladdr(self, &info) && llvm::sys::path::is_absolute(info.dli_fname))
    return info.dli_fname;
  return llvm::sys::fs::getMainExecutable(/*argv0=*/nullptr, self);
}

/// Adds the folders of NVIDIA's packages next to Attn's own package for Python,
/// whose folders `lib` and `bin` may have this code, and in the active virtual
/// environment.
static void addPackages(llvm::SmallVectorImpl<std::string> &folders) {
  llvm::SmallString<128> own(getOwnFile());
  for (int i = 0; i < 3; ++i)
    llvm::sys::path::remove_filename(own);
  addPackages(own, folders);
  std::optional<std::string> environment =
      llvm::sys::Process::GetEnv("VIRTUAL_ENV");
  if (!environment || environment->empty())
    return;
  llvm::SmallString<128> libraries(*environment);
  llvm::sys::path::append(libraries, "lib");
  for (const std::string &python : listFolder(libraries, "python3")) {
    llvm::SmallString<128> packages(libraries);
    llvm::sys::path::append(packages, python, "site-packages");
    addPackages(packages, folders);
  }
}

static Toolkits getToolkits(llvm::StringRef toolkit) {
  Toolkits toolkits;
  if (!toolkit.empty()) {
    toolkits.chosen.push_back(toolkit.str());
    return toolkits;
  }
  for (const char *variable : {"CUDA_ROOT", "CUDA_HOME", "CUDA_PATH"})
    if (std::optional<std::string> folder =
            llvm::sys::Process::GetEnv(variable))
      if (!folder->empty())
        toolkits.chosen.push_back(*folder);
  addPackages(toolkits.guesses);
  if (llvm::StringRef configured = ATTN_CUDA_TOOLKIT_DIR; !configured.empty())
    toolkits.guesses.push_back(configured.str());
  toolkits.guesses.push_back("/usr/local/cuda");
  return toolkits;
}

static std::string findFile(llvm::ArrayRef<std::string> folders,
                            llvm::StringRef folder, llvm::StringRef name) {
  for (const std::string &toolkit : folders) {
    llvm::SmallString<128> path(toolkit);
    llvm::sys::path::append(path, folder, name);
    if (llvm::sys::fs::exists(path))
      return path.str().str();
  }
  return {};
}

std::string attn::findPtxas(llvm::StringRef toolkit) {
  Toolkits toolkits = getToolkits(toolkit);
  std::string found = findFile(toolkits.chosen, "bin", "ptxas");
  if (!found.empty() || !toolkit.empty())
    return found;
  if (llvm::ErrorOr<std::string> program =
          llvm::sys::findProgramByName("ptxas"))
    return *program;
  return findFile(toolkits.guesses, "bin", "ptxas");
}

std::string attn::findLibdevice(llvm::StringRef toolkit) {
  Toolkits toolkits = getToolkits(toolkit);
  std::string found =
      findFile(toolkits.chosen, "nvvm/libdevice", "libdevice.10.bc");
  if (!found.empty())
    return found;
  return findFile(toolkits.guesses, "nvvm/libdevice", "libdevice.10.bc");
}

std::string attn::describeToolkits(llvm::StringRef toolkit) {
  Toolkits toolkits = getToolkits(toolkit);
  std::string text = llvm::join(toolkits.chosen, ", ");
  if (!toolkit.empty())
    return text;
  if (!text.empty())
    text += ", ";
  return text + "$PATH, " + llvm::join(toolkits.guesses, ", ");
}
