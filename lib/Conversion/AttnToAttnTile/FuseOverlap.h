//===- FuseOverlap.h - One kernel for a matmul and a mask ------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// GEMM kernels whose auxiliary warps generate dropout keep masks.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_FUSEOVERLAP_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_FUSEOVERLAP_H

#include "attn/Conversion/AttnToAttnTile/AttnToAttnTile.h"

namespace mlir::attn {

/// Replaces a fused overlap `op` by one launch, if possible. Otherwise a remark
/// says why not, and `op` stays as it is. Fails after emitting a diagnostic.
LogicalResult fuseOverlap(RewriterBase &rewriter, OverlapOp op,
                          SymbolTable &symbols);

/// Like `lowerMatmulToKernel`, for a kernel that also generates the keep mask
/// of `mask`, if not null, and replaces it.
FailureOr<attn_tile::KernelOp> lowerMatmulToKernel(RewriterBase &rewriter,
                                                   MatmulOp op,
                                                   DropoutMaskOp mask,
                                                   SymbolTable &symbols);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_FUSEOVERLAP_H
