//===- RuntimeCalls.h - Calls of the runtime library -----------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Builds declarations, calls and constants that follow attn_runtime.h.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_CONVERSION_LAUNCHTORUNTIME_RUNTIMECALLS_H
#define ATTN_CONVERSION_LAUNCHTORUNTIME_RUNTIMECALLS_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

#include <optional>

namespace mlir::attn {

/// Prefix of the runtime library's functions that compiled code calls. All of
/// them return a status.
inline constexpr llvm::StringLiteral runtimeFunctionPrefix = "attnrt";

/// Prefix of the functions that use the communicator of the thread.
inline constexpr llvm::StringLiteral commFunctionPrefix = "attnrtComm";

/// The `attn_dtype` of an element type, if the runtime supports it.
std::optional<int32_t> getRuntimeDType(Type type);

/// Emits a call of the runtime function `name`, which returns a status, and
/// declares it in `module` if need be. Returns the status, an `i32`.
Value emitRuntimeCall(OpBuilder &builder, Location loc, ModuleOp module,
                      StringRef name, ValueRange arguments);

/// Emits a memref with the identity layout whose elements begin at `data`.
/// `sizes` has an `i64` for each dimension.
Value emitMemRef(OpBuilder &builder, Location loc, MemRefType type, Value data,
                 ArrayRef<Value> sizes);

/// A memref that the runtime gives, and the status of asking for it.
struct RuntimeMemRef {
  Value status;
  Value memref;
};

/// Emits the error flag, of type `type`, to which kernels on `deviceKind`
/// report faults. `entry` is the first block of the function, where stack
/// memory is allocated.
RuntimeMemRef emitErrorFlag(OpBuilder &builder, Location loc, ModuleOp module,
                            MemRefType type, int32_t deviceKind, Block *entry);

/// Adds a private constant with the bytes of `text` and a terminating zero.
LLVM::GlobalOp createStringConstant(OpBuilder &builder, Location loc,
                                    StringRef name, StringRef text);

/// Starts a global with linkage `linkage` whose initial value is `type` built
/// from the fields that `emitFields` returns.
LLVM::GlobalOp createStructGlobal(
    OpBuilder &builder, Location loc, StringRef name, LLVM::LLVMStructType type,
    bool isConstant, LLVM::Linkage linkage,
    function_ref<SmallVector<Value>(OpBuilder &, Location)> emitFields);

/// Emits an integer constant of `type`.
Value emitIntConstant(OpBuilder &builder, Location loc, Type type,
                      int64_t value);

} // namespace mlir::attn

#endif // ATTN_CONVERSION_LAUNCHTORUNTIME_RUNTIMECALLS_H
