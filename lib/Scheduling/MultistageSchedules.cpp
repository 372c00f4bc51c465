//===- MultistageSchedules.cpp - All warps copy and compute ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Schedules of kernels whose warps all copy tiles ahead and compute.
//
//===----------------------------------------------------------------------===//

#include "GPUScheduleFamily.h"
#include "RegionRequirements.h"
#include "attn/Analysis/ScoreFactor.h"
#include "attn/Dialect/AttnTile/IR/AttnTileParameters.h"
#include "attn/Dialect/AttnTile/IR/SplitKV.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"

#include <tuple>

using namespace mlir;
using namespace mlir::attn;
using attn_tile::warpThreads;

//===----------------------------------------------------------------------===//
// Forward kernels
//===----------------------------------------------------------------------===//

namespace {
/// Four or eight warps that prefetch and compute.
class MultistageSchedules {
public:
  MultistageSchedules(AttentionOp op, const DeviceModel &device);

  SmallVector<ScheduleCandidate> getAll();
  /// The one with the largest tiles.
  std::optional<ScheduleCandidate> getLargest();
  /// Query heads as rows of small tiles, and splits.
  SmallVector<ShortSequenceSchedule> getForShortSequences();

private:
  KeyTileBounds getBounds(int64_t queryTile, int64_t warps);
  ScheduleCandidate makeCandidate(const KeyTileBounds &bounds, int64_t keyTile,
                                  StringRef limit);
  /// The shapes of tiles for heads whose values a work item computes in part.
  SmallVector<ScheduleCandidate> getWide(bool onlyLargest);
  /// The smallest tiles, for wide heads of f32 whose operands need all
  /// registers: some then spill.
  std::optional<ScheduleCandidate> getSmallest();

  AttentionOp op;
  const DeviceModel &device;
  OpChain chain;
  /// Whether a step finds its tile among few ranges, whose ends fit registers
  /// next to the largest tiles.
  bool hasFewRanges;
  /// Work items among which the columns of the values are divided.
  int64_t numHeadDimTiles;
};
} // namespace

MultistageSchedules::MultistageSchedules(AttentionOp op,
                                         const DeviceModel &device)
    : op(op), device(device), chain(op.getOperation()),
      numHeadDimTiles(getMinHeadDimTiles(op)) {
  // Up to three, as for a window or a prefix.
  constexpr size_t maxRangesBesideTiles = 3;
  constexpr int64_t queryTile = 128, keyTile = 128;
  MaskAttrInterface mask =
      op.getMaskReads().empty() ? op.getMaskAttr() : nullptr;
  hasFewRanges = countTileRanges(op, mask, MaskDim::Query, queryTile,
                                 keyTile) <= maxRangesBesideTiles;
}

KeyTileBounds MultistageSchedules::getBounds(int64_t queryTile, int64_t warps) {
  constexpr int64_t maxKeyTile = 128, rowsOfWarp = 32;
  KeyTileBounds bounds = withShapes(KeyTileBounds(), op, numHeadDimTiles);
  bounds.queryTile = queryTile;
  bounds.threads = warpThreads * warps;
  bounds.maxKeyTile = maxKeyTile;
  bounds.sharedBytes = getTileBytes(device);
  // Where there is nothing but a named mask, tiles may be somewhat larger.
  bool isPlain = hasFewRanges && !changesSingleScores(op) &&
                 op.getMaskMod().empty() && op.getQueryRegion().empty() &&
                 op.getEpilogue().empty() && !op.hasDropout() &&
                 !op.readsKeyLengths() && !op.getIdentity() && !op.getSinks() &&
                 !op.getStateOut() && !op.getHeadMap() &&
                 op.getMaskReads().empty();
  bool isF32 = getElementTypeOrSelf(op.getQuery()).isF32();
  int64_t operandRegisters = isF32 ? f32OperandRegisters : 0;
  bool isTall = queryTile / warps >= rowsOfWarp;
  // The second multiplicands of keys and values, and the accumulators of single
  // steps. A warp with 32 rows has no room for them.
  int64_t splitRegisters = 0;
  if (splitsElements(op.getQuery(), op.getPrecision())) {
    splitRegisters = isTall ? tileRegistersFourWarps : 8;
    // Two CTAs of small tiles share an SM and hide the latency of MMAs that
    // wait for one another. Larger tiles were measured to be slower.
    constexpr int64_t keyElements = 4096;
    bounds.maxKeyTile =
        std::max(keyElements / op.getQKHeadDim() / keyTileUnit * keyTileUnit,
                 keyTileUnit);
  }
  // A mask that reads tensors needs registers for their addresses, and lists of
  // tiles for the iteration.
  bool isRead = readsByPosition(op.getMaskMod()) || needsClassification(op);
  int64_t readRegisters = isRead ? 16 : 0;
  if (isTall)
    bounds.registers = tileRegistersFourWarps + (isPlain ? 8 : 0) -
                       operandRegisters - splitRegisters - readRegisters -
                       2 * getQueryRegisters(op);
  else
    bounds.registers = tileRegistersEightWarps + (isPlain ? 4 : 0) -
                       operandRegisters - splitRegisters -
                       (hasFewRanges ? 0 : 32) - getQueryRegisters(op);
  // Without an instruction, conversions take registers for their steps. Larger
  // head dims leave none; kernels without a score_mod do not spill.
  constexpr int64_t maxHeadDim = 128;
  int64_t ofSteps = op.getQKHeadDim() <= maxHeadDim ? 8 : 0;
  bounds.registers += device.extraRegisters - getConversionRegisters(op) -
                      (convertsKeys(op) ? ofSteps : 0);
  return bounds;
}

ScheduleCandidate
MultistageSchedules::makeCandidate(const KeyTileBounds &bounds, int64_t keyTile,
                                   StringRef limit) {
  attn_tile::MultistageParameters parameters;
  parameters.queryTile = bounds.queryTile;
  parameters.keyTile = keyTile;
  parameters.stages = bounds.stages;
  parameters.warps = bounds.threads / warpThreads;
  parameters.headDimTile = bounds.headDimTile;
  return ScheduleCandidate{makeSchedule(op.getContext(), parameters), keyTile,
                           /*preloadsQueries=*/false, limit.str()};
}

SmallVector<ScheduleCandidate> MultistageSchedules::getWide(bool onlyLargest) {
  // Tiles of 32 queries of f32 leave room for keys in shared memory.
  constexpr std::pair<int64_t, int64_t> rowsAndWarps[] = {
      {128, 8}, {64, 4}, {32, 2}};
  // Work items of fewer columns compute the scores more often.
  constexpr int64_t maxDivisions = 2;
  SmallVector<ScheduleCandidate> all;
  int64_t numDivisions = 0;
  for (int64_t count = getMinHeadDimTiles(op);
       canDivideHeadDim(op, count) && numDivisions < maxDivisions; ++count) {
    numHeadDimTiles = count;
    size_t before = all.size();
    for (auto [queryTile, warps] : rowsAndWarps) {
      KeyTileBounds bounds = getBounds(queryTile, warps);
      auto [largest, limit] = getLargestKeyTile(bounds);
      for (int64_t keyTile = onlyLargest ? largest : keyTileUnit;
           keyTile != 0 && keyTile <= largest; keyTile += keyTileUnit)
        all.push_back(makeCandidate(bounds, keyTile, limit));
    }
    numDivisions += all.size() > before;
  }
  return all;
}

SmallVector<ScheduleCandidate> MultistageSchedules::getAll() {
  // The smallest key tiles whose kernels have been measured. Rows of f32 take
  // twice the bytes.
  int64_t minKeyTile =
      getElementTypeOrSelf(op.getQuery()).isF32() ? keyTileUnit : 32;
  // With 128 rows, each of four warps has twice the rows of one of eight, so
  // that its reads of keys and values serve two MMAs.
  constexpr std::pair<int64_t, int64_t> rowsAndWarps[] = {
      {128, 4}, {128, 8}, {64, 4}};
  SmallVector<ScheduleCandidate> all;
  bool isWide = hasWideHeads(op);
  if (isWide)
    all = getWide(/*onlyLargest=*/false);
  else
    for (auto [queryTile, warps] : rowsAndWarps) {
      KeyTileBounds bounds = getBounds(queryTile, warps);
      auto [largest, limit] = getLargestKeyTile(bounds);
      for (int64_t keyTile = minKeyTile; keyTile <= largest;
           keyTile += keyTileUnit)
        all.push_back(makeCandidate(bounds, keyTile, limit));
    }
  if (all.empty() && !isWide)
    if (std::optional<ScheduleCandidate> smallest = getSmallest())
      all.push_back(*smallest);
  if (whyNotSplitKV(op))
    return all;
  // As many work items as two CTAs on each SM have.
  int64_t items = 2 * device.sms;
  for (ScheduleCandidate candidate : SmallVector<ScheduleCandidate>(all)) {
    std::optional<int64_t> whole =
        countWorkItems(op, chain, candidate.schedule);
    if (!whole || 2 * *whole > device.sms)
      continue;
    candidate.schedule = splitKV(op, candidate.schedule, items);
    all.push_back(std::move(candidate));
  }
  // Few queries for each head: the query heads of a GQA group are rows of
  // tiles.
  int64_t queries = getDimSize(op.getQuery(), 2);
  if (op.getGroupSize() == 1 || op.getAddressing().isListed() ||
      whyNotPackGqa(op))
    return all;
  for (ScheduleCandidate candidate : SmallVector<ScheduleCandidate>(all)) {
    attn_tile::MultistageParameters parameters(
        cast<attn_tile::MultistageAttr>(Attribute(candidate.schedule)));
    if (parameters.splitKvWorkItems > 0 ||
        !paysToPackGqa(op, queries, parameters.queryTile))
      continue;
    parameters.splitKvWorkItems = items;
    parameters.packGqa = true;
    parameters.balanceSplits = paysToBalanceSplits(op);
    candidate.schedule = makeSchedule(op.getContext(), parameters);
    all.push_back(std::move(candidate));
  }
  return all;
}

SmallVector<ShortSequenceSchedule> MultistageSchedules::getForShortSequences() {
  constexpr int64_t queryTile = 64;
  if (hasWideHeads(op) || whyNotSplitKV(op) || whyNotPackGqa(op))
    return {};
  KeyTileBounds bounds = getBounds(queryTile, /*warps=*/4);
  auto [keyTile, limit] = getLargestKeyTile(bounds);
  if (keyTile == 0)
    return {};
  ScheduleCandidate candidate = makeCandidate(bounds, keyTile, limit);
  attn_tile::MultistageParameters parameters(
      cast<attn_tile::MultistageAttr>(Attribute(candidate.schedule)));
  parameters.splitKvWorkItems = 2 * device.sms;
  parameters.packGqa = op.getGroupSize() > 1;
  candidate.schedule = makeSchedule(op.getContext(), parameters);
  return {{queryTile, candidate}};
}

std::optional<ScheduleCandidate> MultistageSchedules::getSmallest() {
  constexpr int64_t queryTile = 64, maxRegisters = 255;
  KeyTileBounds bounds = getBounds(queryTile, /*warps=*/4);
  bounds.registers = maxRegisters;
  if (bounds.elementBytes != registerBytes ||
      getLargestKeyTile(bounds).size == 0)
    return std::nullopt;
  return makeCandidate(bounds, keyTileUnit, "registers");
}

std::optional<ScheduleCandidate> MultistageSchedules::getLargest() {
  constexpr int64_t queryTile = 128, minKeyTileFourWarps = 48;
  if (hasWideHeads(op))
    return findMostScores(op, getWide(/*onlyLargest=*/true));
  // Two CTAs of four warps share an SM: one computes while the other waits.
  KeyTileBounds bounds = getBounds(queryTile, /*warps=*/4);
  bounds.sharedBytes = (device.sharedBytes + reservedCtaBytes) / 2 -
                       reservedCtaBytes - barrierBytes;
  LargestTile largest = getLargestKeyTile(bounds);
  if (largest.size < minKeyTileFourWarps) {
    bounds = getBounds(queryTile, /*warps=*/8);
    largest = getLargestKeyTile(bounds);
  }
  if (largest.size == 0) {
    bounds = getBounds(queryTile / 2, /*warps=*/4);
    largest = getLargestKeyTile(bounds);
  }
  if (largest.size == 0)
    return getSmallest();
  return makeCandidate(bounds, largest.size, largest.limit);
}

/// Small tiles: the state of the rows may need more registers than the state of
/// a softmax.
static ScheduleAttrInterface getStreamingSchedule(AttentionOpInterface op,
                                                  const DeviceModel &device) {
  constexpr int64_t queryTile = 64, maxKeyTile = 64, warps = 4;
  KeyTileBounds bounds =
      withShapes(KeyTileBounds(), op, getMinHeadDimTiles(op));
  bounds.queryTile = queryTile;
  bounds.threads = warpThreads * warps;
  bounds.maxKeyTile = maxKeyTile;
  bounds.sharedBytes = getTileBytes(device);
  bounds.registers = tileRegistersEightWarps;
  LargestTile largest = getLargestKeyTile(bounds);
  if (largest.size == 0)
    return nullptr;
  attn_tile::MultistageParameters parameters;
  parameters.queryTile = queryTile;
  parameters.keyTile = largest.size;
  parameters.stages = bounds.stages;
  parameters.warps = warps;
  parameters.headDimTile = bounds.headDimTile;
  return makeSchedule(op.getContext(), parameters);
}

//===----------------------------------------------------------------------===//
// Matmuls
//===----------------------------------------------------------------------===//

/// Each warp has 32 rows, whose accumulator takes 128 registers of a thread,
/// and reads each staged column for two blocks of 16 rows. Two stages let two
/// CTAs share an SM.
static ScheduleAttrInterface getMatmulSchedule(MatmulOp op) {
  constexpr int64_t rowTile = 128, maxColumnTile = 128, warps = 4;
  bool isF32 = getElementTypeOrSelf(op.getLhs()).isF32();
  bool isSplit = splitsElements(op.getLhs(), op.getPrecision());
  // Rows of a stage have 128 bytes.
  int64_t depthTile = isF32 ? 32 : 64;
  int64_t stages = isSplit ? 3 : 2;
  // Elements that an epilogue reads take as many registers as the accumulator,
  // and so do the second multiplicands of f32.
  int64_t maxTile =
      readsMatrix(op) || isSplit ? maxColumnTile / 2 : maxColumnTile;
  attn_tile::MatmulMultistageParameters parameters;
  parameters.rowTile = rowTile;
  parameters.columnTile = getMatmulColumnTile(op, maxTile);
  parameters.depthTile = depthTile;
  parameters.stages = stages;
  parameters.warps = warps;
  return makeSchedule(op.getContext(), parameters);
}

//===----------------------------------------------------------------------===//
// The family
//===----------------------------------------------------------------------===//

namespace {
struct MultistageFamily : GPUScheduleFamily {
  std::optional<TileCapacities>
  getTileCapacities(const DeviceFigures &device) const override {
    return getRegisterTileCapacities(device, tileRegistersEightWarps);
  }
  SmallVector<ScheduleCandidate>
  getCandidates(AttentionOp op, const DeviceModel &device) const override {
    return MultistageSchedules(op, device).getAll();
  }
  SmallVector<ScheduleCandidate> getLargest(AttentionOp op,
                                            const DeviceModel &device,
                                            int64_t &) const override {
    if (std::optional<ScheduleCandidate> largest =
            MultistageSchedules(op, device).getLargest())
      return {*largest};
    return {};
  }
  SmallVector<ShortSequenceSchedule>
  getForShortSequences(AttentionOp op,
                       const DeviceModel &device) const override {
    return MultistageSchedules(op, device).getForShortSequences();
  }
  std::optional<ScheduleChoice>
  chooseGradient(attn_tile::StreamingGradOpInterface op,
                 const DeviceModel &device, int64_t) const override {
    return chooseMultistageGradient(op, device);
  }
  ScheduleAttrInterface getStreaming(AttentionOpInterface op,
                                     const DeviceModel &device) const override {
    return getStreamingSchedule(op, device);
  }
  ScheduleAttrInterface getMatmul(MatmulOp op,
                                  const DeviceModel &) const override {
    return getMatmulSchedule(op);
  }
};
} // namespace

const ScheduleFamily &attn::getMultistageFamily() {
  static const MultistageFamily family;
  return family;
}
