//===- Artifact.h - Artifacts that attn-run loads ---------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Loads a compiled artifact. If it is given a module, compiles it first.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_ATTN_RUN_ARTIFACT_H
#define ATTN_TOOLS_ATTN_RUN_ARTIFACT_H

#include "Options.h"

namespace attnrt {

/// A loaded artifact. It stays loaded to the end of the process.
class Artifact {
public:
  /// Loads the artifact or module of the options.
  static int32_t load(const Options &options, Artifact &result);

  /// Compiles the module of the options for the number of ranks and the method
  /// of the options.
  static int32_t compileForRanks(const Options &options,
                                 std::vector<char> &library);
  /// Loads a library; errors name the file that it comes from.
  static int32_t loadLibrary(const std::vector<char> &library,
                             const std::string &displayName, Artifact &result);

  const struct attn_artifact &get() const { return *artifact; }
  const std::string &getTarget() const { return target; }
  bool isHost() const { return target == ATTN_HOST_TARGET; }

  /// The function the options name, or the only one.
  int32_t getFunction(const std::string &name,
                      const attn_function **function) const;

private:
  int32_t open(const std::string &path, const std::string &displayName);
  int32_t verify(const std::string &displayName) const;

  const struct attn_artifact *artifact = nullptr;
  std::string target;
};

/// Whether a file is a module by its name, and not an artifact.
bool isModule(const std::string &file);

} // namespace attnrt

#endif // ATTN_TOOLS_ATTN_RUN_ARTIFACT_H
