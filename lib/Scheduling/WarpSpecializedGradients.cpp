//===- WarpSpecializedGradients.cpp - Gradients by warpgroups -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Derives the schedules of kernels of gradients with producers and consumers
// from the capacities of the device.
//
//===----------------------------------------------------------------------===//

#include "ScheduleCandidates.h"
#include "attn/Analysis/MaskArea.h"
#include "attn/Analysis/MaskTiles.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/AttnTile/IR/AttnTileParameters.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::attn;
using attn_tile::headDimStep;
using attn_tile::KeyStationaryAttr;
using attn_tile::TraversalKind;

/// The head dim is staged in blocks of this many elements, padded with zeros.
static constexpr int64_t stagedHeadDims = 64;

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
/// Key heads over which work items of different lengths are interleaved.
static constexpr int64_t maskedKeyHeads = 8;

/// The largest tile within `bounds`, or 0.
static int64_t getStreamedTile(const StreamedTileBounds &bounds,
                               int64_t unit = keyTileUnit) {
  Capacity capacity;
  capacity.registers = double(bounds.registers);
  capacity.sharedBytes = double(bounds.sharedBytes);
  auto getNeed = [&](int64_t tile) {
    CapacityNeed need;
    need.registers =
        double(bounds.accumulators) + bounds.registersPerRow * double(tile);
    need.sharedBytes = double(bounds.fixedBytes + bounds.bytesPerRow * tile);
    return need;
  };
  return findLargestTile(capacity, unit, bounds.maxTile, getNeed).size;
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
static bool isDqWorkspaceWithin(int64_t budget,
                                attn_tile::StreamingGradOpInterface op,
                                int64_t headDim) {
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
static ScheduleChoice chooseByTime(attn_tile::StreamingGradOpInterface op,
                                   const DeviceModel &device, Attribute apart,
                                   Attribute added, StringRef reason) {
  // The number of all queries is the same at each length, as in the benchmarks.
  constexpr int64_t tokens = 16384, shortest = 1024;
  std::shared_ptr<WorkBudget> work = VisitedTiles::createBudget();
  llvm::scope_exit report([&] {
    if (work->isExhausted())
      reportLimitedEstimates(op.getLoc());
  });
  auto isFaster = [&](int64_t length) {
    CostAssumptions assumptions{length, std::max<int64_t>(tokens / length, 1)};
    std::optional<double> of =
        estimateGradient(op, added, device, work, assumptions);
    std::optional<double> ofApart =
        estimateGradient(op, apart, device, work, assumptions);
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

/// With smaller tiles, reads of shared memory take longer than the MMAs; two
/// kernels with large tiles are faster.
static constexpr int64_t minStreamedTile = 48;

/// Rows of the tiles that stay.
static constexpr int64_t rows = gradConsumers * warpgroupRows;

namespace {
/// Schedules of dkdv and dq kernels with one producer and two consumers.
class WarpSpecializedGradients {
public:
  WarpSpecializedGradients(attn_tile::StreamingGradOpInterface op,
                           const DeviceModel &device, int64_t dqWorkspaceBytes);

  std::optional<ScheduleChoice> choose();

private:
  /// How the consumers of a kernel divide its tiles.
  struct ConsumerTiles {
    int64_t consumers = gradConsumers, stages = gradStages;
    /// The columns of the result of a work item, or of each consumer; 0 for all
    /// of them.
    int64_t headDimTile = 0;
    bool consumerColumns = false;

    /// The rows of the tiles that stay.
    int64_t getRows() const {
      return (consumerColumns ? 1 : consumers) * warpgroupRows;
    }
  };
  /// The parameters in which kernels of keys differ.
  struct KeyKernel {
    int64_t queryTile;
    bool pipelined = false;
    int64_t queryParts = 1;
    int64_t dqRingDepth = 0;
    bool lhsRegisters = false;
    bool orderedDq = false;
    int64_t keyStages = 1;
    bool prefetchWorkItem = false;
    ConsumerTiles tiles = {};
  };
  /// The parameters in which kernels of queries differ.
  struct QueryKernel {
    int64_t keyTile;
    bool preloads = false;
    ConsumerTiles tiles = {};
  };
  /// A kernel of the gradient of wide heads, and the columns of its result, of
  /// all its stationary tiles and of all its streamed tiles. `streamedColumns`
  /// counts streamed tiles of which it reads only the columns of its result.
  struct WideKernel {
    int64_t result, stationary, streamed, streamedColumns;
    double registersPerRow;
    int64_t registers;
    /// Whether consumers may have columns of their own.
    bool mayConsumersHaveColumns;
  };

  void setBounds();
  void setTraversal();
  void setDqRingDepth();

  ScheduleAttrInterface makeKeys(const KeyKernel &kernel, TraversalKind kind,
                                 int64_t heads);
  ScheduleAttrInterface makeKeys(const KeyKernel &kernel) {
    return makeKeys(kernel, keysTraversal, interleave);
  }
  ScheduleAttrInterface makeQueries(const QueryKernel &kernel);
  Attribute makeGradient(ScheduleAttrInterface keys,
                         ScheduleAttrInterface queries = nullptr,
                         ScheduleAttrInterface values = nullptr);

  /// The number of queries from which a dQ ring buffer is slower; 0 if there
  /// can be none.
  int64_t getDqRingBound(int64_t parts);
  /// Whether the dkdv kernel can accumulate dQ in `parts` parts of its query
  /// tile.
  bool canAccumulateDq(int64_t parts);
  Attribute makeDqAccumulator(int64_t tile, int64_t parts, int64_t depth);
  ScheduleChoice chooseDqAccumulator(int64_t tile, int64_t parts);
  /// The schedule whose dkdv kernel accumulates dQ in tiles; `std::nullopt`
  /// where it cannot.
  std::optional<ScheduleChoice> chooseWholeDqAccumulator();
  std::optional<ScheduleChoice> chooseHalfDqAccumulator();
  /// Whether ordered accumulation pays only from some number of queries on.
  bool isOrderedBound() { return operands.isDeterministic && isMasked; }
  /// Dkdv and dq kernels, and `orderedDq` for many queries, if given.
  std::optional<ScheduleChoice>
  chooseApart(const std::optional<ScheduleChoice> &orderedDq);
  /// The schedules of a kernel of wide heads, made by `make`.
  SmallVector<ScheduleAttrInterface> getWideCandidates(
      const WideKernel &kernel,
      function_ref<ScheduleAttrInterface(int64_t, const ConsumerTiles &)> make);
  /// Kernels of dQ, dK and dV, each of which computes tiles of the columns of
  /// its result.
  std::optional<ScheduleChoice> chooseWide();
  /// The dK kernel can accumulate dQ even where dV has a kernel of its own.
  ScheduleChoice choosePartsOfDq(Attribute apart, int64_t valueTile,
                                 std::string reason);

  attn_tile::StreamingGradOpInterface op;
  attn_tile::GradOperands operands;
  const DeviceModel &device;
  int64_t dqWorkspaceBytes;
  KeyTileBounds consumers;
  int64_t elementBytes;
  /// Head dims as they are staged.
  int64_t qkHeadDim, vHeadDim;
  bool readsMaskMod, isMasked, isCausal, isListed;
  /// Whether a dQ accumulator for all queries is within `dqWorkspaceBytes`.
  bool hasRoom;
  StreamedTileBounds together, keysAlone, valuesAlone, queriesAlone,
      withDqAccumulator;
  TraversalKind traversal, keysTraversal;
  bool isPaired;
  int64_t interleave = 1;
  int64_t dqRingDepth = 0;
};
} // namespace

WarpSpecializedGradients::WarpSpecializedGradients(
    attn_tile::StreamingGradOpInterface op, const DeviceModel &device,
    int64_t dqWorkspaceBytes)
    : op(op), operands(op.getGradOperands()), device(device),
      dqWorkspaceBytes(dqWorkspaceBytes),
      consumers(getConsumerBounds(gradConsumers, device)),
      elementBytes(getElementBytes(op.getQuery())),
      qkHeadDim(llvm::alignTo(op.getQKHeadDim(), stagedHeadDims)),
      vHeadDim(llvm::alignTo(op.getVHeadDim(), stagedHeadDims)),
      readsMaskMod(readsByPosition(op.getMaskMod()) || needsClassification(op)),
      isMasked(op.getMaskAttr() || !op.getMaskMod().empty()),
      isCausal(isTriangle(op.getMaskAttr()) && !readsMaskMod),
      isListed(op.getAddressing().isListed()),
      hasRoom(isDqWorkspaceWithin(dqWorkspaceBytes, op, qkHeadDim)) {
  setBounds();
  setTraversal();
  setDqRingDepth();
}

void WarpSpecializedGradients::setBounds() {
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
  int64_t readRegisters = readsMaskMod ? 24 : 0;
  // So does a dkdv kernel that adds to captured arrays.
  int64_t addRegisters = operands.captureGrads.empty() ? 0 : 24;
  together = {keyAccumulators + valueAccumulators,
              scoresAndGradients,
              fixed,
              stagedRow,
              gradTileRegisters - readRegisters - addRegisters,
              consumers.sharedBytes,
              maxGradQueryTile};
  keysAlone = together;
  keysAlone.accumulators = keyAccumulators;
  valuesAlone = together;
  valuesAlone.accumulators = valueAccumulators;
  valuesAlone.registersPerRow = scoresAlone;
  valuesAlone.fixedBytes = rows * elementBytes * qkHeadDim;
  queriesAlone = keysAlone;
  queriesAlone.registers = consumers.registers - readRegisters;
  queriesAlone.maxTile = maxGradKeyTile;
  // The dkdv kernel can accumulate dQ, in tiles with a row for each element of
  // the head dim. Where few rows are padding, that saves the MMAs that compute
  // scores again. It takes two stages of dS in shared memory and a tile of the
  // dQ accumulator.
  withDqAccumulator = together;
  withDqAccumulator.accumulators = rows / 2 + valueAccumulators;
  // Tiles of 64 queries whose steps do not overlap are faster than smaller
  // ones: keep masks then use registers of MMAs that are not in flight.
  withDqAccumulator.registersPerRow = 1.5;
  withDqAccumulator.fixedBytes = rows * elementBytes * (rows + vHeadDim);
  withDqAccumulator.bytesPerRow =
      gradStages * elementBytes * (rows + vHeadDim) + 2 * rows * elementBytes +
      rows * 4;
  withDqAccumulator.maxTile = stagedHeadDims;
  // Steps that need no mask run in a loop of their own, which does not read the
  // tensors of the mask.
  withDqAccumulator.registers = gradTileRegisters - addRegisters;
}

void WarpSpecializedGradients::setTraversal() {
  // The device hands out work items of different lengths, long ones first. That
  // takes fewer registers than finding pairs. It happens over several key heads
  // at once, unless one head has enough short work items to end with. Pairs are
  // as fast for causal masks of heads that have keys of their own.
  traversal = isMasked ? TraversalKind::Paired : TraversalKind::Persistent;
  // An iteration over work items keeps its position and values for the next
  // work item. Additions to captured arrays with dropout leave no registers
  // for that.
  bool addsDropped = op.hasDropout() && !operands.captureGrads.empty();
  bool isUneven = isMasked && (!isCausal || op.getGroupSize() != 1);
  // Sequences are sorted by their work, over all heads.
  keysTraversal =
      isUneven || addsDropped || isListed ? TraversalKind::Grid : traversal;
  isPaired = keysTraversal == TraversalKind::Paired;
  // Fewer heads where each head has its own list of tiles. A list that all
  // heads share has an order in which the dQ accumulator stays in L2
  // (docs/experiments/backward-masks.md).
  constexpr int64_t listedKeyHeads = 4;
  bool isListedOnce =
      readsMaskMod && op.getMaskMod().getArgument(1).use_empty();
  if (isListed)
    interleave = 0;
  else if (isUneven && !isListedOnce)
    interleave = readsMaskMod ? listedKeyHeads : maskedKeyHeads;
}

void WarpSpecializedGradients::setDqRingDepth() {
  // Work items of a CTA in the ring buffer: the ones it computes, and as many
  // whose dQ is converted meanwhile. With pairs, a CTA has two at a time.
  constexpr int64_t rounds = 2;
  int64_t workItemsOfCta = rounds * (isPaired ? 2 : 1);
  // The largest ring buffer has room for the work items of any existing device.
  if (device.sms <= KeyStationaryAttr::maxDqRingDepth / workItemsOfCta)
    dqRingDepth = workItemsOfCta * device.sms;
}

ScheduleAttrInterface
WarpSpecializedGradients::makeKeys(const KeyKernel &kernel, TraversalKind kind,
                                   int64_t heads) {
  attn_tile::KeyStationaryParameters parameters;
  parameters.queryTile = kernel.queryTile;
  parameters.keyTile = kernel.tiles.getRows();
  parameters.stages = kernel.tiles.stages * kernel.queryParts;
  parameters.consumers = kernel.tiles.consumers;
  parameters.traversal = kind;
  parameters.interleave = heads;
  parameters.pipelined = kernel.pipelined;
  parameters.queryParts = kernel.queryParts;
  parameters.dqRingDepth = kernel.dqRingDepth;
  parameters.lhsRegisters = kernel.lhsRegisters;
  parameters.orderedDq = kernel.orderedDq;
  parameters.keyStages = kernel.keyStages;
  parameters.prefetchWorkItem = kernel.prefetchWorkItem;
  parameters.headDimTile = kernel.tiles.headDimTile;
  parameters.consumerColumns = kernel.tiles.consumerColumns;
  return makeSchedule(op.getContext(), parameters);
}

ScheduleAttrInterface
WarpSpecializedGradients::makeQueries(const QueryKernel &kernel) {
  attn_tile::WarpSpecializedParameters parameters;
  parameters.queryTile = kernel.tiles.getRows();
  parameters.keyTile = kernel.keyTile;
  parameters.stages = kernel.tiles.stages;
  parameters.consumers = kernel.tiles.consumers;
  // Warpgroups run in ping-pong where there is no room for early queries.
  parameters.pingPong = !kernel.preloads && kernel.tiles.consumers > 1;
  parameters.traversal = traversal;
  parameters.interleave = isListed ? 0 : 1;
  parameters.queryStages = kernel.preloads ? 2 : 1;
  parameters.headDimTile = kernel.tiles.headDimTile;
  parameters.consumerColumns = kernel.tiles.consumerColumns;
  return makeSchedule(op.getContext(), parameters);
}

Attribute WarpSpecializedGradients::makeGradient(ScheduleAttrInterface keys,
                                                 ScheduleAttrInterface queries,
                                                 ScheduleAttrInterface values) {
  attn_tile::MultistageParameters ofRows;
  ofRows.queryTile = 128;
  ofRows.keyTile = 64;
  ofRows.stages = 2;
  ofRows.warps = 4 * gradConsumers;
  return attn_tile::GradientAttr::get(op.getContext(),
                                      makeSchedule(op.getContext(), ofRows),
                                      keys, queries, values);
}

int64_t WarpSpecializedGradients::getDqRingBound(int64_t parts) {
  // A dQ ring buffer is faster below this many queries: it saves a fixed time
  // for all lengths, and costs time for each work item
  // (docs/experiments/backward-dq-ring-buffer.md). CTAs must iterate over heads
  // in order, and L2 must have room for the dQ accumulators of many heads.
  // Padding and additions to captured arrays take registers of the warps that
  // convert dQ.
  constexpr int64_t convertedHeadDimUnit = 32;
  int64_t headDim = parts > 1 ? op.getQKHeadDim() : rows;
  // The warps write elements of 16 bits.
  constexpr int64_t convertedBytes = 2;
  if (dqRingDepth == 0 || keysTraversal == TraversalKind::Grid ||
      getElementBytes(operands.queryGrad) != convertedBytes ||
      op.getGroupSize() != 1 || !operands.captureGrads.empty() ||
      headDim != op.getQKHeadDim() || headDim % convertedHeadDimUnit != 0)
    return 0;
  const Calibration &fit = device.calibration;
  return int64_t(parts > 1 && isPaired && op.hasDropout()
                     ? fit.dqRingQueriesDropout
                     : fit.dqRingQueries);
}

bool WarpSpecializedGradients::canAccumulateDq(int64_t parts) {
  // With parts under a mask, ordered additions are due faster than they
  // complete.
  if (operands.isDeterministic)
    return hasRoom && operands.canOrderDq && (parts == 1 || !isMasked);
  return hasRoom || getDqRingBound(parts) > 0;
}

Attribute WarpSpecializedGradients::makeDqAccumulator(int64_t tile,
                                                      int64_t parts,
                                                      int64_t depth) {
  KeyKernel kernel{tile};
  kernel.queryParts = parts;
  kernel.dqRingDepth = depth;
  kernel.orderedDq = operands.isDeterministic;
  // A score_mod leaves no registers for the next step. Neither does dropout
  // with a mask_mod, or with steps of one part.
  kernel.pipelined =
      op.getScoreMod().empty() &&
      (!op.hasDropout() || (parts > 1 && op.getMaskMod().empty()));
  // At half the head dim, registers are left to keep V in them, even with
  // keep masks, masks and warps that convert dQ. Steps without registers for
  // the next step have none for V, either. At a head dim as large as the key
  // tile, V would spill.
  kernel.lhsRegisters = parts > 1 && kernel.pipelined;
  // K of the next work item of a CTA is loaded early. So is V, which leaves
  // its stage at once. With pairs and a ring buffer, keep masks that are
  // read leave no registers for that.
  bool readsKeepMask = static_cast<bool>(op.getDropoutMask());
  bool readsBesidePairs = depth != 0 && isPaired && readsKeepMask;
  if (kernel.lhsRegisters && keysTraversal != TraversalKind::Grid &&
      !readsBesidePairs)
    kernel.keyStages = 2;
  // Pairs of work items take long to find, and work items with a ring
  // buffer are short. Without a ring buffer, prefetching pays, with enough
  // registers, only for keep masks that are read; where steps have one
  // part, only for keep masks that are generated
  // (docs/experiments/backward-work-item-overlap.md).
  kernel.prefetchWorkItem =
      isPaired && !operands.isDeterministic &&
      (parts > 1 ? depth != 0 || readsKeepMask
                 : !kernel.pipelined && op.hasDropout() && !readsKeepMask);
  return makeGradient(makeKeys(kernel));
}

/// Why a dQ accumulator for all queries is not used.
static std::string describeBudget(int64_t bytes) {
  return ("might take more than " + Twine(bytes) + " bytes").str();
}

ScheduleChoice WarpSpecializedGradients::chooseDqAccumulator(int64_t tile,
                                                             int64_t parts) {
  std::string reason =
      ("tiles of " + Twine(tile) +
       " queries fit registers and shared memory, with a dQ accumulator")
          .str();
  Attribute whole = makeDqAccumulator(tile, parts, /*depth=*/0);
  if (operands.isDeterministic)
    return ScheduleChoice{whole, reason + " in order"};
  int64_t bound = getDqRingBound(parts);
  if (bound == 0)
    return ScheduleChoice{whole, reason};
  Attribute dqRing = makeDqAccumulator(tile, parts, dqRingDepth);
  if (!hasRoom)
    return ScheduleChoice{dqRing,
                          reason + "; in a dQ ring buffer, for all of them " +
                              describeBudget(dqWorkspaceBytes)};
  reason +=
      ("; up to " + Twine(bound - 1) + " queries in a dQ ring buffer").str();
  int64_t queries = op.getStaticLengths().first;
  if (ShapedType::isDynamic(queries))
    return ScheduleChoice{
        ByQueryLengthAttr::get(op.getContext(), bound,
                               cast<ScheduleAttrInterface>(dqRing),
                               cast<ScheduleAttrInterface>(whole)),
        reason};
  return ScheduleChoice{queries < bound ? dqRing : whole, reason};
}

std::optional<ScheduleChoice>
WarpSpecializedGradients::chooseWholeDqAccumulator() {
  if (!canAccumulateDq(/*parts=*/1) || qkHeadDim != rows)
    return std::nullopt;
  int64_t tile = getStreamedTile(withDqAccumulator);
  // Ordered accumulation of pairs needs query tiles that divide key tiles.
  if (tile < minStreamedTile || (isOrderedBound() && rows % tile != 0))
    return std::nullopt;
  int64_t queries = op.getStaticLengths().first;
  if (isOrderedBound() && !ShapedType::isDynamic(queries) &&
      double(queries) < device.calibration.orderedDqQueries)
    return std::nullopt;
  return chooseDqAccumulator(tile, /*parts=*/1);
}

std::optional<ScheduleChoice>
WarpSpecializedGradients::chooseHalfDqAccumulator() {
  // At half that head dim, the dQ accumulator has a row for each query instead.
  // There are twice as many queries, multiplied in two parts. Additions to
  // captured arrays may spill then, and so do keep masks for heads that share
  // keys.
  if (!canAccumulateDq(/*parts=*/2) || 2 * qkHeadDim != rows ||
      vHeadDim > qkHeadDim || readsMaskMod || !operands.captureGrads.empty() ||
      (op.hasDropout() && op.getGroupSize() != 1))
    return std::nullopt;
  return chooseDqAccumulator(rows, /*parts=*/2);
}

std::optional<ScheduleChoice> WarpSpecializedGradients::choose() {
  if (std::max(op.getQKHeadDim(), op.getVHeadDim()) > attn_tile::maxMmaColumns)
    return chooseWide();
  std::optional<ScheduleChoice> orderedDq = chooseWholeDqAccumulator();
  bool isForMany =
      isOrderedBound() && ShapedType::isDynamic(op.getStaticLengths().first);
  if (orderedDq && !isForMany)
    return orderedDq;
  if (std::optional<ScheduleChoice> half = chooseHalfDqAccumulator())
    return half;
  return chooseApart(orderedDq);
}

std::optional<ScheduleChoice> WarpSpecializedGradients::chooseApart(
    const std::optional<ScheduleChoice> &orderedDq) {
  int64_t queryTile = getStreamedTile(together);
  int64_t valueTile = getStreamedTile(valuesAlone);
  ScheduleAttrInterface values;
  if (queryTile < minStreamedTile) {
    queryTile = getStreamedTile(keysAlone);
    if (queryTile == 0 || valueTile == 0)
      return std::nullopt;
    values = makeKeys({valueTile});
  }
  // Queries of the next work item are loaded early if there is room next to key
  // tiles that are still efficient.
  constexpr int64_t minKeyTilePreload = 64, keyTileUnitPreload = 32;
  StreamedTileBounds preloaded = queriesAlone;
  preloaded.fixedBytes *= 2;
  int64_t keyTile = getStreamedTile(preloaded, keyTileUnitPreload);
  bool preloads = keyTile >= minKeyTilePreload;
  if (!preloads)
    keyTile = getStreamedTile(queriesAlone);
  if (keyTile == 0)
    return std::nullopt;
  Attribute schedule = makeGradient(makeKeys({queryTile}),
                                    makeQueries({keyTile, preloads}), values);
  std::string reason =
      ("tiles of " + Twine(queryTile) + " queries and " + Twine(keyTile) +
       " keys fit registers and shared memory")
          .str();
  if (!operands.isDeterministic && !hasRoom)
    reason += "; dQ accumulator " + describeBudget(dqWorkspaceBytes);
  if (orderedDq) {
    auto bound = int64_t(device.calibration.orderedDqQueries);
    return ScheduleChoice{
        ByQueryLengthAttr::get(
            op.getContext(), bound, cast<ScheduleAttrInterface>(schedule),
            cast<ScheduleAttrInterface>(orderedDq->schedule)),
        (reason + "; from " + Twine(bound) + " queries on " + orderedDq->reason)
            .str()};
  }
  if (!values)
    return ScheduleChoice{schedule, reason};
  reason += "; gradients of keys and values do not fit one kernel";
  return choosePartsOfDq(schedule, valueTile, std::move(reason));
}

SmallVector<ScheduleAttrInterface> WarpSpecializedGradients::getWideCandidates(
    const WideKernel &kernel,
    function_ref<ScheduleAttrInterface(int64_t, const ConsumerTiles &)> make) {
  // Tiles of columns begin at blocks of a stage.
  constexpr int64_t columnUnit = stagedHeadDims, maxTile = 128;
  SmallVector<ScheduleAttrInterface> candidates;
  auto add = [&](ConsumerTiles tiles) {
    int64_t loadedColumns =
        tiles.consumerColumns
            ? kernel.streamedColumns
            : std::min(kernel.streamedColumns, tiles.headDimTile);
    StreamedTileBounds bounds;
    bounds.accumulators = tiles.headDimTile / 2;
    bounds.registersPerRow = kernel.registersPerRow;
    bounds.fixedBytes = tiles.getRows() * elementBytes * kernel.stationary;
    bounds.bytesPerRow =
        tiles.stages * elementBytes * (kernel.streamed + loadedColumns);
    bounds.registers = kernel.registers + device.extraRegisters;
    bounds.sharedBytes = consumers.sharedBytes;
    bounds.maxTile = maxTile;
    if (!tiles.consumerColumns && tiles.headDimTile >= kernel.result)
      tiles.headDimTile = 0;
    if (int64_t streamed = getStreamedTile(bounds))
      candidates.push_back(make(streamed, tiles));
  };
  int64_t least = llvm::divideCeil(kernel.result, attn_tile::maxMmaColumns);
  for (int64_t stages = gradStages; stages > 0; --stages) {
    for (int64_t count : {least, least + 1}) {
      int64_t columns =
          llvm::alignTo(llvm::divideCeil(kernel.result, count), columnUnit);
      for (int64_t number = gradConsumers; number > 0; --number)
        add({number, stages, columns, /*consumerColumns=*/false});
    }
    int64_t ofConsumer = kernel.result / gradConsumers;
    if (kernel.mayConsumersHaveColumns && least > 1 &&
        ofConsumer <= attn_tile::maxMmaColumns &&
        kernel.result % (gradConsumers * columnUnit) == 0)
      add({gradConsumers, stages, ofConsumer, /*consumerColumns=*/true});
  }
  return candidates;
}

std::optional<ScheduleChoice> WarpSpecializedGradients::chooseWide() {
  int64_t qk = op.getQKHeadDim(), v = op.getVHeadDim();
  int64_t both = qkHeadDim + vHeadDim;
  auto makeKeysOf = [&](int64_t queryTile, const ConsumerTiles &tiles) {
    KeyKernel kernel{queryTile};
    kernel.tiles = tiles;
    return makeKeys(kernel);
  };
  // Addresses of columns take registers of kernels of keys, which have fewest.
  constexpr int64_t columnRegisters = 8;
  SmallVector<ScheduleAttrInterface> keys = getWideCandidates(
      {qk, both, both, 0, keysAlone.registersPerRow,
       keysAlone.registers - columnRegisters, operands.captureGrads.empty()},
      makeKeysOf);
  SmallVector<ScheduleAttrInterface> values =
      getWideCandidates({v, qkHeadDim, qkHeadDim, vHeadDim,
                         valuesAlone.registersPerRow, valuesAlone.registers,
                         /*mayConsumersHaveColumns=*/true},
                        makeKeysOf);
  SmallVector<ScheduleAttrInterface> queries = getWideCandidates(
      {qk, both, both, 0, queriesAlone.registersPerRow, queriesAlone.registers,
       /*mayConsumersHaveColumns=*/true},
      [&](int64_t keyTile, const ConsumerTiles &tiles) {
        return makeQueries({keyTile, /*preloads=*/false, tiles});
      });
  if (keys.empty() || values.empty() || queries.empty())
    return std::nullopt;
  // One after the other, as the time of each does not depend on the others.
  std::shared_ptr<WorkBudget> work = VisitedTiles::createBudget();
  auto pick = [&](ArrayRef<ScheduleAttrInterface> candidates,
                  function_ref<Attribute(ScheduleAttrInterface)> make) {
    return pickByTime(op, device, work, candidates, make);
  };
  ScheduleAttrInterface byKey = pick(keys, [&](ScheduleAttrInterface part) {
    return makeGradient(part, queries.front(), values.front());
  });
  ScheduleAttrInterface byValue = pick(values, [&](ScheduleAttrInterface part) {
    return makeGradient(byKey, queries.front(), part);
  });
  ScheduleAttrInterface byQuery =
      pick(queries, [&](ScheduleAttrInterface part) {
        return makeGradient(byKey, part, byValue);
      });
  if (work->isExhausted())
    reportLimitedEstimates(op.getLoc());
  std::string reason =
      ("gradients of wide heads take tiles of columns, " +
       Twine(byKey.getHeadDimTile()) + " of dK, " +
       Twine(byValue.getHeadDimTile()) + " of dV and " +
       Twine(byQuery.getHeadDimTile()) + " of dQ (0: all columns), of " +
       Twine(keys.size() + values.size() + queries.size()) +
       " schedules that fit")
          .str();
  return ScheduleChoice{makeGradient(byKey, byQuery, byValue), reason};
}

ScheduleChoice WarpSpecializedGradients::choosePartsOfDq(Attribute apart,
                                                         int64_t valueTile,
                                                         std::string reason) {
  // The dK kernel adds dQ straight from registers, in parts of the head dim as
  // large as its key tile. Steps that cannot begin the next one early have no
  // room for it. Masks other than causal ones have not been measured.
  StreamedTileBounds inParts = keysAlone;
  inParts.bytesPerRow = gradStages * elementBytes * qkHeadDim +
                        elementBytes * vHeadDim + elementBytes * rows;
  int64_t tile = getStreamedTile(inParts);
  bool isPlain = op.getScoreMod().empty() && op.getMaskMod().empty() &&
                 !op.hasDropout() && operands.captureGrads.empty() &&
                 op.getMaskReads().empty() && !isListed;
  if (operands.isDeterministic || !hasRoom || !isPlain ||
      (isMasked && !isCausal) || qkHeadDim % rows != 0 ||
      tile < minStreamedTile)
    return {apart, reason};
  // Long work items first over several heads, rather than pairs: 1 to 4 %
  // faster (docs/experiments/backward-head-dim-256.md).
  TraversalKind kind = isMasked ? TraversalKind::Grid : traversal;
  int64_t heads = isMasked ? maskedKeyHeads : 1;
  KeyKernel keys{tile};
  keys.pipelined = true;
  Attribute added =
      makeGradient(makeKeys(keys, kind, heads),
                   /*queries=*/nullptr, makeKeys({valueTile}, kind, heads));
  return chooseByTime(op, device, apart, added, reason);
}

std::optional<ScheduleChoice>
attn::chooseWarpSpecializedGradient(attn_tile::StreamingGradOpInterface op,
                                    const DeviceModel &device,
                                    int64_t dqWorkspaceBytes) {
  std::optional<ScheduleChoice> choice =
      WarpSpecializedGradients(op, device, dqWorkspaceBytes).choose();
  if (choice)
    choice->reason += describeGradientTime(op, choice->schedule, device);
  return choice;
}
