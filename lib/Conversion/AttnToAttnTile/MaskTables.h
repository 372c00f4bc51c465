//===- MaskTables.h - Kernels that make tables of masks ------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernels of operations that compute the tables that masks read.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_MASKTABLES_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_MASKTABLES_H

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"

namespace mlir::attn {

/// Replaces `op`, on memrefs, by the launch of a kernel, or reports why not.
LogicalResult lowerMaskTableToKernel(RewriterBase &rewriter,
                                     MaskTableOpInterface op,
                                     SymbolTable &symbols);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_MASKTABLES_H
