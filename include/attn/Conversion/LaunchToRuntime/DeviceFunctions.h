//===- DeviceFunctions.h - Functions of memory of the device ----*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which functions of the host handle memory of the device, and what they must
// not do with it.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_CONVERSION_LAUNCHTORUNTIME_DEVICEFUNCTIONS_H
#define ATTN_CONVERSION_LAUNCHTORUNTIME_DEVICEFUNCTIONS_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::attn {

/// The functions whose memrefs are memory of the device: those that launch,
/// that are entries of the artifact, or that call one of them.
llvm::SetVector<Operation *> findDeviceFunctions(ModuleOp module);

/// Checks that `functions`, which `findDeviceFunctions` has found, have no
/// memref that lies in the memory of the host: that of a constant tensor.
LogicalResult verifyDeviceMemory(const llvm::SetVector<Operation *> &functions);

} // namespace mlir::attn

#endif // ATTN_CONVERSION_LAUNCHTORUNTIME_DEVICEFUNCTIONS_H
