//===- KeepMaskLayout.h - Keep masks packed into words ---------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The position of a pair's bit in a dropout keep mask, whose words docs/rng.md
// defines.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_KEEPMASKLAYOUT_H
#define ATTN_DIALECT_ATTN_IR_KEEPMASKLAYOUT_H

#include "mlir/IR/Builders.h"

namespace mlir::attn {

/// The word of a pair, and the bit of it: `i32` values, or vectors of them.
struct KeepBitPlace {
  Value queryWord, keyWord, bit;
};

/// Emits the word and bit of query `query` and key `key`.
KeepBitPlace emitKeepBitPlace(OpBuilder &builder, Location loc, Value query,
                              Value key);

/// The query and the key of a keep mask bit.
struct KeepBitPair {
  Value query, key;
};

/// Emits the pair whose bit is at `place`.
KeepBitPair emitKeepBitPair(OpBuilder &builder, Location loc,
                            KeepBitPlace place);

/// Emits the sizes of a keep mask of `queries` queries and `keys` keys in the
/// layout `rows`.
SmallVector<OpFoldResult>
emitKeepMaskSizes(OpBuilder &builder, Location loc, OpFoldResult batch,
                  OpFoldResult heads, OpFoldResult queries, OpFoldResult keys);

/// Emits bit `bit` of `word`: an `i1`, or a vector of them.
Value emitKeepBit(OpBuilder &builder, Location loc, Value word, Value bit);

} // namespace mlir::attn

#endif // ATTN_DIALECT_ATTN_IR_KEEPMASKLAYOUT_H
