//===- ChooseSchedule.cpp - Attach a schedule to each attention -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks that a target supports each operation. Schedules of gradients with
// warpgroup MMAs are derived here, from the capacities of the target.
//
//===----------------------------------------------------------------------===//

#include "ChooseMatmulSchedule.h"
#include "ScheduleCandidates.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/AttnTile/IR/AttnTileAttrs.h"
#include "attn/PerfModel/Roofline.h"
#include "attn/Scheduling/ForwardSchedules.h"
#include "attn/Scheduling/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Remarks.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::attn {
#define GEN_PASS_DEF_CHOOSESCHEDULEPASS
#include "attn/Scheduling/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;

/// The head dim is staged in blocks of this many elements, padded with zeros.
static constexpr int64_t headDimBlock = 64;
using attn_tile::headDimStep;
static constexpr int64_t maxHeadDim = 256;
/// Heads are unrolled on the host: the size of the code grows with this.
static constexpr int64_t maxHeadDimHost = 4096;
static constexpr int64_t headDimUnit = 8;

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

namespace {
/// Bounds on the tile that a kernel of a gradient iterates over. Sizes are in
/// units of one row of that tile, or fixed.
struct StreamedTileBounds {
  /// Registers of each thread: of accumulators, and of scores, probabilities
  /// and their gradients for one row.
  int64_t accumulators;
  double registersPerRow;
  /// Bytes of tiles that stay, and of all stages for one row.
  int64_t fixedBytes;
  int64_t bytesPerRow;
  /// Registers of a thread that may hold these values, and bytes for tiles.
  int64_t registers;
  int64_t sharedBytes;
  int64_t maxTile;
};
} // namespace

/// Registers of a consumer thread for register tiles: its 240 registers less
/// room for addresses and the operands of instructions.
static constexpr int64_t gradTileRegisters = 224;
static constexpr int64_t gradConsumers = 2;
static constexpr int64_t gradStages = 2;
/// Larger tiles of queries leave no registers to load early; measured slower.
static constexpr int64_t maxGradQueryTile = 80;
static constexpr int64_t maxGradKeyTile = 128;

/// The largest tile within `bounds`, or 0.
static int64_t getStreamedTile(const StreamedTileBounds &bounds,
                               int64_t unit = keyTileUnit) {
  int64_t best = 0;
  for (int64_t tile = unit; tile <= bounds.maxTile; tile += unit)
    if (bounds.accumulators + bounds.registersPerRow * tile <=
            bounds.registers &&
        bounds.fixedBytes + bounds.bytesPerRow * tile <= bounds.sharedBytes)
      best = tile;
  return best;
}

/// Whether each query attends all keys up to its position and no others, so
/// that the work of keys falls steadily from the first to the last.
static bool isTriangle(MaskAttrInterface mask) {
  constexpr int64_t length = 1 << 20, half = length / 2;
  auto attends = [&](int64_t query, int64_t key) {
    return mask.isAttended(query, key, length, length);
  };
  return mask && attends(length - 1, 0) && attends(length - 1, half) &&
         attends(half, 0) && attends(half, half) && !attends(half, half + 1) &&
         !attends(0, 1);
}

/// Whether a dQ accumulator for all queries with `headDim` elements each is
/// known to take at most `budget` bytes. A negative budget is unlimited.
static bool isDqWorkspaceWithin(int64_t budget, AttentionGradOp op,
                                int64_t headDim) {
  constexpr int64_t sumBytes = 4;
  if (budget < 0)
    return true;
  int64_t bytes = sumBytes * headDim;
  for (int64_t dim = 0; dim < 3; ++dim) {
    int64_t size = getDimSize(op.getQuery(), dim);
    if (ShapedType::isDynamic(size) || llvm::MulOverflow(bytes, size, bytes))
      return false;
  }
  return bytes <= budget;
}

/// Chooses by estimated time: `apart` has a dq kernel, `added` accumulates dQ
/// in the kernel of the keys.
static ScheduleChoice chooseByTime(AttentionGradOp op,
                                   const DeviceFigures &device, Attribute apart,
                                   Attribute added, StringRef reason) {
  // The number of all queries is the same at each length, as in the benchmarks.
  constexpr int64_t tokens = 16384, shortest = 1024;
  auto isFaster = [&](int64_t length) {
    CostAssumptions assumptions{length, std::max<int64_t>(tokens / length, 1)};
    std::optional<double> of = estimateGradient(op, added, device, assumptions);
    std::optional<double> ofApart =
        estimateGradient(op, apart, device, assumptions);
    return of && ofApart && *of < *ofApart;
  };
  std::string text =
      (reason + "; with a dQ accumulator, estimated to be ").str();
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

/// Chooses warp-specialized dkdv and dq kernels.
static std::optional<ScheduleChoice>
chooseWarpSpecializedGradient(AttentionGradOp op, const DeviceFigures &device,
                              int64_t dqWorkspaceBytes) {
  KeyTileBounds consumers = getConsumerBounds(gradConsumers, device);
  constexpr int64_t elementBytes = 2, rows = gradConsumers * warpgroupRows;
  int64_t qkHeadDim = llvm::alignTo(op.getQKHeadDim(), headDimBlock);
  int64_t vHeadDim = llvm::alignTo(op.getVHeadDim(), headDimBlock);
  int64_t bothBytes = elementBytes * (qkHeadDim + vHeadDim);
  // A column of an f32 tile takes half a register of a thread, as does an
  // element of the head dim of an accumulator. Each column has scores and
  // gradients of P, both also in 16 bits. Generating a keep mask takes further
  // registers.
  int64_t keyAccumulators = llvm::alignTo(op.getQKHeadDim(), headDimStep) / 2;
  int64_t valueAccumulators = llvm::alignTo(op.getVHeadDim(), headDimStep) / 2;
  double dropped = op.hasDropout() ? 0.5 : 0;
  double scoresAndGradients = 1.5 + dropped, scoresAlone = 1.0 + dropped;
  int64_t stagedRow = gradStages * bothBytes, fixed = rows * bothBytes;
  // A mask that reads tensors needs registers for addresses and for the
  // iteration over a list of tiles.
  bool readsMaskMod = readsByPosition(op.getMaskMod());
  int64_t readRegisters = readsMaskMod ? 24 : 0;
  // So does a dkdv kernel that adds to captured arrays.
  int64_t addRegisters = op.getDcaptures().empty() ? 0 : 24;
  StreamedTileBounds together{keyAccumulators + valueAccumulators,
                              scoresAndGradients,
                              fixed,
                              stagedRow,
                              gradTileRegisters - readRegisters - addRegisters,
                              consumers.sharedBytes,
                              maxGradQueryTile};
  StreamedTileBounds keysAlone = together;
  keysAlone.accumulators = keyAccumulators;
  StreamedTileBounds valuesAlone = together;
  valuesAlone.accumulators = valueAccumulators;
  valuesAlone.registersPerRow = scoresAlone;
  valuesAlone.fixedBytes = rows * elementBytes * qkHeadDim;
  StreamedTileBounds queriesAlone = keysAlone;
  queriesAlone.registers = consumers.registers - readRegisters;
  queriesAlone.maxTile = maxGradKeyTile;

  // The device hands out work items of different lengths, long ones first. That
  // takes fewer registers than finding pairs. It happens over several key heads
  // at once, unless one head has enough short work items to end with. Pairs are
  // as fast for causal masks of heads that have keys of their own.
  bool isMasked = op.getMaskAttr() || !op.getMaskMod().empty();
  bool isCausal = isTriangle(op.getMaskAttr()) && !readsMaskMod;
  auto traversal = isMasked ? attn_tile::TraversalKind::Paired
                            : attn_tile::TraversalKind::Persistent;
  // An iteration over work items keeps its position and values for the next
  // work item. Additions to captured arrays with dropout leave no registers
  // for that.
  bool addsDropped = op.hasDropout() && !op.getDcaptures().empty();
  bool isUneven = isMasked && (!isCausal || op.getGroupSize() != 1);
  // Sequences are sorted by their work, over all heads.
  bool hasSequences = op.hasSequences();
  auto keysTraversal = isUneven || addsDropped || hasSequences
                           ? attn_tile::TraversalKind::Grid
                           : traversal;
  // Fewer heads where each head has its own list of tiles. A list that all
  // heads share has an order in which the dQ accumulator stays in L2
  // (docs/experiments/backward-masks.md).
  constexpr int64_t maskedKeyHeads = 8, listedKeyHeads = 4;
  bool isListedOnce =
      readsMaskMod && op.getMaskMod().getArgument(1).use_empty();
  int64_t interleave = 1;
  if (hasSequences)
    interleave = 0;
  else if (isUneven && !isListedOnce)
    interleave = readsMaskMod ? listedKeyHeads : maskedKeyHeads;
  MLIRContext *context = op.getContext();
  auto makeKeys = [&](int64_t queryTile, bool pipelined = false,
                      int64_t queryParts = 1, int64_t dqRingDepth = 0,
                      bool lhsRegisters = false, bool orderedDq = false,
                      int64_t keyStages = 1, bool prefetchWorkItem = false) {
    return cast<ScheduleAttrInterface>(
        Attribute(attn_tile::KeyStationaryAttr::get(
            context, queryTile, rows, gradStages * queryParts, gradConsumers,
            keysTraversal, interleave, pipelined, queryParts, dqRingDepth,
            lhsRegisters, orderedDq, keyStages, prefetchWorkItem)));
  };
  bool isPaired = keysTraversal == attn_tile::TraversalKind::Paired;
  auto ofRows = cast<ScheduleAttrInterface>(
      Attribute(attn_tile::MultistageAttr::get(context, /*query_tile=*/128,
                                               /*key_tile=*/64, /*stages=*/2,
                                               /*warps=*/4 * gradConsumers,
                                               /*split_kv_work_items=*/0,
                                               /*pack_gqa=*/false)));

  // With small tiles, reads of shared memory take longer than the MMAs; two
  // kernels with large tiles are faster.
  constexpr int64_t minStreamedTile = 48;
  // The dkdv kernel can accumulate dQ, in tiles with a row for each element of
  // the head dim. Where few rows are padding, that saves the MMAs that compute
  // scores again. It takes two stages of dS in shared memory and a tile of the
  // dQ accumulator.
  StreamedTileBounds withDqAccumulator = together;
  withDqAccumulator.accumulators = rows / 2 + valueAccumulators;
  // Tiles of 64 queries whose steps do not overlap are faster than smaller
  // ones: keep masks then use registers of MMAs that are not in flight.
  withDqAccumulator.registersPerRow = 1.5;
  withDqAccumulator.fixedBytes = rows * elementBytes * (rows + vHeadDim);
  withDqAccumulator.bytesPerRow =
      gradStages * elementBytes * (rows + vHeadDim) + 2 * rows * elementBytes +
      rows * 4;
  withDqAccumulator.maxTile = headDimBlock;
  // Steps that need no mask run in a loop of their own, which does not read the
  // tensors of the mask.
  withDqAccumulator.registers = gradTileRegisters - addRegisters;
  // Work items of a CTA in the ring buffer: the ones it computes, and as many
  // whose dQ is converted meanwhile. With pairs, a CTA has two at a time.
  constexpr int64_t rounds = 2;
  int64_t workItemsOfCta = rounds * (isPaired ? 2 : 1);
  // The largest ring buffer has room for the work items of any existing device.
  using attn_tile::KeyStationaryAttr;
  int64_t dqRingDepth =
      device.sms <= KeyStationaryAttr::maxDqRingDepth / workItemsOfCta
          ? workItemsOfCta * device.sms
          : 0;
  // A dQ ring buffer is faster below this many queries: it saves a fixed time
  // for all lengths, and costs time for each work item
  // (docs/experiments/backward-dq-ring-buffer.md). CTAs must iterate over heads
  // in order, and L2 must have room for the dQ accumulators of many heads.
  // Padding and additions to captured arrays take registers of the warps that
  // convert dQ.
  auto getDqRingBound = [&](int64_t parts) -> int64_t {
    constexpr int64_t convertedHeadDimUnit = 32;
    int64_t headDim = parts > 1 ? op.getQKHeadDim() : rows;
    if (dqRingDepth == 0 || keysTraversal == attn_tile::TraversalKind::Grid ||
        op.getGroupSize() != 1 || !op.getDcaptures().empty() ||
        headDim != op.getQKHeadDim() || headDim % convertedHeadDimUnit != 0)
      return 0;
    return parts > 1 && isPaired && op.hasDropout() ? 3072 : 6144;
  };
  bool hasRoom = isDqWorkspaceWithin(dqWorkspaceBytes, op, qkHeadDim);
  auto mayAddUp = [&](int64_t parts) {
    // With parts under a mask, ordered additions are due faster than they
    // complete.
    if (op.getDeterministic())
      return hasRoom && op.canOrderDq() && (parts == 1 || !isMasked);
    return hasRoom || getDqRingBound(parts) > 0;
  };
  std::string moreThanBudget =
      ("might take more than " + Twine(dqWorkspaceBytes) + " bytes").str();
  auto chooseDqAccumulator = [&](int64_t tile, int64_t parts) {
    // A score_mod leaves no registers for the next step. Neither does dropout
    // with a mask_mod, or with steps of one part.
    bool pipelined =
        op.getScoreMod().empty() &&
        (!op.hasDropout() || (parts > 1 && op.getMaskMod().empty()));
    // At half the head dim, registers are left to keep V in them, even with
    // keep masks, masks and warps that convert dQ. Steps without registers for
    // the next step have none for V, either. At a head dim as large as the key
    // tile, V would spill.
    bool lhsRegisters = parts > 1 && pipelined;
    auto makeDqAccumulator = [&](int64_t dqRingDepth) {
      // K of the next work item of a CTA is loaded early. So is V, which leaves
      // its stage at once. With pairs and a ring buffer, keep masks that are
      // read leave no registers for that.
      bool readsKeepMask = static_cast<bool>(op.getDropoutMask());
      bool readsBesidePairs = dqRingDepth != 0 && isPaired && readsKeepMask;
      bool loadsKeysEarly = lhsRegisters &&
                            keysTraversal != attn_tile::TraversalKind::Grid &&
                            !readsBesidePairs;
      // Pairs of work items take long to find, and work items with a ring
      // buffer are short. Without a ring buffer, prefetching pays, with enough
      // registers, only for keep masks that are read; where steps have one
      // part, only for keep masks that are generated
      // (docs/experiments/backward-work-item-overlap.md).
      bool prefetchWorkItem =
          isPaired && !op.getDeterministic() &&
          (parts > 1 ? dqRingDepth != 0 || readsKeepMask
                     : !pipelined && op.hasDropout() && !readsKeepMask);
      return attn_tile::GradientAttr::get(
          context, ofRows,
          makeKeys(tile, pipelined, parts, dqRingDepth, lhsRegisters,
                   /*orderedDq=*/op.getDeterministic(), loadsKeysEarly ? 2 : 1,
                   prefetchWorkItem),
          /*dq=*/nullptr, /*dv=*/nullptr);
    };
    std::string reason =
        ("tiles of " + Twine(tile) +
         " queries fit registers and shared memory, with a dQ accumulator")
            .str();
    if (op.getDeterministic())
      return ScheduleChoice{makeDqAccumulator(0), reason + " in order"};
    int64_t bound = getDqRingBound(parts);
    if (bound == 0)
      return ScheduleChoice{makeDqAccumulator(0), reason};
    Attribute dqRing = makeDqAccumulator(dqRingDepth);
    if (!hasRoom)
      return ScheduleChoice{dqRing,
                            reason + "; in a dQ ring buffer, for all of them " +
                                moreThanBudget};
    std::string choice =
        reason +
        ("; up to " + Twine(bound - 1) + " queries in a dQ ring buffer").str();
    int64_t queries = op.getStaticLengths().first;
    if (ShapedType::isDynamic(queries))
      return ScheduleChoice{
          ByQueryLengthAttr::get(
              context, bound, cast<ScheduleAttrInterface>(dqRing),
              cast<ScheduleAttrInterface>(Attribute(makeDqAccumulator(0)))),
          choice};
    if (queries < bound)
      return ScheduleChoice{dqRing, choice};
    return ScheduleChoice{makeDqAccumulator(0), choice};
  };
  // Ordered dQ accumulation of pairs of work items is faster than a dq kernel
  // from this many queries on
  // (docs/experiments/backward-ordered-accumulation.md).
  constexpr int64_t minQueriesOfOrderedDq = 4096;
  std::optional<ScheduleChoice> orderedDq;
  // Ordered accumulation of pairs needs query tiles that divide key tiles.
  auto isUsableTile = [&](int64_t tile) {
    return tile >= minStreamedTile &&
           (!op.getDeterministic() || !isMasked || rows % tile == 0);
  };
  if (mayAddUp(/*parts=*/1) && qkHeadDim == rows)
    if (int64_t tile = getStreamedTile(withDqAccumulator); isUsableTile(tile)) {
      orderedDq = chooseDqAccumulator(tile, /*parts=*/1);
      int64_t queries = op.getStaticLengths().first;
      if (!op.getDeterministic() || !isMasked ||
          (!ShapedType::isDynamic(queries) && queries >= minQueriesOfOrderedDq))
        return orderedDq;
      if (!ShapedType::isDynamic(queries))
        orderedDq = std::nullopt;
    }
  // At half that head dim, the dQ accumulator has a row for each query instead.
  // There are twice as many queries, multiplied in two parts. Additions to
  // captured arrays may spill then, and so do keep masks for heads that share
  // keys.
  if (mayAddUp(/*parts=*/2) && 2 * qkHeadDim == rows && vHeadDim <= qkHeadDim &&
      !readsMaskMod && op.getDcaptures().empty() &&
      (!op.hasDropout() || op.getGroupSize() == 1))
    return chooseDqAccumulator(rows, /*parts=*/2);

  int64_t queryTile = getStreamedTile(together);
  int64_t valueTile = getStreamedTile(valuesAlone);
  ScheduleAttrInterface values;
  if (queryTile < minStreamedTile) {
    queryTile = getStreamedTile(keysAlone);
    if (queryTile == 0 || valueTile == 0)
      return std::nullopt;
    values = makeKeys(valueTile);
  }
  // Queries of the next work item are loaded early if there is room next to key
  // tiles that are still efficient; else warpgroups run in ping-pong.
  constexpr int64_t minKeyTilePreload = 64, keyTileUnitPreload = 32;
  StreamedTileBounds preloaded = queriesAlone;
  preloaded.fixedBytes *= 2;
  int64_t keyTile = getStreamedTile(preloaded, keyTileUnitPreload);
  bool preloads = keyTile >= minKeyTilePreload;
  if (!preloads)
    keyTile = getStreamedTile(queriesAlone);
  if (keyTile == 0)
    return std::nullopt;
  auto queries =
      cast<ScheduleAttrInterface>(Attribute(attn_tile::WarpSpecializedAttr::get(
          context, rows, keyTile, gradStages, gradConsumers,
          /*ping_pong=*/!preloads, traversal,
          /*interleave=*/hasSequences ? 0 : 1,
          /*conditional_rescale=*/false, /*deferred_rescale=*/false,
          /*query_stages=*/preloads ? 2 : 1, /*split_kv_work_items=*/0,
          /*pack_gqa=*/false, /*score_stages=*/0, /*l2_promotion=*/256,
          /*ctas_per_sm=*/1, /*exp2_emulation=*/0, /*cluster=*/1,
          /*mask_bits=*/false)));
  Attribute schedule = attn_tile::GradientAttr::get(
      context, ofRows, makeKeys(queryTile), queries, values);
  std::string reason =
      ("tiles of " + Twine(queryTile) + " queries and " + Twine(keyTile) +
       " keys fit registers and shared memory")
          .str();
  if (!op.getDeterministic() && !hasRoom)
    reason += "; dQ accumulator " + moreThanBudget;
  if (orderedDq)
    return ScheduleChoice{ByQueryLengthAttr::get(
                              context, minQueriesOfOrderedDq,
                              cast<ScheduleAttrInterface>(schedule),
                              cast<ScheduleAttrInterface>(orderedDq->schedule)),
                          (reason + "; from " + Twine(minQueriesOfOrderedDq) +
                           " queries on " + orderedDq->reason)
                              .str()};
  if (!values)
    return ScheduleChoice{schedule, reason};
  reason += "; gradients of keys and values do not fit one kernel";

  // The dK kernel can accumulate dQ nevertheless, straight from registers, in
  // parts of the head dim as large as its key tile. Steps that cannot begin the
  // next one early have no room for it. Masks other than causal ones have not
  // been measured.
  StreamedTileBounds inParts = keysAlone;
  inParts.bytesPerRow = gradStages * elementBytes * qkHeadDim +
                        elementBytes * vHeadDim + elementBytes * rows;
  int64_t tile = getStreamedTile(inParts);
  bool isPlain = op.getScoreMod().empty() && op.getMaskMod().empty() &&
                 !op.hasDropout() && op.getDcaptures().empty() &&
                 op.getMaskReads().empty() && !hasSequences;
  if (op.getDeterministic() || !hasRoom || !isPlain ||
      (isMasked && !isCausal) || qkHeadDim % rows != 0 ||
      tile < minStreamedTile)
    return ScheduleChoice{schedule, reason};
  // Long work items first over several heads, rather than pairs: 1 to 4 %
  // faster (docs/experiments/backward-head-dim-256.md).
  auto makePart = [&](int64_t queryTile, bool pipelined) {
    return cast<ScheduleAttrInterface>(
        Attribute(attn_tile::KeyStationaryAttr::get(
            context, queryTile, rows, gradStages, gradConsumers,
            isMasked ? attn_tile::TraversalKind::Grid : traversal,
            isMasked ? maskedKeyHeads : 1, pipelined, /*query_parts=*/1,
            /*dq_ring_depth=*/0, /*lhs_registers=*/false, /*ordered_dq=*/false,
            /*key_stages=*/1, /*prefetch_work_item=*/false)));
  };
  Attribute withAdditions = attn_tile::GradientAttr::get(
      context, ofRows, makePart(tile, /*pipelined=*/true), /*dq=*/nullptr,
      makePart(valueTile, /*pipelined=*/false));
  return chooseByTime(op, device, schedule, withAdditions, reason);
}

std::optional<ScheduleChoice>
attn::chooseGradientSchedule(AttentionGradOp op, StringRef target,
                             const DeviceFigures &device,
                             int64_t dqWorkspaceBytes) {
  return target == "sm_80"
             ? chooseMultistageGradient(op, device)
             : chooseWarpSpecializedGradient(op, device, dqWorkspaceBytes);
}

bool attn::isSupportedHeadDim(int64_t headDim, StringRef target) {
  if (target == "host")
    return headDim <= maxHeadDimHost;
  return headDim % headDimUnit == 0 && headDim <= maxHeadDim;
}

/// Checks that the MMA instructions of GPUs support `op`.
static LogicalResult verifyForGPU(AttentionOpInterface op, StringRef target) {
  Type element = cast<ShapedType>(op.getQuery().getType()).getElementType();
  if (!element.isBF16() && !element.isF16())
    return op.emitOpError("element type on ")
           << target << " must be bf16 or f16 (was " << element << ")";
  for (auto [name, dim] :
       {std::pair<StringRef, int64_t>("query", op.getQKHeadDim()),
        std::pair<StringRef, int64_t>("value", op.getVHeadDim())})
    if (!isSupportedHeadDim(dim, target))
      return op.emitOpError()
             << name << " head dim on " << target << " must be a multiple of "
             << headDimUnit << " and at most " << maxHeadDim << " (was " << dim
             << ")";
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
       {std::pair<StringRef, int64_t>("query", op.getQKHeadDim()),
        std::pair<StringRef, int64_t>("value", op.getVHeadDim())})
    if (!isSupportedHeadDim(dim, "host"))
      return op.emitOpError() << name << " head dim on host must be at most "
                              << maxHeadDimHost << " (was " << dim << ")";
  return success();
}

/// The schedule of kernels without tiles, such as kernels that fill tables.
static ScheduleAttrInterface getScalarSchedule(MLIRContext *context,
                                               StringRef target) {
  Attribute schedule;
  if (target == "host")
    schedule = attn_tile::SequentialAttr::get(context, /*query_tile=*/1,
                                              /*key_tile=*/8,
                                              /*split_kv_work_items=*/0,
                                              /*pack_gqa=*/false);
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

/// Keep masks are generated by kernels that run before attention.
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

/// Functions of heads are computed by kernels without MMAs.
static LogicalResult chooseForMap(MapHeadsOp map, StringRef target,
                                  const DeviceFigures &device) {
  if (target != "host") {
    int64_t headDim = cast<ShapedType>(map.getIn().getType()).getShape().back();
    if (!isSupportedHeadDim(headDim, target))
      return map.emitOpError("head dim on ")
             << target << " must be a multiple of " << headDimUnit
             << " and at most " << maxHeadDim << " (was " << headDim << ")";
  }
  constexpr int64_t warps = 4, rowsOfWarp = 16;
  ScheduleAttrInterface expected =
      target == "host"
          ? getHostMapSchedule(map, device)
          : cast<ScheduleAttrInterface>(
                Attribute(attn_tile::MultistageAttr::get(
                    map.getContext(), warps * rowsOfWarp, /*key_tile=*/64,
                    /*stages=*/2, warps, /*split_kv_work_items=*/0,
                    /*pack_gqa=*/false)));
  if (!map.getScheduleAttr())
    map.setScheduleAttr(expected);
  if (map.getScheduleAttr().getTypeID() != expected.getTypeID())
    return map.emitOpError("schedule on ")
           << target << " must be like " << Attribute(expected) << " (was "
           << Attribute(map.getScheduleAttr()) << ")";
  return success();
}

/// The fewest bytes of shared memory, more than `device` has, with which a
/// schedule fits; `std::nullopt` if shared memory is not the limit.
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
              FailureOr<std::optional<ScheduleChoice>> candidate =
                  choose(op, larger);
              return succeeded(candidate) && *candidate;
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
              // Measured times hold for the device itself, not for one with
              // more memory.
              if (figures.sharedBytes == device.sharedBytes) {
                auto choice = chooseMeasuredSchedule(
                    attention, target, deviceAttr.getName(), measured);
                if (failed(choice) || *choice)
                  return choice;
              }
              return chooseForwardSchedule(attention, target, figures);
            });
      if (auto matmul = dyn_cast<MatmulOp>(op))
        return failed(chooseMatmulSchedule(matmul, target))
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
                                            dqWorkspaceBytes);
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
