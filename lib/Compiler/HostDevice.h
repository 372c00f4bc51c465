//===- HostDevice.h - The host as a device --------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Describes the target processor to the cost model.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_COMPILER_HOSTDEVICE_H
#define ATTN_LIB_COMPILER_HOSTDEVICE_H

#include "attn/Target/HostObject.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::attn {

/// Sets the device of `module`, if it has none, to a host with the vector
/// registers of the processor of `options`. If that is the native one, the
/// device also gets its cores and caches.
void describeHost(ModuleOp module, const HostObjectOptions &options);

} // namespace mlir::attn

#endif // ATTN_LIB_COMPILER_HOSTDEVICE_H
