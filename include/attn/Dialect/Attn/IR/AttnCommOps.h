//===- AttnCommOps.h - Communication of ranks -------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_ATTNCOMMOPS_H
#define ATTN_DIALECT_ATTN_IR_ATTNCOMMOPS_H

#include "attn/Dialect/Attn/IR/AttnOps.h"

namespace mlir::attn {

/// In place of a rank: nothing is sent, or nothing is received.
inline constexpr int64_t kNoRank = -1;

/// Operations by which ranks communicate.
template <typename ConcreteType>
class Communicates : public OpTrait::TraitBase<ConcreteType, Communicates> {};

} // namespace mlir::attn

#define GET_OP_CLASSES
#include "attn/Dialect/Attn/IR/AttnCommOps.h.inc"

#endif // ATTN_DIALECT_ATTN_IR_ATTNCOMMOPS_H
