//===- DeviceFunctions.h - Host functions on device memory ------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds the host functions that handle device memory and checks their memrefs.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_CONVERSION_LAUNCHTORUNTIME_DEVICEFUNCTIONS_H
#define ATTN_CONVERSION_LAUNCHTORUNTIME_DEVICEFUNCTIONS_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::attn {

/// The functions whose memrefs are device memory: functions that launch kernels
/// or are entries of the artifact, and their callers.
llvm::SetVector<Operation *> findDeviceFunctions(ModuleOp module);

/// Checks that `functions`, the result of `findDeviceFunctions`, use no memref
/// of a constant tensor, which is in host memory.
LogicalResult verifyDeviceMemory(const llvm::SetVector<Operation *> &functions);

} // namespace mlir::attn

#endif // ATTN_CONVERSION_LAUNCHTORUNTIME_DEVICEFUNCTIONS_H
