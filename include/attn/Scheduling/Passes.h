//===- Passes.h - Choice of schedules ---------------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Constructors and registration: passes that choose schedules, and the report
// on their costs.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_SCHEDULING_PASSES_H
#define ATTN_SCHEDULING_PASSES_H

#include "attn/Support/PassOptions.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::attn {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "attn/Scheduling/Passes.h.inc"

} // namespace mlir::attn

#endif // ATTN_SCHEDULING_PASSES_H
