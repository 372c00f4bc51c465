//===- LinearTime.cpp - Estimates of the time of linear attention ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A work item goes through its chunks one after the other. A step waits for its
// own MMAs and for latencies between them, unless another CTA on the SM has
// work meanwhile. The MMAs of a warpgroup take as long as their operands are
// read from shared memory.
//
//===----------------------------------------------------------------------===//

#include "attn/PerfModel/LinearTime.h"
#include "attn/Dialect/AttnTile/IR/AttnTileAttrs.h"
#include "attn/Dialect/AttnTile/IR/WarpgroupShapes.h"
#include "attn/Interfaces/CostOpInterface.h"
#include "attn/PerfModel/Capacity.h"
#include "attn/PerfModel/DeviceTime.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace mlir::attn;
using attn_tile::warpgroupRows;
using attn_tile::warpgroupThreads;

static constexpr double f32Bytes = 4;
/// Lanes of an SM that issue an instruction in a cycle.
static constexpr double lanes = 128;

//===----------------------------------------------------------------------===//
// Work
//===----------------------------------------------------------------------===//

template <typename OpTy>
static LinearWork getWork(OpTy op, const CostAssumptions &assumptions) {
  LinearWork work;
  work.heads = op.getNumHeads();
  work.keyHeadDim = op.getKeyHeadDim();
  work.valueHeadDim = op.getValueHeadDim();
  work.elementBytes = getElementBytes(op.getQuery());
  work.entries = op.getSequences()
                     ? assumptions.dynamicBatch
                     : assumptions.getBatch(getDimSize(op.getQuery(), 0));
  work.tokens = op.getSequences()
                    ? assumptions.dynamicSize
                    : assumptions.getSize(getDimSize(op.getQuery(), 2));
  // Empty operations are launched, too.
  work.entries = std::max<int64_t>(work.entries, 1);
  work.tokens = std::max<int64_t>(work.tokens, 1);
  work.hasElementDecay = op.hasElementDecay();
  work.hasDecay = op.getLogDecay() && !work.hasElementDecay;
  work.readsDecay = work.hasDecay &&
                    cast<ShapedType>(op.getLogDecay().getType()).getRank() > 1;
  work.hasBeta = bool(op.getBeta());
  work.stateOperands = bool(op.getInitialState());
  work.isCausal = op.getCausal();
  return work;
}

LinearWork LinearWork::get(LinearAttentionOp op,
                           const CostAssumptions &assumptions) {
  LinearWork work = getWork(op, assumptions);
  work.stateOperands += bool(op.getFinalState());
  return work;
}

LinearWork LinearWork::get(LinearAttentionGradOp op,
                           const CostAssumptions &assumptions) {
  LinearWork work = getWork(op, assumptions);
  work.isGradient = true;
  work.hasDecayGradient = op.getDlogDecay() && work.hasDecay;
  work.sharesStarts = work.keyHeadDim == work.valueHeadDim;
  // Values are keys in one of the kernels, and keys are values.
  work.keyHeadDim = work.valueHeadDim =
      std::max(work.keyHeadDim, work.valueHeadDim);
  return work;
}

//===----------------------------------------------------------------------===//
// Kernels that go through chunks
//===----------------------------------------------------------------------===//

namespace {
/// The parts of a schedule of kernels that go through chunks.
struct ChunkSchedule {
  int64_t chunk, columns, stages, ctas, splitWorkItems;

  static std::optional<ChunkSchedule> get(Attribute schedule,
                                          const DeviceModel &device);
  double getThreads() const {
    int64_t warpgroups = chunk / warpgroupRows;
    return double(warpgroups * warpgroupThreads);
  }
};

/// How work items divide chunks.
struct Splits {
  double items, count, steps;
};

/// A kernel that goes through chunks.
struct ChunkKernel {
  StringRef name;
  /// Of a step: cycles that nothing of the same CTA hides, cycles of MMAs,
  /// elements that a thread computes, and all bytes of the kernel.
  double latency, mma, elements, bytes;
};

/// Adds the kernels of one operation.
class LinearModel {
public:
  LinearModel(const LinearWork &work, const DeviceModel &device)
      : work(work), fit(device.calibration), device(device),
        rowBytes(work.countTokens() * double(work.elementBytes)) {}

  /// Without pair matrices.
  void addChunks(const ChunkSchedule &schedule);
  void addPairs(attn_tile::LinearPairsAttr schedule,
                const ChunkSchedule &chunks);
  void addRecurrent();

  SmallVector<KernelTime> kernels;

private:
  double getMma(double rows, double columns, double depth,
                bool isLhsInRegisters = false) const;
  double getMemoryCycles(double bytes) const;
  KernelTime &add(StringRef name, double launch);
  void addSmall(StringRef name, double bytes);
  void add(const ChunkKernel &kernel, const ChunkSchedule &schedule,
           const Splits &splits);
  void addAllChunks(StringRef name, double cycles, double bytes,
                    double numChunks, double ctas);
  void addLargeDecays();
  Splits divide(const ChunkSchedule &schedule, bool isRepeated) const;

  double getLatency(const ChunkSchedule &schedule, bool hasTerms) const;
  ChunkKernel getOutputs(const ChunkSchedule &schedule, const Splits &splits,
                         double splitBytes, bool hasTerms) const;
  void addStarts(const ChunkSchedule &schedule, const Splits &splits,
                 double bytes, bool hasTerms);
  void addComputation(const ChunkSchedule &schedule, bool hasTerms,
                      bool hasStarts = false);
  double getPairCycles() const;
  double getPairGradientCycles() const;
  ChunkKernel getPairStep(const ChunkSchedule &schedule) const;
  void addPairSplits(const ChunkSchedule &schedule, const Splits &splits,
                     const ChunkKernel &step);

  double getStateBytes(double elementBytes, double number) const {
    return elementBytes * number * work.countStates() *
           double(work.keyHeadDim * work.valueHeadDim);
  }
  /// Bytes of the initial and the final states.
  double getGivenStateBytes() const {
    return getStateBytes(f32Bytes, double(work.stateOperands));
  }
  /// Bytes of keys and queries, `number` times, and of values and outputs.
  double getRowBytes(double keys, double values) const {
    return rowBytes * (keys * double(work.keyHeadDim) +
                       values * double(work.valueHeadDim));
  }

  const LinearWork &work;
  const Calibration &fit;
  const DeviceModel &device;
  /// Bytes of one column of all rows.
  double rowBytes;
};
} // namespace

std::optional<ChunkSchedule> ChunkSchedule::get(Attribute schedule,
                                                const DeviceModel &device) {
  if (auto withProducer =
          dyn_cast_if_present<attn_tile::LinearWarpSpecializedAttr>(schedule))
    return ChunkSchedule{withProducer.getChunk(), withProducer.getValueTile(),
                         withProducer.getStages(), withProducer.getCtasPerSm(),
                         withProducer.getSplitWorkItems()};
  auto byWarps = dyn_cast_if_present<attn_tile::LinearMultistageAttr>(schedule);
  if (!byWarps)
    return std::nullopt;
  // As many CTAs share an SM as are asked for.
  int64_t ctas = std::max<int64_t>(1, byWarps.getSplitWorkItems() / device.sms);
  return ChunkSchedule{byWarps.getChunk(), byWarps.getValueTile(),
                       byWarps.getStages(), ctas, byWarps.getSplitWorkItems()};
}

/// Cycles in which the MMAs of a matmul of `[rows, depth]` and `[depth,
/// columns]` read their operands: each 64 rows read all of the right-hand side.
double LinearModel::getMma(double rows, double columns, double depth,
                           bool isLhsInRegisters) const {
  double read = (isLhsInRegisters ? 0 : double(warpgroupRows)) + columns;
  return fit.linearMmaCycle * rows / double(warpgroupRows) * depth *
         double(work.elementBytes) * read / double(device.sharedBytesPerCycle);
}

double LinearModel::getMemoryCycles(double bytes) const {
  return double(device.clockMHz) * 1e6 *
         getMemorySeconds(bytes, Traffic::ReadAndWrite, device) /
         fit.linearMemoryRate;
}

KernelTime &LinearModel::add(StringRef name, double launch) {
  KernelTime &time = kernels.emplace_back();
  time.name = name;
  time.consumers = 1;
  time.launch = launch;
  time.cyclesPerSecond = double(device.clockMHz) * 1e6;
  return time;
}

/// Adds a kernel without matmuls, such as the kernel that adds up log-decays.
void LinearModel::addSmall(StringRef name, double bytes) {
  add(name, fit.linearSmallKernel).memory = getMemoryCycles(bytes);
}

/// Adds the kernel of the work items whose chunks forget much. Where there are
/// none, it ends at once.
void LinearModel::addLargeDecays() { addSmall("large decays", /*bytes=*/0); }

/// Adds a kernel whose work items have one chunk each, `ctas` of which share an
/// SM and take `cycles` each if they do.
void LinearModel::addAllChunks(StringRef name, double cycles, double bytes,
                               double numChunks, double ctas) {
  KernelTime &time = add(name, fit.linearLaunch);
  time.step = time.chain = cycles;
  time.numSteps = std::ceil(numChunks / double(device.sms) / ctas) * ctas;
  time.memory = getMemoryCycles(bytes);
}

void LinearModel::add(const ChunkKernel &kernel, const ChunkSchedule &schedule,
                      const Splits &splits) {
  auto sms = double(device.sms);
  double items = splits.items * splits.count;
  double resident = std::min(double(schedule.ctas), std::ceil(items / sms));
  double rounds = std::ceil(items / (sms * resident));
  KernelTime &time = add(kernel.name, fit.linearLaunch);
  time.mma = resident * kernel.mma;
  time.chain = kernel.latency + kernel.mma;
  double busy = resident * (kernel.mma + fit.linearElement * kernel.elements);
  time.step = std::pow(std::pow(time.chain, fit.overlapNorm) +
                           std::pow(busy, fit.overlapNorm),
                       1 / fit.overlapNorm);
  time.numSteps = rounds * splits.steps;
  time.workItem = fit.linearWorkItem;
  time.numWorkItems = rounds;
  time.memory = getMemoryCycles(kernel.bytes) *
                (1 + fit.linearCtasTraffic * double(schedule.ctas - 1));
}

/// As the kernels divide chunks: see `createSplits` of
/// `convert-attn-to-attn-tile`.
Splits LinearModel::divide(const ChunkSchedule &schedule,
                           bool isRepeated) const {
  constexpr double least = 4, mostOfRoot = 2;
  auto chunks = double(llvm::divideCeil(work.tokens, schedule.chunk));
  double items = work.countStates() *
                 double(llvm::divideCeil(work.valueHeadDim, schedule.columns));
  double count = std::clamp(
      std::floor(double(schedule.splitWorkItems) / std::max(items, 1.0)), 1.0,
      std::max(chunks, 1.0));
  if (!work.isCausal)
    count = 1;
  if (isRepeated) {
    count = std::min(count, std::floor(mostOfRoot * std::sqrt(chunks)));
    count = count < least ? 1 : count;
  }
  double steps = std::ceil(chunks / count);
  return {items, std::ceil(chunks / steps), steps};
}

//===----------------------------------------------------------------------===//
// Without pair matrices
//===----------------------------------------------------------------------===//

/// Cycles of a step that nothing of the same CTA hides.
double LinearModel::getLatency(const ChunkSchedule &schedule,
                               bool hasTerms) const {
  double longer = double(schedule.chunk) / double(warpgroupRows) - 1;
  return fit.linearStep * (1 + fit.linearLongStep * longer) +
         (work.hasDecay ? fit.linearDecayStep : 0) +
         (hasTerms ? fit.linearTermStep : 0);
}

/// The kernel of outputs, or of one gradient, of which the states before splits
/// have `splitBytes`.
ChunkKernel LinearModel::getOutputs(const ChunkSchedule &schedule,
                                    const Splits &splits, double splitBytes,
                                    bool hasTerms) const {
  auto rows = double(schedule.chunk), columns = double(schedule.columns);
  auto depth = double(llvm::alignTo(work.keyHeadDim, schedule.chunk));
  double state = depth * columns, values = rows * columns;
  ChunkKernel outputs;
  outputs.name = "outputs";
  outputs.latency = getLatency(schedule, hasTerms);
  outputs.mma = getMma(rows, rows, depth) + getMma(rows, columns, depth) +
                getMma(rows, columns, rows, /*isLhsInRegisters=*/true) +
                getMma(depth, columns, rows);
  outputs.elements = state + values + rows * rows;
  if (work.hasDecay)
    outputs.elements +=
        state / 2 + values + fit.linearDecayedScore * rows * rows;
  outputs.bytes = getRowBytes(2, 2) + splitBytes +
                  fit.linearStateTraffic * getGivenStateBytes();
  if (hasTerms) {
    outputs.elements += fit.linearTermElement * (2 * values + state);
    outputs.bytes +=
        getRowBytes(0, 1) +
        getStateBytes(double(work.elementBytes), splits.count * splits.steps);
  }
  outputs.elements /= schedule.getThreads();
  return outputs;
}

/// Adds the kernels of the states before splits, which have `bytes`.
void LinearModel::addStarts(const ChunkSchedule &schedule, const Splits &splits,
                            double bytes, bool hasTerms) {
  auto rows = double(schedule.chunk), columns = double(schedule.columns);
  auto depth = double(llvm::alignTo(work.keyHeadDim, schedule.chunk));
  double elements = depth * columns;
  if (work.hasDecay)
    elements += depth * columns / 2 + rows * columns;
  add({"states", fit.linearStateStep * getLatency(schedule, hasTerms),
       getMma(depth, columns, rows), elements / schedule.getThreads(),
       getRowBytes(1, 1) + bytes},
      schedule, splits);
  add("starts", fit.linearStarts).memory = getMemoryCycles(2 * bytes);
}

/// Adds the kernels of outputs, or of one gradient. `hasTerms`: with terms of
/// the gradient of log-decays. `hasStarts`: another computation has the states
/// before splits already.
void LinearModel::addComputation(const ChunkSchedule &schedule, bool hasTerms,
                                 bool hasStarts) {
  Splits splits = divide(schedule, /*isRepeated=*/false);
  double splitBytes =
      splits.count > 1 ? getStateBytes(f32Bytes, splits.count) : 0;
  if (splits.count > 1 && !hasStarts)
    addStarts(schedule, splits, splitBytes, hasTerms);
  add(getOutputs(schedule, splits, splitBytes, hasTerms), schedule, splits);
  if (work.hasDecay && !hasTerms)
    addLargeDecays();
}

void LinearModel::addChunks(const ChunkSchedule &schedule) {
  if (work.hasDecay)
    addSmall("log-decays", 2 * f32Bytes * work.countTokens());
  if (!work.isGradient)
    return addComputation(schedule, /*hasTerms=*/false);
  addComputation(schedule, work.hasDecayGradient);
  addComputation(schedule, /*hasTerms=*/false);
  addComputation(schedule, work.hasDecayGradient, work.sharesStarts);
  if (work.hasDecayGradient)
    addSmall("gradient of log-decays", 8 * f32Bytes * work.countTokens());
}

//===----------------------------------------------------------------------===//
// With pair matrices
//===----------------------------------------------------------------------===//

/// Cycles of an SM for the pair matrices of a chunk.
double LinearModel::getPairCycles() const {
  auto rows = double(work.keyHeadDim);
  return fit.pairRow * rows + (work.hasBeta ? fit.pairInverse : 0) +
         (work.hasElementDecay ? fit.pairElementRow * rows : 0);
}

/// The same for the gradients of queries and keys.
double LinearModel::getPairGradientCycles() const {
  auto rows = double(work.keyHeadDim);
  return fit.pairGradient * rows * rows / double(warpgroupRows) +
         (work.hasBeta ? fit.pairGradientInverse : 0) +
         (work.hasElementDecay ? fit.pairGradientElementRow * rows : 0);
}

/// The kernel of outputs.
ChunkKernel LinearModel::getPairStep(const ChunkSchedule &schedule) const {
  auto rows = double(schedule.chunk), columns = double(schedule.columns);
  auto depth = double(work.keyHeadDim);
  bool isDecayed = work.hasDecay || work.hasElementDecay;
  ChunkKernel step;
  step.name = "outputs";
  step.latency = fit.pairStep + (work.hasBeta ? fit.pairDeltaStep : 0) +
                 (work.hasDecay ? fit.linearDecayStep : 0) +
                 (work.hasElementDecay ? fit.pairElementStep * depth : 0);
  if (schedule.stages == 1)
    step.latency *= 1 + fit.pairOneStage / double(schedule.ctas);
  step.mma = getMma(rows, columns, depth) + getMma(rows, columns, rows) +
             getMma(depth, columns, rows);
  if (work.hasBeta)
    step.mma += getMma(rows, columns, depth) + getMma(rows, columns, rows);
  step.elements =
      (depth * columns * (isDecayed ? 1.5 : 1) +
       rows * columns * (work.hasBeta ? 4 : 1) + fit.pairRows * rows * depth) /
      schedule.getThreads();
  double matrices = work.hasBeta ? 2 : 1;
  step.bytes = getRowBytes(2, 2) + rowBytes * matrices * rows;
  return step;
}

/// Adds the kernels of the states before splits: states and transitions of all
/// splits, then these one after the other, in two levels if there are many.
void LinearModel::addPairSplits(const ChunkSchedule &schedule,
                                const Splits &splits, const ChunkKernel &step) {
  constexpr double partOfMma = 0.7, partOfElements = 0.8;
  constexpr double mostInOneLevel = 24, inTwoLevels = 36;
  double bytes = getStateBytes(f32Bytes, splits.count);
  ChunkKernel part = {"states", fit.linearStateStep * step.latency,
                      partOfMma * step.mma, partOfElements * step.elements,
                      getRowBytes(2, 1) + bytes};
  add(part, schedule, splits);
  part.name = "transitions";
  add(part, schedule, splits);
  KernelTime &starts = add("starts", fit.linearStarts);
  starts.step = starts.chain = fit.pairStart;
  starts.numSteps = splits.count > mostInOneLevel ? inTwoLevels : splits.count;
  starts.memory = getMemoryCycles(4 * bytes);
}

void LinearModel::addPairs(attn_tile::LinearPairsAttr schedule,
                           const ChunkSchedule &given) {
  ChunkSchedule chunks = given;
  std::optional<ChunkSchedule> narrow =
      ChunkSchedule::get(schedule.getNarrow(), device);
  if (narrow && divide(*narrow, /*isRepeated=*/true).items <=
                    double(schedule.getNarrowWorkItems()))
    chunks = *narrow;
  auto rows = double(chunks.chunk);
  double tokens = work.countTokens();
  Splits splits = divide(chunks, /*isRepeated=*/true);
  double numChunks = work.countStates() * splits.count * splits.steps;
  double decays = work.hasElementDecay ? double(work.keyHeadDim) : 1;
  if (work.hasDecay || work.hasElementDecay)
    addSmall("log-decays", 2 * f32Bytes * tokens * decays);
  double matrices = rowBytes * rows * (work.hasBeta ? 2 : 1);
  double decayedRows =
      work.hasElementDecay ? f32Bytes * tokens * decays + getRowBytes(2, 0) : 0;
  addAllChunks("pairs", getPairCycles(),
               getRowBytes(2, 0) + matrices + decayedRows, numChunks,
               /*ctas=*/3);
  if (work.hasElementDecay)
    addLargeDecays();

  ChunkKernel step = getPairStep(chunks);
  if (splits.count > 1)
    addPairSplits(chunks, splits, step);
  if (!work.isGradient) {
    step.bytes += fit.linearStateTraffic * getGivenStateBytes();
    return add(step, chunks, splits);
  }
  double kept =
      getStateBytes(double(work.elementBytes), splits.count * splits.steps);
  add({"kept states", fit.pairKeptStep * step.latency, step.mma, step.elements,
       step.bytes + kept},
      chunks, splits);
  add({"gradients of states", fit.pairReversedStep * step.latency,
       fit.pairReversedMma * step.mma, fit.pairReversedElement * step.elements,
       1.5 * step.bytes + kept},
      chunks, splits);
  if (splits.count > 1)
    addPairSplits(chunks, splits, step);
  addAllChunks("gradients", getPairGradientCycles(),
               getRowBytes(5, 4) + 2 * kept, numChunks, /*ctas=*/2);
  if (work.hasElementDecay)
    addLargeDecays();
  addSmall("gradients of log-decays and betas", /*bytes=*/0);
}

//===----------------------------------------------------------------------===//
// Few tokens
//===----------------------------------------------------------------------===//

/// Adds the kernel of few tokens, which loads the state, computes one token
/// after the other, and stores the state.
void LinearModel::addRecurrent() {
  double instructions = fit.recurrentElement +
                        (work.readsDecay ? fit.recurrentDecay : 0) +
                        (work.hasElementDecay ? fit.recurrentElementDecay : 0) +
                        (work.hasBeta ? fit.recurrentDelta : 0);
  KernelTime &time = add("tokens", fit.recurrentLaunch);
  time.chain = fit.recurrentLatency +
               fit.recurrentRow * instructions * double(work.keyHeadDim);
  double busy = instructions * getStateBytes(1, 1) / double(device.sms) / lanes;
  time.step = std::pow(std::pow(time.chain, fit.overlapNorm) +
                           std::pow(busy, fit.overlapNorm),
                       1 / fit.overlapNorm);
  time.numSteps = double(work.tokens);
  double bytes = getGivenStateBytes() + getRowBytes(2, 2);
  time.workItem =
      getMemoryCycles(bytes) * fit.linearMemoryRate / fit.recurrentMemoryRate;
  time.numWorkItems = 1;
}

SmallVector<KernelTime> attn::estimateLinear(Attribute schedule,
                                             const LinearWork &work,
                                             const DeviceModel &device) {
  if (device.mmaFlopsPerCycle16b == 0 || device.sharedBytesPerCycle == 0)
    return {};
  LinearModel model(work, device);
  if (isa<attn_tile::LinearRecurrentAttr>(schedule)) {
    model.addRecurrent();
    return std::move(model.kernels);
  }
  if (auto choice = dyn_cast<attn_tile::ByWorkItemsAttr>(schedule)) {
    int64_t items =
        work.entries * work.heads *
        int64_t(llvm::divideCeil(work.valueHeadDim,
                                 choice.getOtherwise().getHeadDimTile()));
    bool isWithin = items > choice.getMoreThan() && items <= choice.getAtMost();
    return estimateLinear(isWithin ? choice.getWithin() : choice.getOtherwise(),
                          work, device);
  }
  if (auto pairs = dyn_cast<attn_tile::LinearPairsAttr>(schedule)) {
    std::optional<ChunkSchedule> chunks =
        ChunkSchedule::get(pairs.getChunks(), device);
    if (!chunks)
      return {};
    model.addPairs(pairs, *chunks);
  } else if (std::optional<ChunkSchedule> chunks =
                 ChunkSchedule::get(schedule, device)) {
    model.addChunks(*chunks);
  }
  return std::move(model.kernels);
}

SmallVector<KernelTime> attn::estimateLinear(Attribute schedule, Operation *op,
                                             const CostAssumptions &assumptions,
                                             const DeviceModel &device) {
  return llvm::TypeSwitch<Operation *, SmallVector<KernelTime>>(op)
      .Case<LinearAttentionOp, LinearAttentionGradOp>([&](auto linear) {
        return estimateLinear(schedule, LinearWork::get(linear, assumptions),
                              device);
      })
      .Default([](Operation *) { return SmallVector<KernelTime>(); });
}
