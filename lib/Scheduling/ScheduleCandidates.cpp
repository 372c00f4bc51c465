//===- ScheduleCandidates.cpp - Schedules that fit a device ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Derives tile shapes whose scores fit in registers and whose stages fit in
// shared memory. The registers that other values take depend on the assembler:
// with the numbers here kernels do not spill, or spill as the pages of
// docs/experiments say.
//
//===----------------------------------------------------------------------===//

#include "ScheduleCandidates.h"
#include "attn/Analysis/MaskTiles.h"
#include "attn/Dialect/AttnTile/IR/AttnTileAttrs.h"
#include "attn/Dialect/AttnTile/IR/RegisterBlocks.h"
#include "attn/Dialect/AttnTile/IR/SplitKV.h"
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

using attn_tile::columnBlockBytes;
using attn_tile::headDimStep;
using attn_tile::warpgroupThreads;
using attn_tile::warpThreads;

static constexpr int64_t registerBytes = 4;

/// Shared memory of a block that barriers take.
static constexpr int64_t barrierBytes = 1024;

/// Bytes that a copy promotes to L2 at once, for tiles of keys that several
/// CTAs read.
static constexpr int64_t sharedPromotion = 256;

/// Registers per thread for register tiles: the registers of a consumer (240 of
/// two consumers, 160 of three, 255 of four or eight warps) less room for
/// addresses, row statistics and the operands of instructions. One consumer has
/// 240 as well, or 200 if two CTAs share an SM.
static constexpr int64_t tileRegistersTwoConsumers = 200;
static constexpr int64_t tileRegistersThreeConsumers = 132;
static constexpr int64_t tileRegistersTwoCtas = 160;
static constexpr int64_t tileRegistersFourWarps = 192;
static constexpr int64_t tileRegistersEightWarps = 160;

double KeyTileBounds::getRegisters(int64_t keyTile) const {
  double scores = double(queryTile * keyTile) / double(threads);
  double held = double(scoreBytes + (sharesProbabilities ? 0 : elementBytes));
  // Tiles have whole steps of the contracted dimension.
  double output = double(queryTile * llvm::alignTo(vHeadDim, headDimStep)) /
                  double(threads);
  return scores * (1 + held / registerBytes) + output;
}

int64_t KeyTileBounds::getMmaRegisters(int64_t keyTile) const {
  return std::max(
      attn_tile::getMmaRegisters(keyTile, /*hasLhsInRegisters=*/false),
      attn_tile::getMmaRegisters(llvm::alignTo(vHeadDim, headDimStep),
                                 !sharesProbabilities));
}

int64_t KeyTileBounds::getSharedBytes(int64_t keyTile) const {
  auto getRowBytes = [&](int64_t headDim) {
    return int64_t(llvm::alignTo(elementBytes * headDim, columnBlockBytes));
  };
  int64_t queryBytes = getRowBytes(qkHeadDim);
  int64_t probabilities =
      sharesProbabilities ? elementBytes * queryTile * keyTile : 0;
  int64_t scoreRow = 0;
  for (int64_t bytes : stagedScoreBytes)
    scoreRow += llvm::alignTo(bytes * keyTile, columnBlockBytes);
  return queryStages * queryTile * queryBytes +
         stages * keyTile * (queryBytes + getRowBytes(vHeadDim)) +
         scoreStages * queryTile * scoreRow + probabilities;
}

std::pair<int64_t, StringRef>
attn::getLargestKeyTile(const KeyTileBounds &bounds) {
  std::pair<int64_t, StringRef> best(0, "");
  for (int64_t tile = keyTileUnit; tile <= bounds.maxKeyTile;
       tile += keyTileUnit) {
    if (bounds.getRegisters(tile) > double(bounds.registers) ||
        (bounds.launchedRegisters &&
         bounds.getMmaRegisters(tile) > *bounds.launchedRegisters))
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
  // The producer is launched with as many registers per thread.
  bounds.launchedRegisters = attn_tile::getLaunchedRegisters(
      bounds.threads + warpgroupThreads, /*ctasPerSm=*/1);
  bounds.sharedBytes = device.sharedBytes - barrierBytes;
  return bounds;
}

std::optional<TileCapacities>
attn::getTileCapacities(StringRef target, const DeviceFigures &device) {
  constexpr int64_t threads = 256;
  if (target == "host")
    return std::nullopt;
  TileCapacities capacities;
  capacities.distributedUnit = warpgroupRows;
  capacities.streamUnit = keyTileUnit;
  capacities.maxTile = maxKeyTileMma;
  capacities.registerBytes = registerBytes * threads *
                             (target == "sm_90a" ? tileRegistersTwoConsumers
                                                 : tileRegistersEightWarps);
  capacities.sharedBytes = device.sharedBytes - barrierBytes;
  return capacities;
}

//===----------------------------------------------------------------------===//
// Requirements of regions
//===----------------------------------------------------------------------===//

/// Calls `fn` for each read of the score_mod region of an element at the query
/// and the key.
static void forEachPairRead(AttentionOp op,
                            function_ref<void(tensor::ExtractOp)> fn) {
  if (op.getScoreMod().empty())
    return;
  ValueRange position = op.getScoreMod().getArguments().take_back(2);
  op.getScoreMod().walk([&](tensor::ExtractOp extract) {
    if (extract.getIndices().size() >= 2 &&
        extract.getIndices().take_back(2) == position &&
        extract.getType().isIntOrFloat())
      fn(extract);
  });
}

static int64_t getElementBytes(tensor::ExtractOp extract) {
  return llvm::divideCeil(extract.getType().getIntOrFloatBitWidth(), 8);
}

/// Bytes that the score_mod region reads for each pair, and that are held for a
/// whole tile: elements of tensors at the query and the key.
static int64_t getScoreBytes(AttentionOp op) {
  int64_t bytes = 0;
  forEachPairRead(op, [&](tensor::ExtractOp extract) {
    bytes += getElementBytes(extract);
  });
  return bytes;
}

/// Whether bulk copies can stage all elements that the score_mod region reads
/// for each pair: one tile of each tensor of floats, at indices that are the
/// same for all pairs of a tile.
static bool canStageScores(AttentionOp op) {
  Region &region = op.getScoreMod();
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

/// Whether the score_mod region reads elements that differ within a tile.
static bool readsElements(AttentionOp op) {
  Region &region = op.getScoreMod();
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

/// Whether the score_mod region calls mathematical functions.
static bool hasFunction(AttentionOp op) {
  return op.getScoreMod()
      .walk([](Operation *nested) {
        return isa<math::MathDialect>(nested->getDialect())
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Whether late queries skip keys in the middle, as under windows: then all
/// tiles of queries but a few have the same work.
static bool cutsMiddleKeys(MaskAttrInterface mask) {
  constexpr int64_t length = 1 << 20;
  return mask && !mask.isAttended(length - 1, length / 2, length, length);
}

namespace {
/// Consecutive queries and keys for which a mask_mod region reads the same
/// elements; 0 where its reads do not depend on the position.
struct BlockSize {
  int64_t rows = 0, columns = 0;
};
} // namespace

/// The number of consecutive positions with the same `value`, which depends on
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

static BlockSize getReadBlock(Region &maskMod) {
  BlockSize block;
  if (maskMod.empty())
    return block;
  auto narrow = [](int64_t &size, int64_t run) {
    if (run)
      size = size ? std::min(size, run) : run;
  };
  maskMod.walk([&](Operation *op) {
    if (!llvm::any_of(op->getOperandTypes(),
                      llvm::IsaPred<TensorType, BaseMemRefType>))
      return;
    for (Value operand : op->getOperands()) {
      narrow(block.rows, getRunLength(operand, maskMod.getArgument(2)));
      narrow(block.columns, getRunLength(operand, maskMod.getArgument(3)));
    }
  });
  return block;
}

//===----------------------------------------------------------------------===//
// Schedules that fit
//===----------------------------------------------------------------------===//

/// Registers of a thread that hold queries computed by a region: four warps
/// share 64 rows.
static int64_t getQueryRegisters(AttentionOp op) {
  if (op.getQueryRegion().empty())
    return 0;
  return llvm::alignTo(op.getQKHeadDim(), headDimStep) / 4;
}

static KeyTileBounds withShapes(KeyTileBounds bounds, AttentionOp op) {
  bounds.qkHeadDim = op.getQKHeadDim();
  bounds.vHeadDim = op.getVHeadDim();
  bounds.scoreBytes = getScoreBytes(op);
  return bounds;
}

/// How many tensors `mask_mod` reads at the query or the key itself. Each has
/// addresses of its own.
static unsigned countPositionTables(Region &maskMod) {
  ValueRange positions = maskMod.getArguments().take_back(2);
  llvm::SmallDenseSet<Value> tensors;
  maskMod.walk([&](tensor::ExtractOp extract) {
    for (Value index : extract.getIndices())
      if (llvm::is_contained(positions, index))
        tensors.insert(extract.getTensor());
  });
  return tensors.size();
}

/// Whether `mask_mod` computes numbers from the results of the reads in
/// `isMeant`, beyond comparing them.
static bool computesFromReads(Region &maskMod,
                              function_ref<bool(tensor::ExtractOp)> isMeant) {
  DenseSet<Value> read;
  return maskMod
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
static bool computesFromKeyReads(Region &maskMod) {
  return computesFromReads(maskMod, [&](tensor::ExtractOp extract) {
    return llvm::is_contained(extract.getIndices(), maskMod.getArgument(3));
  });
}

static bool computesFromPairReads(Region &maskMod) {
  return computesFromReads(maskMod, [&](tensor::ExtractOp extract) {
    return llvm::all_of(
        maskMod.getArguments().take_back(2), [&](BlockArgument position) {
          return llvm::any_of(extract.getIndices(), [&](Value index) {
            return getRunLength(index, position) != 0;
          });
        });
  });
}

bool attn::canReadMaskBits(AttentionOpInterface attention) {
  Region &maskMod = attention.getMaskMod();
  int64_t queries = getDimSize(attention.getQuery(), 2);
  return readsByPosition(maskMod) && maskMod.getArgument(1).use_empty() &&
         !attention.hasSequences() &&
         (ShapedType::isDynamic(queries) || queries < maxMaskBitQueries);
}

namespace {
/// One producer and two or three consumer warpgroups.
class WarpSpecializedSchedules {
public:
  WarpSpecializedSchedules(AttentionOp op, const DeviceFigures &device);

  SmallVector<ScheduleCandidate> getAll();
  /// A schedule for so few queries that reading keys and values takes most of
  /// the time.
  std::optional<ScheduleCandidate> getForFewQueries();
  /// The schedule with the largest tiles. If there is a second one, it is for
  /// at least `bound` queries.
  SmallVector<ScheduleCandidate> getLargest(int64_t &bound);

private:
  std::optional<ScheduleCandidate> getLargest(int64_t consumers,
                                              int64_t maxKeyTile);
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
  const DeviceFigures &device;
  OpChain chain;
  bool isMasked, readsMaskMod;
  /// Whether an earlier kernel evaluates the mask to a mask bitmap.
  bool readsBits;
  attn_tile::TraversalKind traversal = attn_tile::TraversalKind::Persistent;
  int64_t interleave = 1;
};
} // namespace

WarpSpecializedSchedules::WarpSpecializedSchedules(AttentionOp op,
                                                   const DeviceFigures &device)
    : op(op), device(device), chain(op.getOperation()),
      isMasked(op.getMaskAttr() || !op.getMaskMod().empty()),
      readsMaskMod(readsByPosition(op.getMaskMod())),
      readsBits(
          canReadMaskBits(cast<AttentionOpInterface>(op.getOperation()))) {
  // Under a mask, long and short work items are paired to equal amounts. That
  // is needless where work items are alike, and where lists give their lengths,
  // by which they are sorted.
  bool isListed = readsMaskMod && !op.hasSequences();
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
  if (op.hasSequences())
    interleave = 0;
  else if (isMasked && !hasUnequalWorkItems)
    interleave = maskedKeyHeads * op.getGroupSize();
}

std::optional<ScheduleCandidate>
WarpSpecializedSchedules::getLargest(int64_t consumers, int64_t maxKeyTile) {
  KeyTileBounds bounds = withShapes(getConsumerBounds(consumers, device), op);
  bounds.maxKeyTile = maxKeyTile;
  // A mask_mod that reads by position is evaluated beforehand and listed by
  // tiles. Iterating over the list takes registers of the consumers. So do keep
  // masks of dropout together with a score_mod.
  if (readsMaskMod)
    bounds.registers -= 24;
  if (readsMaskMod && !readsBits && countPositionTables(op.getMaskMod()) > 1)
    bounds.registers -= computesFromKeyReads(op.getMaskMod()) ? 32 : 16;
  if (readsMaskMod && op.hasDropout() && !op.getScoreMod().empty())
    bounds.registers -= 32;
  // Where keep masks are read, dropped probabilities are cleared in the step
  // after (`attn-tile-software-pipeline-kv-loop`), so that P of two steps is
  // live.
  if (op.getDropoutMask())
    bounds.scoreBytes += bounds.elementBytes;
  bounds.registers -= getQueryRegisters(op);
  KeyTileBounds plainBounds = bounds;
  // Reads of a score_mod need registers for addresses, too.
  if (getScoreBytes(op) > 0)
    plainBounds.registers -= 24;
  auto [keyTile, limit] = getLargestKeyTile(plainBounds);
  if (keyTile == 0)
    return std::nullopt;
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
  Attribute schedule = attn_tile::WarpSpecializedAttr::get(
      op.getContext(), bounds.queryTile, keyTile, bounds.stages, consumers,
      /*ping_pong=*/consumers > 1, traversal, interleave,
      /*conditional_rescale=*/isConditional || isDeferred,
      /*deferred_rescale=*/isDeferred,
      /*query_stages=*/preloads ? 2 : 1, /*split_kv_work_items=*/0,
      /*pack_gqa=*/false, bounds.scoreStages, sharedPromotion,
      /*ctas_per_sm=*/1,
      /*exp2_emulation=*/0, /*cluster=*/1, readsBits);
  return ScheduleCandidate{cast<ScheduleAttrInterface>(schedule), keyTile,
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
  if (op.hasSequences() || block.rows != warpgroupRows ||
      block.columns != keyTile || op.getQKHeadDim() != headDim ||
      op.getVHeadDim() != headDim || !op.getScoreMod().empty() ||
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
      /*interleave=*/1, /*conditional_rescale=*/false,
      /*deferred_rescale=*/false,
      /*query_stages=*/1, /*split_kv_work_items=*/0, /*pack_gqa=*/false,
      /*score_stages=*/0, sharedPromotion, /*ctas_per_sm=*/1,
      /*exp2_emulation=*/0, /*cluster=*/1, /*mask_bits=*/false);
  return ScheduleCandidate{cast<ScheduleAttrInterface>(schedule), keyTile,
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
/// an RNG.
int64_t WarpSpecializedSchedules::getMaxKeyTile() {
  constexpr int64_t maxKeyTileReads = 80, maxKeyTileRngKeys = 128;
  if (hasManyRngKeys(op))
    return maxKeyTileRngKeys;
  return readsMaskMod && readsElements(op) ? maxKeyTileReads : maxKeyTileMma;
}

/// Three consumers have too few registers for the iteration over a list of
/// tiles, for keep masks that are read under a mask, and for RNGs with many
/// keys. They also have too few for a score_mod that reads elements, together
/// with dropout, a mask_mod or a large head dim of the output (6 % slower with
/// 128, docs/experiments/cost-model-gain.md).
bool WarpSpecializedSchedules::canHaveThreeConsumers() {
  constexpr int64_t maxVHeadDimReads = 64;
  bool isCrowded = op.hasDropout() || !op.getMaskMod().empty() ||
                   op.getVHeadDim() > maxVHeadDimReads;
  return !readsMaskMod && !(readsElements(op) && isCrowded) &&
         !(isMasked && op.getDropoutMask()) && !hasManyRngKeys(op);
}

/// Work items with tiles of `queryTile` queries; none if a size is not known.
static std::optional<int64_t> countWorkItems(AttentionOp op, OpChain &chain,
                                             int64_t queryTile) {
  if (op.hasSequences())
    return std::nullopt;
  // Pieces of the axes that are distributed over CTAs: tiles of axes along
  // which inputs are shared, single indices of other axes.
  int64_t items = 1;
  for (auto [number, axis] : llvm::enumerate(chain.getAxes())) {
    if (chain.whyNotDistribute(number))
      continue;
    if (ShapedType::isDynamic(axis.size))
      return std::nullopt;
    int64_t tile = chain.isReused(number) ? queryTile : 1;
    items *= int64_t(llvm::divideCeil(axis.size, tile));
  }
  return items;
}

/// `schedule` with split-KV until there are `items` work items.
static ScheduleAttrInterface splitKV(ScheduleAttrInterface schedule,
                                     int64_t items) {
  return cast<ScheduleAttrInterface>(
      attn_tile::withSplitKVWorkItems(schedule, items));
}

std::optional<ScheduleCandidate> WarpSpecializedSchedules::getForFewQueries() {
  // Measured with one query for each head: two stages of 64 keys at head dim
  // 128 keep enough bytes in flight, and larger tiles are slower
  // (docs/experiments/split-kv-decoding.md).
  constexpr int64_t stageBytes = 32 * 1024, stages = 2;
  constexpr int64_t streamedPromotion = 128;
  int64_t queries = getDimSize(op.getQuery(), 2);
  if (op.hasSequences() || ShapedType::isDynamic(queries) ||
      queries > warpgroupRows)
    return std::nullopt;
  KeyTileBounds bounds = withShapes(getConsumerBounds(1, device), op);
  bounds.stages = stages;
  // Two CTAs share an SM if their instructions have few enough columns for the
  // registers at the launch.
  int64_t ctasPerSm = 1;
  if (std::max(bounds.qkHeadDim, bounds.vHeadDim) <= 2 * warpgroupRows) {
    ctasPerSm = 2;
    bounds.registers = tileRegistersTwoCtas;
    bounds.launchedRegisters = attn_tile::getLaunchedRegisters(
        bounds.threads + warpgroupThreads, ctasPerSm);
    bounds.sharedBytes = device.sharedBytes / ctasPerSm - barrierBytes;
  }
  int64_t keyBytes =
      llvm::alignTo(bounds.elementBytes * bounds.qkHeadDim, columnBlockBytes) +
      llvm::alignTo(bounds.elementBytes * bounds.vHeadDim, columnBlockBytes);
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
      /*conditional_rescale=*/false, /*deferred_rescale=*/false,
      /*query_stages=*/1,
      /*split_kv_work_items=*/whyNotSplitKV(op) ? 0 : device.sms,
      /*pack_gqa=*/op.getGroupSize() > 1 && !whyNotPackGqa(op),
      /*score_stages=*/0, streamedPromotion, ctasPerSm, /*exp2_emulation=*/0,
      /*cluster=*/1, /*mask_bits=*/false);
  return ScheduleCandidate{cast<ScheduleAttrInterface>(schedule), keyTile,
                           /*preloadsQueries=*/false, "what is read at a time"};
}

SmallVector<ScheduleCandidate> WarpSpecializedSchedules::getAll() {
  // The smallest key tiles whose kernels have been measured; smaller ones are
  // considered only where these do not fit.
  constexpr int64_t minKeyTile = 64;
  // One consumer has smaller tiles of queries, for small grids.
  constexpr int64_t maxKeyTileOneConsumer = 128;
  std::optional<int64_t> smallWorkItems =
      countWorkItems(op, chain, warpgroupRows);
  bool isSmall = smallWorkItems && *smallWorkItems <= device.sms;
  SmallVector<ScheduleCandidate> all;
  for (int64_t consumers = isSmall ? 1 : 2;
       consumers <= (canHaveThreeConsumers() ? 3 : 2); ++consumers)
    for (int64_t keyTile = minKeyTile;
         keyTile <= std::min(getMaxKeyTile(), consumers == 1
                                                  ? maxKeyTileOneConsumer
                                                  : maxKeyTileMma);
         keyTile += keyTileUnit)
      if (auto candidate = getLargest(consumers, keyTile);
          candidate && (candidate->keyTile == keyTile ||
                        (all.empty() && keyTile == minKeyTile)))
        all.push_back(std::move(*candidate));
  // Where there are fewer work items than half of the SMs, several may split
  // the keys of one.
  if (!whyNotSplitKV(op))
    for (ScheduleCandidate candidate : SmallVector<ScheduleCandidate>(all)) {
      std::optional<int64_t> items =
          countWorkItems(op, chain, candidate.schedule.getQueryTile());
      if (!items || 2 * *items > device.sms)
        continue;
      candidate.schedule = splitKV(candidate.schedule, device.sms);
      all.push_back(std::move(candidate));
    }
  if (std::optional<ScheduleCandidate> forFew = getForFewQueries())
    all.push_back(std::move(*forFew));
  return all;
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
      getLargest(2, std::min(maxKeyTile, getMaxKeyTile()));
  if (!two)
    return {};
  if (readsBits) {
    readsBits = false;
    std::optional<ScheduleCandidate> plain =
        getLargest(2, std::min(maxKeyTile, getMaxKeyTile()));
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
    bound = 3072;
    return {*two, *three};
  }
  if (!two->preloadsQueries && two->keyTile > maxKeyTilePreload) {
    // Smaller key tiles leave room for the queries of the next work item, which
    // matters where work items are short (docs/experiments/query-prefetch.md).
    std::optional<ScheduleCandidate> small = getLargest(2, maxKeyTilePreload);
    if (small && small->preloadsQueries) {
      bound = 6144;
      return {*small, *two};
    }
  }
  return {*two};
}

size_t attn::countTileRanges(Operation *op, MaskAttrInterface mask, MaskDim dim,
                             int64_t rowTile, int64_t columnTile) {
  // The emitted code is thrown away, so its operands do not matter.
  Region region;
  OpBuilder builder(op->getContext());
  Block *block =
      builder.createBlock(&region, {}, builder.getIndexType(), op->getLoc());
  Value any = block->getArgument(0);
  ScoreMask scores = {mask,
                      /*maskMod=*/nullptr,
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

  SmallVector<ScheduleCandidate> getAll();
  /// The one with the largest tiles.
  std::optional<ScheduleCandidate> getLargest();

private:
  KeyTileBounds getBounds(int64_t queryTile, int64_t warps);
  ScheduleCandidate makeCandidate(const KeyTileBounds &bounds, int64_t keyTile,
                                  StringRef limit);

  AttentionOp op;
  const DeviceFigures &device;
  OpChain chain;
  /// Whether a step finds its tile among few ranges, whose ends fit registers
  /// next to the largest tiles.
  bool hasFewRanges;
};
} // namespace

MultistageSchedules::MultistageSchedules(AttentionOp op,
                                         const DeviceFigures &device)
    : op(op), device(device), chain(op.getOperation()) {
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
  KeyTileBounds bounds = withShapes(KeyTileBounds(), op);
  bounds.queryTile = queryTile;
  bounds.threads = warpThreads * warps;
  bounds.maxKeyTile = maxKeyTile;
  bounds.sharedBytes = device.sharedBytes - barrierBytes;
  // Where there is nothing but a named mask, tiles may be somewhat larger.
  bool isPlain = hasFewRanges && op.getScoreMod().empty() &&
                 op.getMaskMod().empty() && op.getQueryRegion().empty() &&
                 op.getEpilogue().empty() && !op.hasDropout() &&
                 !op.hasSequences() && !op.getIdentity() && !op.getSinks() &&
                 !op.getHeadMap() && op.getMaskReads().empty();
  // A mask that reads tensors needs registers for their addresses.
  int64_t readRegisters = readsByPosition(op.getMaskMod()) ? 16 : 0;
  if (queryTile / warps >= rowsOfWarp)
    bounds.registers = tileRegistersFourWarps + (isPlain ? 8 : 0) -
                       readRegisters - 2 * getQueryRegisters(op);
  else
    bounds.registers = tileRegistersEightWarps + (isPlain ? 4 : 0) -
                       (hasFewRanges ? 0 : 32) - getQueryRegisters(op);
  return bounds;
}

ScheduleCandidate
MultistageSchedules::makeCandidate(const KeyTileBounds &bounds, int64_t keyTile,
                                   StringRef limit) {
  Attribute schedule = attn_tile::MultistageAttr::get(
      op.getContext(), bounds.queryTile, keyTile, bounds.stages,
      bounds.threads / warpThreads, /*split_kv_work_items=*/0,
      /*pack_gqa=*/false);
  return ScheduleCandidate{cast<ScheduleAttrInterface>(schedule), keyTile,
                           /*preloadsQueries=*/false, limit.str()};
}

SmallVector<ScheduleCandidate> MultistageSchedules::getAll() {
  // The smallest key tiles whose kernels have been measured.
  constexpr int64_t minKeyTile = 32;
  // With 128 rows, each of four warps has twice the rows of one of eight, so
  // that its reads of keys and values serve two MMAs.
  constexpr std::pair<int64_t, int64_t> rowsAndWarps[] = {
      {128, 4}, {128, 8}, {64, 4}};
  SmallVector<ScheduleCandidate> all;
  for (auto [queryTile, warps] : rowsAndWarps) {
    KeyTileBounds bounds = getBounds(queryTile, warps);
    auto [largest, limit] = getLargestKeyTile(bounds);
    for (int64_t keyTile = minKeyTile; keyTile <= largest;
         keyTile += keyTileUnit)
      all.push_back(makeCandidate(bounds, keyTile, limit));
  }
  if (whyNotSplitKV(op))
    return all;
  // As many work items as two CTAs on each SM have.
  int64_t items = 2 * device.sms;
  for (ScheduleCandidate candidate : SmallVector<ScheduleCandidate>(all)) {
    std::optional<int64_t> whole =
        countWorkItems(op, chain, candidate.schedule.getQueryTile());
    if (!whole || 2 * *whole > device.sms)
      continue;
    candidate.schedule = splitKV(candidate.schedule, items);
    all.push_back(std::move(candidate));
  }
  // One query for each head: the query heads of a key head are rows of one
  // tile.
  if (op.getGroupSize() == 1 || whyNotPackGqa(op))
    return all;
  for (ScheduleCandidate candidate : SmallVector<ScheduleCandidate>(all)) {
    auto plain = cast<attn_tile::MultistageAttr>(Attribute(candidate.schedule));
    if (plain.getSplitKvWorkItems() > 0)
      continue;
    Attribute packed = attn_tile::MultistageAttr::get(
        op.getContext(), plain.getQueryTile(), plain.getKeyTile(),
        plain.getStages(), plain.getWarps(), items, /*pack_gqa=*/true);
    candidate.schedule = cast<ScheduleAttrInterface>(packed);
    all.push_back(std::move(candidate));
  }
  return all;
}

std::optional<ScheduleCandidate> MultistageSchedules::getLargest() {
  // Bytes that an SM reserves for each CTA on top of the bytes that the CTA
  // asks for. `sharedBytes` leaves room for one CTA.
  constexpr int64_t reservedBytes = 1024;
  constexpr int64_t queryTile = 128, minKeyTileFourWarps = 48;
  // Two CTAs of four warps share an SM: one computes while the other waits.
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
  return makeCandidate(bounds, keyTile, limit);
}

namespace {
/// Tasks of one core, with tiles on the stack of its thread.
class SequentialSchedules {
public:
  SequentialSchedules(AttentionOpInterface op, const DeviceFigures &device);

  SmallVector<ScheduleCandidate> getAll();

private:
  /// Adds tiles with up to `mostRows` rows; only tiles of all rows if there are
  /// no more than a few.
  void addTiles(int64_t mostRows, int64_t splitKVWorkItems, bool packsGqa);

  AttentionOpInterface op;
  const DeviceFigures &device;
  SmallVector<ScheduleCandidate> all;
};
} // namespace

/// Rows and columns of a tile of a schedule of the host, at most.
static constexpr int64_t maxHostTile = 256;

SequentialSchedules::SequentialSchedules(AttentionOpInterface op,
                                         const DeviceFigures &device)
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
  int64_t copies = isa<AttentionGradOp>(op.getOperation()) ? 2 : 1;
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
      Attribute schedule = attn_tile::SequentialAttr::get(
          op.getContext(), queryTile, keyTile, splitKVWorkItems, packsGqa);
      all.push_back({cast<ScheduleAttrInterface>(schedule), keyTile,
                     /*preloadsQueries=*/false, "what a row unrolls to"});
    }
}

SmallVector<ScheduleCandidate> SequentialSchedules::getAll() {
  int64_t queries = getDimSize(op.getQuery(), 2);
  bool isKnown = !op.hasSequences() && !ShapedType::isDynamic(queries);
  int64_t mostRows = isKnown ? std::max<int64_t>(queries, 1) : maxHostTile;
  addTiles(mostRows, /*splitKVWorkItems=*/0, /*packsGqa=*/false);
  auto attention = dyn_cast<AttentionOp>(op.getOperation());
  if (!attention)
    return all;
  // One query for each head: the query heads of a key head are rows of one
  // tile.
  if (op.getGroupSize() > 1 && !whyNotPackGqa(attention))
    addTiles(op.getGroupSize(), /*splitKVWorkItems=*/0, /*packsGqa=*/true);
  // Where cores would be idle, they split the keys.
  if (device.sms == 1 || whyNotSplitKV(attention))
    return all;
  OpChain chain(op.getOperation());
  for (ScheduleCandidate candidate : SmallVector<ScheduleCandidate>(all)) {
    std::optional<int64_t> items =
        countWorkItems(attention, chain, candidate.schedule.getQueryTile());
    if (!items || 2 * *items > device.sms)
      continue;
    candidate.schedule = splitKV(candidate.schedule, device.sms);
    all.push_back(std::move(candidate));
  }
  return all;
}

SmallVector<ScheduleCandidate>
attn::getScheduleCandidates(AttentionOp op, StringRef target,
                            const DeviceFigures &device) {
  if (target == "sm_90a")
    return WarpSpecializedSchedules(op, device).getAll();
  if (target == "host")
    return SequentialSchedules(cast<AttentionOpInterface>(op.getOperation()),
                               device)
        .getAll();
  return MultistageSchedules(op, device).getAll();
}

SmallVector<ScheduleCandidate>
attn::getGradScheduleCandidates(AttentionGradOp op,
                                const DeviceFigures &device) {
  return SequentialSchedules(cast<AttentionOpInterface>(op.getOperation()),
                             device)
      .getAll();
}

ScheduleAttrInterface attn::getHostMapSchedule(MapHeadsOp op,
                                               const DeviceFigures &device) {
  // The rows that are read and the rows made of them stay in the L1 cache.
  constexpr int64_t elementBytes = 4, tiles = 2, minKeyTile = 16;
  int64_t headDim = cast<ShapedType>(op.getIn().getType()).getShape().back();
  int64_t rows = std::clamp<int64_t>(
      device.sharedBytes / (tiles * elementBytes * headDim), 1, maxHostTile);
  Attribute schedule = attn_tile::SequentialAttr::get(
      op.getContext(), int64_t(llvm::bit_floor(uint64_t(rows))), minKeyTile,
      /*split_kv_work_items=*/0, /*pack_gqa=*/false);
  return cast<ScheduleAttrInterface>(schedule);
}

SmallVector<ScheduleCandidate> attn::getLargestSchedules(
    AttentionOp op, StringRef target, const DeviceFigures &device,
    ArrayRef<ScheduleCandidate> candidates, int64_t &bound) {
  if (target == "sm_80") {
    if (auto largest = MultistageSchedules(op, device).getLargest())
      return {*largest};
    return {};
  }
  if (target != "sm_90a")
    return SmallVector<ScheduleCandidate>(candidates);
  WarpSpecializedSchedules schedules(op, device);
  // Regions compute little in comparison with the bytes that are read.
  if (std::optional<ScheduleCandidate> forFew = schedules.getForFewQueries())
    return {*forFew};
  return schedules.getLargest(bound);
}
