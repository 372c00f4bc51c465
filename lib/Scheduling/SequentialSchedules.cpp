//===- SequentialSchedules.cpp - Tasks of cores of the host ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Schedules of kernels that compute one work item in a thread of the host.
//
//===----------------------------------------------------------------------===//

#include "ScheduleCandidates.h"
#include "attn/Dialect/AttnTile/IR/AttnTileParameters.h"
#include "attn/Dialect/AttnTile/IR/RegisterBlocks.h"
#include "attn/Dialect/AttnTile/IR/SplitKV.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::attn;
using attn_tile::headDimStep;

namespace {
/// Tasks of one core, with tiles on the stack of its thread.
class SequentialSchedules {
public:
  SequentialSchedules(AttentionOpInterface op, const DeviceModel &device);

  SmallVector<ScheduleCandidate> getAll();

private:
  /// Adds tiles with up to `mostRows` rows; only tiles of all rows if there are
  /// no more than a few.
  void addTiles(int64_t mostRows, int64_t splitKVWorkItems, bool packsGqa);

  AttentionOpInterface op;
  const DeviceModel &device;
  SmallVector<ScheduleCandidate> all;
};
} // namespace

/// Rows and columns of a tile of a schedule of the host, at most.
static constexpr int64_t maxHostTile = 256;

SequentialSchedules::SequentialSchedules(AttentionOpInterface op,
                                         const DeviceModel &device)
    : op(op), device(device) {}

void SequentialSchedules::addTiles(int64_t mostRows, int64_t splitKVWorkItems,
                                   bool packsGqa) {
  // A row of scores is computed by code without loops, which grows with its
  // vectors. Tiles of f32 take a quarter of the usual stack of a thread.
  constexpr int64_t maxVectors = 16, minKeyTile = 16;
  constexpr int64_t stackBytes = 2 * 1024 * 1024;
  // Smaller tiles are for few rows only.
  constexpr int64_t minQueryTile = 16;
  constexpr int64_t elementBytes = 4;
  int64_t lanes = attn_tile::getVectorRegisters(device.registers).lanes;
  int64_t headDimSum = llvm::alignTo(op.getQKHeadDim(), headDimStep) +
                       llvm::alignTo(op.getVHeadDim(), headDimStep);
  auto rows = int64_t(llvm::PowerOf2Ceil(std::min(mostRows, maxHostTile)));
  // A word of a keep mask is for as many queries as keys.
  if (op.hasDropout())
    rows = std::max<int64_t>(rows, DropoutAttr::keysOfWord);
  // Gradients have tiles of their inputs and of their results.
  int64_t copies =
      isa<attn_tile::StreamingGradOpInterface>(op.getOperation()) ? 2 : 1;
  for (int64_t queryTile = std::min(rows, minQueryTile); queryTile <= rows;
       queryTile *= 2)
    for (int64_t keyTile = minKeyTile;
         keyTile <=
         std::min(std::max(maxVectors * lanes, minKeyTile), maxHostTile);
         keyTile *= 2) {
      int64_t elements = copies * (headDimSum * (queryTile + keyTile) +
                                   2 * queryTile * keyTile);
      bool isSmallest = keyTile == minKeyTile && queryTile <= minQueryTile;
      if (!isSmallest && elementBytes * elements > stackBytes)
        continue;
      attn_tile::SequentialParameters parameters;
      parameters.queryTile = queryTile;
      parameters.keyTile = keyTile;
      parameters.splitKvWorkItems = splitKVWorkItems;
      parameters.packGqa = packsGqa;
      all.push_back({makeSchedule(op.getContext(), parameters), keyTile,
                     /*preloadsQueries=*/false, "what a row unrolls to"});
    }
}

SmallVector<ScheduleCandidate> SequentialSchedules::getAll() {
  int64_t queries = getDimSize(op.getQuery(), 2);
  bool isKnown =
      !op.getAddressing().isListed() && !ShapedType::isDynamic(queries);
  int64_t mostRows = isKnown ? std::max<int64_t>(queries, 1) : maxHostTile;
  addTiles(mostRows, /*splitKVWorkItems=*/0, /*packsGqa=*/false);
  auto attention = dyn_cast<AttentionOp>(op.getOperation());
  if (!attention)
    return all;
  // One query for each head: the query heads of a GQA group are rows of one
  // tile.
  if (op.getGroupSize() > 1 && !whyNotReshapeGqa(attention))
    addTiles(op.getGroupSize(), /*splitKVWorkItems=*/0, /*packsGqa=*/true);
  // Where cores would be idle, they split the keys.
  if (device.sms == 1 || whyNotSplitKV(attention))
    return all;
  OpChain chain(op.getOperation());
  for (ScheduleCandidate candidate : SmallVector<ScheduleCandidate>(all)) {
    std::optional<int64_t> items =
        countWorkItems(attention, chain, candidate.schedule);
    if (!items || 2 * *items > device.sms)
      continue;
    candidate.schedule = splitKV(attention, candidate.schedule, device.sms);
    all.push_back(std::move(candidate));
  }
  return all;
}

namespace {
struct SequentialFamily : ScheduleFamily {
  std::optional<TileCapacities>
  getTileCapacities(const DeviceFigures &) const override {
    return std::nullopt;
  }
  const TypicalSizes &getTypicalSizes() const override { return hostSizes; }
  bool isModelled(AttentionOp) const override { return true; }
  SmallVector<ScheduleCandidate>
  getCandidates(AttentionOp op, const DeviceModel &device) const override {
    return SequentialSchedules(cast<AttentionOpInterface>(op.getOperation()),
                               device)
        .getAll();
  }
  SmallVector<ScheduleCandidate> getLargest(AttentionOp, const DeviceModel &,
                                            int64_t &) const override {
    return {};
  }
  std::optional<ScheduleChoice>
  chooseGradient(attn_tile::StreamingGradOpInterface op,
                 const DeviceModel &device, int64_t) const override {
    return chooseByModel(op, SequentialSchedules(op, device).getAll(),
                         hostSizes, device);
  }
  ScheduleAttrInterface getStreaming(AttentionOpInterface op,
                                     const DeviceModel &device) const override {
    return SequentialSchedules(op, device).getAll().back().schedule;
  }
  ScheduleAttrInterface getMatmul(MatmulOp op,
                                  const DeviceModel &) const override {
    attn_tile::MatmulSequentialParameters parameters;
    parameters.rowTile = 16;
    parameters.columnTile = 64;
    parameters.depthTile = 64;
    return makeSchedule(op.getContext(), parameters);
  }
  ScheduleAttrInterface getMap(MapHeadsOp op,
                               const DeviceModel &device) const override;
  ScheduleAttrInterface getLinear(LinearAttentionOp op,
                                  const DeviceModel &) const override {
    return getScalar(op->getContext());
  }
  ScheduleAttrInterface getLinear(LinearAttentionGradOp op,
                                  const DeviceModel &) const override {
    return getScalar(op->getContext());
  }
  ScheduleAttrInterface getScalar(MLIRContext *context) const override {
    attn_tile::SequentialParameters parameters;
    parameters.queryTile = 1;
    parameters.keyTile = 8;
    return makeSchedule(context, parameters).getPreparation();
  }
  ScheduleAttrInterface getMoveRows(MLIRContext *context) const override {
    // LLVM passes 16-bit floats between blocks as f32, which changes some
    // values: loads and stores are in one block.
    attn_tile::MoveRowsParameters parameters;
    parameters.chunks = 1024;
    parameters.threads = 1;
    return makeSchedule(context, parameters);
  }
};
} // namespace

ScheduleAttrInterface
SequentialFamily::getMap(MapHeadsOp op, const DeviceModel &device) const {
  // The rows that are read and the rows made of them stay in the L1 cache.
  constexpr int64_t elementBytes = 4, tiles = 2, minKeyTile = 16;
  int64_t headDim = cast<ShapedType>(op.getIn().getType()).getShape().back();
  int64_t rows = std::clamp<int64_t>(
      device.sharedBytes / (tiles * elementBytes * headDim), 1, maxHostTile);
  attn_tile::SequentialParameters parameters;
  parameters.queryTile = int64_t(llvm::bit_floor(uint64_t(rows)));
  parameters.keyTile = minKeyTile;
  return makeSchedule(op.getContext(), parameters);
}

const ScheduleFamily &attn::getSequentialFamily() {
  static const SequentialFamily family;
  return family;
}
