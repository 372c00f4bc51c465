//===- FusibleOpInterfaceImpl.h - Fusion with attention ---------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Registration of the models of FusibleOpInterface.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_FUSION_FUSIBLEOPINTERFACEIMPL_H
#define ATTN_FUSION_FUSIBLEOPINTERFACEIMPL_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace mlir::attn {

void registerFusibleOpInterfaceExternalModels(DialectRegistry &registry);

} // namespace mlir::attn

#endif // ATTN_FUSION_FUSIBLEOPINTERFACEIMPL_H
