//===- InitAllDialects.h - Registration of dialects -------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The calls with which an embedder registers dialects.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_INITALLDIALECTS_H
#define ATTN_INITALLDIALECTS_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace mlir::attn {

/// Adds the dialects of the project, and their promised interfaces, to
/// `registry`.
void registerAllDialects(DialectRegistry &registry);

/// Adds all that the compiler uses: dialects of the project and of MLIR, with
/// their interfaces and translations.
void registerCompilerDialects(DialectRegistry &registry);

} // namespace mlir::attn

#endif // ATTN_INITALLDIALECTS_H
