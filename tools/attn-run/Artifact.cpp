//===- Artifact.cpp - Artifacts that attn-run loads -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs attn-compile as a child process (without a shell, into a temporary file
// that is removed as soon as it is loaded) and opens artifacts with dlopen.
//
//===----------------------------------------------------------------------===//

#include "Artifact.h"
#include "LibraryFile.h"
#include "Progress.h"
#include "attn/Support/TemporaryFolder.h"

#include <cerrno>
#include <climits>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace attnrt;

static bool endsWith(const std::string &text, const char *suffix) {
  size_t length = strlen(suffix);
  return text.size() >= length &&
         text.compare(text.size() - length, length, suffix) == 0;
}

/// attn-compile in the folder of this program, or else a name to look up in
/// PATH.
static std::string findCompiler() {
  char self[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", self, sizeof(self));
  if (length > 0 && length < static_cast<ssize_t>(sizeof(self))) {
    std::string path(self, length);
    path.resize(path.rfind('/') + 1);
    path += "attn-compile";
    if (access(path.c_str(), X_OK) == 0)
      return path;
  }
  return "attn-compile";
}

/// The target to compile for if the user names none: for a GPU, its compute
/// capability, for which the compiler has a target.
static int32_t chooseTarget(int device, std::string &target) {
  target = ATTN_HOST_TARGET;
  int32_t count = 0;
  if (int32_t status = attnrtDeviceCount(&count))
    return status;
  if (count == 0)
    return ATTN_OK;
  int32_t major = 0, minor = 0;
  if (int32_t status = attnrtDeviceArch(device, &major, &minor))
    return status;
  target = std::to_string(major) + "." + std::to_string(minor);
  return ATTN_OK;
}

/// Compiles the module, with the words of `more` on the command line.
static int32_t compile(const Options &options, const std::string &target,
                       const std::string &output,
                       const std::vector<std::string> &more) {
  std::string compiler =
      options.compiler.empty() ? findCompiler() : options.compiler;
  std::vector<std::string> words = {compiler, options.input, "-o", output,
                                    "--target=" + target};
  words.insert(words.end(), more.begin(), more.end());
  words.insert(words.end(), options.compilerOptions.begin(),
               options.compilerOptions.end());
  std::vector<char *> argv;
  for (std::string &word : words)
    argv.push_back(&word[0]);
  argv.push_back(nullptr);

  Progress progress("compiling");
  pid_t child;
  // posix_spawnp looks a name up in PATH only if it has no slash.
  if (int error = posix_spawnp(&child, compiler.c_str(), nullptr, nullptr,
                               argv.data(), environ))
    return attnrtSetError(ATTN_IO_ERROR, "cannot run the compiler '%s': %s",
                          compiler.c_str(), strerror(error));
  int result = 0;
  while (waitpid(child, &result, 0) < 0)
    if (errno != EINTR)
      return attnrtSetError(ATTN_IO_ERROR, "cannot wait for '%s': %s",
                            compiler.c_str(), strerror(errno));
  if (WIFSIGNALED(result))
    return attnrtSetError(ATTN_INVALID_ARGUMENT,
                          "'%s' was ended by signal %d (%s)", compiler.c_str(),
                          WTERMSIG(result), strsignal(WTERMSIG(result)));
  if (WEXITSTATUS(result) != 0)
    return attnrtSetError(
        ATTN_INVALID_ARGUMENT, "'%s' failed on '%s' with exit code %d",
        compiler.c_str(), options.input.c_str(), WEXITSTATUS(result));
  return ATTN_OK;
}

int32_t Artifact::verify(const std::string &name) const {
  const char *file = name.c_str();
  if (artifact->abi_version != ATTN_RUNTIME_ABI_VERSION)
    return attnrtSetError(ATTN_VERSION_MISMATCH,
                          "%s: artifact has ABI version %u, expected %u, that "
                          "of this attn-run; compile it again",
                          file, artifact->abi_version,
                          ATTN_RUNTIME_ABI_VERSION);
  if (artifact->reserved)
    return attnrtSetError(ATTN_INVALID_ARGUMENT,
                          "%s: field 'reserved' of the artifact must be zero "
                          "(was %p)",
                          file, artifact->reserved);
  if (!artifact->target || artifact->num_functions < 0 ||
      (artifact->num_functions > 0 && !artifact->functions))
    return attnrtSetError(ATTN_INVALID_ARGUMENT, "%s: malformed artifact",
                          file);
  for (int32_t i = 0; i < artifact->num_functions; ++i) {
    const attn_function &function = artifact->functions[i];
    bool valid = function.name && function.call && function.num_args >= 0 &&
                 (function.num_args == 0 || function.args);
    for (int32_t arg = 0; valid && arg < function.num_args; ++arg) {
      const attn_tensor_spec &spec = function.args[arg];
      valid = spec.name && attnDTypeSize(spec.dtype) > 0 && spec.rank >= 0 &&
              (spec.rank == 0 || spec.dims);
      for (int32_t dim = 0; valid && dim < spec.rank; ++dim)
        valid = ATTN_DIM_SYMBOL(spec.dims[dim]) < function.num_symbols;
    }
    if (!valid)
      return attnrtSetError(ATTN_INVALID_ARGUMENT,
                            "%s: malformed artifact: function %d ('%s')", file,
                            i, function.name ? function.name : "");
  }
  return ATTN_OK;
}

/// Reads the file of `descriptor` to its end.
static int32_t readFile(int descriptor, const char *name,
                        std::vector<char> &contents) {
  struct stat status;
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode))
    return attnrtSetError(ATTN_IO_ERROR, "%s: not a regular file", name);
  contents.resize(static_cast<size_t>(status.st_size));
  size_t size = 0;
  while (size < contents.size()) {
    ssize_t count =
        read(descriptor, contents.data() + size, contents.size() - size);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return attnrtSetError(ATTN_IO_ERROR, "%s: cannot read: %s", name,
                            strerror(errno));
    if (count == 0)
      break;
    size += static_cast<size_t>(count);
  }
  contents.resize(size);
  return ATTN_OK;
}

int32_t Artifact::open(const std::string &path,
                       const std::string &displayName) {
  // Opening a pipe waits for a writer otherwise.
  int descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0)
    return attnrtSetError(ATTN_IO_ERROR, "%s: cannot open: %s",
                          displayName.c_str(), strerror(errno));
  std::vector<char> contents;
  if (int32_t status = readFile(descriptor, displayName.c_str(), contents))
    return status;
  if (int32_t status = checkLibraryContents(
          reinterpret_cast<const unsigned char *>(contents.data()),
          contents.size(), displayName.c_str()))
    return status;
  // The file that was checked is loaded by its descriptor. The descriptor stays
  // open, as the library does: the dynamic linker knows libraries by their
  // names.
  std::string checked = "/proc/self/fd/" + std::to_string(descriptor);
  if (access(checked.c_str(), R_OK) != 0)
    // Without a slash dlopen would search the system's directories.
    checked = path.find('/') == std::string::npos ? "./" + path : path;
  void *library = dlopen(checked.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return attnrtSetError(ATTN_IO_ERROR, "%s: cannot load: %s",
                          displayName.c_str(), dlerror());
  artifact = static_cast<const struct attn_artifact *>(
      dlsym(library, ATTN_ARTIFACT_SYMBOL));
  if (!artifact)
    return attnrtSetError(ATTN_INVALID_ARGUMENT,
                          "%s: not an artifact: it has no symbol '%s'",
                          displayName.c_str(), ATTN_ARTIFACT_SYMBOL);
  if (int32_t status = verify(displayName))
    return status;
  target = artifact->target;
  return ATTN_OK;
}

bool attnrt::isModule(const std::string &file) {
  return endsWith(file, ".mlir") || endsWith(file, ".mlirbc");
}

int32_t Artifact::compileForRanks(const Options &options,
                                  std::vector<char> &library) {
  mlir::attn::TemporaryPath file = mlir::attn::createTemporaryFile("so");
  if (!file)
    return attnrtSetError(ATTN_IO_ERROR, "%s", file.error.c_str());
  int32_t status =
      compile(options, ATTN_HOST_TARGET, file.path,
              {"--ranks=" + std::to_string(options.ranks),
               "--shard-method=" + options.shardMethod,
               "--ulysses-degree=" + std::to_string(options.ulyssesDegree)});
  int descriptor = -1;
  if (status == ATTN_OK) {
    descriptor = ::open(file.path.c_str(), O_RDONLY | O_CLOEXEC);
    status = readFile(descriptor, file.path.c_str(), library);
  }
  if (descriptor >= 0)
    close(descriptor);
  unlink(file.path.c_str());
  return status;
}

int32_t Artifact::loadLibrary(const std::vector<char> &library,
                              const std::string &displayName,
                              Artifact &result) {
  mlir::attn::TemporaryPath path = mlir::attn::createTemporaryFile("so");
  if (!path)
    return attnrtSetError(ATTN_IO_ERROR, "%s", path.error.c_str());
  FILE *file = fopen(path.path.c_str(), "wb");
  bool isWritten =
      file && fwrite(library.data(), 1, library.size(), file) == library.size();
  if (file)
    isWritten = fclose(file) == 0 && isWritten;
  int32_t status = isWritten
                       ? result.open(path.path, displayName)
                       : attnrtSetError(ATTN_IO_ERROR, "%s: cannot write: %s",
                                        path.path.c_str(), strerror(errno));
  unlink(path.path.c_str());
  return status;
}

int32_t Artifact::load(const Options &options, Artifact &result) {
  const std::string &input = options.input;
  if (!isModule(input)) {
    if (int32_t status = result.open(input, input))
      return status;
    if (options.target != "auto" && options.target != result.target)
      return attnrtSetError(ATTN_INVALID_ARGUMENT,
                            "%s: artifact is for target '%s', expected '%s'",
                            input.c_str(), result.target.c_str(),
                            options.target.c_str());
    return ATTN_OK;
  }

  if (access(input.c_str(), R_OK) != 0)
    return attnrtSetError(ATTN_IO_ERROR, "%s: cannot open: %s", input.c_str(),
                          strerror(errno));
  std::string target = options.target;
  // Ranks run on the host.
  if (target == "auto" && options.ranks > 0)
    target = ATTN_HOST_TARGET;
  if (target == "auto")
    if (int32_t status = chooseTarget(options.device, target))
      return status;
  mlir::attn::TemporaryPath library = mlir::attn::createTemporaryFile("so");
  if (!library)
    return attnrtSetError(ATTN_IO_ERROR, "%s", library.error.c_str());
  // With ranks, nothing but a check runs the whole.
  std::vector<std::string> more;
  if (options.ranks == 0 || options.check)
    more.emplace_back("--with-reference");
  int32_t status = compile(options, target, library.path, more);
  if (status == ATTN_OK)
    status = result.open(library.path, input);
  // A loaded library stays when its file is removed.
  unlink(library.path.c_str());
  return status;
}

int32_t Artifact::getFunction(const std::string &name,
                              const attn_function **function) const {
  std::string names;
  for (int32_t i = 0; i < artifact->num_functions; ++i) {
    const attn_function &candidate = artifact->functions[i];
    if (name == candidate.name ||
        (name.empty() && artifact->num_functions == 1)) {
      *function = &candidate;
      return ATTN_OK;
    }
    names += (names.empty() ? "'" : ", '") + std::string(candidate.name) + "'";
  }
  if (names.empty())
    return attnrtSetError(ATTN_INVALID_ARGUMENT,
                          "the artifact has no functions");
  if (name.empty())
    return attnrtSetError(ATTN_INVALID_ARGUMENT,
                          "the artifact has several functions, choose one with "
                          "--function: %s",
                          names.c_str());
  return attnrtSetError(ATTN_INVALID_ARGUMENT,
                        "the artifact has no function '%s'; it has %s",
                        name.c_str(), names.c_str());
}
