//===- ChooseSchedule.cpp - Attach a schedule to each attention -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Derives tile shapes from the capacities of the target: the key tile is the
// largest one whose scores fit in registers and whose stages fit in shared
// memory.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "attn/Dialect/AttnTile/IR/AttnTileAttrs.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::attn {
#define GEN_PASS_DEF_CHOOSESCHEDULEPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;

namespace {
/// A schedule, and why it was chosen.
struct Choice {
  /// Of `ScheduleAttrInterface`, or a choice of two.
  Attribute schedule;
  std::string reason;
  int64_t keyTile = 0;
  /// Whether the queries of the next work item are loaded early.
  bool preloadsQueries = false;
};

/// What bounds the key tile of a GPU kernel.
struct KeyTileBounds {
  /// Rows of queries in one tile, and threads that share them.
  int64_t queryTile;
  int64_t threads;
  /// Stages of the key and value pipes.
  int64_t stages;
  /// Registers of a thread that may hold scores, weights and output.
  int64_t registers;
  /// Bytes of shared memory for tiles.
  int64_t sharedBytes;
  int64_t maxKeyTile;
};
} // namespace

/// Channels are staged in blocks of this many, padded with zeros.
static constexpr int64_t channelBlock = 64;
static constexpr int64_t channelStep = 16;
static constexpr int64_t keyTileUnit = 16;
static constexpr int64_t maxHeadDim = 256;
/// Heads are unrolled on the host: what is compiled grows with this.
static constexpr int64_t maxHeadDimHost = 4096;
static constexpr int64_t headDimUnit = 8;
static constexpr int64_t warpgroupRows = 64;
static constexpr int64_t registerBytes = 4;

/// Shared memory that a block may use, less room for barriers.
static constexpr int64_t barrierBytes = 1024;
static constexpr int64_t sharedBytesSm90 = 227 * 1024 - barrierBytes;
static constexpr int64_t sharedBytesSm80 = 163 * 1024 - barrierBytes;
/// The same where two blocks share the 164 KiB of a multiprocessor, of which
/// each of them takes one more than it asks for.
static constexpr int64_t sharedBytesSm80Half =
    (164 / 2 - 1) * 1024 - barrierBytes;

/// Registers per thread for register tiles: what a consumer has (240 of two
/// consumers, 160 of three, 255 of four or eight warps) less what addresses,
/// row statistics and the operands of instructions take.
static constexpr int64_t tileRegistersTwoConsumers = 200;
static constexpr int64_t tileRegistersThreeConsumers = 128;
static constexpr int64_t tileRegistersFourWarps = 192;
static constexpr int64_t tileRegistersEightWarps = 160;

/// Bytes of the stages of a kernel with `queryStages` tiles of queries.
static int64_t getStagedBytes(AttentionOp op, const KeyTileBounds &bounds,
                              int64_t keyTile, int64_t queryStages) {
  constexpr int64_t elementBytes = 2;
  int64_t queryChannels = llvm::alignTo(op.getQueryHeadDim(), channelBlock);
  int64_t valueChannels = llvm::alignTo(op.getValueHeadDim(), channelBlock);
  return elementBytes *
         (queryStages * bounds.queryTile * queryChannels +
          bounds.stages * keyTile * (queryChannels + valueChannels));
}

/// Bytes that the score region reads for each pair, and that are held for a
/// whole tile: elements of tensors at the query and the key.
static int64_t getScoreBytes(AttentionOp op) {
  if (op.getScoreRegion().empty())
    return 0;
  ValueRange position = op.getScoreRegion().getArguments().take_back(2);
  int64_t bytes = 0;
  op.getScoreRegion().walk([&](tensor::ExtractOp extract) {
    if (extract.getIndices().size() >= 2 &&
        extract.getIndices().take_back(2) == position &&
        extract.getType().isIntOrFloat())
      bytes += llvm::divideCeil(extract.getType().getIntOrFloatBitWidth(), 8);
  });
  return bytes;
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

/// The largest key tile within `bounds`, 0 if there is none, and what stopped
/// it from being larger.
static std::pair<int64_t, StringRef> getKeyTile(AttentionOp op,
                                                const KeyTileBounds &bounds) {
  // Tiles have whole steps of the contracted dimension.
  int64_t outputRegisters = bounds.queryTile *
                            llvm::alignTo(op.getValueHeadDim(), channelStep) /
                            bounds.threads;
  int64_t scoreBytes = getScoreBytes(op);
  std::pair<int64_t, StringRef> best(0, "");
  for (int64_t tile = keyTileUnit; tile <= bounds.maxKeyTile;
       tile += keyTileUnit) {
    // Scores in f32, and the weights made of them in two bytes.
    int64_t scores = bounds.queryTile * tile / bounds.threads;
    int64_t read = scores * scoreBytes / registerBytes;
    if (scores + scores / 2 + read + outputRegisters > bounds.registers)
      return {best.first, "registers"};
    if (getStagedBytes(op, bounds, tile, /*queryStages=*/1) >
        bounds.sharedBytes)
      return {best.first, "shared memory"};
    best = {tile, "instruction shape"};
  }
  return best;
}

static std::string describe(int64_t keyTile, StringRef limit) {
  return ("key tile " + Twine(keyTile) + " is bounded by " + limit).str();
}

/// One producer and two or three consumer warpgroups.
static std::optional<Choice> chooseWarpSpecialized(AttentionOp op) {
  // A third consumer hides more of the softmax, if key tiles stay large enough
  // for the products to be efficient.
  constexpr int64_t minKeyTileThreeConsumers = 128;
  // The smallest key tiles whose products are efficient.
  constexpr int64_t maxKeyTilePreload = 128;
  // Key tiles that a mask cuts are computed in full: smaller ones waste less.
  constexpr int64_t maxKeyTileMasked = 128;
  // Where scores go through functions of their own, the softmax takes longer
  // than the products; its dependent steps are shorter in smaller tiles.
  constexpr int64_t maxKeyTileFunctions = 128;
  constexpr int64_t stages = 2;
  // Reads in both regions need registers for their addresses.
  constexpr int64_t maxKeyTileReads = 80;

  // Tiles that a score change reads need addresses, too.
  int64_t scoreRegisters = getScoreBytes(op) > 0 ? 24 : 0;

  // What is read for each pair is found out before, and listed by tiles; a walk
  // over the list takes registers of the consumers.
  bool readsKeep = readsByPosition(op.getKeepRegion());
  int64_t tileRegisters = tileRegistersTwoConsumers - (readsKeep ? 24 : 0);
  // So do decisions of dropout beside a change of scores.
  if (readsKeep && op.hasDropout() && !op.getScoreRegion().empty())
    tileRegisters -= 32;
  auto getBounds = [&](int64_t consumers, int64_t maxKeyTile) {
    int64_t registers =
        consumers == 3 ? tileRegistersThreeConsumers : tileRegisters;
    return KeyTileBounds{
        consumers * warpgroupRows,  consumers * 128, stages,
        registers - scoreRegisters, sharedBytesSm90, maxKeyTile};
  };
  bool isMasked = op.getMaskAttr() || !op.getKeepRegion().empty();
  // Under a mask, long and short work items are paired to equal amounts. That
  // is needless where items are alike, and where lists say how long they are:
  // they are sorted then.
  bool isListed = readsKeep && !op.hasSequences();
  bool hasUnequalItems =
      isMasked && !isListed && !cutsMiddleKeys(op.getMaskAttr());
  auto traversal = hasUnequalItems ? attn_tile::TraversalKind::Paired
                                   : attn_tile::TraversalKind::Persistent;
  // Items that need few keys each, and need them at about the same time, may go
  // along over several key heads. Then the few that are longer than most are
  // dealt out to all groups. Sequences are planned in the order of their work,
  // which holds over all heads only if they go along together.
  constexpr int64_t maskedKeyHeads = 8;
  int64_t interleave = 1;
  if (op.hasSequences())
    interleave = 0;
  else if (isMasked && !hasUnequalItems)
    interleave = maskedKeyHeads * op.getGroupSize();
  // Rescaling is worth skipping where it takes long beside the products.
  constexpr int64_t minValueHeadDimLazy = 192;
  bool lazyRescale = op.getValueHeadDim() >= minValueHeadDimLazy;
  auto choose = [&](int64_t consumers,
                    int64_t maxKeyTile) -> std::optional<Choice> {
    KeyTileBounds bounds = getBounds(consumers, maxKeyTile);
    auto [keyTile, limit] = getKeyTile(op, bounds);
    if (keyTile == 0)
      return std::nullopt;
    // The queries of the next item are loaded early if there is room.
    bool preloads =
        getStagedBytes(op, bounds, keyTile, 2) <= bounds.sharedBytes;
    auto schedule = attn_tile::WarpSpecializedAttr::get(
        op.getContext(), consumers * warpgroupRows, keyTile, stages, consumers,
        /*ping_pong=*/true, traversal, interleave, lazyRescale,
        /*query_stages=*/preloads ? 2 : 1);
    return Choice{schedule, describe(keyTile, limit), keyTile, preloads};
  };
  auto chooseByLength = [&](int64_t bound, Choice below, const Choice &from,
                            const Twine &reason) -> Choice {
    auto query = cast<ShapedType>(op.getQuery().getType());
    constexpr unsigned lengthDim = 2;
    if (!query.isDynamicDim(lengthDim) && !op.hasSequences())
      return query.getDimSize(lengthDim) < bound ? below : from;
    below.schedule = ByQueryLengthAttr::get(
        op.getContext(), bound, cast<ScheduleAttrInterface>(below.schedule),
        cast<ScheduleAttrInterface>(from.schedule));
    below.reason = (Twine(below.reason) + "; from " + Twine(bound) +
                    " queries on " + from.reason + ", " + reason)
                       .str();
    return below;
  };

  std::optional<Choice> three = choose(3, minKeyTileThreeConsumers);
  // They have too few registers for a score change that reads or computes much,
  // and for a walk over a list of tiles.
  if (three &&
      (three->keyTile < minKeyTileThreeConsumers || readsElements(op) ||
       readsKeep || (isMasked && hasFunction(op))))
    three = std::nullopt;
  if (three && !isMasked)
    return three;
  int64_t maxKeyTile = isMasked          ? maxKeyTileMasked
                       : hasFunction(op) ? maxKeyTileFunctions
                                         : 256;
  if (readsKeep && readsElements(op))
    maxKeyTile = std::min(maxKeyTile, maxKeyTileReads);
  std::optional<Choice> two = choose(2, maxKeyTile);
  if (!two)
    return two;
  if (three)
    // The larger query tile wastes more on the edges of a mask and at the end
    // of the queries, which matters less the longer they are.
    return chooseByLength(3072, *two, *three, "three consumers");
  if (!two->preloadsQueries && two->keyTile > maxKeyTilePreload) {
    // Smaller key tiles leave room for the queries of the next item, which
    // matters where items are short.
    std::optional<Choice> small = choose(2, maxKeyTilePreload);
    if (small && small->preloadsQueries)
      return chooseByLength(6144, *small, *two, "without early queries");
  }
  return two;
}

/// Four or eight warps that prefetch and compute.
static std::optional<Choice> chooseMultistage(AttentionOp op) {
  constexpr int64_t queryTile = 128, stages = 2, maxKeyTile = 128;
  // Each of four warps has twice the rows of one of eight, so that what it
  // reads of keys and values serves two products. Two such groups share a
  // multiprocessor: one computes while the other waits.
  constexpr int64_t minKeyTileFourWarps = 48;
  auto choose = [&](int64_t warps, int64_t registers, int64_t sharedBytes) {
    return getKeyTile(op, {queryTile, warps * 32, stages, registers,
                           sharedBytes, maxKeyTile});
  };
  int64_t warps = 4;
  // A mask that reads tensors needs registers for their addresses.
  int64_t readRegisters = readsByPosition(op.getKeepRegion()) ? 16 : 0;
  auto [keyTile, limit] = choose(warps, tileRegistersFourWarps - readRegisters,
                                 sharedBytesSm80Half);
  if (keyTile < minKeyTileFourWarps) {
    warps = 8;
    std::tie(keyTile, limit) =
        choose(warps, tileRegistersEightWarps, sharedBytesSm80);
  }
  if (keyTile == 0)
    return std::nullopt;
  auto schedule = attn_tile::MultistageAttr::get(op.getContext(), queryTile,
                                                 keyTile, stages, warps);
  return Choice{schedule, describe(keyTile, limit), keyTile};
}

/// Tiles of a few registers' width whose operands stay in the first cache.
static std::optional<Choice> chooseSequential(Operation *op) {
  constexpr int64_t queryTile = 16, keyTile = 64;
  auto schedule =
      attn_tile::SequentialAttr::get(op->getContext(), queryTile, keyTile);
  return Choice{schedule, "tiles fit the first level cache"};
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

namespace {
/// What bounds the tile that a kernel of a gradient walks over. Sizes are in
/// units of one row of that tile, or fixed.
struct WalkedTileBounds {
  /// Registers of accumulators, and of scores, weights and their gradients for
  /// one row, of each thread.
  int64_t accumulators;
  double registersPerRow;
  /// Bytes of tiles that stay, and of all stages for one row.
  int64_t fixedBytes;
  int64_t bytesPerRow;
  /// Registers of a thread that may hold all of these.
  int64_t registers;
  int64_t maxTile;
};
} // namespace

/// Registers of a consumer of queries for register tiles: what it has (240)
/// less what addresses and the operands of instructions take.
static constexpr int64_t gradTileRegisters = 224;
static constexpr int64_t gradConsumers = 2;
static constexpr int64_t gradStages = 2;
/// Larger tiles of queries leave no registers to load early; measured slower.
static constexpr int64_t maxGradQueryTile = 80;
static constexpr int64_t maxGradKeyTile = 128;

/// The largest tile within `bounds`, or 0.
static int64_t getWalkedTile(const WalkedTileBounds &bounds) {
  int64_t best = 0;
  for (int64_t tile = keyTileUnit; tile <= bounds.maxTile; tile += keyTileUnit)
    if (bounds.accumulators + bounds.registersPerRow * tile <=
            bounds.registers &&
        bounds.fixedBytes + bounds.bytesPerRow * tile <= sharedBytesSm90)
      best = tile;
  return best;
}

/// Warp-specialized kernels for rows of keys and of queries.
static std::optional<Choice> chooseGradientWarpSpecialized(AttentionGradOp op) {
  constexpr int64_t elementBytes = 2, rows = gradConsumers * warpgroupRows;
  int64_t keyChannels = llvm::alignTo(op.getQueryHeadDim(), channelBlock);
  int64_t valueChannels = llvm::alignTo(op.getValueHeadDim(), channelBlock);
  int64_t bothBytes = elementBytes * (keyChannels + valueChannels);
  // A thread has half a register for each channel, and for each column of a
  // tile of f32; weights and their gradients are kept in 16 bits, too, and
  // there are two values for each column. With dropout there are weights before
  // and after it.
  int64_t keyAccumulators =
      llvm::alignTo(op.getQueryHeadDim(), channelStep) / 2;
  int64_t valueAccumulators =
      llvm::alignTo(op.getValueHeadDim(), channelStep) / 2;
  double dropped = op.hasDropout() ? 0.5 : 0;
  double scoresAndGradients = 1.5 + dropped, scoresAlone = 1.0 + dropped;
  int64_t stagedRow = gradStages * bothBytes, fixed = rows * bothBytes;
  WalkedTileBounds together{keyAccumulators + valueAccumulators,
                            scoresAndGradients,
                            fixed,
                            stagedRow,
                            gradTileRegisters,
                            maxGradQueryTile};
  WalkedTileBounds keysAlone = together;
  keysAlone.accumulators = keyAccumulators;
  WalkedTileBounds valuesAlone = together;
  valuesAlone.accumulators = valueAccumulators;
  valuesAlone.registersPerRow = scoresAlone;
  valuesAlone.fixedBytes = rows * elementBytes * keyChannels;
  WalkedTileBounds queriesAlone = keysAlone;
  queriesAlone.registers = tileRegistersTwoConsumers;
  queriesAlone.maxTile = maxGradKeyTile;

  bool isMasked = op.getMaskAttr() || !op.getKeepRegion().empty();
  auto traversal = isMasked ? attn_tile::TraversalKind::Paired
                            : attn_tile::TraversalKind::Persistent;
  MLIRContext *context = op.getContext();
  auto makeKeys = [&](int64_t queryTile, bool pipelined = false,
                      int64_t queryParts = 1) {
    return cast<ScheduleAttrInterface>(
        Attribute(attn_tile::KeyStationaryAttr::get(
            context, queryTile, rows, gradStages * queryParts, gradConsumers,
            traversal, /*interleave=*/1, pipelined, queryParts)));
  };

  auto ofRows = cast<ScheduleAttrInterface>(
      Attribute(attn_tile::MultistageAttr::get(context, /*query_tile=*/128,
                                               /*key_tile=*/64, /*stages=*/2,
                                               /*warps=*/4 * gradConsumers)));

  // Small tiles read more from shared memory than products take; two kernels
  // with large ones are better.
  constexpr int64_t minWalkedTile = 48;
  // The kernel of the keys can add up the gradients of queries, in tiles with a
  // row for each channel: where few rows are padding, that saves the products
  // that make scores again. Two stages of shared gradients of scores, and a
  // tile of sums.
  WalkedTileBounds withSums = together;
  withSums.accumulators = rows / 2 + valueAccumulators;
  withSums.fixedBytes = rows * elementBytes * (rows + valueChannels);
  withSums.bytesPerRow = gradStages * elementBytes * (rows + valueChannels) +
                         2 * rows * elementBytes + rows * 4;
  withSums.maxTile = channelBlock;
  auto chooseSums = [&](int64_t tile, int64_t parts) {
    // What regions read and compute, and dropped weights, leave no registers
    // for the next step.
    bool pipelined = op.getScoreRegion().empty() &&
                     op.getKeepRegion().empty() && !op.hasDropout();
    return Choice{attn_tile::GradientAttr::get(context, ofRows,
                                               makeKeys(tile, pipelined, parts),
                                               /*queries=*/nullptr,
                                               /*values=*/nullptr),
                  ("tiles of " + Twine(tile) +
                   " queries fit registers and shared memory, with sums")
                      .str(),
                  rows};
  };
  if (!op.getDeterministic() && keyChannels == rows)
    if (int64_t tile = getWalkedTile(withSums); tile >= minWalkedTile)
      return chooseSums(tile, /*parts=*/1);
  // Sums of half as many channels have a row for each query instead, of twice
  // as many, which are multiplied in two parts. Dropout has not been measured
  // in this form.
  if (!op.getDeterministic() && 2 * keyChannels == rows &&
      valueChannels <= keyChannels && !op.hasDropout())
    return chooseSums(rows, /*parts=*/2);

  int64_t queryTile = getWalkedTile(together);
  ScheduleAttrInterface values;
  if (queryTile < minWalkedTile) {
    queryTile = getWalkedTile(keysAlone);
    int64_t tile = getWalkedTile(valuesAlone);
    if (queryTile == 0 || tile == 0)
      return std::nullopt;
    values = makeKeys(tile);
  }
  int64_t keyTile = getWalkedTile(queriesAlone);
  if (keyTile == 0)
    return std::nullopt;
  auto queries =
      cast<ScheduleAttrInterface>(Attribute(attn_tile::WarpSpecializedAttr::get(
          context, rows, keyTile, gradStages, gradConsumers,
          /*ping_pong=*/false, traversal, /*interleave=*/1,
          /*lazy_rescale=*/false, /*query_stages=*/1)));
  auto schedule = attn_tile::GradientAttr::get(
      context, ofRows, makeKeys(queryTile), queries, values);
  std::string reason =
      ("tiles of " + Twine(queryTile) + " queries and " + Twine(keyTile) +
       " keys fit registers and shared memory")
          .str();
  if (values)
    reason += "; gradients of keys and values do not fit one kernel";
  return Choice{schedule, reason, keyTile};
}

/// Checks what the matrix instructions of GPUs can do.
static LogicalResult verifyForGPU(AttentionOpInterface op, StringRef target) {
  Type element = cast<ShapedType>(op.getQuery().getType()).getElementType();
  if (!element.isBF16() && !element.isF16())
    return op.emitOpError("element type on ")
           << target << " must be bf16 or f16 (was " << element << ")";
  for (auto [name, dim] :
       {std::pair<StringRef, int64_t>("query", op.getQueryHeadDim()),
        std::pair<StringRef, int64_t>("value", op.getValueHeadDim())})
    if (dim % headDimUnit != 0 || dim > maxHeadDim)
      return op.emitOpError()
             << name << " head dimension on " << target
             << " must be a multiple of " << headDimUnit << " and at most "
             << maxHeadDim << " (was " << dim << ")";
  return success();
}

static LogicalResult verifyForGPU(AttentionGradOp op, StringRef target) {
  if (failed(
          verifyForGPU(cast<AttentionOpInterface>(op.getOperation()), target)))
    return failure();
  if (target != "sm_90a")
    return op.emitOpError("has no kernels for ") << target;
  Type element = getElementTypeOrSelf(op.getQuery().getType());
  Type other = getElementTypeOrSelf(op.getDout().getType());
  if (element != other)
    return op.emitOpError("gradient of the output on ")
           << target << " must have the element type of the query (expected "
           << element << ", found " << other << ")";
  return success();
}

static LogicalResult verifyForHost(AttentionOpInterface op) {
  for (auto [name, dim] :
       {std::pair<StringRef, int64_t>("query", op.getQueryHeadDim()),
        std::pair<StringRef, int64_t>("value", op.getValueHeadDim())})
    if (dim > maxHeadDimHost)
      return op.emitOpError()
             << name << " head dimension on host must be at most "
             << maxHeadDimHost << " (was " << dim << ")";
  return success();
}

/// The schedule of kernels that make tables.
static ScheduleAttrInterface chooseForTable(MLIRContext *context,
                                            StringRef target) {
  Attribute schedule;
  if (target == "host")
    schedule = attn_tile::SequentialAttr::get(context, /*query_tile=*/1,
                                              /*key_tile=*/8);
  else
    schedule = attn_tile::ScalarAttr::get(context);
  return cast<ScheduleAttrInterface>(schedule).getPreparation();
}

/// Checks that `op` can have `schedule`, which may be a choice, on `target`.
static LogicalResult verifyGivenSchedule(Operation *op, Attribute schedule,
                                         StringRef target) {
  auto choice = dyn_cast<ByQueryLengthAttr>(schedule);
  if (!choice)
    return cast<ScheduleAttrInterface>(schedule).verifyUse(op, target);
  if (!isa<AttentionOp>(op))
    return op->emitOpError("cannot have schedule '")
           << schedule << "', it is for attention";
  return success(succeeded(choice.getBelow().verifyUse(op, target)) &&
                 succeeded(choice.getFrom().verifyUse(op, target)));
}

/// Masks of decisions are made by the kernels that prepare the work of others.
static LogicalResult chooseForMask(DropoutMaskOp mask, StringRef target) {
  ScheduleAttrInterface expected =
      target == "host"
          ? cast<ScheduleAttrInterface>(chooseSequential(mask)->schedule)
          : cast<ScheduleAttrInterface>(
                Attribute(attn_tile::ScalarAttr::get(mask.getContext())));
  if (!mask.getScheduleAttr())
    mask.setScheduleAttr(expected);
  if (mask.getScheduleAttr().getTypeID() != expected.getTypeID())
    return mask.emitOpError("schedule on ")
           << target << " must be like " << Attribute(expected) << " (was "
           << Attribute(mask.getScheduleAttr()) << ")";
  return success();
}

namespace {
struct ChooseSchedulePass
    : public attn::impl::ChooseSchedulePassBase<ChooseSchedulePass> {
  using Base::Base;

  void runOnOperation() override {
    std::optional<Choice> (*choose)(AttentionOp) =
        llvm::StringSwitch<std::optional<Choice> (*)(AttentionOp)>(target)
            .Case("host", [](AttentionOp op) { return chooseSequential(op); })
            .Case("sm_80", chooseMultistage)
            .Case("sm_90a", chooseWarpSpecialized)
            .Default(nullptr);
    if (!choose) {
      getOperation().emitError() << "unknown target '" << target
                                 << "' (expected host, sm_80 or sm_90a)";
      return signalPassFailure();
    }
    auto chooseFor = [&](auto op, auto choose) -> WalkResult {
      bool isHost = target == "host";
      if (isHost ? failed(verifyForHost(
                       cast<AttentionOpInterface>(op.getOperation())))
                 : failed(verifyForGPU(op, target)))
        return WalkResult::interrupt();
      if (Attribute schedule = op.getScheduleAttr())
        return verifyGivenSchedule(op, schedule, target);
      std::optional<Choice> choice = choose(op);
      if (!choice) {
        op.emitOpError("has no schedule that fits the capacities of ")
            << target;
        return WalkResult::interrupt();
      }
      op.setScheduleAttr(choice->schedule);
      std::string text = "chose ";
      llvm::raw_string_ostream(text)
          << choice->schedule << ": " << choice->reason;
      remark::passed(
          op.getLoc(),
          remark::RemarkOpts::name("schedule").category("attn-choose-schedule"))
          << text;
      return WalkResult::advance();
    };
    WalkResult result = getOperation().walk([&](Operation *op) {
      if (auto attention = dyn_cast<AttentionOp>(op))
        return chooseFor(attention, choose);
      if (auto gradient = dyn_cast<AttentionGradOp>(op))
        return chooseFor(gradient, [&](AttentionGradOp gradient) {
          if (target == "host")
            return chooseSequential(op);
          return chooseGradientWarpSpecialized(gradient);
        });
      if (auto mask = dyn_cast<DropoutMaskOp>(op))
        return WalkResult(chooseForMask(mask, target));
      if (auto table = dyn_cast<MaskTableOpInterface>(op);
          table && !table.getScheduleAttr())
        table.setScheduleAttr(chooseForTable(op->getContext(), target));
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      return signalPassFailure();
  }
};
} // namespace
