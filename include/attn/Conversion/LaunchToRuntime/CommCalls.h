//===- CommCalls.h - Calls of communication ---------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Communication on memrefs as calls of the runtime library, for the host and
// for devices.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_CONVERSION_LAUNCHTORUNTIME_COMMCALLS_H
#define ATTN_CONVERSION_LAUNCHTORUNTIME_COMMCALLS_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::attn {

/// Replaces `op`, by which ranks communicate, by a call. It must be in a
/// function, on memrefs. `stream` orders the call on a device; without one,
/// memory is the host's. Returns the status, an `i32`; the builder continues
/// behind the call.
Value convertToCommCall(OpBuilder &builder, ModuleOp module, Operation *op,
                        Value stream = nullptr);

} // namespace mlir::attn

#endif // ATTN_CONVERSION_LAUNCHTORUNTIME_COMMCALLS_H
