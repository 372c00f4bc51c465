//===- Net.h - The dialect and the parts of its compiler ------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef NET_H
#define NET_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "NetDialect.h.inc"

#define GET_OP_CLASSES
#include "NetOps.h.inc"

namespace net {

/// Moves the attention of `module` into functions of a new module, in terms of
/// `attn.attention`, and leaves calls of them behind.
mlir::OwningOpRef<mlir::ModuleOp> splitAttention(mlir::ModuleOp module);

/// Writes the functions of `module` as C that includes `header`.
mlir::LogicalResult emitC(mlir::ModuleOp module, llvm::StringRef header,
                          llvm::raw_ostream &os);

} // namespace net

#endif // NET_H
