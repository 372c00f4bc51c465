//===- BusiestSM.h - The SM with the most steps -----------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The work of the SM that gets most of a kernel whose CTAs iterate over work
// items.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PERFMODEL_BUSIESTSM_H
#define ATTN_PERFMODEL_BUSIESTSM_H

#include "attn/Analysis/MaskArea.h"

namespace mlir::attn_tile {

/// The work of one SM.
struct SMWork {
  int64_t steps = 0, masked = 0, workItems = 0;
};

/// The SM with the most steps where `programs` CTAs, or clusters, iterate over
/// work items as `TraversalKind::Persistent` says: over all of `rows` for
/// `combinations` of the other indices, `interleave` of which are visited
/// together, or all for 0. `std::nullopt` without rows, and where rounds are so
/// many that they even out.
std::optional<SMWork> findBusiestSM(ArrayRef<attn::RowCounts> rows,
                                    double combinations, int64_t programs,
                                    int64_t interleave);

} // namespace mlir::attn_tile

#endif // ATTN_PERFMODEL_BUSIESTSM_H
