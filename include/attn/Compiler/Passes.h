//===- Passes.h - Passes of the compiler ----------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Declarations and registration.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_COMPILER_PASSES_H
#define ATTN_COMPILER_PASSES_H

#include "attn/Support/PassOptions.h"

namespace mlir::attn {

#define GEN_PASS_DECL
#include "attn/Compiler/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "attn/Compiler/Passes.h.inc"

} // namespace mlir::attn

#endif // ATTN_COMPILER_PASSES_H
