//===- PTXVersion.h - Versions of PTX ---------------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which versions of PTX kernels of a target can be written in.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TARGET_PTXVERSION_H
#define ATTN_TARGET_PTXVERSION_H

#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>

namespace mlir::attn {

/// Why kernels of `target`, if it has kernels, cannot be written in a version
/// of PTX, times 10: LLVM ignores versions that it does not have, and ends the
/// process at those that are too old for an architecture.
std::optional<std::string> checkPTXVersion(llvm::StringRef target,
                                           int64_t version);

} // namespace mlir::attn

#endif // ATTN_TARGET_PTXVERSION_H
