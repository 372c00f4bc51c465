//===- ChooseSchedule.cpp - Attach a schedule to each attention -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks what the target can do. Schedules of gradients with warpgroup products
// are derived here, from the capacities of the target.
//
//===----------------------------------------------------------------------===//

#include "ChooseMatmulSchedule.h"
#include "FittingSchedules.h"
#include "attn/Analysis/Roofline.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/Attn/Transforms/ForwardSchedules.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "attn/Dialect/AttnTile/IR/AttnTileAttrs.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Remarks.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::attn {
#define GEN_PASS_DEF_CHOOSESCHEDULEPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;

/// Channels are staged in blocks of this many, padded with zeros.
static constexpr int64_t channelBlock = 64;
using attn_tile::channelStep;
static constexpr int64_t maxHeadDim = 256;
/// Heads are unrolled on the host: what is compiled grows with this.
static constexpr int64_t maxHeadDimHost = 4096;
static constexpr int64_t headDimUnit = 8;

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
  /// Registers of a thread that may hold all of these, and bytes for tiles.
  int64_t registers;
  int64_t sharedBytes;
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
static int64_t getWalkedTile(const WalkedTileBounds &bounds,
                             int64_t unit = keyTileUnit) {
  int64_t best = 0;
  for (int64_t tile = unit; tile <= bounds.maxTile; tile += unit)
    if (bounds.accumulators + bounds.registersPerRow * tile <=
            bounds.registers &&
        bounds.fixedBytes + bounds.bytesPerRow * tile <= bounds.sharedBytes)
      best = tile;
  return best;
}

/// Whether queries attend what is not after them, and nothing else, so that the
/// work of keys falls steadily from the first to the last.
static bool isTriangle(MaskAttrInterface mask) {
  constexpr int64_t length = 1 << 20, half = length / 2;
  auto attends = [&](int64_t query, int64_t key) {
    return mask.isAttended(query, key, length, length);
  };
  return mask && attends(length - 1, 0) && attends(length - 1, half) &&
         attends(half, 0) && attends(half, half) && !attends(half, half + 1) &&
         !attends(0, 1);
}

/// Whether sums of the gradients of all queries, of `channels` channels, are
/// known to take no more than `budget` bytes, if it is not negative.
static bool areSumsWithin(int64_t budget, AttentionGradOp op,
                          int64_t channels) {
  constexpr int64_t sumBytes = 4;
  if (budget < 0)
    return true;
  int64_t bytes = sumBytes * channels;
  for (int64_t dim = 0; dim < 3; ++dim) {
    int64_t size = getDimSize(op.getQuery(), dim);
    if (ShapedType::isDynamic(size) || llvm::MulOverflow(bytes, size, bytes))
      return false;
  }
  return bytes <= budget;
}

/// Chooses between a schedule with a kernel for the gradients of queries,
/// `apart`, and one whose kernel of the keys adds them up, by their estimates.
static ScheduleChoice chooseByTime(AttentionGradOp op,
                                   const DeviceFigures &device, Attribute apart,
                                   Attribute added, StringRef reason) {
  // As many queries in all whatever the lengths are, like the benchmarks.
  constexpr int64_t tokens = 16384, shortest = 1024;
  auto isFaster = [&](int64_t length) {
    CostAssumptions assumptions{length, std::max<int64_t>(tokens / length, 1)};
    std::optional<double> of = estimateGradient(op, added, device, assumptions);
    std::optional<double> ofApart =
        estimateGradient(op, apart, device, assumptions);
    return of && ofApart && *of < *ofApart;
  };
  std::string text = (reason + "; with sums, estimated to be ").str();
  auto [queries, keys] = op.getStaticLengths();
  if (!ShapedType::isDynamic(queries) && !ShapedType::isDynamic(keys)) {
    if (isFaster(std::max<int64_t>(queries, 1)))
      return {added, text + "faster"};
    return {apart, text + "slower"};
  }
  for (int64_t length = shortest; length <= tokens; length *= 2) {
    if (!isFaster(length))
      continue;
    if (length == shortest)
      return {added, text + "faster"};
    Attribute choice = ByQueryLengthAttr::get(
        op.getContext(), length, cast<ScheduleAttrInterface>(apart),
        cast<ScheduleAttrInterface>(added));
    return {choice,
            text + "faster from " + std::to_string(length) + " queries on"};
  }
  return {apart, text + "slower"};
}

/// Warp-specialized kernels for rows of keys and of queries.
static std::optional<ScheduleChoice>
chooseWarpSpecializedGradient(AttentionGradOp op, const DeviceFigures &device,
                              int64_t sumBudget) {
  KeyTileBounds consumers = getConsumerBounds(gradConsumers, device);
  constexpr int64_t elementBytes = 2, rows = gradConsumers * warpgroupRows;
  int64_t keyChannels = llvm::alignTo(op.getQueryHeadDim(), channelBlock);
  int64_t valueChannels = llvm::alignTo(op.getValueHeadDim(), channelBlock);
  int64_t bothBytes = elementBytes * (keyChannels + valueChannels);
  // A thread has half a register for each channel, and for each column of a
  // tile of f32; weights and their gradients are kept in 16 bits, too, and
  // there are two values for each column. Decisions of dropout take some to
  // make.
  int64_t keyAccumulators =
      llvm::alignTo(op.getQueryHeadDim(), channelStep) / 2;
  int64_t valueAccumulators =
      llvm::alignTo(op.getValueHeadDim(), channelStep) / 2;
  double dropped = op.hasDropout() ? 0.5 : 0;
  double scoresAndGradients = 1.5 + dropped, scoresAlone = 1.0 + dropped;
  int64_t stagedRow = gradStages * bothBytes, fixed = rows * bothBytes;
  // A mask that reads tensors needs registers for addresses, and the walk over
  // a list of tiles.
  bool readsKeep = readsByPosition(op.getKeepRegion());
  int64_t readRegisters = readsKeep ? 24 : 0;
  // So does a kernel of keys that adds to captured arrays.
  int64_t addRegisters = op.getDcaptures().empty() ? 0 : 24;
  WalkedTileBounds together{keyAccumulators + valueAccumulators,
                            scoresAndGradients,
                            fixed,
                            stagedRow,
                            gradTileRegisters - readRegisters - addRegisters,
                            consumers.sharedBytes,
                            maxGradQueryTile};
  WalkedTileBounds keysAlone = together;
  keysAlone.accumulators = keyAccumulators;
  WalkedTileBounds valuesAlone = together;
  valuesAlone.accumulators = valueAccumulators;
  valuesAlone.registersPerRow = scoresAlone;
  valuesAlone.fixedBytes = rows * elementBytes * keyChannels;
  WalkedTileBounds queriesAlone = keysAlone;
  queriesAlone.registers = consumers.registers - readRegisters;
  queriesAlone.maxTile = maxGradKeyTile;

  // Items of different lengths are handed out by the device, long ones first,
  // which also takes fewer registers than to find pairs of them: over several
  // key heads at once, unless a head has short ones enough to end with. Pairs
  // are as fast for causal masks of heads that have keys of their own.
  bool isMasked = op.getMaskAttr() || !op.getKeepRegion().empty();
  bool isCausal = isTriangle(op.getMaskAttr()) && !readsKeep;
  auto traversal = isMasked ? attn_tile::TraversalKind::Paired
                            : attn_tile::TraversalKind::Persistent;
  // A walk over items keeps its place and what the next item shares; additions
  // to captured arrays beside decisions leave no registers for that.
  bool addsDropped = op.hasDropout() && !op.getDcaptures().empty();
  bool isUneven = isMasked && (!isCausal || op.getGroupSize() != 1);
  // Sequences are planned in the order of their work, over all heads.
  bool hasSequences = op.hasSequences();
  auto keysTraversal = isUneven || addsDropped || hasSequences
                           ? attn_tile::TraversalKind::Grid
                           : traversal;
  // Fewer where lists of each head say which tiles there are. Lists that all
  // heads share are in an order in which sums of the gradients of queries stay
  // in the second cache (docs/Schedules.md, "Gradients, under masks").
  constexpr int64_t maskedKeyHeads = 8, listedKeyHeads = 4;
  bool isListedOnce =
      readsKeep && op.getKeepRegion().getArgument(1).use_empty();
  int64_t interleave = 1;
  if (hasSequences)
    interleave = 0;
  else if (isUneven && !isListedOnce)
    interleave = readsKeep ? listedKeyHeads : maskedKeyHeads;
  MLIRContext *context = op.getContext();
  auto makeKeys = [&](int64_t queryTile, bool pipelined = false,
                      int64_t queryParts = 1, int64_t ringItems = 0,
                      bool lhsRegisters = false, bool inTurn = false,
                      int64_t keyStages = 1, bool itemsAhead = false) {
    return cast<ScheduleAttrInterface>(
        Attribute(attn_tile::KeyStationaryAttr::get(
            context, queryTile, rows, gradStages * queryParts, gradConsumers,
            keysTraversal, interleave, pipelined, queryParts, ringItems,
            lhsRegisters, inTurn, keyStages, itemsAhead)));
  };
  bool isPaired = keysTraversal == attn_tile::TraversalKind::Paired;
  auto ofRows = cast<ScheduleAttrInterface>(
      Attribute(attn_tile::MultistageAttr::get(context, /*query_tile=*/128,
                                               /*key_tile=*/64, /*stages=*/2,
                                               /*warps=*/4 * gradConsumers,
                                               /*split_items=*/0,
                                               /*pack_heads=*/false)));

  // Small tiles read more from shared memory than products take; two kernels
  // with large ones are better.
  constexpr int64_t minWalkedTile = 48;
  // The kernel of the keys can add up the gradients of queries, in tiles with a
  // row for each channel: where few rows are padding, that saves the products
  // that make scores again. Two stages of shared gradients of scores, and a
  // tile of sums.
  WalkedTileBounds withSums = together;
  withSums.accumulators = rows / 2 + valueAccumulators;
  // Tiles of 64 queries, one step after the other, are faster than smaller
  // ones, where decisions take registers of products that are not in flight.
  withSums.registersPerRow = 1.5;
  withSums.fixedBytes = rows * elementBytes * (rows + valueChannels);
  withSums.bytesPerRow = gradStages * elementBytes * (rows + valueChannels) +
                         2 * rows * elementBytes + rows * 4;
  withSums.maxTile = channelBlock;
  // Steps that need no mask, which are those of a loop of their own, do not
  // read what it reads.
  withSums.registers = gradTileRegisters - addRegisters;
  // Sums of the heads that groups work on, and of as many that are rounded
  // meanwhile: a group has two items of a pair at a time.
  constexpr int64_t rounds = 2;
  int64_t itemsOfGroup = rounds * (isPaired ? 2 : 1);
  // A ring has room for those of any device that exists.
  using attn_tile::KeyStationaryAttr;
  int64_t ringItems =
      device.multiprocessors <= KeyStationaryAttr::maxRingItems / itemsOfGroup
          ? itemsOfGroup * device.multiprocessors
          : 0;
  // Fewer queries than this gain by a ring, which saves what is the same for
  // all lengths and costs each item (docs/Schedules.md, "A ring of sums").
  // Groups must walk over heads in order, and have room for the sums of many in
  // the cache. Padding and additions to captured arrays take registers of the
  // warps that round.
  auto getRingBound = [&](int64_t parts) -> int64_t {
    constexpr int64_t roundedChannels = 32;
    int64_t channels = parts > 1 ? op.getQueryHeadDim() : rows;
    if (ringItems == 0 || keysTraversal == attn_tile::TraversalKind::Grid ||
        op.getGroupSize() != 1 || !op.getDcaptures().empty() ||
        channels != op.getQueryHeadDim() || channels % roundedChannels != 0)
      return 0;
    return parts > 1 && isPaired && op.hasDropout() ? 3072 : 6144;
  };
  bool hasRoom = areSumsWithin(sumBudget, op, keyChannels);
  auto mayAddUp = [&](int64_t parts) {
    // In parts, under a mask, turns are due faster than additions are made.
    if (op.getDeterministic())
      return hasRoom && op.canAddInTurn() && (parts == 1 || !isMasked);
    return hasRoom || getRingBound(parts) > 0;
  };
  std::string moreThanBudget =
      ("might take more than " + Twine(sumBudget) + " bytes").str();
  auto chooseSums = [&](int64_t tile, int64_t parts) {
    // What regions compute for each score leaves no registers for the next
    // step, nor do decisions beside masks, or where a step is not in parts.
    bool pipelined =
        op.getScoreRegion().empty() &&
        (!op.hasDropout() || (parts > 1 && op.getKeepRegion().empty()));
    // Where half as many channels leave registers for the values, these stay in
    // them: beside decisions, masks and warps that round, too, but not beside
    // what leaves none for the next step. With as many channels as there are
    // keys they spill.
    bool lhsRegisters = parts > 1 && pipelined;
    auto makeSums = [&](int64_t ringItems) {
      // The keys of a group's next item come early, as its values do, which
      // leave their stage at once. Decisions that are read leave no registers
      // for that beside a ring for pairs.
      bool readsDecisions = static_cast<bool>(op.getDropoutMask());
      bool readsBesidePairs = ringItems != 0 && isPaired && readsDecisions;
      bool loadsKeysEarly = lhsRegisters &&
                            keysTraversal != attn_tile::TraversalKind::Grid &&
                            !readsBesidePairs;
      // Items of pairs take long to find, and those beside a ring are short.
      // Without one, only decisions that are read gain by it and leave enough
      // registers; where steps have one part, those that are made
      // (docs/Schedules.md, "Between items").
      bool itemsAhead =
          isPaired && !op.getDeterministic() &&
          (parts > 1 ? ringItems != 0 || readsDecisions
                     : !pipelined && op.hasDropout() && !readsDecisions);
      return attn_tile::GradientAttr::get(
          context, ofRows,
          makeKeys(tile, pipelined, parts, ringItems, lhsRegisters,
                   /*inTurn=*/op.getDeterministic(), loadsKeysEarly ? 2 : 1,
                   itemsAhead),
          /*queries=*/nullptr, /*values=*/nullptr);
    };
    std::string reason = ("tiles of " + Twine(tile) +
                          " queries fit registers and shared memory, with sums")
                             .str();
    if (op.getDeterministic())
      return ScheduleChoice{makeSums(0), reason + " in turns"};
    int64_t bound = getRingBound(parts);
    if (bound == 0)
      return ScheduleChoice{makeSums(0), reason};
    Attribute ring = makeSums(ringItems);
    if (!hasRoom)
      return ScheduleChoice{ring, reason + "; in a ring, for all of them " +
                                      moreThanBudget};
    std::string choice =
        reason + ("; up to " + Twine(bound - 1) + " queries in a ring").str();
    int64_t queries = op.getStaticLengths().first;
    if (ShapedType::isDynamic(queries))
      return ScheduleChoice{
          ByQueryLengthAttr::get(
              context, bound, cast<ScheduleAttrInterface>(ring),
              cast<ScheduleAttrInterface>(Attribute(makeSums(0)))),
          choice};
    if (queries < bound)
      return ScheduleChoice{ring, choice};
    return ScheduleChoice{makeSums(0), choice};
  };
  // Sums in turns of pairs of items are faster than a kernel for the queries
  // from this many queries on (docs/Schedules.md, "Sums in turns").
  constexpr int64_t minQueriesInTurn = 4096;
  std::optional<ScheduleChoice> inTurn;
  // Turns of pairs are of tiles of queries that divide those of keys.
  auto canWalk = [&](int64_t tile) {
    return tile >= minWalkedTile &&
           (!op.getDeterministic() || !isMasked || rows % tile == 0);
  };
  if (mayAddUp(/*parts=*/1) && keyChannels == rows)
    if (int64_t tile = getWalkedTile(withSums); canWalk(tile)) {
      inTurn = chooseSums(tile, /*parts=*/1);
      int64_t queries = op.getStaticLengths().first;
      if (!op.getDeterministic() || !isMasked ||
          (!ShapedType::isDynamic(queries) && queries >= minQueriesInTurn))
        return inTurn;
      if (!ShapedType::isDynamic(queries))
        inTurn = std::nullopt;
    }
  // Sums of half as many channels have a row for each query instead, of twice
  // as many, which are multiplied in two parts; additions to captured arrays
  // may spill then, and so do decisions for heads that share keys.
  if (mayAddUp(/*parts=*/2) && 2 * keyChannels == rows &&
      valueChannels <= keyChannels && !readsKeep && op.getDcaptures().empty() &&
      (!op.hasDropout() || op.getGroupSize() == 1))
    return chooseSums(rows, /*parts=*/2);

  int64_t queryTile = getWalkedTile(together);
  int64_t valueTile = getWalkedTile(valuesAlone);
  ScheduleAttrInterface values;
  if (queryTile < minWalkedTile) {
    queryTile = getWalkedTile(keysAlone);
    if (queryTile == 0 || valueTile == 0)
      return std::nullopt;
    values = makeKeys(valueTile);
  }
  // Queries of the next item are loaded early if there is room beside tiles of
  // keys that are still efficient; else warpgroups take turns.
  constexpr int64_t minKeyTilePreload = 64, keyTileUnitPreload = 32;
  WalkedTileBounds preloaded = queriesAlone;
  preloaded.fixedBytes *= 2;
  int64_t keyTile = getWalkedTile(preloaded, keyTileUnitPreload);
  bool preloads = keyTile >= minKeyTilePreload;
  if (!preloads)
    keyTile = getWalkedTile(queriesAlone);
  if (keyTile == 0)
    return std::nullopt;
  auto queries =
      cast<ScheduleAttrInterface>(Attribute(attn_tile::WarpSpecializedAttr::get(
          context, rows, keyTile, gradStages, gradConsumers,
          /*ping_pong=*/!preloads, traversal,
          /*interleave=*/hasSequences ? 0 : 1,
          /*lazy_rescale=*/false, /*delay_rescale=*/false,
          /*query_stages=*/preloads ? 2 : 1, /*split_items=*/0,
          /*pack_heads=*/false, /*score_stages=*/0, /*l2_promotion=*/256,
          /*groups=*/1, /*polynomial_exp2=*/0, /*cluster=*/1,
          /*pair_bits=*/false)));
  Attribute schedule = attn_tile::GradientAttr::get(
      context, ofRows, makeKeys(queryTile), queries, values);
  std::string reason =
      ("tiles of " + Twine(queryTile) + " queries and " + Twine(keyTile) +
       " keys fit registers and shared memory")
          .str();
  if (!op.getDeterministic() && !hasRoom)
    reason += "; sums of the gradients of queries " + moreThanBudget;
  if (inTurn)
    return ScheduleChoice{
        ByQueryLengthAttr::get(context, minQueriesInTurn,
                               cast<ScheduleAttrInterface>(schedule),
                               cast<ScheduleAttrInterface>(inTurn->schedule)),
        (reason + "; from " + Twine(minQueriesInTurn) + " queries on " +
         inTurn->reason)
            .str()};
  if (!values)
    return ScheduleChoice{schedule, reason};
  reason += "; gradients of keys and values do not fit one kernel";

  // That of the keys can add up the gradients of queries nevertheless, in parts
  // of as many channels as it has keys, straight from registers. Steps that
  // cannot begin the next one early have no room for it. Masks but causal ones
  // have not been measured.
  WalkedTileBounds inParts = keysAlone;
  inParts.bytesPerRow = gradStages * elementBytes * keyChannels +
                        elementBytes * valueChannels + elementBytes * rows;
  int64_t tile = getWalkedTile(inParts);
  bool isPlain = op.getScoreRegion().empty() && op.getKeepRegion().empty() &&
                 !op.hasDropout() && op.getDcaptures().empty() &&
                 op.getMaskReads().empty() && !hasSequences;
  if (op.getDeterministic() || !hasRoom || !isPlain ||
      (isMasked && !isCausal) || keyChannels % rows != 0 ||
      tile < minWalkedTile)
    return ScheduleChoice{schedule, reason};
  // Long items first over several heads, rather than pairs: 1 to 4 % faster
  // (docs/Schedules.md, "Six products for 256 channels").
  auto makePart = [&](int64_t queryTile, bool pipelined) {
    return cast<ScheduleAttrInterface>(
        Attribute(attn_tile::KeyStationaryAttr::get(
            context, queryTile, rows, gradStages, gradConsumers,
            isMasked ? attn_tile::TraversalKind::Grid : traversal,
            isMasked ? maskedKeyHeads : 1, pipelined, /*query_parts=*/1,
            /*ring_items=*/0, /*lhs_registers=*/false, /*in_turn=*/false,
            /*key_stages=*/1, /*items_ahead=*/false)));
  };
  Attribute withAdditions = attn_tile::GradientAttr::get(
      context, ofRows, makePart(tile, /*pipelined=*/true), /*queries=*/nullptr,
      makePart(valueTile, /*pipelined=*/false));
  return chooseByTime(op, device, schedule, withAdditions, reason);
}

std::optional<ScheduleChoice>
attn::chooseGradientSchedule(AttentionGradOp op, StringRef target,
                             const DeviceFigures &device, int64_t sumBudget) {
  return target == "sm_80"
             ? chooseMultistageGradient(op, device)
             : chooseWarpSpecializedGradient(op, device, sumBudget);
}

bool attn::isSupportedHeadDim(int64_t channels, StringRef target) {
  if (target == "host")
    return channels <= maxHeadDimHost;
  return channels % headDimUnit == 0 && channels <= maxHeadDim;
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
    if (!isSupportedHeadDim(dim, target))
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
    if (!isSupportedHeadDim(dim, "host"))
      return op.emitOpError()
             << name << " head dimension on host must be at most "
             << maxHeadDimHost << " (was " << dim << ")";
  return success();
}

/// The schedule of kernels without tiles, such as those that make tables.
static ScheduleAttrInterface getScalarSchedule(MLIRContext *context,
                                               StringRef target) {
  Attribute schedule;
  if (target == "host")
    schedule = attn_tile::SequentialAttr::get(context, /*query_tile=*/1,
                                              /*key_tile=*/8, /*split_items=*/0,
                                              /*pack_heads=*/false);
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
  if (!isa<AttentionOp, AttentionGradOp>(op))
    return op->emitOpError("cannot have schedule '")
           << schedule << "', it is for attention and gradients";
  return success(succeeded(choice.getBelow().verifyUse(op, target)) &&
                 succeeded(choice.getFrom().verifyUse(op, target)));
}

/// Masks of decisions are made by the kernels that prepare the work of others.
static LogicalResult chooseForMask(DropoutMaskOp mask, StringRef target) {
  ScheduleAttrInterface expected = getScalarSchedule(mask.getContext(), target);
  if (!mask.getScheduleAttr())
    mask.setScheduleAttr(expected);
  if (mask.getScheduleAttr().getTypeID() != expected.getTypeID())
    return mask.emitOpError("schedule on ")
           << target << " must be like " << Attribute(expected) << " (was "
           << Attribute(mask.getScheduleAttr()) << ")";
  return success();
}

/// Functions of heads are computed by kernels without products.
static LogicalResult chooseForMap(MapHeadsOp map, StringRef target,
                                  const DeviceFigures &device) {
  if (target != "host") {
    int64_t channels =
        cast<ShapedType>(map.getIn().getType()).getShape().back();
    if (!isSupportedHeadDim(channels, target))
      return map.emitOpError("number of channels on ")
             << target << " must be a multiple of " << headDimUnit
             << " and at most " << maxHeadDim << " (was " << channels << ")";
  }
  constexpr int64_t warps = 4, rowsOfWarp = 16;
  ScheduleAttrInterface expected =
      target == "host"
          ? getHostMapSchedule(map, device)
          : cast<ScheduleAttrInterface>(
                Attribute(attn_tile::MultistageAttr::get(
                    map.getContext(), warps * rowsOfWarp, /*key_tile=*/64,
                    /*stages=*/2, warps, /*split_items=*/0,
                    /*pack_heads=*/false)));
  if (!map.getScheduleAttr())
    map.setScheduleAttr(expected);
  if (map.getScheduleAttr().getTypeID() != expected.getTypeID())
    return map.emitOpError("schedule on ")
           << target << " must be like " << Attribute(expected) << " (was "
           << Attribute(map.getScheduleAttr()) << ")";
  return success();
}

/// The fewest bytes of shared memory, more than `device` has, with which there
/// is a schedule; `std::nullopt` if that does not depend on them.
static std::optional<int64_t>
findSmallestSharedBytes(DeviceFigures device,
                        function_ref<bool(const DeviceFigures &)> fits) {
  constexpr int64_t most = int64_t(1) << 30;
  int64_t tooFew = device.sharedBytes, enough = most;
  device.sharedBytes = enough;
  if (tooFew >= enough || !fits(device))
    return std::nullopt;
  while (enough - tooFew > 1) {
    device.sharedBytes = tooFew + (enough - tooFew) / 2;
    (fits(device) ? enough : tooFew) = device.sharedBytes;
  }
  return enough;
}

namespace {
struct ChooseSchedulePass
    : public attn::impl::ChooseSchedulePassBase<ChooseSchedulePass> {
  using Base::Base;

  void runOnOperation() override {
    if (target != "host" && target != "sm_80" && target != "sm_90a") {
      getOperation().emitError() << "unknown target '" << target
                                 << "' (expected host, sm_80 or sm_90a)";
      return signalPassFailure();
    }
    DeviceAttr deviceAttr = getDevice(getOperation(), target);
    const DeviceFigures device = deviceAttr.getFigures();
    ScheduleDatabase measured;
    if (!database.empty() && failed(measured.read(getOperation(), database)))
      return signalPassFailure();
    auto chooseFor = [&](auto op, auto choose) -> WalkResult {
      bool isHost = target == "host";
      if (isHost ? failed(verifyForHost(
                       cast<AttentionOpInterface>(op.getOperation())))
                 : failed(verifyForGPU(op, target)))
        return WalkResult::interrupt();
      if (Attribute schedule = op.getScheduleAttr())
        return verifyGivenSchedule(op, schedule, target);
      FailureOr<std::optional<ScheduleChoice>> found = choose(op, device);
      if (failed(found))
        return WalkResult::interrupt();
      std::optional<ScheduleChoice> choice = *found;
      if (!choice) {
        InFlightDiagnostic diagnostic =
            op.emitOpError("has no schedule that fits the capacities of ")
            << target;
        std::optional<int64_t> smallest =
            findSmallestSharedBytes(device, [&](const DeviceFigures &larger) {
              FailureOr<std::optional<ScheduleChoice>> fitting =
                  choose(op, larger);
              return succeeded(fitting) && *fitting;
            });
        if (smallest)
          diagnostic << ": the smallest one needs " << *smallest
                     << " bytes of shared memory, but " << deviceAttr.getName()
                     << " has " << device.sharedBytes << " ("
                     << *smallest - device.sharedBytes << " too many)";
        else
          diagnostic << ": all of them need more registers than a thread has";
        return diagnostic;
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
        return chooseFor(
            attention,
            [&](AttentionOp attention, const DeviceFigures &figures)
                -> FailureOr<std::optional<ScheduleChoice>> {
              // Times are of the device itself, not of one with more memory.
              if (figures.sharedBytes == device.sharedBytes) {
                auto choice = chooseMeasuredSchedule(
                    attention, target, deviceAttr.getName(), measured);
                if (failed(choice) || *choice)
                  return choice;
              }
              return chooseForwardSchedule(attention, target, figures);
            });
      if (auto product = dyn_cast<MatmulOp>(op))
        return failed(chooseMatmulSchedule(product, target))
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      if (auto gradient = dyn_cast<AttentionGradOp>(op))
        return chooseFor(
            gradient,
            [&](AttentionGradOp gradient,
                const DeviceFigures &figures) -> std::optional<ScheduleChoice> {
              if (target == "host")
                return chooseHostGradSchedule(gradient, figures);
              return chooseGradientSchedule(gradient, target, figures,
                                            sumBudget);
            });
      if (auto mask = dyn_cast<DropoutMaskOp>(op))
        return WalkResult(chooseForMask(mask, target));
      if (auto map = dyn_cast<MapHeadsOp>(op))
        return WalkResult(chooseForMap(map, target, device));
      if (auto table = dyn_cast<MaskTableOpInterface>(op);
          table && !table.getScheduleAttr())
        table.setScheduleAttr(getScalarSchedule(op->getContext(), target));
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      return signalPassFailure();
  }
};
} // namespace
