//===- InitAllPasses.h - Registration of passes -----------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The call with which an embedder registers all passes of the project.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_INITALLPASSES_H
#define ATTN_INITALLPASSES_H

namespace mlir::attn {

/// Makes the passes of the project known to textual pipelines.
void registerAllPasses();

} // namespace mlir::attn

#endif // ATTN_INITALLPASSES_H
