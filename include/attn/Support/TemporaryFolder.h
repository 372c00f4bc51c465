//===- TemporaryFolder.h - Temporary files of a process ---------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One folder for all temporary files of a process. Plain C++17: attn-run, which
// has no LLVM, uses it as well.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_SUPPORT_TEMPORARYFOLDER_H
#define ATTN_SUPPORT_TEMPORARYFOLDER_H

#include <string>

namespace mlir::attn {

/// A path, or the reason why there is none.
struct TemporaryPath {
  std::string path;
  /// Empty if there is a path.
  std::string error;

  explicit operator bool() const { return error.empty(); }
};

/// The temporary folder of this process, `attn-XXXXXX` in `TMPDIR` or `/tmp`.
/// The first call creates it, for this user alone, and removes folders that
/// ended processes of this user have left behind. It is removed when the
/// process exits.
TemporaryPath getTemporaryFolder();

/// Creates an empty file with the extension `extension` in the temporary
/// folder.
TemporaryPath createTemporaryFile(const std::string &extension);

/// Lets signals that end the process remove the temporary folder. Only for
/// programs: the signal handlers of a process do not belong to libraries.
/// Ignored signals stay ignored.
void removeTemporaryFolderOnSignals();

} // namespace mlir::attn

#endif // ATTN_SUPPORT_TEMPORARYFOLDER_H
