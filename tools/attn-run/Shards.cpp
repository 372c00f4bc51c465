//===- Shards.cpp - Parts of arguments ------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Copies chunks of positions between tensors of the whole and of ranks.
//
//===----------------------------------------------------------------------===//

#include "Shards.h"

#include <cstring>

using namespace attnrt;

/// Positions are the third dimension of all tensors that have them, as
/// attn-shard-attention distributes them.
static constexpr int32_t sequenceDim = 2;

int32_t attnrt::findShardedDims(const attn_function &whole,
                                const attn_function &ofRank,
                                const Placement &placement,
                                std::vector<ShardedDim> &dims) {
  dims.assign(whole.num_args, std::nullopt);
  for (int32_t arg = 0; arg < whole.num_args; ++arg) {
    const attn_tensor_spec &spec = whole.args[arg];
    bool isSame = whole.num_args == ofRank.num_args &&
                  spec.rank == ofRank.args[arg].rank &&
                  spec.dtype == ofRank.args[arg].dtype &&
                  ATTN_IS_OUTPUT(spec) == ATTN_IS_OUTPUT(ofRank.args[arg]);
    if (!isSame)
      return attnrtSetError(ATTN_INTERNAL,
                            "--ranks: argument '%s' of function '%s' is "
                            "another one in the function of a rank",
                            spec.name, whole.name);
    if (spec.rank <= sequenceDim)
      continue;
    int64_t size = spec.dims[sequenceDim],
            part = ofRank.args[arg].dims[sequenceDim];
    // A name of a size does not tell whether it is the size of a part.
    if (size < 0)
      return attnrtSetError(ATTN_UNSUPPORTED,
                            "--ranks: dimension %d of argument '%s' of "
                            "function '%s' is dynamic, expected a static size",
                            sequenceDim, spec.name, whole.name);
    if (size == part * placement.getNumRanks() && size != part)
      dims[arg] = sequenceDim;
  }
  return ATTN_OK;
}

std::vector<int64_t> attnrt::getShardShape(std::vector<int64_t> shape,
                                           ShardedDim dim,
                                           const Placement &placement) {
  if (dim)
    shape[*dim] /= placement.getNumRanks();
  return shape;
}

/// Calls `copy(offset in the whole, offset in the shard, elements)` for pieces
/// that are contiguous in both.
template <typename Copy>
static void forEachPiece(const HostTensor &whole, const HostTensor &shard,
                         ShardedDim dim, const Placement &placement,
                         int32_t rank, Copy copy) {
  if (!dim)
    return copy(0, 0, shard.getNumElements());
  const std::vector<int64_t> &shape = shard.getShape();
  int64_t chunkLength = shape[*dim] / placement.getChunksPerRank();
  // The last dimension is contiguous in memory, in any layout.
  auto last = static_cast<int32_t>(shape.size()) - 1;
  bool isLast = *dim == last;
  int64_t rowLength = shape[last];
  if (isLast)
    rowLength = placement.getRunLength(chunkLength);
  int64_t numRows = rowLength ? shard.getNumElements() / rowLength : 0;
  for (int64_t row = 0; row < numRows; ++row) {
    int64_t rest = row * rowLength, from = 0, to = 0;
    for (int32_t d = last; d >= 0; --d) {
      int64_t position = rest % shape[d];
      rest /= shape[d];
      to += position * shard.getStrides()[d];
      if (d == *dim)
        position = placement.getPosition(rank, position, chunkLength);
      from += position * whole.getStrides()[d];
    }
    copy(from, to, rowLength);
  }
}

void attnrt::cutShard(const HostTensor &whole, ShardedDim dim,
                      const Placement &placement, int32_t rank,
                      HostTensor &shard) {
  int64_t width = attnDTypeSize(whole.getDType());
  const auto *source = static_cast<const char *>(whole.getData());
  auto *target = static_cast<char *>(shard.getData());
  forEachPiece(whole, shard, dim, placement, rank,
               [&](int64_t from, int64_t to, int64_t count) {
                 memcpy(target + to * width, source + from * width,
                        static_cast<size_t>(count * width));
               });
}

void attnrt::joinShard(const HostTensor &shard, ShardedDim dim,
                       const Placement &placement, int32_t rank,
                       HostTensor &whole) {
  int64_t width = attnDTypeSize(whole.getDType());
  const auto *source = static_cast<const char *>(shard.getData());
  auto *target = static_cast<char *>(whole.getData());
  forEachPiece(whole, shard, dim, placement, rank,
               [&](int64_t to, int64_t from, int64_t count) {
                 memcpy(target + to * width, source + from * width,
                        static_cast<size_t>(count * width));
               });
}
