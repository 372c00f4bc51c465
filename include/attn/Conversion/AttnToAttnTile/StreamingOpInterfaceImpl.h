//===- StreamingOpInterfaceImpl.h - Online softmax --------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Registration of the external models of StreamingOpInterface and
// StreamingGradOpInterface.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_CONVERSION_ATTNTOATTNTILE_STREAMINGOPINTERFACEIMPL_H
#define ATTN_CONVERSION_ATTNTOATTNTILE_STREAMINGOPINTERFACEIMPL_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace mlir::attn {

void registerStreamingOpInterfaceExternalModels(DialectRegistry &registry);
void registerStreamingGradOpInterfaceExternalModels(DialectRegistry &registry);

} // namespace mlir::attn

#endif // ATTN_CONVERSION_ATTNTOATTNTILE_STREAMINGOPINTERFACEIMPL_H
