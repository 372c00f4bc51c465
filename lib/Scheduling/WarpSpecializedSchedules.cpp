//===- WarpSpecializedSchedules.cpp - Producers and consumers -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Schedules of kernels with one producer and one to three consumer warpgroups.
//
//===----------------------------------------------------------------------===//

#include "GPUScheduleFamily.h"
#include "RegionRequirements.h"
#include "attn/Analysis/ScoreFactor.h"
#include "attn/Dialect/AttnTile/IR/AttnTileParameters.h"
#include "attn/Dialect/AttnTile/IR/RegisterBlocks.h"
#include "attn/Dialect/AttnTile/IR/SplitKV.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::attn;
using attn_tile::columnBlockBytes;
using attn_tile::warpgroupThreads;

/// Bytes that a copy promotes to L2 at once, for tiles of keys that several
/// CTAs read.
static constexpr int64_t sharedPromotion = 256;

//===----------------------------------------------------------------------===//
// Forward kernels
//===----------------------------------------------------------------------===//

namespace {
/// One producer and two or three consumer warpgroups.
class WarpSpecializedSchedules {
public:
  WarpSpecializedSchedules(AttentionOp op, const DeviceModel &device);

  SmallVector<ScheduleCandidate> getAll();
  /// A schedule for so few queries that reading keys and values takes most of
  /// the time.
  std::optional<ScheduleCandidate> getForFewQueries();
  /// The schedule with the largest tiles. If there is a second one, it is for
  /// at least `bound` queries.
  SmallVector<ScheduleCandidate> getLargest(int64_t &bound);
  /// One consumer for few queries, and two for few queries with chunks of
  /// more; query heads are rows of tiles.
  SmallVector<ShortSequenceSchedule> getForShortSequences();

private:
  /// `packsGqa`: with several queries of several heads as rows of a tile.
  std::optional<ScheduleCandidate>
  getLargest(int64_t consumers, int64_t maxKeyTile, bool packsGqa = false);
  /// The largest tiles of two consumers, or of wide heads.
  std::optional<ScheduleCandidate> getMain(int64_t maxKeyTile);
  /// Candidates for heads that a work item computes as a whole, and for heads
  /// whose values it computes in part.
  SmallVector<ScheduleCandidate> getWhole();
  SmallVector<ScheduleCandidate> getWide(int64_t maxKeyTile);
  /// Adds candidates that split keys where there are few work items.
  void addSplits(SmallVectorImpl<ScheduleCandidate> &all);
  /// For `queries` queries of each sequence or head.
  std::optional<ScheduleCandidate> getForFewQueriesIn(int64_t headDimTiles,
                                                      int64_t queries);
  std::optional<ScheduleCandidate> getForMixedSequences();
  /// Two consumers with columns of their own, where values are the first
  /// elements of keys, for any number of queries or for few.
  std::optional<ScheduleCandidate> getForValuesInKeys(bool areFewQueries);
  /// The same schedule with pipes for tiles that the score_mod reads, and
  /// `plain` where their alignment does not allow it.
  std::optional<ScheduleCandidate> getStaged(KeyTileBounds bounds,
                                             int64_t consumers,
                                             const ScheduleCandidate &plain);
  ScheduleCandidate makeCandidate(KeyTileBounds bounds, int64_t consumers,
                                  int64_t keyTile, StringRef limit);
  /// A schedule with tiles as small as the blocks that a mask keeps.
  std::optional<ScheduleCandidate> getForBlocks();
  int64_t getMaxKeyTile();
  bool canHaveThreeConsumers();
  AttentionOp op;
  const DeviceModel &device;
  OpChain chain;
  bool isMasked, readsMaskMod, isWide;
  /// Work items among which the columns of the values are divided.
  int64_t numHeadDimTiles;
  /// Whether an earlier kernel evaluates the mask to a mask bitmap.
  bool readsBits;
  attn_tile::TraversalKind traversal = attn_tile::TraversalKind::Persistent;
  int64_t interleave = 1;
};
} // namespace

WarpSpecializedSchedules::WarpSpecializedSchedules(AttentionOp op,
                                                   const DeviceModel &device)
    : op(op), device(device), chain(op.getOperation()),
      isMasked(op.getMaskAttr() || !op.getMaskMod().empty()),
      readsMaskMod(readsByPosition(op.getMaskMod()) || needsClassification(op)),
      isWide(hasWideHeads(op)), numHeadDimTiles(getMinHeadDimTiles(op)),
      readsBits(
          canReadMaskBits(cast<AttentionOpInterface>(op.getOperation()))) {
  // Under a mask, long and short work items are paired to equal amounts. That
  // is needless where work items are alike, and where lists give their lengths,
  // by which they are sorted.
  bool isListed = readsMaskMod && !op.readsKeyLengths();
  bool hasUnequalWorkItems =
      isMasked && !isListed && !cutsMiddleKeys(op.getMaskAttr());
  if (hasUnequalWorkItems)
    traversal = attn_tile::TraversalKind::Paired;
  // Work items that need few keys each, at about the same time, may be
  // interleaved over several key heads. Then the few that are longer than most
  // are spread over all CTAs. Sequences are sorted by their work; the order
  // holds over all heads only if all are interleaved
  // (docs/experiments/masked-work-item-order.md, packed-sequences.md).
  constexpr int64_t maskedKeyHeads = 8;
  if (op.getAddressing().isListed())
    interleave = 0;
  else if (isMasked && !hasUnequalWorkItems)
    interleave = maskedKeyHeads * op.getGroupSize();
}

/// The largest key tile up to `keyTile` that is copied in boxes of whole pages,
/// or of this many keys if pages are larger. Otherwise boxes would be as small
/// as the greatest common divisor of tile and page.
static int64_t roundToPages(int64_t keyTile, AttentionOp op) {
  constexpr int64_t maxBoxKeys = 64;
  int64_t pageSize = op.getAddressing().getPageSize();
  if (pageSize == 0)
    return keyTile;
  int64_t box = std::min(pageSize, maxBoxKeys);
  return keyTile < box ? keyTile : keyTile / box * box;
}

std::optional<ScheduleCandidate>
WarpSpecializedSchedules::getLargest(int64_t consumers, int64_t maxKeyTile,
                                     bool packsGqa) {
  KeyTileBounds bounds =
      withShapes(getConsumerBounds(consumers, device), op, numHeadDimTiles);
  bounds.maxKeyTile = maxKeyTile;
  bounds.registers += device.extraRegisters;
  *bounds.launchedRegisters += device.extraRegisters;
  // A mask_mod that reads by position is evaluated beforehand and listed by
  // tiles. Iterating over the list takes registers of the consumers. So do keep
  // masks of dropout together with a score_mod.
  if (readsMaskMod)
    bounds.registers -= 24;
  if (readsMaskMod && !readsBits && countPositionTables(op.getMaskMod()) > 1)
    bounds.registers -= computesFromKeyReads(op.getMaskMod()) ? 32 : 16;
  // Where the device reads the lengths, no kernel before evaluates what the
  // mask computes from its reads of each pair: that takes registers for each
  // key.
  constexpr int64_t maxKeyTilePairs = 64;
  if (readsMaskMod && op.readsKeyLengths() &&
      computesFromPairReads(op.getMaskMod())) {
    bounds.registers -= 24;
    bounds.maxKeyTile = std::min(bounds.maxKeyTile, maxKeyTilePairs);
  }
  if (readsMaskMod && op.hasDropout() && changesSingleScores(op))
    bounds.registers -= 32;
  // Where keep masks are read, dropped probabilities are cleared in the step
  // after (`attn-tile-software-pipeline-kv-loop`), so that P of two steps is
  // live.
  if (op.getDropoutMask())
    bounds.scoreBytes += bounds.elementBytes;
  bounds.registers -=
      (packsGqa ? getPackedQueryRegisters(op) : getQueryRegisters(op)) +
      getConversionRegisters(op);
  // The producer takes registers for table entries (`attn-tile-split-roles`).
  if (op.getAddressing().getPageSize() != 0)
    bounds.registers -= 8;
  KeyTileBounds plainBounds = bounds;
  // Reads of a score_mod need registers for addresses, too.
  if (getScoreBytes(op) > 0)
    plainBounds.registers -= 24;
  // Producers of tiles of 8 bits spill where they look up more pages.
  constexpr int64_t maxConvertedPages = 6;
  if (int64_t pageSize = op.getAddressing().getPageSize();
      pageSize != 0 && convertsKeys(op))
    plainBounds.maxKeyTile =
        std::min(plainBounds.maxKeyTile, maxConvertedPages * pageSize);
  auto [keyTile, limit] = getLargestKeyTile(plainBounds);
  if (keyTile == 0)
    return std::nullopt;
  keyTile = roundToPages(keyTile, op);
  ScheduleCandidate plain =
      makeCandidate(plainBounds, consumers, keyTile, limit);
  if (std::optional<ScheduleCandidate> staged =
          getStaged(bounds, consumers, plain))
    return staged;
  return plain;
}

std::optional<ScheduleCandidate>
WarpSpecializedSchedules::getStaged(KeyTileBounds bounds, int64_t consumers,
                                    const ScheduleCandidate &plain) {
  // Whole blocks of columns; larger tiles have not been measured.
  constexpr int64_t maxKeyTile = 128, scoreStages = 2;
  if (!canStageScores(op) || isWide)
    return std::nullopt;
  forEachPairRead(op, [&](tensor::ExtractOp extract) {
    bounds.stagedScoreBytes.push_back(getElementBytes(extract));
  });
  bounds.scoreStages = scoreStages;
  bounds.maxKeyTile = std::min(bounds.maxKeyTile, maxKeyTile);
  auto [keyTile, limit] = getLargestKeyTile(bounds);
  if (keyTile == 0)
    return std::nullopt;
  ScheduleCandidate staged = makeCandidate(bounds, consumers, keyTile, limit);
  Attribute choice = attn_tile::ByAlignmentAttr::get(
      op.getContext(), staged.schedule, plain.schedule);
  staged.schedule = cast<ScheduleAttrInterface>(choice);
  return staged;
}

ScheduleCandidate WarpSpecializedSchedules::makeCandidate(KeyTileBounds bounds,
                                                          int64_t consumers,
                                                          int64_t keyTile,
                                                          StringRef limit) {
  // The queries of the next work item are loaded early if there is room.
  bounds.queryStages = 2;
  bool preloads = bounds.getSharedBytes(keyTile) <= bounds.sharedBytes;
  // Rescaling is worth skipping. With a small head dim the test takes as long
  // as rescaling, unless rescaling is deferred to the next step. That gains 1
  // to 4 % of the time at head dims 64 to 128 (H200, 2026-11-22,
  // docs/experiments/conditional-rescale.md), but not where it would make the
  // clearing of dropped probabilities two operations. A mask_mod that computes
  // from its reads of each pair leaves no registers for the factors. Pipes for
  // a score_mod have not been measured with deferred rescaling.
  constexpr int64_t minVHeadDimConditional = 192, minVHeadDimDeferred = 64;
  int64_t vHeadDim = op.getVHeadDim();
  bool isConditional = vHeadDim >= minVHeadDimConditional;
  bool clearsCheaply =
      !op.hasDropout() || getElementTypeOrSelf(op.getValue()).isBF16();
  bool isDeferred = !isConditional && vHeadDim >= minVHeadDimDeferred &&
                    clearsCheaply && bounds.scoreStages == 0 &&
                    (readsBits || !computesFromPairReads(op.getMaskMod()));
  attn_tile::WarpSpecializedParameters parameters;
  parameters.queryTile = bounds.queryTile;
  parameters.keyTile = keyTile;
  parameters.stages = bounds.stages;
  parameters.consumers = consumers;
  // Consumers wait for each other where they convert keys and values together.
  parameters.pingPong = consumers > 1 && !bounds.convertedBytes;
  parameters.traversal = traversal;
  parameters.interleave = interleave;
  parameters.conditionalRescale = isConditional || isDeferred;
  parameters.deferredRescale = isDeferred;
  parameters.queryStages = preloads ? 2 : 1;
  parameters.scoreStages = bounds.scoreStages;
  parameters.l2Promotion = sharedPromotion;
  parameters.maskBits = readsBits;
  parameters.headDimTile = bounds.headDimTile;
  parameters.consumerColumns = bounds.stagesKeysAlone;
  return ScheduleCandidate{makeSchedule(op.getContext(), parameters), keyTile,
                           preloads, limit.str()};
}

std::optional<ScheduleCandidate> WarpSpecializedSchedules::getForBlocks() {
  // A tile that is larger than a block is visited once for each block in it.
  // Measured with lists of random blocks of 64 by 64 that keep 1, 10 and 50 %
  // of the pairs: 169, 421 and 432 TFLOP/s instead of 122, 179 and 299 (H200,
  // 2026-11-22, benchmarks/blocks.py).
  // docs/experiments/small-block-sparse-tiles.md has smaller blocks and other
  // tiles; other head dims have not been measured.
  constexpr int64_t keyTile = 64, stages = 4, headDim = 128;
  BlockSize block = getReadBlock(op.getMaskMod());
  if (op.readsKeyLengths() || block.rows != warpgroupRows ||
      block.columns != keyTile || op.getQKHeadDim() != headDim ||
      op.getVHeadDim() != headDim || changesSingleScores(op) || op.hasDropout())
    return std::nullopt;
  KeyTileBounds bounds = withShapes(getConsumerBounds(1, device), op);
  bounds.maxKeyTile = keyTile;
  bounds.stages = stages;
  if (getLargestKeyTile(bounds).size != keyTile)
    return std::nullopt;
  attn_tile::WarpSpecializedParameters parameters;
  parameters.queryTile = bounds.queryTile;
  parameters.keyTile = keyTile;
  parameters.stages = stages;
  parameters.consumers = 1;
  parameters.l2Promotion = sharedPromotion;
  return ScheduleCandidate{makeSchedule(op.getContext(), parameters), keyTile,
                           /*preloadsQueries=*/false, "blocks of the mask"};
}

/// Whether the RNG of dropout has more keys than stay in registers next to
/// large tiles: one key belongs to each wide multiplication. `philox` with 10
/// rounds spills 324 bytes with three consumers, and 132 with key tile 176.
static bool hasManyRngKeys(AttentionOp op) {
  constexpr int64_t most = 14;
  DropoutAttr dropout = op.getDropoutAttr();
  return dropout && dropout.getRng().countBlock().wideMultiply > most;
}

/// Reads in both regions need registers for their addresses. So do the keys of
/// an RNG, and conversions of keys and values.
int64_t WarpSpecializedSchedules::getMaxKeyTile() {
  constexpr int64_t maxKeyTileReads = 80, maxKeyTileCrowded = 128;
  if (hasManyRngKeys(op) || convertsKeys(op))
    return maxKeyTileCrowded;
  return readsMaskMod && readsElements(op) ? maxKeyTileReads : maxKeyTileMma;
}

/// Three consumers have too few registers for the iteration over a list of
/// tiles, for keep masks that are read under a mask, and for RNGs with many
/// keys, and for conversions of keys. They also have too few for a score_mod
/// that reads elements, together with dropout, a mask_mod or a large head dim
/// of the output (6 % slower with 128, docs/experiments/cost-model-gain.md),
/// and for dropout of probabilities in f32, before they become 8 bits.
bool WarpSpecializedSchedules::canHaveThreeConsumers() {
  constexpr int64_t maxVHeadDimReads = 64;
  bool isCrowded = op.hasDropout() || !op.getMaskMod().empty() ||
                   op.getVHeadDim() > maxVHeadDimReads;
  bool dropsF32 =
      op.hasDropout() && isFloat8(getElementTypeOrSelf(op.getQuery()));
  return !isWide && !readsMaskMod && !convertsKeys(op) &&
         !(readsElements(op) && isCrowded) &&
         !(isMasked && op.getDropoutMask()) && !hasManyRngKeys(op) && !dropsF32;
}

/// Whether warps of a consumer have no rows, of which the output of a work item
/// has as many for all work items.
static bool hasEmptyWarps(AttentionOp op, int64_t queries, bool packsGqa) {
  // Several packed queries are stored row by row.
  if (packsGqa && queries != 1)
    return false;
  int64_t rows = packsGqa ? op.getGroupSize() : queries;
  return rows <= warpgroupRows - attn_tile::warpRows;
}

std::optional<ScheduleCandidate>
WarpSpecializedSchedules::getForValuesInKeys(bool areFewQueries) {
  constexpr int64_t consumers = 2, maxKeyTile = 64, streamedPromotion = 128;
  // Columns of a consumer are whole blocks of staged columns.
  constexpr int64_t columnUnit = 64;
  int64_t columns = op.getVHeadDim() / consumers;
  int64_t queries = getDimSize(op.getQuery(), 2);
  Type element = getElementTypeOrSelf(op.getKey());
  if (!isWide || !hasValuesInKeys(op) ||
      !(element.isBF16() || element.isF16()) || convertsKeys(op) ||
      op.getIdentity() || readsBits ||
      op.getVHeadDim() % (consumers * columnUnit) != 0 ||
      columns > attn_tile::maxMmaColumns ||
      (areFewQueries &&
       (op.getAddressing().isListed() || ShapedType::isDynamic(queries) ||
        queries > warpgroupRows)))
    return std::nullopt;
  KeyTileBounds bounds = withShapes(getConsumerBounds(1, device), op);
  bounds.vHeadDim = bounds.headDimTile = columns;
  bounds.stagesKeysAlone = true;
  bounds.maxKeyTile = maxKeyTile;
  bounds.launchedRegisters = attn_tile::getLaunchedRegisters(
      (consumers + 1) * warpgroupThreads, /*ctasPerSm=*/1);
  bool packsGqa = areFewQueries && op.getGroupSize() > 1 &&
                  !whyNotPackGqa(op) &&
                  paysToPackGqa(op, queries, bounds.queryTile);
  bounds.registers -=
      (packsGqa ? getPackedQueryRegisters(op) : getQueryRegisters(op)) +
      (readsMaskMod ? 24 : 0) + (getScoreBytes(op) > 0 ? 24 : 0) +
      (op.getAddressing().getPageSize() != 0 ? 8 : 0);
  auto [keyTile, limit] = getLargestKeyTile(bounds);
  if (keyTile == 0)
    return std::nullopt;
  keyTile = roundToPages(keyTile, op);
  ScheduleCandidate candidate =
      makeCandidate(bounds, consumers, keyTile, limit);
  if (!areFewQueries)
    return candidate;
  bool splits = !whyNotSplitKV(op);
  bool balancesSplits = splits && paysToBalanceSplits(op);
  attn_tile::WarpSpecializedParameters parameters(
      cast<attn_tile::WarpSpecializedAttr>(Attribute(candidate.schedule)));
  parameters.traversal = attn_tile::TraversalKind::Grid;
  parameters.interleave = balancesSplits ? 0 : 1;
  parameters.splitKvWorkItems = splits ? device.sms : 0;
  parameters.packGqa = packsGqa;
  parameters.l2Promotion = streamedPromotion;
  parameters.balanceSplits = balancesSplits;
  parameters.queryStages = 1;
  candidate.schedule = makeSchedule(op.getContext(), parameters);
  return candidate;
}

std::optional<ScheduleCandidate> WarpSpecializedSchedules::getForFewQueries() {
  if (auto candidate = getForValuesInKeys(/*areFewQueries=*/true))
    return candidate;
  int64_t queries = getDimSize(op.getQuery(), 2);
  if (op.getAddressing().isListed() || ShapedType::isDynamic(queries) ||
      queries > warpgroupRows)
    return std::nullopt;
  int64_t count = getMinHeadDimTiles(op);
  std::optional<ScheduleCandidate> found = getForFewQueriesIn(count, queries);
  while (isWide && !found && canDivideHeadDim(op, ++count))
    found = getForFewQueriesIn(count, queries);
  return found;
}

std::optional<ScheduleCandidate>
WarpSpecializedSchedules::getForMixedSequences() {
  // Smaller tiles of keys make MMAs that are too small for chunks of prompts.
  constexpr int64_t consumers = 2, minKeyTile = 64, maxKeyTile = 128;
  // Conversions of tiles of 8 bits leave no registers for packed queries.
  if (convertsKeys(op))
    return std::nullopt;
  bool packsGqa = op.getGroupSize() > 1;
  std::optional<ScheduleCandidate> candidate =
      getLargest(consumers, maxKeyTile, packsGqa);
  if (!candidate)
    return std::nullopt;
  Attribute schedule = candidate->schedule;
  if (auto choice = dyn_cast<attn_tile::ByAlignmentAttr>(schedule))
    schedule = choice.getOtherwise();
  attn_tile::WarpSpecializedParameters parameters(
      cast<attn_tile::WarpSpecializedAttr>(schedule));
  if (parameters.keyTile < minKeyTile)
    return std::nullopt;
  parameters.traversal = attn_tile::TraversalKind::Grid;
  parameters.interleave = 0;
  parameters.queryStages = 1;
  parameters.packGqa = packsGqa;
  // A CTA on each SM has one work item, or many with different lengths. More
  // splits take longer to combine.
  parameters.splitKvWorkItems = device.sms / 2;
  candidate->schedule = makeSchedule(op.getContext(), parameters);
  candidate->keyTile = parameters.keyTile;
  candidate->preloadsQueries = false;
  return candidate;
}

SmallVector<ShortSequenceSchedule>
WarpSpecializedSchedules::getForShortSequences() {
  if (isWide || whyNotSplitKV(op) || whyNotPackGqa(op))
    return {};
  SmallVector<ShortSequenceSchedule> all;
  if (auto few = getForFewQueriesIn(/*headDimTiles=*/1, /*queries=*/1))
    all.push_back({int64_t(device.calibration.shortSequenceQueries), *few});
  // From a tile of queries on, tiles of one head are as full.
  if (auto mixed = getForMixedSequences())
    all.push_back({mixed->schedule.getQueryTile(), *mixed});
  return all;
}

std::optional<ScheduleCandidate>
WarpSpecializedSchedules::getForFewQueriesIn(int64_t headDimTiles,
                                             int64_t queries) {
  // Measured with one query for each head: two stages of 64 keys at head dim
  // 128 keep enough bytes in flight, and larger tiles are slower
  // (docs/experiments/split-kv-decoding.md).
  constexpr int64_t stageBytes = 32 * 1024, stages = 2;
  constexpr int64_t streamedPromotion = 128;
  KeyTileBounds bounds =
      withShapes(getConsumerBounds(1, device), op, headDimTiles);
  bounds.stages = stages;
  // Two CTAs share an SM if their instructions have few enough columns for the
  // registers at the launch.
  int64_t ctasPerSm = 1;
  if (std::max(bounds.qkHeadDim, bounds.vHeadDim) <= 2 * warpgroupRows) {
    ctasPerSm = 2;
    bounds.registers = tileRegistersTwoCtas;
    bounds.launchedRegisters = attn_tile::getLaunchedRegisters(
        bounds.threads + warpgroupThreads, ctasPerSm);
    bounds.sharedBytes = getTileBytes(device, ctasPerSm);
  }
  int64_t keyBytes =
      llvm::alignTo(bounds.getKeyBytes() * bounds.qkHeadDim, columnBlockBytes) +
      llvm::alignTo(bounds.getKeyBytes() * bounds.vHeadDim, columnBlockBytes);
  bounds.maxKeyTile =
      std::clamp(stageBytes / keyBytes / keyTileUnit * keyTileUnit,
                 warpgroupRows, 2 * warpgroupRows);
  // Packed queries are read by threads, which do not read 8 bits.
  bool packsGqa = op.getGroupSize() > 1 && !whyNotPackGqa(op) &&
                  !isFloat8(getElementTypeOrSelf(op.getQuery())) &&
                  paysToPackGqa(op, queries, bounds.queryTile);
  bounds.registers -=
      packsGqa ? getPackedQueryRegisters(op) : getQueryRegisters(op);
  bounds.registers -= getConversionRegisters(op);
  // Packed rows leave fewer registers for the iteration over lists of tiles.
  if (packsGqa && queries != 1 && needsClassification(op))
    bounds.registers -= 24;
  auto [keyTile, limit] = getLargestKeyTile(bounds);
  if (keyTile == 0)
    return std::nullopt;
  keyTile = roundToPages(keyTile, op);
  bool splits = !whyNotSplitKV(op);
  // Listed splits are sorted by their length, over all heads together.
  bool isListed = op.getAddressing().isListed();
  bool balancesSplits = splits && paysToBalanceSplits(op);
  attn_tile::WarpSpecializedParameters parameters;
  parameters.queryTile = bounds.queryTile;
  parameters.keyTile = keyTile;
  parameters.stages = stages;
  parameters.consumers = 1;
  parameters.traversal = attn_tile::TraversalKind::Grid;
  parameters.interleave = balancesSplits || isListed ? 0 : 1;
  // Conversions take more time than copies, so that both CTAs of an SM must
  // have work. Idle warps gain only together with warps that have no rows
  // (docs/experiments/float8-kv-cache.md).
  int64_t busyCtas = convertsKeys(op) ? ctasPerSm : 1;
  parameters.skipEmptyRows =
      convertsKeys(op) && !isListed && hasEmptyWarps(op, queries, packsGqa);
  parameters.idleWarpsConvert = parameters.skipEmptyRows;
  parameters.splitKvWorkItems = splits ? busyCtas * device.sms : 0;
  parameters.packGqa = packsGqa;
  parameters.l2Promotion = streamedPromotion;
  parameters.ctasPerSm = ctasPerSm;
  parameters.balanceSplits = balancesSplits;
  parameters.headDimTile = bounds.headDimTile;
  return ScheduleCandidate{makeSchedule(op.getContext(), parameters), keyTile,
                           /*preloadsQueries=*/false, "what is read at a time"};
}

SmallVector<ScheduleCandidate> WarpSpecializedSchedules::getWhole() {
  // The smallest key tiles whose kernels have been measured; smaller ones are
  // considered only where these do not fit.
  constexpr int64_t minKeyTile = 64;
  // One consumer has smaller tiles of queries, for small grids.
  constexpr int64_t maxKeyTileOneConsumer = 128;
  std::optional<int64_t> smallWorkItems =
      countWorkItems(op, chain, warpgroupRows, /*headDimTiles=*/1);
  bool isSmall = smallWorkItems && *smallWorkItems <= device.sms;
  SmallVector<ScheduleCandidate> all;
  auto add = [&](int64_t consumers, int64_t maxKeyTile) {
    for (int64_t keyTile = minKeyTile;
         keyTile <= std::min(getMaxKeyTile(), maxKeyTile);
         keyTile += keyTileUnit)
      if (auto candidate = getLargest(consumers, keyTile);
          candidate && (candidate->keyTile == keyTile ||
                        (all.empty() && keyTile == minKeyTile)))
        all.push_back(std::move(*candidate));
  };
  // The model is fitted to 16 bits. MMAs of 8 bits leave more of the softmax
  // for further consumers to hide. Their larger key tiles spill
  // (docs/experiments/float8-forward.md).
  constexpr int64_t maxKeyTileFloat8 = 160;
  bool isFloat8Query = isFloat8(getElementTypeOrSelf(op.getQuery()));
  if (isFloat8Query && !isSmall && canHaveThreeConsumers())
    add(3, maxKeyTileFloat8);
  if (!all.empty())
    return all;
  if (isSmall)
    add(1, maxKeyTileOneConsumer);
  add(2, maxKeyTileMma);
  if (canHaveThreeConsumers())
    add(3, isFloat8Query ? maxKeyTileFloat8 : maxKeyTileMma);
  return all;
}

SmallVector<ScheduleCandidate>
WarpSpecializedSchedules::getWide(int64_t maxKeyTile) {
  // A consumer has 64 rows of the output. One of them leaves room for larger
  // tiles of keys, two read each of these once for twice the rows.
  constexpr int64_t maxConsumers = 2;
  // Work items of fewer columns compute the scores more often. They are for
  // larger tiles of keys, or operands that need their registers.
  constexpr int64_t maxDivisions = 2;
  if (auto candidate = getForValuesInKeys(/*areFewQueries=*/false))
    return {*candidate};
  SmallVector<ScheduleCandidate> all;
  int64_t numDivisions = 0;
  for (int64_t count = getMinHeadDimTiles(op);
       canDivideHeadDim(op, count) && numDivisions < maxDivisions; ++count) {
    numHeadDimTiles = count;
    size_t before = all.size();
    for (int64_t consumers = 1; consumers <= maxConsumers; ++consumers)
      if (auto candidate = getLargest(consumers, maxKeyTile))
        all.push_back(std::move(*candidate));
    numDivisions += all.size() > before;
  }
  return all;
}

void WarpSpecializedSchedules::addSplits(
    SmallVectorImpl<ScheduleCandidate> &all) {
  // Where there are fewer work items than half of the SMs, several may split
  // the keys of one.
  if (whyNotSplitKV(op))
    return;
  for (size_t number = 0, e = all.size(); number < e; ++number) {
    ScheduleCandidate candidate = all[number];
    std::optional<int64_t> items =
        countWorkItems(op, chain, candidate.schedule);
    if (!items || 2 * *items > device.sms)
      continue;
    candidate.schedule = splitKV(op, candidate.schedule, device.sms);
    all.push_back(std::move(candidate));
  }
}

SmallVector<ScheduleCandidate> WarpSpecializedSchedules::getAll() {
  SmallVector<ScheduleCandidate> all =
      isWide ? getWide(getMaxKeyTile()) : getWhole();
  addSplits(all);
  if (std::optional<ScheduleCandidate> forFew = getForFewQueries())
    all.push_back(std::move(*forFew));
  return all;
}

std::optional<ScheduleCandidate>
WarpSpecializedSchedules::getMain(int64_t maxKeyTile) {
  if (!isWide)
    return getLargest(2, maxKeyTile);
  return findMostScores(op, getWide(maxKeyTile));
}

SmallVector<ScheduleCandidate>
WarpSpecializedSchedules::getLargest(int64_t &bound) {
  // A third consumer hides more of the softmax, if key tiles stay large enough
  // for efficient MMAs.
  const int64_t minKeyTileThreeConsumers = op.getDropoutMask() ? 96 : 128;
  // The smallest key tiles whose MMAs are efficient.
  constexpr int64_t maxKeyTilePreload = 128;
  // Key tiles that a mask cuts are computed in full: small tiles waste less.
  constexpr int64_t maxKeyTileMasked = 128;
  // Where a score_mod calls functions, the softmax takes longer than the MMAs;
  // its dependent steps are shorter in smaller tiles.
  constexpr int64_t maxKeyTileFunctions = 128;

  if (std::optional<ScheduleCandidate> forBlocks = getForBlocks())
    return {*forBlocks};
  std::optional<ScheduleCandidate> three;
  if (canHaveThreeConsumers())
    three = getLargest(3, minKeyTileThreeConsumers);
  if (three && three->keyTile < minKeyTileThreeConsumers)
    three = std::nullopt;
  if (three && !isMasked)
    return {*three};
  int64_t maxKeyTile = isMasked          ? maxKeyTileMasked
                       : hasFunction(op) ? maxKeyTileFunctions
                                         : maxKeyTileMma;
  std::optional<ScheduleCandidate> two =
      getMain(std::min(maxKeyTile, getMaxKeyTile()));
  if (!two)
    return {};
  if (readsBits) {
    readsBits = false;
    std::optional<ScheduleCandidate> plain =
        getMain(std::min(maxKeyTile, getMaxKeyTile()));
    readsBits = true;
    if (plain) {
      bound = maxMaskBitQueries;
      return {*two, *plain};
    }
  }
  if (three) {
    // The larger query tile wastes more on the edges of a mask and at the end
    // of the queries. That matters less for longer sequences
    // (docs/experiments/forward-key-tile.md).
    bound = int64_t(device.calibration.threeConsumersQueries);
    return {*two, *three};
  }
  if (!two->preloadsQueries && two->keyTile > maxKeyTilePreload) {
    // Smaller key tiles leave room for the queries of the next work item, which
    // matters where work items are short (docs/experiments/query-prefetch.md).
    std::optional<ScheduleCandidate> small = getLargest(2, maxKeyTilePreload);
    if (small && small->preloadsQueries) {
      bound = int64_t(device.calibration.lateQueriesQueries);
      return {*small, *two};
    }
  }
  return {*two};
}

/// Two consumers, without the passes that know the softmax.
static ScheduleAttrInterface getStreamingSchedule(AttentionOpInterface op,
                                                  const DeviceModel &device) {
  constexpr int64_t consumers = 2, maxKeyTile = 128;
  KeyTileBounds bounds = withShapes(getConsumerBounds(consumers, device), op,
                                    getMinHeadDimTiles(op));
  bounds.maxKeyTile = maxKeyTile;
  LargestTile largest = getLargestKeyTile(bounds);
  if (largest.size == 0)
    return nullptr;
  attn_tile::WarpSpecializedParameters parameters;
  parameters.queryTile = bounds.queryTile;
  parameters.keyTile = largest.size;
  parameters.stages = bounds.stages;
  parameters.consumers = consumers;
  parameters.interleave = op.getAddressing().isListed() ? 0 : 1;
  parameters.l2Promotion = sharedPromotion;
  parameters.headDimTile = bounds.headDimTile;
  return makeSchedule(op.getContext(), parameters);
}

//===----------------------------------------------------------------------===//
// Matmuls
//===----------------------------------------------------------------------===//

static ScheduleAttrInterface getMatmulSchedule(MatmulOp op,
                                               const DeviceModel &device) {
  // Contracted elements of one step: the elements in a row of a staged block.
  int64_t elementBytes = getElementBytes(op.getLhs());
  int64_t depthTile = columnBlockBytes / elementBytes;
  // Tiles are stored in blocks of this many columns, of which as many may be on
  // their way to memory at the same time.
  int64_t columnUnit = columnBlockBytes / elementBytes;
  constexpr int64_t storeStages = 2, maxColumnTile = 256, consumers = 2;
  // Rows of tiles that CTAs visit together, column by column: at 128 rows each,
  // the inputs that 132 CTAs read at a time stay in L2.
  constexpr int64_t interleave = 16;
  int64_t rowTile = consumers * warpgroupRows;
  // The most columns that fit next to the elements that an epilogue reads. With
  // results of f32, which leave no registers of the accumulator free, elements
  // of columns take as many as half of it: 256 columns spill 396 bytes.
  int64_t maxTile = maxColumnTile;
  if (readsMatrix(op))
    maxTile /= 2;
  else if (readsColumns(op) && getElementTypeOrSelf(op.getOut()).isF32())
    maxTile = maxTile * 3 / 4;
  int64_t columnTile = getMatmulColumnTile(op, maxTile);
  int64_t stageBytes = elementBytes * depthTile * (rowTile + columnTile);
  int64_t storeBytes = storeStages * elementBytes * rowTile * columnUnit;
  attn_tile::MatmulWarpSpecializedParameters parameters;
  parameters.rowTile = rowTile;
  parameters.columnTile = columnTile;
  parameters.depthTile = depthTile;
  parameters.stages = countStages(getTileBytes(device), storeBytes, stageBytes);
  parameters.consumers = consumers;
  parameters.interleave = interleave;
  return makeSchedule(op.getContext(), parameters);
}

//===----------------------------------------------------------------------===//
// The family
//===----------------------------------------------------------------------===//

namespace {
struct WarpSpecializedFamily : GPUScheduleFamily {
  std::optional<TileCapacities>
  getTileCapacities(const DeviceFigures &device) const override {
    return getRegisterTileCapacities(device, tileRegistersTwoConsumers);
  }
  SmallVector<ScheduleCandidate>
  getCandidates(AttentionOp op, const DeviceModel &device) const override {
    return WarpSpecializedSchedules(op, device).getAll();
  }
  SmallVector<ScheduleCandidate> getLargest(AttentionOp op,
                                            const DeviceModel &device,
                                            int64_t &bound) const override {
    WarpSpecializedSchedules schedules(op, device);
    // Regions compute little in comparison with the bytes that are read.
    if (std::optional<ScheduleCandidate> forFew = schedules.getForFewQueries())
      return {*forFew};
    return schedules.getLargest(bound);
  }
  SmallVector<ShortSequenceSchedule>
  getForShortSequences(AttentionOp op,
                       const DeviceModel &device) const override {
    return WarpSpecializedSchedules(op, device).getForShortSequences();
  }
  std::optional<ScheduleChoice>
  chooseGradient(attn_tile::StreamingGradOpInterface op,
                 const DeviceModel &device,
                 int64_t dqWorkspaceBytes) const override {
    return chooseWarpSpecializedGradient(op, device, dqWorkspaceBytes);
  }
  ScheduleAttrInterface getStreaming(AttentionOpInterface op,
                                     const DeviceModel &device) const override {
    return getStreamingSchedule(op, device);
  }
  ScheduleAttrInterface getMatmul(MatmulOp op,
                                  const DeviceModel &device) const override {
    return getMatmulSchedule(op, device);
  }

protected:
  bool hasProducer() const override { return true; }
};
} // namespace

const ScheduleFamily &attn::getWarpSpecializedFamily() {
  static const WarpSpecializedFamily family;
  return family;
}
