//===- FittingSchedules.cpp - Schedules that fit a device -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Derives tile shapes whose scores fit in registers and whose stages fit in
// shared memory. How many registers what is no tile takes depends on the
// assembler: the numbers here are those with which kernels do not spill, or
// spill as docs/Schedules.md says.
//
//===----------------------------------------------------------------------===//

#include "FittingSchedules.h"
#include "attn/Analysis/MaskTiles.h"
#include "attn/Dialect/AttnTile/IR/AttnTileAttrs.h"
#include "attn/Dialect/AttnTile/IR/RegisterBlocks.h"
#include "attn/Dialect/AttnTile/IR/SharedKeys.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/CastInterfaces.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <tuple>

using namespace mlir;
using namespace mlir::attn;

//===----------------------------------------------------------------------===//
// Capacities
//===----------------------------------------------------------------------===//

using attn_tile::channelStep;
using attn_tile::columnBlockBytes;
using attn_tile::warpgroupThreads;
using attn_tile::warpThreads;

static constexpr int64_t registerBytes = 4;

/// Shared memory of a block that barriers take.
static constexpr int64_t barrierBytes = 1024;

/// Bytes that copies fetch to the second level cache at once: tiles of keys are
/// read by several groups, or by one only.
static constexpr int64_t sharedPromotion = 256;

/// Registers per thread for register tiles: what a consumer has (240 of two
/// consumers, 160 of three, 255 of four or eight warps) less what addresses,
/// row statistics and the operands of instructions take. One consumer has 240
/// as well, or 200 if two groups share a multiprocessor.
static constexpr int64_t tileRegistersTwoConsumers = 200;
static constexpr int64_t tileRegistersThreeConsumers = 132;
static constexpr int64_t tileRegistersTwoGroups = 160;
static constexpr int64_t tileRegistersFourWarps = 192;
static constexpr int64_t tileRegistersEightWarps = 160;

double KeyTileBounds::getRegisters(int64_t keyTile) const {
  double scores = double(queryTile * keyTile) / double(threads);
  double held = double(scoreBytes + (sharesWeights ? 0 : elementBytes));
  // Tiles have whole steps of the contracted dimension.
  double output =
      double(queryTile * llvm::alignTo(valueChannels, channelStep)) /
      double(threads);
  return scores * (1 + held / registerBytes) + output;
}

int64_t KeyTileBounds::getProductRegisters(int64_t keyTile) const {
  return std::max(
      attn_tile::getProductRegisters(keyTile, /*hasLhsInRegisters=*/false),
      attn_tile::getProductRegisters(llvm::alignTo(valueChannels, channelStep),
                                     !sharesWeights));
}

int64_t KeyTileBounds::getSharedBytes(int64_t keyTile) const {
  auto getRowBytes = [&](int64_t channels) {
    return int64_t(llvm::alignTo(elementBytes * channels, columnBlockBytes));
  };
  int64_t queryBytes = getRowBytes(queryChannels);
  int64_t weights = sharesWeights ? elementBytes * queryTile * keyTile : 0;
  int64_t scoreRow = 0;
  for (int64_t bytes : stagedScoreBytes)
    scoreRow += llvm::alignTo(bytes * keyTile, columnBlockBytes);
  return queryStages * queryTile * queryBytes +
         stages * keyTile * (queryBytes + getRowBytes(valueChannels)) +
         scoreStages * queryTile * scoreRow + weights;
}

std::pair<int64_t, StringRef>
attn::getLargestKeyTile(const KeyTileBounds &bounds) {
  std::pair<int64_t, StringRef> best(0, "");
  for (int64_t tile = keyTileUnit; tile <= bounds.maxKeyTile;
       tile += keyTileUnit) {
    if (bounds.getRegisters(tile) > double(bounds.registers) ||
        (bounds.launchedRegisters &&
         bounds.getProductRegisters(tile) > *bounds.launchedRegisters))
      return {best.first, "registers"};
    if (bounds.getSharedBytes(tile) > bounds.sharedBytes)
      return {best.first, "shared memory"};
    best = {tile, "instruction shape"};
  }
  return best;
}

KeyTileBounds attn::getConsumerBounds(int64_t consumers,
                                      const DeviceFigures &device) {
  KeyTileBounds bounds;
  bounds.queryTile = consumers * warpgroupRows;
  bounds.threads = consumers * warpgroupThreads;
  bounds.registers =
      consumers == 3 ? tileRegistersThreeConsumers : tileRegistersTwoConsumers;
  // Beside those of the producer.
  bounds.launchedRegisters = attn_tile::getLaunchedRegisters(
      bounds.threads + warpgroupThreads, /*groups=*/1);
  bounds.sharedBytes = device.sharedBytes - barrierBytes;
  return bounds;
}

std::optional<TileCapacities>
attn::getTileCapacities(StringRef target, const DeviceFigures &device) {
  constexpr int64_t threads = 256;
  if (target == "host")
    return std::nullopt;
  TileCapacities capacities;
  capacities.groupUnit = warpgroupRows;
  capacities.streamUnit = keyTileUnit;
  capacities.maxTile = maxKeyTileMma;
  capacities.registerBytes = registerBytes * threads *
                             (target == "sm_90a" ? tileRegistersTwoConsumers
                                                 : tileRegistersEightWarps);
  capacities.sharedBytes = device.sharedBytes - barrierBytes;
  return capacities;
}

//===----------------------------------------------------------------------===//
// What regions need
//===----------------------------------------------------------------------===//

/// Calls `fn` for each read of the score region of an element at the query and
/// the key.
static void forEachPairRead(AttentionOp op,
                            function_ref<void(tensor::ExtractOp)> fn) {
  if (op.getScoreRegion().empty())
    return;
  ValueRange position = op.getScoreRegion().getArguments().take_back(2);
  op.getScoreRegion().walk([&](tensor::ExtractOp extract) {
    if (extract.getIndices().size() >= 2 &&
        extract.getIndices().take_back(2) == position &&
        extract.getType().isIntOrFloat())
      fn(extract);
  });
}

static int64_t getElementBytes(tensor::ExtractOp extract) {
  return llvm::divideCeil(extract.getType().getIntOrFloatBitWidth(), 8);
}

/// Bytes that the score region reads for each pair, and that are held for a
/// whole tile: elements of tensors at the query and the key.
static int64_t getScoreBytes(AttentionOp op) {
  int64_t bytes = 0;
  forEachPairRead(op, [&](tensor::ExtractOp extract) {
    bytes += getElementBytes(extract);
  });
  return bytes;
}

/// Whether bulk copies can bring what the score region reads for each pair: of
/// each tensor of floats one tile, at indices that are the same for all pairs
/// of a tile.
static bool canStageScores(AttentionOp op) {
  Region &region = op.getScoreRegion();
  constexpr int64_t maxRank = 5;
  llvm::SmallDenseSet<Value> tensors;
  bool canStage = true;
  forEachPairRead(op, [&](tensor::ExtractOp extract) {
    Type type = extract.getType();
    canStage &= type.isBF16() || type.isF16() || type.isF32();
    canStage &= extract.getTensor().getType().getRank() <= maxRank &&
                tensors.insert(extract.getTensor()).second;
    for (Value index : extract.getIndices().drop_back(2))
      canStage &= index == region.getArgument(1) ||
                  index == region.getArgument(2) ||
                  matchPattern(index, m_Constant());
  });
  return canStage && !tensors.empty();
}

/// Whether the score region reads elements that differ within a tile.
static bool readsElements(AttentionOp op) {
  Region &region = op.getScoreRegion();
  auto isShared = [&](Value index) {
    if (index.getParentRegion() != &region)
      return true;
    auto argument = dyn_cast<BlockArgument>(index);
    return argument ? argument.getArgNumber() < 3
                    : matchPattern(index, m_Constant());
  };
  return region
      .walk([&](tensor::ExtractOp extract) {
        return llvm::all_of(extract.getIndices(), isShared)
                   ? WalkResult::advance()
                   : WalkResult::interrupt();
      })
      .wasInterrupted();
}

/// Whether the score region calls mathematical functions.
static bool hasFunction(AttentionOp op) {
  return op.getScoreRegion()
      .walk([](Operation *nested) {
        return isa<math::MathDialect>(nested->getDialect())
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Whether late queries leave out keys in the middle, as under windows: but for
/// a few, all tiles of queries have the same work then.
static bool cutsMiddleKeys(MaskAttrInterface mask) {
  constexpr int64_t length = 1 << 20;
  return mask && !mask.isAttended(length - 1, length / 2, length, length);
}

namespace {
/// Queries and keys in a row for which a keep region reads the same; 0 of those
/// that its reads do not depend on.
struct BlockSize {
  int64_t rows = 0, columns = 0;
};
} // namespace

/// How many positions in a row have the same value of `value`, which depends on
/// `position`; 0 if it does not.
static int64_t getRunLength(Value value, BlockArgument position) {
  if (value == position)
    return 1;
  Operation *op = value.getDefiningOp();
  if (!op || !position.getOwner()->findAncestorOpInBlock(*op))
    return 0;
  int64_t length = 0;
  for (Value operand : op->getOperands())
    if (int64_t run = getRunLength(operand, position))
      length = length ? std::min(length, run) : run;
  IntegerAttr divisor;
  if (length == 1 &&
      isa<arith::DivUIOp, arith::DivSIOp, arith::FloorDivSIOp>(op) &&
      op->getOperand(0) == position &&
      matchPattern(op->getOperand(1), m_Constant(&divisor)))
    return std::max<int64_t>(divisor.getInt(), 1);
  return length;
}

static BlockSize getReadBlock(Region &keep) {
  BlockSize block;
  if (keep.empty())
    return block;
  auto narrow = [](int64_t &size, int64_t run) {
    if (run)
      size = size ? std::min(size, run) : run;
  };
  keep.walk([&](Operation *op) {
    if (!llvm::any_of(op->getOperandTypes(),
                      llvm::IsaPred<TensorType, BaseMemRefType>))
      return;
    for (Value operand : op->getOperands()) {
      narrow(block.rows, getRunLength(operand, keep.getArgument(2)));
      narrow(block.columns, getRunLength(operand, keep.getArgument(3)));
    }
  });
  return block;
}

//===----------------------------------------------------------------------===//
// Schedules that fit
//===----------------------------------------------------------------------===//

/// Registers of a thread that hold queries which a region computes: those of 64
/// rows are shared by four warps.
static int64_t getQueryRegisters(AttentionOp op) {
  if (op.getQueryRegion().empty())
    return 0;
  return llvm::alignTo(op.getQueryHeadDim(), channelStep) / 4;
}

static KeyTileBounds withShapes(KeyTileBounds bounds, AttentionOp op) {
  bounds.queryChannels = op.getQueryHeadDim();
  bounds.valueChannels = op.getValueHeadDim();
  bounds.scoreBytes = getScoreBytes(op);
  return bounds;
}

/// How many tensors `keep` reads at the query or the key itself. Each has
/// addresses of its own.
static unsigned countPositionTables(Region &keep) {
  ValueRange positions = keep.getArguments().take_back(2);
  llvm::SmallDenseSet<Value> tensors;
  keep.walk([&](tensor::ExtractOp extract) {
    for (Value index : extract.getIndices())
      if (llvm::is_contained(positions, index))
        tensors.insert(extract.getTensor());
  });
  return tensors.size();
}

/// Whether `keep` computes numbers from what the reads in `isMeant` give,
/// beyond comparing it.
static bool computesFromReads(Region &keep,
                              function_ref<bool(tensor::ExtractOp)> isMeant) {
  DenseSet<Value> read;
  return keep
      .walk([&](Operation *op) {
        if (auto extract = dyn_cast<tensor::ExtractOp>(op)) {
          if (isMeant(extract))
            read.insert(extract.getResult());
          return WalkResult::advance();
        }
        auto isRead = [&](Value value) { return read.contains(value); };
        auto isNumber = [](Type type) { return !type.isInteger(1); };
        if (llvm::none_of(op->getOperands(), isRead) ||
            llvm::none_of(op->getResultTypes(), isNumber))
          return WalkResult::advance();
        if (!isa<CastOpInterface>(op))
          return WalkResult::interrupt();
        read.insert_range(op->getResults());
        return WalkResult::advance();
      })
      .wasInterrupted();
}

/// Numbers that are computed from reads at keys take a register for each key
/// that a thread has.
static bool computesFromKeyReads(Region &keep) {
  return computesFromReads(keep, [&](tensor::ExtractOp extract) {
    return llvm::is_contained(extract.getIndices(), keep.getArgument(3));
  });
}

static bool computesFromPairReads(Region &keep) {
  return computesFromReads(keep, [&](tensor::ExtractOp extract) {
    return llvm::all_of(
        keep.getArguments().take_back(2), [&](BlockArgument position) {
          return llvm::any_of(extract.getIndices(), [&](Value index) {
            return getRunLength(index, position) != 0;
          });
        });
  });
}

bool attn::canReadPairBits(AttentionOpInterface attention) {
  Region &keep = attention.getKeepRegion();
  int64_t queries = getDimSize(attention.getQuery(), 2);
  return readsByPosition(keep) && keep.getArgument(1).use_empty() &&
         !attention.hasSequences() &&
         (ShapedType::isDynamic(queries) || queries < maxPairBitQueries);
}

namespace {
/// One producer and two or three consumer warpgroups.
class WarpSpecializedSchedules {
public:
  WarpSpecializedSchedules(AttentionOp op, const DeviceFigures &device);

  SmallVector<FittingSchedule> getAll();
  /// One for so few queries that little is done but to read keys and values.
  std::optional<FittingSchedule> getForFewQueries();
  /// The one with the largest tiles. If there is a second one, it is for at
  /// least `bound` queries.
  SmallVector<FittingSchedule> getLargest(int64_t &bound);

private:
  std::optional<FittingSchedule> getLargest(int64_t consumers,
                                            int64_t maxKeyTile);
  /// The same with what changes scores in pipes, and `plain` where it cannot
  /// be.
  std::optional<FittingSchedule> getStaged(KeyTileBounds bounds,
                                           int64_t consumers,
                                           const FittingSchedule &plain);
  FittingSchedule getFitting(KeyTileBounds bounds, int64_t consumers,
                             int64_t keyTile, StringRef limit);
  /// One with tiles as small as the blocks that a mask keeps.
  std::optional<FittingSchedule> getForBlocks();
  int64_t getMaxKeyTile();
  bool canHaveThreeConsumers();
  AttentionOp op;
  const DeviceFigures &device;
  OpChain chain;
  bool isMasked, readsKeep;
  /// Whether a kernel before evaluates what the mask cuts.
  bool readsBits;
  attn_tile::TraversalKind traversal = attn_tile::TraversalKind::Persistent;
  int64_t interleave = 1;
};
} // namespace

WarpSpecializedSchedules::WarpSpecializedSchedules(AttentionOp op,
                                                   const DeviceFigures &device)
    : op(op), device(device), chain(op.getOperation()),
      isMasked(op.getMaskAttr() || !op.getKeepRegion().empty()),
      readsKeep(readsByPosition(op.getKeepRegion())),
      readsBits(
          canReadPairBits(cast<AttentionOpInterface>(op.getOperation()))) {
  // Under a mask, long and short work items are paired to equal amounts. That
  // is needless where items are alike, and where lists say how long they are:
  // they are sorted then.
  bool isListed = readsKeep && !op.hasSequences();
  bool hasUnequalItems =
      isMasked && !isListed && !cutsMiddleKeys(op.getMaskAttr());
  if (hasUnequalItems)
    traversal = attn_tile::TraversalKind::Paired;
  // Items that need few keys each, and need them at about the same time, may go
  // along over several key heads. Then the few that are longer than most are
  // dealt out to all groups. Sequences are planned in the order of their work,
  // which holds over all heads only if they go along together
  // (docs/Schedules.md, "Which item when" and "Packed sequences").
  constexpr int64_t maskedKeyHeads = 8;
  if (op.hasSequences())
    interleave = 0;
  else if (isMasked && !hasUnequalItems)
    interleave = maskedKeyHeads * op.getGroupSize();
}

std::optional<FittingSchedule>
WarpSpecializedSchedules::getLargest(int64_t consumers, int64_t maxKeyTile) {
  KeyTileBounds bounds = withShapes(getConsumerBounds(consumers, device), op);
  bounds.maxKeyTile = maxKeyTile;
  // What a mask reads for each pair is found out before, and listed by tiles; a
  // walk over the list takes registers of the consumers. So do decisions of
  // dropout, also beside a change of scores.
  if (readsKeep)
    bounds.registers -= 24;
  if (readsKeep && !readsBits && countPositionTables(op.getKeepRegion()) > 1)
    bounds.registers -= computesFromKeyReads(op.getKeepRegion()) ? 32 : 16;
  if (readsKeep && op.hasDropout() && !op.getScoreRegion().empty())
    bounds.registers -= 32;
  // Where decisions are read, dropped weights are cleared in the step after
  // (`attn-tile-rotate-loops`), so that there are weights of two steps.
  if (op.getDropoutMask())
    bounds.scoreBytes += bounds.elementBytes;
  bounds.registers -= getQueryRegisters(op);
  KeyTileBounds plainBounds = bounds;
  // Tiles that a score change reads need addresses, too.
  if (getScoreBytes(op) > 0)
    plainBounds.registers -= 24;
  auto [keyTile, limit] = getLargestKeyTile(plainBounds);
  if (keyTile == 0)
    return std::nullopt;
  FittingSchedule plain = getFitting(plainBounds, consumers, keyTile, limit);
  if (std::optional<FittingSchedule> staged =
          getStaged(bounds, consumers, plain))
    return staged;
  return plain;
}

std::optional<FittingSchedule>
WarpSpecializedSchedules::getStaged(KeyTileBounds bounds, int64_t consumers,
                                    const FittingSchedule &plain) {
  // Whole blocks of columns; larger tiles have not been measured.
  constexpr int64_t maxKeyTile = 128, scoreStages = 2;
  if (!canStageScores(op))
    return std::nullopt;
  forEachPairRead(op, [&](tensor::ExtractOp extract) {
    bounds.stagedScoreBytes.push_back(getElementBytes(extract));
  });
  bounds.scoreStages = scoreStages;
  bounds.maxKeyTile = std::min(bounds.maxKeyTile, maxKeyTile);
  auto [keyTile, limit] = getLargestKeyTile(bounds);
  if (keyTile == 0)
    return std::nullopt;
  FittingSchedule staged = getFitting(bounds, consumers, keyTile, limit);
  Attribute choice = attn_tile::ByAlignmentAttr::get(
      op.getContext(), staged.schedule, plain.schedule);
  staged.schedule = cast<ScheduleAttrInterface>(choice);
  return staged;
}

FittingSchedule WarpSpecializedSchedules::getFitting(KeyTileBounds bounds,
                                                     int64_t consumers,
                                                     int64_t keyTile,
                                                     StringRef limit) {
  // The queries of the next item are loaded early if there is room.
  bounds.queryStages = 2;
  bool preloads = bounds.getSharedBytes(keyTile) <= bounds.sharedBytes;
  // Rescaling is worth skipping. With fewer channels the test for it takes as
  // long as it, unless that is left to the next step: 1 to 4 % of the time at
  // 64 to 128 channels (H200, 2026-11-22, docs/Schedules.md), but not where it
  // would make the clearing of dropped weights two operations. A mask that
  // computes from what it reads for each pair leaves no registers for the
  // factors; pipes of score changes have not been measured with it.
  constexpr int64_t minValueHeadDimLazy = 192, minValueHeadDimDelayed = 64;
  int64_t valueHeadDim = op.getValueHeadDim();
  bool isLazy = valueHeadDim >= minValueHeadDimLazy;
  bool clearsCheaply =
      !op.hasDropout() || getElementTypeOrSelf(op.getValue()).isBF16();
  bool isDelayed = !isLazy && valueHeadDim >= minValueHeadDimDelayed &&
                   clearsCheaply && bounds.scoreStages == 0 &&
                   (readsBits || !computesFromPairReads(op.getKeepRegion()));
  Attribute schedule = attn_tile::WarpSpecializedAttr::get(
      op.getContext(), bounds.queryTile, keyTile, bounds.stages, consumers,
      /*ping_pong=*/consumers > 1, traversal, interleave,
      /*lazy_rescale=*/isLazy || isDelayed, /*delay_rescale=*/isDelayed,
      /*query_stages=*/preloads ? 2 : 1, /*split_items=*/0,
      /*pack_heads=*/false, bounds.scoreStages, sharedPromotion, /*groups=*/1,
      /*polynomial_exp2=*/0, /*cluster=*/1, readsBits);
  return FittingSchedule{cast<ScheduleAttrInterface>(schedule), keyTile,
                         preloads, limit.str()};
}

std::optional<FittingSchedule> WarpSpecializedSchedules::getForBlocks() {
  // A tile that is larger than a block is visited for each block in it.
  // Measured with lists of random blocks of 64 by 64 that keep 1, 10 and 50 %
  // of the pairs: 169, 421 and 432 TFLOP/s instead of 122, 179 and 299 (H200,
  // 2026-11-22, benchmarks/blocks.py). docs/Schedules.md has smaller blocks and
  // other tiles; those of other channels have not been measured.
  constexpr int64_t keyTile = 64, stages = 4, channels = 128;
  BlockSize block = getReadBlock(op.getKeepRegion());
  if (op.hasSequences() || block.rows != warpgroupRows ||
      block.columns != keyTile || op.getQueryHeadDim() != channels ||
      op.getValueHeadDim() != channels || !op.getScoreRegion().empty() ||
      op.hasDropout())
    return std::nullopt;
  KeyTileBounds bounds = withShapes(getConsumerBounds(1, device), op);
  bounds.maxKeyTile = keyTile;
  bounds.stages = stages;
  if (getLargestKeyTile(bounds).first != keyTile)
    return std::nullopt;
  Attribute schedule = attn_tile::WarpSpecializedAttr::get(
      op.getContext(), bounds.queryTile, keyTile, stages, /*consumers=*/1,
      /*ping_pong=*/false, attn_tile::TraversalKind::Persistent,
      /*interleave=*/1, /*lazy_rescale=*/false, /*delay_rescale=*/false,
      /*query_stages=*/1, /*split_items=*/0, /*pack_heads=*/false,
      /*score_stages=*/0, sharedPromotion, /*groups=*/1,
      /*polynomial_exp2=*/0, /*cluster=*/1, /*pair_bits=*/false);
  return FittingSchedule{cast<ScheduleAttrInterface>(schedule), keyTile,
                         /*preloadsQueries=*/false, "blocks of the mask"};
}

/// Whether the generator of dropout has more keys than stay in registers beside
/// large tiles: one belongs to each wide multiplication. `philox` with 10
/// rounds spills 324 bytes with three consumers, and 132 with key tile 176.
static bool hasManyRngKeys(AttentionOp op) {
  constexpr int64_t most = 14;
  DropoutAttr dropout = op.getDropoutAttr();
  return dropout && dropout.getRng().countBlock().wideMultiply > most;
}

/// Reads in both regions need registers for their addresses, and so do the keys
/// of a generator.
int64_t WarpSpecializedSchedules::getMaxKeyTile() {
  constexpr int64_t maxKeyTileReads = 80, maxKeyTileRngKeys = 128;
  if (hasManyRngKeys(op))
    return maxKeyTileRngKeys;
  return readsKeep && readsElements(op) ? maxKeyTileReads : maxKeyTileMma;
}

/// Three have too few registers for a walk over a list of tiles, for a score
/// change that reads beside decisions of dropout, a keep region or an output of
/// many channels (6 % slower with 128, docs/Schedules.md), under a mask for
/// decisions that are read, and for those of generators with many keys.
bool WarpSpecializedSchedules::canHaveThreeConsumers() {
  constexpr int64_t maxValueHeadDimReads = 64;
  bool isCrowded = op.hasDropout() || !op.getKeepRegion().empty() ||
                   op.getValueHeadDim() > maxValueHeadDimReads;
  return !readsKeep && !(readsElements(op) && isCrowded) &&
         !(isMasked && op.getDropoutMask()) && !hasManyRngKeys(op);
}

/// Work items with tiles of `queryTile` queries; none if that is not known.
static std::optional<int64_t> countItems(AttentionOp op, OpChain &chain,
                                         int64_t queryTile) {
  if (op.hasSequences())
    return std::nullopt;
  // Pieces of the axes that are dealt out: tiles of those along which inputs
  // are shared, single ones of others.
  int64_t items = 1;
  for (auto [number, axis] : llvm::enumerate(chain.getAxes())) {
    if (chain.whyNotGroup(number))
      continue;
    if (ShapedType::isDynamic(axis.size))
      return std::nullopt;
    int64_t tile = chain.isReused(number) ? queryTile : 1;
    items *= int64_t(llvm::divideCeil(axis.size, tile));
  }
  return items;
}

/// `schedule` with keys that are shared until there are `items` work items.
static ScheduleAttrInterface shareKeys(ScheduleAttrInterface schedule,
                                       int64_t items) {
  return cast<ScheduleAttrInterface>(
      attn_tile::withSplitItems(schedule, items));
}

std::optional<FittingSchedule> WarpSpecializedSchedules::getForFewQueries() {
  // Measured with one query for each head: two stages of 64 keys of 128
  // channels are enough in flight, and larger tiles are slower
  // (docs/Schedules.md, "Decoding").
  constexpr int64_t stageBytes = 32 * 1024, stages = 2;
  constexpr int64_t streamedPromotion = 128;
  int64_t queries = getDimSize(op.getQuery(), 2);
  if (op.hasSequences() || ShapedType::isDynamic(queries) ||
      queries > warpgroupRows)
    return std::nullopt;
  KeyTileBounds bounds = withShapes(getConsumerBounds(1, device), op);
  bounds.stages = stages;
  // Two groups share a multiprocessor if their instructions have few enough
  // columns for the registers at the launch.
  int64_t groups = 1;
  if (std::max(bounds.queryChannels, bounds.valueChannels) <=
      2 * warpgroupRows) {
    groups = 2;
    bounds.registers = tileRegistersTwoGroups;
    bounds.launchedRegisters = attn_tile::getLaunchedRegisters(
        bounds.threads + warpgroupThreads, groups);
    bounds.sharedBytes = device.sharedBytes / groups - barrierBytes;
  }
  int64_t keyBytes = llvm::alignTo(bounds.elementBytes * bounds.queryChannels,
                                   columnBlockBytes) +
                     llvm::alignTo(bounds.elementBytes * bounds.valueChannels,
                                   columnBlockBytes);
  bounds.maxKeyTile =
      std::clamp(stageBytes / keyBytes / keyTileUnit * keyTileUnit,
                 warpgroupRows, 2 * warpgroupRows);
  bounds.registers -= getQueryRegisters(op);
  auto [keyTile, limit] = getLargestKeyTile(bounds);
  if (keyTile == 0)
    return std::nullopt;
  Attribute schedule = attn_tile::WarpSpecializedAttr::get(
      op.getContext(), bounds.queryTile, keyTile, stages, /*consumers=*/1,
      /*ping_pong=*/false, attn_tile::TraversalKind::Grid, /*interleave=*/1,
      /*lazy_rescale=*/false, /*delay_rescale=*/false, /*query_stages=*/1,
      /*split_items=*/whyNotShareKeys(op) ? 0 : device.multiprocessors,
      /*pack_heads=*/op.getGroupSize() > 1 && !whyNotPackHeads(op),
      /*score_stages=*/0, streamedPromotion, groups, /*polynomial_exp2=*/0,
      /*cluster=*/1, /*pair_bits=*/false);
  return FittingSchedule{cast<ScheduleAttrInterface>(schedule), keyTile,
                         /*preloadsQueries=*/false, "what is read at a time"};
}

SmallVector<FittingSchedule> WarpSpecializedSchedules::getAll() {
  // The smallest key tiles whose kernels have been measured; smaller ones are
  // considered only where these do not fit.
  constexpr int64_t minKeyTile = 64;
  // One consumer has smaller tiles of queries, for grids that are small.
  constexpr int64_t maxKeyTileOneConsumer = 128;
  std::optional<int64_t> smallItems = countItems(op, chain, warpgroupRows);
  bool isSmall = smallItems && *smallItems <= device.multiprocessors;
  SmallVector<FittingSchedule> all;
  for (int64_t consumers = isSmall ? 1 : 2;
       consumers <= (canHaveThreeConsumers() ? 3 : 2); ++consumers)
    for (int64_t keyTile = minKeyTile;
         keyTile <= std::min(getMaxKeyTile(), consumers == 1
                                                  ? maxKeyTileOneConsumer
                                                  : maxKeyTileMma);
         keyTile += keyTileUnit)
      if (auto fitting = getLargest(consumers, keyTile);
          fitting && (fitting->keyTile == keyTile ||
                      (all.empty() && keyTile == minKeyTile)))
        all.push_back(std::move(*fitting));
  // Where there are fewer items than half of the multiprocessors, several may
  // share the keys of one.
  if (!whyNotShareKeys(op))
    for (FittingSchedule fitting : SmallVector<FittingSchedule>(all)) {
      std::optional<int64_t> items =
          countItems(op, chain, fitting.schedule.getQueryTile());
      if (!items || 2 * *items > device.multiprocessors)
        continue;
      fitting.schedule = shareKeys(fitting.schedule, device.multiprocessors);
      all.push_back(std::move(fitting));
    }
  if (std::optional<FittingSchedule> forFew = getForFewQueries())
    all.push_back(std::move(*forFew));
  return all;
}

SmallVector<FittingSchedule>
WarpSpecializedSchedules::getLargest(int64_t &bound) {
  // A third consumer hides more of the softmax, if key tiles stay large enough
  // for the products to be efficient.
  const int64_t minKeyTileThreeConsumers = op.getDropoutMask() ? 96 : 128;
  // The smallest key tiles whose products are efficient.
  constexpr int64_t maxKeyTilePreload = 128;
  // Key tiles that a mask cuts are computed in full: smaller ones waste less.
  constexpr int64_t maxKeyTileMasked = 128;
  // Where scores go through functions of their own, the softmax takes longer
  // than the products; its dependent steps are shorter in smaller tiles.
  constexpr int64_t maxKeyTileFunctions = 128;

  if (std::optional<FittingSchedule> forBlocks = getForBlocks())
    return {*forBlocks};
  std::optional<FittingSchedule> three;
  if (canHaveThreeConsumers())
    three = getLargest(3, minKeyTileThreeConsumers);
  if (three && three->keyTile < minKeyTileThreeConsumers)
    three = std::nullopt;
  if (three && !isMasked)
    return {*three};
  int64_t maxKeyTile = isMasked          ? maxKeyTileMasked
                       : hasFunction(op) ? maxKeyTileFunctions
                                         : maxKeyTileMma;
  std::optional<FittingSchedule> two =
      getLargest(2, std::min(maxKeyTile, getMaxKeyTile()));
  if (!two)
    return {};
  if (readsBits) {
    readsBits = false;
    std::optional<FittingSchedule> plain =
        getLargest(2, std::min(maxKeyTile, getMaxKeyTile()));
    readsBits = true;
    if (plain) {
      bound = maxPairBitQueries;
      return {*two, *plain};
    }
  }
  if (three) {
    // The larger query tile wastes more on the edges of a mask and at the end
    // of the queries, which matters less the longer they are: docs/Schedules.md
    // has both, "A schedule for each length".
    bound = 3072;
    return {*two, *three};
  }
  if (!two->preloadsQueries && two->keyTile > maxKeyTilePreload) {
    // Smaller key tiles leave room for the queries of the next item, which
    // matters where items are short (docs/Schedules.md, there).
    std::optional<FittingSchedule> small = getLargest(2, maxKeyTilePreload);
    if (small && small->preloadsQueries) {
      bound = 6144;
      return {*small, *two};
    }
  }
  return {*two};
}

size_t attn::countTileRanges(Operation *op, MaskAttrInterface mask, MaskDim dim,
                             int64_t rowTile, int64_t columnTile) {
  // Of code that is thrown away; what it depends on does not matter.
  Region region;
  OpBuilder builder(op->getContext());
  Block *block =
      builder.createBlock(&region, {}, builder.getIndexType(), op->getLoc());
  Value any = block->getArgument(0);
  ScoreMask scores = {mask,
                      /*keep=*/nullptr,
                      /*batch=*/any,
                      /*head=*/any,
                      /*queryLength=*/any,
                      /*keyLength=*/any};
  TileRanges ranges = emitTileRanges(builder, op->getLoc(), scores, dim, any,
                                     rowTile, columnTile);
  return ranges.masked.size() + ranges.full.size();
}

namespace {
/// Four or eight warps that prefetch and compute.
class MultistageSchedules {
public:
  MultistageSchedules(AttentionOp op, const DeviceFigures &device);

  SmallVector<FittingSchedule> getAll();
  /// The one with the largest tiles.
  std::optional<FittingSchedule> getLargest();

private:
  KeyTileBounds getBounds(int64_t queryTile, int64_t warps);
  FittingSchedule getFitting(const KeyTileBounds &bounds, int64_t keyTile,
                             StringRef limit);

  AttentionOp op;
  const DeviceFigures &device;
  OpChain chain;
  /// Whether a step finds its tile among few ranges, whose ends fit registers
  /// beside the largest tiles.
  bool hasFewRanges;
};
} // namespace

MultistageSchedules::MultistageSchedules(AttentionOp op,
                                         const DeviceFigures &device)
    : op(op), device(device), chain(op.getOperation()) {
  // Up to three, as of a window or a prefix.
  constexpr size_t maxRangesBesideTiles = 3;
  constexpr int64_t queryTile = 128, keyTile = 128;
  MaskAttrInterface mask =
      op.getMaskReads().empty() ? op.getMaskAttr() : nullptr;
  hasFewRanges = countTileRanges(op, mask, MaskDim::Query, queryTile,
                                 keyTile) <= maxRangesBesideTiles;
}

KeyTileBounds MultistageSchedules::getBounds(int64_t queryTile, int64_t warps) {
  constexpr int64_t maxKeyTile = 128, rowsOfWarp = 32;
  KeyTileBounds bounds = withShapes(KeyTileBounds(), op);
  bounds.queryTile = queryTile;
  bounds.threads = warpThreads * warps;
  bounds.maxKeyTile = maxKeyTile;
  bounds.sharedBytes = device.sharedBytes - barrierBytes;
  // Where there is nothing but a named mask, tiles may be somewhat larger.
  bool isPlain = hasFewRanges && op.getScoreRegion().empty() &&
                 op.getKeepRegion().empty() && op.getQueryRegion().empty() &&
                 op.getEpilogue().empty() && !op.hasDropout() &&
                 !op.hasSequences() && !op.getIdentity() && !op.getSinks() &&
                 !op.getHeadMap() && op.getMaskReads().empty();
  // A mask that reads tensors needs registers for their addresses.
  int64_t readRegisters = readsByPosition(op.getKeepRegion()) ? 16 : 0;
  if (queryTile / warps >= rowsOfWarp)
    bounds.registers = tileRegistersFourWarps + (isPlain ? 8 : 0) -
                       readRegisters - 2 * getQueryRegisters(op);
  else
    bounds.registers = tileRegistersEightWarps + (isPlain ? 4 : 0) -
                       (hasFewRanges ? 0 : 32) - getQueryRegisters(op);
  return bounds;
}

FittingSchedule MultistageSchedules::getFitting(const KeyTileBounds &bounds,
                                                int64_t keyTile,
                                                StringRef limit) {
  Attribute schedule = attn_tile::MultistageAttr::get(
      op.getContext(), bounds.queryTile, keyTile, bounds.stages,
      bounds.threads / warpThreads, /*split_items=*/0, /*pack_heads=*/false);
  return FittingSchedule{cast<ScheduleAttrInterface>(schedule), keyTile,
                         /*preloadsQueries=*/false, limit.str()};
}

SmallVector<FittingSchedule> MultistageSchedules::getAll() {
  // The smallest key tiles whose kernels have been measured.
  constexpr int64_t minKeyTile = 32;
  // Each of four warps with 128 rows has twice the rows of one of eight, so
  // that what it reads of keys and values serves two products.
  constexpr std::pair<int64_t, int64_t> rowsAndWarps[] = {
      {128, 4}, {128, 8}, {64, 4}};
  SmallVector<FittingSchedule> all;
  for (auto [queryTile, warps] : rowsAndWarps) {
    KeyTileBounds bounds = getBounds(queryTile, warps);
    auto [largest, limit] = getLargestKeyTile(bounds);
    for (int64_t keyTile = minKeyTile; keyTile <= largest;
         keyTile += keyTileUnit)
      all.push_back(getFitting(bounds, keyTile, limit));
  }
  if (whyNotShareKeys(op))
    return all;
  // As many items as two groups on each multiprocessor have.
  int64_t items = 2 * device.multiprocessors;
  for (FittingSchedule fitting : SmallVector<FittingSchedule>(all)) {
    std::optional<int64_t> whole =
        countItems(op, chain, fitting.schedule.getQueryTile());
    if (!whole || 2 * *whole > device.multiprocessors)
      continue;
    fitting.schedule = shareKeys(fitting.schedule, items);
    all.push_back(std::move(fitting));
  }
  // One query for each head: the heads of a group are rows of one tile.
  if (op.getGroupSize() == 1 || whyNotPackHeads(op))
    return all;
  for (FittingSchedule fitting : SmallVector<FittingSchedule>(all)) {
    auto plain = cast<attn_tile::MultistageAttr>(Attribute(fitting.schedule));
    if (plain.getSplitItems() > 0)
      continue;
    Attribute packed = attn_tile::MultistageAttr::get(
        op.getContext(), plain.getQueryTile(), plain.getKeyTile(),
        plain.getStages(), plain.getWarps(), items, /*pack_heads=*/true);
    fitting.schedule = cast<ScheduleAttrInterface>(packed);
    all.push_back(std::move(fitting));
  }
  return all;
}

std::optional<FittingSchedule> MultistageSchedules::getLargest() {
  // What a multiprocessor has beside what one block can have, and takes of each
  // block beside what it asks for.
  constexpr int64_t reservedBytes = 1024;
  constexpr int64_t queryTile = 128, minKeyTileFourWarps = 48;
  // Two groups of four warps share a multiprocessor: one computes while the
  // other waits.
  KeyTileBounds bounds = getBounds(queryTile, /*warps=*/4);
  bounds.sharedBytes =
      (device.sharedBytes + reservedBytes) / 2 - reservedBytes - barrierBytes;
  auto [keyTile, limit] = getLargestKeyTile(bounds);
  if (keyTile < minKeyTileFourWarps) {
    bounds = getBounds(queryTile, /*warps=*/8);
    std::tie(keyTile, limit) = getLargestKeyTile(bounds);
  }
  if (keyTile == 0)
    return std::nullopt;
  return getFitting(bounds, keyTile, limit);
}

namespace {
/// Tasks of one core, with tiles on the stack of its thread.
class SequentialSchedules {
public:
  SequentialSchedules(AttentionOpInterface op, const DeviceFigures &device);

  SmallVector<FittingSchedule> getAll();

private:
  /// Adds tiles with up to `mostRows` rows; those of whole heads if there are
  /// no more than a few.
  void addTiles(int64_t mostRows, int64_t splitItems, bool packsHeads);

  AttentionOpInterface op;
  const DeviceFigures &device;
  SmallVector<FittingSchedule> all;
};
} // namespace

/// Rows and columns of a tile of a schedule of the host, at most.
static constexpr int64_t maxHostTile = 256;

SequentialSchedules::SequentialSchedules(AttentionOpInterface op,
                                         const DeviceFigures &device)
    : op(op), device(device) {}

void SequentialSchedules::addTiles(int64_t mostRows, int64_t splitItems,
                                   bool packsHeads) {
  // A row of scores is computed by code without loops, which grows with its
  // vectors; tiles of f32 are a quarter of the stack that threads commonly
  // have.
  constexpr int64_t maxVectors = 16, minKeyTile = 16;
  constexpr int64_t stackBytes = 2 * 1024 * 1024;
  // Smaller tiles serve few rows only.
  constexpr int64_t minQueryTile = 16;
  constexpr int64_t elementBytes = 4;
  int64_t lanes = attn_tile::getVectorRegisters(device.registers).lanes;
  int64_t channels = llvm::alignTo(op.getQueryHeadDim(), channelStep) +
                     llvm::alignTo(op.getValueHeadDim(), channelStep);
  auto rows = int64_t(llvm::PowerOf2Ceil(std::min(mostRows, maxHostTile)));
  // A word of decisions is for as many queries as keys.
  if (op.hasDropout())
    rows = std::max<int64_t>(rows, DropoutAttr::keysOfWord);
  // Gradients have tiles of what they read and of what they make.
  int64_t copies = isa<AttentionGradOp>(op.getOperation()) ? 2 : 1;
  for (int64_t queryTile = std::min(rows, minQueryTile); queryTile <= rows;
       queryTile *= 2)
    for (int64_t keyTile = minKeyTile;
         keyTile <=
         std::min(std::max(maxVectors * lanes, minKeyTile), maxHostTile);
         keyTile *= 2) {
      int64_t elements =
          copies * (channels * (queryTile + keyTile) + 2 * queryTile * keyTile);
      bool isSmallest = keyTile == minKeyTile && queryTile <= minQueryTile;
      if (!isSmallest && elementBytes * elements > stackBytes)
        continue;
      Attribute schedule = attn_tile::SequentialAttr::get(
          op.getContext(), queryTile, keyTile, splitItems, packsHeads);
      all.push_back({cast<ScheduleAttrInterface>(schedule), keyTile,
                     /*preloadsQueries=*/false, "what a row unrolls to"});
    }
}

SmallVector<FittingSchedule> SequentialSchedules::getAll() {
  int64_t queries = getDimSize(op.getQuery(), 2);
  bool isKnown = !op.hasSequences() && !ShapedType::isDynamic(queries);
  int64_t mostRows = isKnown ? std::max<int64_t>(queries, 1) : maxHostTile;
  addTiles(mostRows, /*splitItems=*/0, /*packsHeads=*/false);
  auto attention = dyn_cast<AttentionOp>(op.getOperation());
  if (!attention)
    return all;
  // One query for each head: the heads of a group are rows of one tile.
  if (op.getGroupSize() > 1 && !whyNotPackHeads(attention))
    addTiles(op.getGroupSize(), /*splitItems=*/0, /*packsHeads=*/true);
  // Where cores would have nothing to do, they share keys.
  if (device.multiprocessors == 1 || whyNotShareKeys(attention))
    return all;
  OpChain chain(op.getOperation());
  for (FittingSchedule fitting : SmallVector<FittingSchedule>(all)) {
    std::optional<int64_t> items =
        countItems(attention, chain, fitting.schedule.getQueryTile());
    if (!items || 2 * *items > device.multiprocessors)
      continue;
    fitting.schedule = shareKeys(fitting.schedule, device.multiprocessors);
    all.push_back(std::move(fitting));
  }
  return all;
}

SmallVector<FittingSchedule>
attn::getFittingSchedules(AttentionOp op, StringRef target,
                          const DeviceFigures &device) {
  if (target == "sm_90a")
    return WarpSpecializedSchedules(op, device).getAll();
  if (target == "host")
    return SequentialSchedules(cast<AttentionOpInterface>(op.getOperation()),
                               device)
        .getAll();
  return MultistageSchedules(op, device).getAll();
}

SmallVector<FittingSchedule>
attn::getFittingGradSchedules(AttentionGradOp op, const DeviceFigures &device) {
  return SequentialSchedules(cast<AttentionOpInterface>(op.getOperation()),
                             device)
      .getAll();
}

ScheduleAttrInterface attn::getHostMapSchedule(MapHeadsOp op,
                                               const DeviceFigures &device) {
  // What is read and what is made of it stay in the first level cache.
  constexpr int64_t elementBytes = 4, tiles = 2, minKeyTile = 16;
  int64_t channels = cast<ShapedType>(op.getIn().getType()).getShape().back();
  int64_t rows = std::clamp<int64_t>(
      device.sharedBytes / (tiles * elementBytes * channels), 1, maxHostTile);
  Attribute schedule = attn_tile::SequentialAttr::get(
      op.getContext(), int64_t(llvm::bit_floor(uint64_t(rows))), minKeyTile,
      /*split_items=*/0, /*pack_heads=*/false);
  return cast<ScheduleAttrInterface>(schedule);
}

SmallVector<FittingSchedule>
attn::getLargestSchedules(AttentionOp op, StringRef target,
                          const DeviceFigures &device,
                          ArrayRef<FittingSchedule> fitting, int64_t &bound) {
  if (target == "sm_80") {
    if (auto largest = MultistageSchedules(op, device).getLargest())
      return {*largest};
    return {};
  }
  if (target != "sm_90a")
    return SmallVector<FittingSchedule>(fitting);
  WarpSpecializedSchedules schedules(op, device);
  // What regions compute is little beside what is read.
  if (std::optional<FittingSchedule> forFew = schedules.getForFewQueries())
    return {*forFew};
  return schedules.getLargest(bound);
}
