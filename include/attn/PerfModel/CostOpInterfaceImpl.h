//===- CostOpInterfaceImpl.h - Work of attention and linalg --*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// External models of `CostOpInterface` for attn, linalg and tensor operations.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PERFMODEL_COSTOPINTERFACEIMPL_H
#define ATTN_PERFMODEL_COSTOPINTERFACEIMPL_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace mlir::attn {

void registerCostOpInterfaceExternalModels(DialectRegistry &registry);

} // namespace mlir::attn

#endif // ATTN_PERFMODEL_COSTOPINTERFACEIMPL_H
