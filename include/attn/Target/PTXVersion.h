//===- PTXVersion.h - Versions of PTX ---------------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The PTX versions that the kernels of a target need and can use.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TARGET_PTXVERSION_H
#define ATTN_TARGET_PTXVERSION_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>

namespace mlir::attn {

/// The instruction of a kernel that was added to PTX last.
struct NewestInstruction {
  /// The first version of PTX that has it, times 10; 0 if there is none.
  int64_t version = 0;
  /// Its name with all qualifiers.
  std::string name;
  /// The inline assembly that contains it.
  Operation *op = nullptr;
};

/// The newest of the instructions of `module` that are younger than PTX 7.0.
/// Only inline assembly is searched: intrinsics of LLVM are as old as the
/// architectures that have them.
NewestInstruction findNewestInstruction(gpu::GPUModuleOp module);

/// The oldest version of PTX, times 10, that has the architecture `target` and
/// all instructions of `module`, including instructions that LLVM selects only
/// in later versions. Old assemblers and drivers accept it.
int64_t getRequiredPTXVersion(gpu::GPUModuleOp module, llvm::StringRef target);

/// Why kernels of `target`, if it has kernels, cannot use the PTX version
/// `version`, times 10. Checked first, because LLVM ignores versions that it
/// does not have, and aborts if a version is too old for an architecture.
std::optional<std::string> checkPTXVersion(llvm::StringRef target,
                                           int64_t version);

} // namespace mlir::attn

#endif // ATTN_TARGET_PTXVERSION_H
