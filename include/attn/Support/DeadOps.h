//===- DeadOps.h - Erasing unused operations --------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_SUPPORT_DEADOPS_H
#define ATTN_SUPPORT_DEADOPS_H

namespace mlir {
class Block;
} // namespace mlir

namespace mlir::attn {

/// Erases operations of `block`, and of blocks in it, whose results nothing
/// uses.
void eraseDeadOps(Block &block);

} // namespace mlir::attn

#endif // ATTN_SUPPORT_DEADOPS_H
