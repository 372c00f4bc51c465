//===- BoundedReads.h - Reads that stay within their memrefs ----*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads of regions that never go out of bounds: an index outside of its memref
// becomes the last one, and an empty memref reads as zero.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_ANALYSIS_BOUNDEDREADS_H
#define ATTN_ANALYSIS_BOUNDEDREADS_H

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::attn {

/// The last index of a dimension; zero if it is empty.
Value getLastIndex(OpBuilder &builder, Location loc, Value memref, int64_t dim);

/// `index` clamped to the dimension, as an unsigned number: a negative index
/// becomes the last one.
Value boundIndex(OpBuilder &builder, Location loc, Value index, Value memref,
                 int64_t dim);

/// Bounds the indices of reads in `op`, or of `op` itself: all reads, or the
/// reads for which `isMeant` is true. Empty memrefs are still read, at some
/// index. A pattern passes its rewriter, which has to know of the bounds.
void boundReads(OpBuilder &builder, Operation *op,
                function_ref<bool(memref::LoadOp)> isMeant = nullptr);

/// Emits whether `memref` has elements; null if its type says so.
Value emitHasElements(OpBuilder &builder, Location loc, Value memref);

/// An element of `memref`, at indices within it; zero if it is empty.
Value readElement(OpBuilder &builder, Location loc, Value memref,
                  ValueRange indices);

/// Clones an operation of a region with bounded reads, which read zero from
/// empty memrefs. Returns the operation that defines the results.
Operation *cloneBounded(OpBuilder &builder, Operation &op, IRMapping &mapping);

} // namespace mlir::attn

#endif // ATTN_ANALYSIS_BOUNDEDREADS_H
