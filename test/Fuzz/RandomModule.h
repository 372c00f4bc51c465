//===- RandomModule.h - Small modules with attention ------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes a module of one function with one operation: attention, its gradient
// or a matmul, with random types, sizes, masks and regions. Operands of
// attention may be parts of tensors, and its results parts of others.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_FUZZ_RANDOMMODULE_H
#define ATTN_TEST_FUZZ_RANDOMMODULE_H

#include "RandomChoices.h"

#include <string>

namespace mlir::attn::fuzz {

/// What modules are for.
struct ModuleOptions {
  /// Whether tensor cores must accept the sizes, and the target chooses the
  /// schedules. Otherwise they are for the host.
  bool isForGPU = false;
  /// The largest number of queries and of keys.
  int64_t largestLength = 40;
};

/// The text of a module.
std::string writeRandomModule(RandomChoices &random,
                              const ModuleOptions &options = {});

} // namespace mlir::attn::fuzz

#endif // ATTN_TEST_FUZZ_RANDOMMODULE_H
