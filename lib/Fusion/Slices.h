//===- Slices.h - Sizes of slices -------------------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Whether slices of tensors are whole, also where sizes are dynamic.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_FUSION_SLICES_H
#define ATTN_LIB_FUSION_SLICES_H

#include "mlir/Interfaces/ViewLikeInterface.h"

namespace mlir::attn {

/// Whether `size` is all of dimension `dim` of `tensor`, as far as the
/// operations that define the tensor tell its sizes.
bool isWholeDim(Value tensor, int64_t dim, OpFoldResult size);

/// Whether the dimensions of a slice of `tensor` that have dynamic sizes are
/// whole. Types do not tell: two dynamic sizes may differ.
bool hasWholeDynamicDims(OffsetSizeAndStrideOpInterface slice, Value tensor);

} // namespace mlir::attn

#endif // ATTN_LIB_FUSION_SLICES_H
