//===- Passes.h - Passes that write machine code ----------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Constructors and registration.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TARGET_PASSES_H
#define ATTN_TARGET_PASSES_H

#include "attn/Support/PassOptions.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::attn {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "attn/Target/Passes.h.inc"

} // namespace mlir::attn

#endif // ATTN_TARGET_PASSES_H
