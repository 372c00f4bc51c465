//===- LoopChains.h - Consecutive loops over one range ----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Peeling cuts a loop over key tiles into consecutive loops. Passes that
// pipeline steps treat such a chain as one loop.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTNTILE_TRANSFORMS_LOOPCHAINS_H
#define ATTN_LIB_DIALECT_ATTNTILE_TRANSFORMS_LOOPCHAINS_H

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::attn_tile {

/// The loop that continues the values and the range of `loop`, if any.
scf::ForOp getNextLoop(scf::ForOp loop);

/// Whether `loop` continues another loop.
bool hasPreviousLoop(scf::ForOp loop);

/// Adds `op` and the operations in `block` on which it depends, in order, to
/// `slice`. Values defined elsewhere and arguments of the block are added to
/// `inputs`.
void collectSlice(Operation *op, Block *block,
                  llvm::SetVector<Operation *> &slice,
                  llvm::SetVector<Value> &inputs);

/// Puts `loop` into a conditional, so that it makes at least one step.
void guardSteps(RewriterBase &rewriter, scf::ForOp loop);

} // namespace mlir::attn_tile

#endif // ATTN_LIB_DIALECT_ATTNTILE_TRANSFORMS_LOOPCHAINS_H
