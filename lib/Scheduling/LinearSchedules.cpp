//===- LinearSchedules.cpp - Schedules of linear attention ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The schedules of linear attention and its gradient on GPUs. With a producer
// there are several, of which the model chooses.
//
//===----------------------------------------------------------------------===//

#include "GPUScheduleFamily.h"
#include "LinearScheduleChoice.h"
#include "attn/Dialect/AttnTile/IR/AttnTileParameters.h"
#include "attn/Interfaces/CostOpInterface.h"
#include "attn/PerfModel/LinearTime.h"

#include <cmath>

using namespace mlir;
using namespace mlir::attn;
using attn_tile::warpRows;
using attn_tile::warpThreads;

/// Registers of a thread that may hold the state, next to scores and output.
static constexpr int64_t stateRegisters = (maxThreadRegisters + 1) / 4;
/// Elements of the state that a warp may hold.
static constexpr int64_t maxStateOfWarp = stateRegisters * warpThreads;

static constexpr int64_t f32Bytes = 4;

namespace {
/// What schedules of an operation depend on.
struct LinearAttentionForm {
  int64_t chunk, keyHeadDim, valueHeadDim, elementBytes;
  /// Decays are of tokens or heads, or of key elements.
  bool isCausal, hasDecay, hasElementDecay, hasBeta, isGradient = false;
  /// Whether log-decays have a gradient.
  bool hasDecayGradient = false;
  /// Whether the operation says how many tokens a chunk has.
  bool hasChunk;
  bool hasSequences;

  /// Key head dims of a tile: the warps have as many rows of it each.
  int64_t getKeyDim() const { return llvm::alignTo(keyHeadDim, chunk); }
  /// Columns of a tile of values, of which registers hold the state.
  int64_t getValueTile() const;
};

/// Elements that kernels stage: in each stage of the pipes that loads fill, and
/// in each stage of the ones for computed operands.
struct StagedElements {
  int64_t loaded, computed;
};
} // namespace

/// The form of a gradient: values are keys of the one of queries, and keys are
/// values.
template <typename OpTy>
static LinearAttentionForm getForm(OpTy op) {
  LinearAttentionForm form;
  form.chunk = op.getChunkOrDefault();
  form.keyHeadDim = op.getKeyHeadDim();
  form.valueHeadDim = op.getValueHeadDim();
  form.elementBytes = getElementBytes(op.getQuery());
  form.hasChunk = op.getChunk().has_value();
  form.hasSequences = bool(op.getSequences());
  form.isCausal = op.getCausal();
  form.hasElementDecay = op.hasElementDecay();
  form.hasDecay = op.getLogDecay() && !form.hasElementDecay;
  form.hasBeta = bool(op.getBeta());
  if constexpr (std::is_same_v<OpTy, LinearAttentionGradOp>) {
    form.isGradient = true;
    form.hasDecayGradient = bool(op.getDlogDecay());
    form.keyHeadDim = form.valueHeadDim =
        std::max(form.keyHeadDim, form.valueHeadDim);
  }
  return form;
}

int64_t LinearAttentionForm::getValueTile() const {
  constexpr int64_t maxValueTile = 64;
  int64_t fitting = maxStateOfWarp * (chunk / warpRows) / getKeyDim();
  return std::min<int64_t>({maxValueTile,
                            int64_t(llvm::bit_floor(uint64_t(fitting))),
                            int64_t(llvm::alignTo(valueHeadDim, warpRows))});
}

/// Columns of values in shared memory, where rows have whole blocks.
static int64_t getStagedColumns(const LinearAttentionForm &form,
                                int64_t valueTile) {
  return llvm::alignTo(valueTile,
                       attn_tile::columnBlockBytes / form.elementBytes);
}

/// Tiles of queries, keys and values; the state and decayed values. The
/// gradient of log-decays needs rows and states besides.
static StagedElements countLinear(const LinearAttentionForm &form,
                                  int64_t valueTile, bool hasProducer) {
  int64_t keyDim = form.getKeyDim();
  int64_t columns = getStagedColumns(form, valueTile);
  int64_t loaded = form.chunk * (2 * keyDim + columns);
  if (hasProducer && form.hasDecayGradient)
    loaded += (form.chunk + keyDim) * columns;
  return {loaded, (keyDim + (form.hasDecay ? form.chunk : 0)) * columns};
}

/// What kernels with pair matrices that go through chunks stage. Besides tiles
/// of queries, keys and values there are scores of pairs of tokens. With the
/// delta rule there is one matrix more, and values are rounded before and after
/// the matmul with it, and once more if they are decayed; with decays of key
/// elements, keys have two of them.
static StagedElements countPairs(const LinearAttentionForm &form,
                                 int64_t valueTile) {
  int64_t keyDim = form.getKeyDim();
  int64_t columns = getStagedColumns(form, valueTile);
  int64_t rows = form.hasBeta && form.hasElementDecay ? 3 : 2;
  int64_t matrices = form.hasBeta ? 2 : 1;
  int64_t rounded = !form.hasBeta ? 0 : form.hasDecay ? 3 : 2;
  return {form.chunk * (rows * keyDim + columns + matrices * form.chunk),
          (keyDim + rounded * form.chunk) * columns};
}

/// The number of stages of the loaded tiles, at most `most`: as many as shared
/// memory has room for, but one at least.
static int64_t countStages(const StagedElements &staged, int64_t localStages,
                           const LinearAttentionForm &form, int64_t most,
                           const DeviceModel &device) {
  int64_t elements = getTileBytes(device) / form.elementBytes;
  int64_t fitting = (elements - localStages * staged.computed) / staged.loaded;
  return std::clamp<int64_t>(fitting, 1, most);
}

/// What the kernel of gradients of queries and keys stages, with `columns` of
/// these: rows of values' gradients and updates, queries and keys, two states,
/// and gradients of scores. The delta rule has one of each more.
static StagedElements countGradients(const LinearAttentionForm &form,
                                     int64_t columns) {
  int64_t keyDim = form.getKeyDim(), rows = form.hasBeta ? 3 : 2;
  int64_t tiles = form.hasBeta && form.hasElementDecay ? 3 : 2;
  int64_t staged = form.chunk * getStagedColumns(form, columns);
  return {rows * form.chunk * keyDim + tiles * staged + 2 * columns * keyDim,
          (form.hasBeta ? 2 : 1) * form.chunk * form.chunk};
}

/// What the kernel of the states before splits stages, with `columns` of the
/// states: both parts of a transition and of a state.
static StagedElements countStarts(const LinearAttentionForm &form,
                                  int64_t columns) {
  int64_t keyDim = form.getKeyDim();
  return {2 * keyDim * keyDim, 2 * keyDim * getStagedColumns(form, columns)};
}

/// Whether shared memory of `bytes` has room for `stages` stages of the loaded
/// tiles, and one of computed operands.
static bool fits(const StagedElements &staged, int64_t stages,
                 const LinearAttentionForm &form, int64_t bytes) {
  return (stages * staged.loaded + staged.computed) * form.elementBytes <=
         bytes;
}

/// `columns`, or a half or a quarter of them and so on, 16 at least: as many as
/// leave room for one stage of what `count` finds that kernels with so many
/// columns stage.
static int64_t fitColumns(const LinearAttentionForm &form, int64_t columns,
                          const DeviceModel &device,
                          function_ref<StagedElements(int64_t columns)> count) {
  constexpr int64_t unit = 16;
  auto countElements = [&](int64_t columns) {
    StagedElements staged = count(columns);
    return staged.loaded + staged.computed;
  };
  while (columns > unit &&
         !fits(count(columns), /*stages=*/1, form, getTileBytes(device))) {
    int64_t fewer = llvm::alignTo(columns / 2, unit);
    if (countElements(fewer) == countElements(columns))
      break;
    columns = fewer;
  }
  return columns;
}

/// The schedule of kernels in which all warps copy and multiply, without
/// stages.
static attn_tile::LinearMultistageParameters
getByWarps(const LinearAttentionForm &form) {
  attn_tile::LinearMultistageParameters parameters;
  parameters.chunk = form.chunk;
  parameters.warps = form.chunk / warpRows;
  parameters.valueTile = form.getValueTile();
  return parameters;
}

/// Work items to aim at by kernels in which all warps copy and multiply.
static int64_t getWorkItemsByWarps(const DeviceModel &device) {
  constexpr int64_t ctasPerSm = 2;
  return ctasPerSm * device.sms;
}

static ScheduleAttrInterface getMultistage(MLIRContext *context,
                                           const LinearAttentionForm &form,
                                           const DeviceModel &device) {
  constexpr int64_t stages = 2;
  auto count = [&](int64_t columns) {
    return countLinear(form, columns, /*hasProducer=*/false);
  };
  attn_tile::LinearMultistageParameters parameters = getByWarps(form);
  if (form.isCausal)
    parameters.splitWorkItems = getWorkItemsByWarps(device);
  parameters.valueTile = fitColumns(form, parameters.valueTile, device, count);
  StagedElements staged = count(parameters.valueTile);
  StagedElements twice = {staged.loaded, 2 * staged.computed};
  parameters.localStages =
      fits(twice, /*stages=*/1, form, getTileBytes(device)) ? 2 : 1;
  parameters.stages =
      countStages(staged, parameters.localStages, form, stages, device);
  return makeSchedule(context, parameters);
}

/// CTAs that share an SM where kernels with a producer wait for their MMAs.
static constexpr int64_t ctasWithProducer = 2;

/// The schedule of kernels with a producer, two CTAs of which share an SM: one
/// multiplies while the other one waits.
static attn_tile::LinearWarpSpecializedParameters
getForTwoCtas(const LinearAttentionForm &form, int64_t valueTile,
              int64_t stages, const DeviceModel &device) {
  attn_tile::LinearWarpSpecializedParameters parameters;
  parameters.chunk = form.chunk;
  parameters.valueTile = valueTile;
  parameters.stages = stages;
  parameters.localStages = 1;
  parameters.rowsAhead = true;
  parameters.splitWorkItems = ctasWithProducer * device.sms;
  parameters.ctasPerSm = ctasWithProducer;
  return parameters;
}

/// The same without pair matrices. Null where there is no room for copies
/// ahead.
static ScheduleAttrInterface getTwoCtas(MLIRContext *context,
                                        const LinearAttentionForm &form,
                                        const DeviceModel &device) {
  constexpr int64_t stages = 2;
  int64_t valueTile = form.getValueTile();
  if (!fits(countLinear(form, valueTile, /*hasProducer=*/true), stages, form,
            getTileBytes(device, ctasWithProducer)))
    return {};
  attn_tile::LinearWarpSpecializedParameters parameters =
      getForTwoCtas(form, valueTile, stages, device);
  parameters.rowsAhead = form.hasDecay;
  return makeSchedule(context, parameters);
}

/// The schedule of kernels with a producer, one CTA of which has an SM: work
/// items split the chunks of a head only where SMs would have none.
static ScheduleAttrInterface getOneCta(MLIRContext *context,
                                       const LinearAttentionForm &form,
                                       const DeviceModel &device) {
  constexpr int64_t maxStages = 3, localStages = 2;
  attn_tile::LinearWarpSpecializedParameters parameters;
  parameters.chunk = form.chunk;
  parameters.valueTile = form.getValueTile();
  // Scores of long chunks and terms of log-decays' gradients are in registers
  // besides the state.
  constexpr int64_t shortChunk = 64, unit = 16;
  if (form.hasDecayGradient && form.chunk > shortChunk)
    parameters.valueTile = llvm::alignTo(parameters.valueTile / 2, unit);
  parameters.stages = countStages(countLinear(form, parameters.valueTile,
                                              /*hasProducer=*/true),
                                  localStages, form, maxStages, device);
  parameters.rowsAhead = form.hasDecay;
  if (form.isCausal)
    parameters.splitWorkItems = device.sms;
  return makeSchedule(context, parameters);
}

/// The schedules of kernels with a producer. Sequences of few tokens would
/// leave most of long chunks empty. With decays, more of these would forget so
/// much that decays are no factors of tokens.
static SmallVector<ScheduleAttrInterface>
getWarpSpecialized(MLIRContext *context, const LinearAttentionForm &form,
                   const DeviceModel &device) {
  constexpr int64_t shortChunk = 64, longChunk = 128;
  SmallVector<ScheduleAttrInterface> candidates = {
      getOneCta(context, form, device)};
  if (!form.isCausal)
    return candidates;
  if (form.chunk == shortChunk)
    if (ScheduleAttrInterface two = getTwoCtas(context, form, device))
      candidates.push_back(two);
  if (form.hasChunk || form.hasSequences || form.hasDecay)
    return candidates;
  LinearAttentionForm longer = form;
  longer.chunk = longChunk;
  auto schedule = cast<attn_tile::LinearWarpSpecializedAttr>(
      Attribute(getOneCta(context, longer, device)));
  // Copies are ahead, and work items are counted by columns.
  constexpr int64_t stagesAhead = 2;
  if (schedule.getStages() >= stagesAhead &&
      schedule.getValueTile() == candidates.front().getHeadDimTile())
    candidates.push_back(cast<ScheduleAttrInterface>(Attribute(schedule)));
  return candidates;
}

/// Columns of the gradients of queries and keys, as even as units allow. With
/// decays of key elements, registers have room for all tiles of 64 columns only
/// without the delta rule, on targets with a producer.
static int64_t getElementTile(const LinearAttentionForm &form,
                              bool hasProducer) {
  constexpr int64_t ofDeltaRule = 32, ofWarps = 48, largest = 64, unit = 16;
  int64_t most = form.hasBeta ? ofDeltaRule : hasProducer ? largest : ofWarps;
  int64_t tiles = llvm::divideCeil(form.keyHeadDim, most);
  return llvm::alignTo(llvm::divideCeil(form.keyHeadDim, tiles), unit);
}

/// What the kernel of pairs stages: queries and keys, and the matrix that is
/// inverted or rounded.
static StagedElements countPairMatrices(const LinearAttentionForm &form) {
  int64_t rows = form.hasBeta && form.hasElementDecay ? 3 : 2;
  return {rows * form.chunk * form.getKeyDim(), 2 * form.chunk * form.chunk};
}

/// The schedule of the kernels that have all chunks at once. The kernel of
/// pairs waits for its own results: three CTAs on an SM hide more than copies
/// ahead. With gradients of queries and keys, `hasGradients`, there are many
/// tiles and two CTAs.
static ScheduleAttrInterface getForPairs(MLIRContext *context,
                                         const LinearAttentionForm &form,
                                         const DeviceModel &device,
                                         bool hasGradients, bool hasProducer) {
  constexpr int64_t ctasPerSm = 3, mostStages = 2;
  attn_tile::LinearMultistageParameters parameters = getByWarps(form);
  parameters.localStages = 1;
  parameters.rowsAhead = true;
  if (form.isGradient && form.hasElementDecay)
    parameters.valueTile = getElementTile(form, hasProducer);
  // Parts of f32 operands take as many registers again.
  if (form.isGradient && form.elementBytes == f32Bytes && form.hasBeta)
    parameters.valueTile =
        llvm::alignTo(parameters.valueTile / 2, attn_tile::warpRows);
  if (hasGradients)
    parameters.valueTile =
        fitColumns(form, parameters.valueTile, device, [&](int64_t columns) {
          return countGradients(form, columns);
        });
  parameters.splitWorkItems =
      hasGradients ? getWorkItemsByWarps(device) : ctasPerSm * device.sms;
  bool hasCopiesAhead =
      !hasGradients && fits(countPairMatrices(form), mostStages, form,
                            getTileBytes(device, ctasPerSm));
  parameters.stages = hasCopiesAhead ? mostStages : 1;
  parameters.refill = !hasCopiesAhead;
  return makeSchedule(context, parameters);
}

/// The schedule of the kernel of gradients of queries and keys with a producer;
/// null if it has the one of pairs: where two CTAs do not fit an SM, or spill.
static ScheduleAttrInterface getForGradients(MLIRContext *context,
                                             const LinearAttentionForm &form,
                                             const DeviceModel &device,
                                             bool hasProducer) {
  constexpr int64_t stages = 1;
  bool needsManyRegisters = form.hasElementDecay && !form.hasBeta;
  if (!form.isGradient || !hasProducer || needsManyRegisters)
    return {};
  int64_t columns = form.hasElementDecay ? getElementTile(form, hasProducer)
                                         : form.getValueTile();
  if (!fits(countGradients(form, columns), stages, form,
            getTileBytes(device, ctasWithProducer)))
    return {};
  return makeSchedule(context, getForTwoCtas(form, columns, stages, device));
}

/// The schedule of the kernels that compute decays of key elements by levels.
/// Columns leave registers for scores of queries and of keys.
static ScheduleAttrInterface getForLevels(MLIRContext *context,
                                          const LinearAttentionForm &form,
                                          const DeviceModel &device) {
  constexpr int64_t columns = 16;
  attn_tile::LinearMultistageParameters parameters = getByWarps(form);
  parameters.valueTile = columns;
  parameters.stages = 1;
  parameters.localStages = 1;
  parameters.rowsAhead = true;
  parameters.splitWorkItems = getWorkItemsByWarps(device);
  return makeSchedule(context, parameters);
}

/// Columns and stages of the kernel of the states before splits, which goes
/// through splits one after the other: narrow tiles have few MMAs in a step.
static constexpr int64_t startColumns = 16, startStages = 2;

/// Whether work items of kernels with pair matrices can split chunks.
static bool canSplitPairs(const LinearAttentionForm &form,
                          const DeviceModel &device) {
  return form.isCausal && fits(countStarts(form, startColumns), startStages,
                               form, getTileBytes(device));
}

/// The schedule of the kernels with pair matrices that go through chunks, in
/// which all warps copy and multiply, with `valueTile` columns. Copies ahead
/// matter more than a second CTA on an SM, unless there are two work items for
/// each SM. The kernels of the gradient load tiles to registers, which large
/// states do not leave with copies ahead.
static ScheduleAttrInterface getChunksByWarps(MLIRContext *context,
                                              const LinearAttentionForm &form,
                                              int64_t valueTile,
                                              const DeviceModel &device) {
  constexpr int64_t mostStages = 2;
  constexpr int64_t maxStateRegisters = stateRegisters / 2;
  attn_tile::LinearMultistageParameters parameters = getByWarps(form);
  auto count = [&](int64_t columns) { return countPairs(form, columns); };
  parameters.valueTile = fitColumns(form, valueTile, device, count);
  parameters.localStages = 1;
  parameters.rowsAhead = true;
  parameters.stages =
      countStages(countPairs(form, form.getValueTile()), parameters.localStages,
                  form, mostStages, device);
  int64_t ofState =
      form.getKeyDim() * valueTile / (parameters.warps * warpThreads);
  if (form.isGradient && ofState > maxStateRegisters)
    parameters.stages = 1;
  if (canSplitPairs(form, device))
    parameters.splitWorkItems = getWorkItemsByWarps(device);
  return makeSchedule(context, parameters);
}

/// The same with a producer and two CTAs on an SM. Null where there is no room.
static ScheduleAttrInterface getChunksOfTwoCtas(MLIRContext *context,
                                                const LinearAttentionForm &form,
                                                int64_t valueTile,
                                                int64_t stages,
                                                const DeviceModel &device) {
  if (!fits(countPairs(form, valueTile), stages, form,
            getTileBytes(device, ctasWithProducer)))
    return {};
  attn_tile::LinearWarpSpecializedParameters parameters =
      getForTwoCtas(form, valueTile, stages, device);
  if (!canSplitPairs(form, device))
    parameters.splitWorkItems = 0;
  return makeSchedule(context, parameters);
}

/// The same with a producer and one CTA on an SM.
static ScheduleAttrInterface getChunksOfOneCta(MLIRContext *context,
                                               const LinearAttentionForm &form,
                                               int64_t valueTile,
                                               const DeviceModel &device) {
  constexpr int64_t mostStages = 3, localStages = 2;
  attn_tile::LinearWarpSpecializedParameters parameters;
  parameters.chunk = form.chunk;
  parameters.valueTile = valueTile;
  parameters.localStages = localStages;
  parameters.rowsAhead = true;
  parameters.stages = countStages(countPairs(form, valueTile), localStages,
                                  form, mostStages, device);
  if (canSplitPairs(form, device))
    parameters.splitWorkItems = device.sms;
  return makeSchedule(context, parameters);
}

/// The same with a producer: one CTA on an SM or two, with all columns or half
/// of them. The first one is the fastest for most sizes: two CTAs with half of
/// the columns, where they have the room to copy all ahead and decays of key
/// elements do not take more time than these.
static SmallVector<ScheduleAttrInterface>
getChunksWithProducer(MLIRContext *context, const LinearAttentionForm &form,
                      int64_t valueTile, const DeviceModel &device) {
  constexpr int64_t stagesAhead = 2, unit = 16;
  int64_t half = llvm::alignTo(valueTile / 2, unit);
  SmallVector<ScheduleAttrInterface> candidates = {
      getChunksOfOneCta(context, form, valueTile, device)};
  if (half < valueTile)
    candidates.push_back(getChunksOfOneCta(context, form, half, device));
  if (ScheduleAttrInterface two =
          getChunksOfTwoCtas(context, form, half, stagesAhead, device)) {
    bool isFirst = !form.hasElementDecay &&
                   fits(countPairs(form, valueTile), stagesAhead, form,
                        getTileBytes(device, ctasWithProducer));
    candidates.insert(isFirst ? candidates.begin() : candidates.end(), two);
  }
  // Decays of key elements take registers besides those of the delta rule.
  if (!form.isGradient || !form.hasBeta || !form.hasElementDecay)
    if (ScheduleAttrInterface two =
            getChunksOfTwoCtas(context, form, valueTile, /*stages=*/1, device))
      candidates.push_back(two);
  return candidates;
}

/// The schedule of the kernel of the states before splits.
static ScheduleAttrInterface getForStarts(MLIRContext *context,
                                          const LinearAttentionForm &form) {
  attn_tile::LinearMultistageParameters parameters = getByWarps(form);
  parameters.valueTile = startColumns;
  parameters.stages = startStages;
  parameters.localStages = 1;
  return makeSchedule(context, parameters);
}

/// The kernels with pair matrices that go through chunks: candidates.
static SmallVector<ScheduleAttrInterface>
getPairChunks(MLIRContext *context, const LinearAttentionForm &form,
              int64_t valueTile, const DeviceModel &device, bool hasProducer) {
  if (hasProducer)
    return getChunksWithProducer(context, form, valueTile, device);
  return {getChunksByWarps(context, form, valueTile, device)};
}

/// The schedules of kernels with pair matrices. Where heads are few, work items
/// split the chunks of a head, or have narrow tiles if they cannot.
static SmallVector<ScheduleAttrInterface>
getWithPairs(MLIRContext *context, const LinearAttentionForm &form,
             const DeviceModel &device, bool hasProducer) {
  constexpr int64_t narrowTile = 16;
  int64_t valueTile = form.getValueTile();
  // Parts of f32 operands take registers besides a large state.
  constexpr int64_t largeKeyDim = 128, tileOfF32 = 32;
  if (form.isGradient && form.elementBytes == f32Bytes &&
      form.getKeyDim() >= largeKeyDim)
    valueTile = std::min(valueTile, tileOfF32);
  attn_tile::LinearPairsParameters parameters;
  parameters.gradients = getForGradients(context, form, device, hasProducer);
  parameters.pairs = getForPairs(
      context, form, device,
      /*hasGradients=*/form.isGradient && !parameters.gradients, hasProducer);
  if (form.hasElementDecay)
    parameters.levels = getForLevels(context, form, device);
  bool canSplit = canSplitPairs(form, device);
  if (canSplit)
    parameters.starts = getForStarts(context, form);
  SmallVector<ScheduleAttrInterface> candidates;
  for (ScheduleAttrInterface chunks :
       getPairChunks(context, form, valueTile, device, hasProducer)) {
    parameters.chunks = chunks;
    parameters.narrow = {};
    parameters.narrowWorkItems = 0;
    if (!canSplit && chunks.getHeadDimTile() > narrowTile) {
      parameters.narrow =
          getPairChunks(context, form, narrowTile, device, hasProducer).front();
      parameters.narrowWorkItems = device.sms;
    }
    candidates.push_back(makeSchedule(context, parameters));
  }
  return candidates;
}

template <typename OpTy>
static ScheduleAttrInterface choose(OpTy op, const DeviceModel &device,
                                    bool hasProducer) {
  LinearAttentionForm form = getForm(op);
  MLIRContext *context = op.getContext();
  SmallVector<ScheduleAttrInterface> candidates;
  if (op.needsPairMatrices())
    candidates = getWithPairs(context, form, device, hasProducer);
  else if (hasProducer)
    candidates = getWarpSpecialized(context, form, device);
  else
    candidates = {getMultistage(context, form, device)};
  int64_t columns = candidates.front().getHeadDimTile();
  LinearSizes sizes;
  sizes.itemsOfEntry =
      op.getNumHeads() * int64_t(llvm::divideCeil(form.valueHeadDim, columns));
  if (!op.getSequences()) {
    sizes.entries = getDimSize(op.getQuery(), 0);
    sizes.tokens = getDimSize(op.getQuery(), 2);
  }
  // Nine of ten estimates with pair matrices are off by 12 % at most, others by
  // 7 %, but times of candidates differ by less.
  constexpr double ofPairs = 0.12, ofOthers = 0.02;
  LinearGains least = {op.needsPairMatrices() ? ofPairs : ofOthers,
                       deviceSizes.leastGain};
  return chooseLinearSchedule(op, candidates, sizes, device, least);
}

ScheduleAttrInterface
GPUScheduleFamily::getLinear(LinearAttentionOp op,
                             const DeviceModel &device) const {
  return choose(op, device, hasProducer());
}

ScheduleAttrInterface
GPUScheduleFamily::getLinear(LinearAttentionGradOp op,
                             const DeviceModel &device) const {
  return choose(op, device, hasProducer());
}

/// A thread has 128 elements of the state at most, which leaves registers for
/// enough warps. Rows of 32 columns are whole lines of the cache: narrower
/// ones, for large key head dims, are up to 30 % slower.
ScheduleAttrInterface
GPUScheduleFamily::getRecurrent(LinearAttentionOp op) const {
  constexpr int64_t wide = 32;
  int64_t rows = op.getKeyHeadDim();
  attn_tile::LinearRecurrentParameters parameters;
  parameters.valueTile = rows * wide <= 2 * maxStateOfWarp ? wide : wide / 2;
  return makeSchedule(op.getContext(), parameters);
}

/// Mean of the logarithms of the time of one token after the other, relative to
/// chunks.
static double compareRecurrent(LinearAttentionOp op, int64_t tokens,
                               ScheduleAttrInterface recurrent,
                               ScheduleAttrInterface chunks,
                               const DeviceModel &device) {
  constexpr std::array<int64_t, 3> typicalEntries = {1, 16, 64};
  double sum = 0;
  for (int64_t entries : typicalEntries) {
    LinearWork work = LinearWork::get(op, {tokens, entries});
    work.tokens = tokens;
    sum += std::log(getSeconds(estimateLinear(recurrent, work, device)) /
                    getSeconds(estimateLinear(chunks, work, device)));
  }
  return sum;
}

int64_t GPUScheduleFamily::getRecurrentBound(LinearAttentionOp op,
                                             ScheduleAttrInterface recurrent,
                                             ScheduleAttrInterface chunks,
                                             const DeviceModel &device) const {
  // Of packed sequences the mean counts, but the longest one takes the time:
  // decode steps next to a long prompt have a mean of few tokens, too.
  constexpr int64_t mostMean = 8;
  int64_t most = op.getSequences() ? mostMean : op.getChunkOrDefault();
  int64_t tokens = 1;
  while (tokens <= most &&
         compareRecurrent(op, tokens, recurrent, chunks, device) <= 0)
    ++tokens;
  return tokens;
}
