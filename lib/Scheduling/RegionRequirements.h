//===- RegionRequirements.h - Needs of regions -----------------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What score_mod and mask_mod regions of an attention need of its kernel.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_SCHEDULING_REGIONREQUIREMENTS_H
#define ATTN_LIB_SCHEDULING_REGIONREQUIREMENTS_H

#include "attn/Scheduling/ForwardSchedules.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace mlir::attn {

/// Consecutive queries and keys for which a mask_mod region reads the same
/// elements; 0 where its reads do not depend on the position.
struct BlockSize {
  int64_t rows = 0, columns = 0;
};

/// Calls `fn` for each read of the score_mod region of an element at the query
/// and the key.
void forEachPairRead(AttentionOpInterface op,
                     function_ref<void(tensor::ExtractOp)> fn);

int64_t getElementBytes(tensor::ExtractOp extract);

/// Bytes that the score_mod region reads for each pair, and that are held for a
/// whole tile: elements of tensors at the query and the key.
int64_t getScoreBytes(AttentionOpInterface op);

/// Whether bulk copies can stage all elements that the score_mod region reads
/// for each pair: one tile of each tensor of floats, at indices that are the
/// same for all pairs of a tile.
bool canStageScores(AttentionOp op);

/// Whether the score_mod region reads elements that differ within a tile.
bool readsElements(AttentionOp op);

/// Whether the score_mod region calls mathematical functions.
bool hasFunction(AttentionOp op);

/// Whether late queries skip keys in the middle, as under windows: then all
/// tiles of queries but a few have the same work.
bool cutsMiddleKeys(MaskAttrInterface mask);

BlockSize getReadBlock(Region &maskMod);

/// Registers of a thread that hold queries computed by a region: four warps
/// share 64 rows.
int64_t getQueryRegisters(AttentionOp op);

/// Registers of a thread for the queries of `op` where the query heads of a key
/// head are rows of a tile: those of several queries do not go through shared
/// memory.
int64_t getPackedQueryRegisters(AttentionOp op);

/// Whether kernels convert keys and values of 8 bits to the type of the query.
bool convertsKeys(AttentionOpInterface op);
/// The registers that conversions of keys and values take.
int64_t getConversionRegisters(AttentionOpInterface op);

/// Whether query heads as rows of tiles of `queryTile` rows make fewer tiles
/// than a tile for each head, of `queries` queries each.
bool paysToPackGqa(AttentionOp op, int64_t queries, int64_t queryTile);

/// `bounds` with the shapes of `op`, the columns of whose values are divided
/// among `numHeadDimTiles` work items.
KeyTileBounds withShapes(KeyTileBounds bounds, AttentionOpInterface op,
                         int64_t numHeadDimTiles = 1);

/// Whether the head dims of `op` are wider than the registers or the shared
/// memory of kernels for whole heads hold.
bool hasWideHeads(AttentionOp op);

/// The fewest work items among which the columns of the values of `op` are
/// divided.
int64_t getMinHeadDimTiles(AttentionOpInterface op);

/// Whether the columns of the values may be divided among `numHeadDimTiles`
/// work items: each of them computes all scores.
bool canDivideHeadDim(AttentionOp op, int64_t numHeadDimTiles);

/// How many tensors `mask_mod` reads at the query or the key itself. Each has
/// addresses of its own.
unsigned countPositionTables(Region &maskMod);

/// Numbers that are computed from reads at keys take a register for each key
/// that a thread has.
bool computesFromKeyReads(Region &maskMod);

bool computesFromPairReads(Region &maskMod);

} // namespace mlir::attn

#endif // ATTN_LIB_SCHEDULING_REGIONREQUIREMENTS_H
