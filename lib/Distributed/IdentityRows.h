//===- IdentityRows.h - Identity of attention as rows -----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where queries and keys are equally many, the identity of a query is the value
// of the same row, which is on the same rank.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DISTRIBUTED_IDENTITYROWS_H
#define ATTN_LIB_DISTRIBUTED_IDENTITYROWS_H

#include "RingSchedule.h"
#include "attn/Dialect/Attn/IR/AttnInterfaces.h"
#include "mlir/IR/PatternMatch.h"

#include <string>

namespace mlir::attn {

/// Whether `op`, attention or its gradient, has `identity` that operations on
/// rows can compute.
bool hasIdentityOfRows(AttentionOpInterface op);

/// Why ranks that have positions by `placement` cannot have the `identity` of
/// `op`; empty if they can, or if there is none.
std::string whyNotIdentity(AttentionOpInterface op, ChunkPlacement placement);

/// Writes `op` as an operation without `identity` and operations on rows.
void decomposeIdentity(RewriterBase &rewriter, AttentionOpInterface op);

} // namespace mlir::attn

#endif // ATTN_LIB_DISTRIBUTED_IDENTITYROWS_H
