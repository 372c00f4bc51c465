//===- RandomModule.h - Small modules with attention ------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes a module of one function with one operation: attention, its gradient
// or a matmul, with random types, sizes, masks and regions.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_FUZZ_RANDOMMODULE_H
#define ATTN_TEST_FUZZ_RANDOMMODULE_H

#include "RandomChoices.h"

#include <string>

namespace mlir::attn::fuzz {

/// The text of a module.
std::string writeRandomModule(RandomChoices &random);

} // namespace mlir::attn::fuzz

#endif // ATTN_TEST_FUZZ_RANDOMMODULE_H
