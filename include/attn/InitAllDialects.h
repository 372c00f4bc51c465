//===- InitAllDialects.h - Registration of dialects -------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The call with which an embedder registers all dialects of the project.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_INITALLDIALECTS_H
#define ATTN_INITALLDIALECTS_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace mlir::attn {

/// Adds the dialects of the project, and what they promise, to `registry`.
void registerAllDialects(DialectRegistry &registry);

} // namespace mlir::attn

#endif // ATTN_INITALLDIALECTS_H
