//===- StreamableOpInterfaceImpl.h - Axes of operations ------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// External models of `StreamableOpInterface` for attn and linalg operations.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PERFMODEL_STREAMABLEOPINTERFACEIMPL_H
#define ATTN_PERFMODEL_STREAMABLEOPINTERFACEIMPL_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace mlir::attn {

void registerStreamableOpInterfaceExternalModels(DialectRegistry &registry);

} // namespace mlir::attn

#endif // ATTN_PERFMODEL_STREAMABLEOPINTERFACEIMPL_H
