//===- TransposeValues.h - Values with contiguous positions -----*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tensor cores multiply 8-bit elements along contiguous contracted elements.
// The contracted dimension of PV is the position of a key.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_TRANSPOSEVALUES_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_TRANSPOSEVALUES_H

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"

namespace mlir::attn {

/// Writes the kernel that transposes the 8-bit values of `op`, `[B, Hv, Skv,
/// Dv]`, and its launch before `op`. Returns a buffer `[B, Hv, Dv, S]`, which
/// the caller frees, with zeros from position `Skv` on. Positions are in the
/// order of the left-hand side of an MMA (`#attn_tile.wgmma`).
Value transposeValues(RewriterBase &rewriter, AttentionOpInterface op,
                      SymbolTable &symbols);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_TRANSPOSEVALUES_H
