//===- FuseOverlap.h - One kernel for a product and a mask ------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels of products whose idle warps make decisions of dropout.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_FUSEOVERLAP_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_FUSEOVERLAP_H

#include "attn/Conversion/AttnToAttnTile/AttnToAttnTile.h"

namespace mlir::attn {

/// Replaces `op`, if it is to be one kernel and can be, by the launch of that.
/// Else a remark says why not, and `op` is as it was. On failure a diagnostic
/// has been emitted.
LogicalResult fuseOverlap(RewriterBase &rewriter, OverlapOp op,
                          SymbolTable &symbols);

/// As `lowerMatmulToKernel`, for a kernel that makes the decisions of `mask`,
/// if there is one, as well, which it replaces.
FailureOr<attn_tile::KernelOp> lowerMatmulToKernel(RewriterBase &rewriter,
                                                   MatmulOp op,
                                                   DropoutMaskOp mask,
                                                   SymbolTable &symbols);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_FUSEOVERLAP_H
