//===- ShardKernels.cpp - Times of the kernels of shards ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Makes a copy of an attention with the shapes of a part, which is thrown away,
// and asks the model of its schedule for the time of its kernels.
//
//===----------------------------------------------------------------------===//

#include "ShardKernels.h"
#include "attn/Analysis/MaskArea.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/AttnTile/IR/StreamingOpInterface.h"
#include "attn/PerfModel/DeviceTime.h"
#include "attn/PerfModel/Roofline.h"
#include "attn/Scheduling/ForwardSchedules.h"
#include "attn/Scheduling/ScheduleFamily.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace mlir::attn;

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

/// The type of an operand with positions in a part of `sizes`. `positions`, of
/// queries or keys, and heads are the ones of the part.
static ShapedType getPartType(ShapedType type, const ShardSizes &sizes,
                              int64_t positions) {
  SmallVector<int64_t> shape(type.getShape());
  int64_t &heads = shape[1];
  if (!ShapedType::isDynamic(heads))
    heads = std::max<int64_t>(1, heads / sizes.headParts);
  shape[sequenceDim] = positions;
  return type.clone(shape);
}

/// A copy of an attention with the shapes of a part.
class ShardKernels::Part {
public:
  /// `dependsOnRank` says whether ranks compute different parts of the mask.
  Part(AttentionOpInterface whole, const ShardSizes &sizes, bool dependsOnRank,
       const Target &target, const DeviceModel &device,
       const CostAssumptions &assumptions);

  /// The time of kernels, without the throttling of the ones that compute.
  struct Times {
    double computing = 0, waiting = 0;
  };
  Times getTimes(TileDensity density, const DeviceModel &device,
                 const CostAssumptions &assumptions);
  /// The same, by the mask of the part itself.
  Times getTimes(const DeviceModel &device, const CostAssumptions &assumptions);
  ScheduleAttrInterface getSchedule() const { return schedule; }

private:
  void setDensity(TileDensity density);
  SmallVector<KernelTime> estimateKernels(const DeviceModel &device,
                                          const CostAssumptions &assumptions);

  OwningOpRef<func::FuncOp> function;
  AttentionOpInterface op;
  ScheduleAttrInterface schedule;
  bool hasModel = false;
  double factor = 1;
  /// Known times, by densities in thousandths.
  std::map<std::pair<int64_t, int64_t>, Times> times;
};

/// The types of the operands of a part.
static SmallVector<Type> getPartTypes(AttentionOpInterface whole,
                                      const ShardSizes &sizes) {
  SmallVector<Type> types(whole->getOperandTypes());
  auto destinations = cast<DestinationStyleOpInterface>(whole.getOperation());
  // Operands with positions are in the order of all operands.
  unsigned number = 0;
  for (const AttentionOperand &operand : whole.getShapedOperands()) {
    while (whole->getOperand(number) != operand.value)
      ++number;
    ShapedType type =
        getPartType(cast<ShapedType>(types[number]), sizes,
                    operand.isQuerySide ? sizes.queries : sizes.keys);
    if (sizes.isPartial && destinations.isDpsInit(&whole->getOpOperand(number)))
      type = type.clone(Float32Type::get(whole.getContext()));
    types[number++] = type;
  }
  return types;
}

/// A function of its own with a copy of `whole` that has the shapes of a part,
/// without results.
static OwningOpRef<func::FuncOp> clonePart(AttentionOpInterface whole,
                                           const ShardSizes &sizes) {
  SmallVector<Type> types = getPartTypes(whole, sizes), results;
  auto destinations = cast<DestinationStyleOpInterface>(whole.getOperation());
  for (OpOperand &init : destinations.getDpsInitsMutable())
    results.push_back(types[init.getOperandNumber()]);
  Location loc = whole.getLoc();
  OwningOpRef<func::FuncOp> function = func::FuncOp::create(
      loc, "part", FunctionType::get(whole.getContext(), types, {}));
  Block *block = function->addEntryBlock();
  IRMapping mapping;
  for (auto [operand, argument] :
       llvm::zip_equal(whole->getOperands(), block->getArguments()))
    mapping.map(operand, argument);
  OperationState state(loc, whole->getName().getStringRef(),
                       block->getArguments(), results, whole->getAttrs());
  for (Region &region : whole->getRegions())
    region.cloneInto(state.addRegion(), mapping);
  OpBuilder::atBlockEnd(block).create(state);
  return function;
}

/// Whether `target` has kernels for the tensors of `op`. Elements of 8 bits,
/// which have conditions of their own, count as unknown.
static bool hasKernels(AttentionOpInterface op, const Target &target) {
  Type element = getElementTypeOrSelf(op.getQuery());
  return !isFloat8(element) && element == getElementTypeOrSelf(op.getKey()) &&
         target.supportsElementType(element) &&
         target.supportsHeadDim(op.getQKHeadDim()) &&
         target.supportsHeadDim(op.getVHeadDim());
}

/// The schedule that `op` gets; null if none fits.
static ScheduleAttrInterface chooseSchedule(AttentionOpInterface op,
                                            const Target &target,
                                            const DeviceModel &device) {
  std::optional<ScheduleChoice> choice;
  if (!hasKernels(op, target))
    return nullptr;
  if (auto attention = dyn_cast<AttentionOp>(op.getOperation()))
    choice = chooseForwardSchedule(attention, target, device);
  else if (auto gradient =
               dyn_cast<attn_tile::StreamingGradOpInterface>(op.getOperation()))
    choice =
        ScheduleFamily::get(target, getElementTypeOrSelf(gradient.getQuery()))
            .chooseGradient(gradient, device, /*dqWorkspaceBytes=*/-1);
  if (!choice)
    return nullptr;
  // Lengths are static, so that there is no choice by length.
  return dyn_cast<ScheduleAttrInterface>(choice->schedule);
}

ShardKernels::Part::Part(AttentionOpInterface whole, const ShardSizes &sizes,
                         bool dependsOnRank, const Target &target,
                         const DeviceModel &device,
                         const CostAssumptions &assumptions) {
  function = clonePart(whole, sizes);
  op = cast<AttentionOpInterface>(function->getBody().front().back());
  // Schedules are chosen without knowing what the mask of a rank leaves.
  if (dependsOnRank)
    setDensity({/*visited=*/1, /*cut=*/0});
  bool hasMask = op.getMaskAttr() || !op.getMaskMod().empty();
  if (dependsOnRank && hasMask)
    factor += device.calibration.rankMask;
  schedule = chooseSchedule(op, target, device);
  hasModel = schedule && !estimateKernels(device, assumptions).empty();
  // The roofline would count the pairs of a mask of the part.
  if (!hasModel && dependsOnRank)
    op.setMaskAttr(nullptr);
}

SmallVector<KernelTime>
ShardKernels::Part::estimateKernels(const DeviceModel &device,
                                    const CostAssumptions &assumptions) {
  return schedule.estimateKernels(VisitedTiles(op, assumptions), device);
}

void ShardKernels::Part::setDensity(TileDensity density) {
  op->setAttr(
      tileDensityAttrName,
      DenseF64ArrayAttr::get(op.getContext(), {density.visited, density.cut}));
}

ShardKernels::Part::Times
ShardKernels::Part::getTimes(const DeviceModel &device,
                             const CostAssumptions &assumptions) {
  Times result;
  if (!hasModel) {
    std::optional<OpCost> cost = getOpCost(op, assumptions);
    result.waiting = cost ? estimate(*cost, device).seconds : 0;
    return result;
  }
  double clock = double(device.clockMHz) * 1e6;
  for (const KernelTime &kernel : estimateKernels(device, assumptions)) {
    double throttling = clock / kernel.cyclesPerSecond;
    (throttling > 1 ? result.computing : result.waiting) +=
        factor * kernel.getSeconds() / throttling;
  }
  return result;
}

ShardKernels::Part::Times
ShardKernels::Part::getTimes(TileDensity density, const DeviceModel &device,
                             const CostAssumptions &assumptions) {
  constexpr double steps = 1000;
  std::pair<int64_t, int64_t> key = {std::lround(density.visited * steps),
                                     std::lround(density.cut * steps)};
  auto [it, isNew] = times.try_emplace(key);
  if (isNew) {
    setDensity(density);
    it->second = getTimes(device, assumptions);
    if (!hasModel)
      it->second.waiting *= density.visited;
  }
  return it->second;
}

//===----------------------------------------------------------------------===//
// Densities
//===----------------------------------------------------------------------===//

TileDensity ChunkDensities::getMean(int64_t query) const {
  TileDensity mean{0, 0};
  for (int64_t key = 0; key < chunks; ++key) {
    mean.visited += get(query, key).visited / double(chunks);
    mean.cut += get(query, key).cut / double(chunks);
  }
  return mean;
}

ReachableChunks ChunkDensities::getReachable() const {
  ReachableChunks reachable(chunks, llvm::BitVector(chunks));
  for (int64_t query = 0; query < chunks; ++query)
    for (int64_t key = 0; key < chunks; ++key)
      if (get(query, key).visited > 0)
        reachable[query].set(key);
  return reachable;
}

namespace {
/// A row of tiles that is evaluated, and the part of its chunk that it stands
/// for.
struct SampledRow {
  int64_t number, chunk;
  double weight;
};
} // namespace

/// Rows of chunks of `size` rows of tiles each: all, or the first, the last and
/// some between them at equal distances.
static SmallVector<SampledRow> sampleRows(int64_t chunks, double size) {
  // Times of masks differ little between rows that are neighbors.
  constexpr int64_t leastBetween = 2, mostBetween = 64, mostRows = 2048;
  int64_t between = std::clamp(mostRows / chunks, leastBetween, mostBetween);
  SmallVector<SampledRow> rows;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    auto first = int64_t(double(chunk) * size);
    auto last =
        std::max(first, int64_t(std::ceil(double(chunk + 1) * size)) - 1);
    int64_t count = last - first + 1;
    if (count <= between + 2) {
      for (int64_t i = 0; i < count; ++i)
        rows.push_back({first + i, chunk, 1 / double(count)});
      continue;
    }
    double end = 1 / double(count);
    rows.push_back({first, chunk, end});
    for (int64_t i = 0; i < between; ++i)
      rows.push_back({first + 1 + (2 * i + 1) * (count - 2) / (2 * between),
                      chunk, (1 - 2 * end) / double(between)});
    rows.push_back({last, chunk, end});
  }
  return rows;
}

/// Adds the tiles of `ranges` to `member` of the densities of a chunk of
/// queries. Chunks of keys have `size` tiles each.
static void addTiles(ArrayRef<TileRow::Range> ranges, const SampledRow &row,
                     double size, double TileDensity::*member,
                     ChunkDensities &densities) {
  for (auto [begin, end] : ranges) {
    auto first = int64_t(double(begin) / size);
    auto last = std::min(int64_t(std::ceil(double(end) / size)),
                         densities.getNumChunks());
    for (int64_t key = first; key < last; ++key) {
      double tiles = std::min(double(end), double(key + 1) * size) -
                     std::max(double(begin), double(key) * size);
      if (tiles > 0)
        densities.get(row.chunk, key).*member += row.weight * tiles / size;
    }
  }
}

ChunkDensities ShardKernels::getDensities(const ShardSizes &sizes,
                                          int64_t chunks) {
  return getDensities(sizes, chunks, /*stride=*/1);
}

ChunkDensities ShardKernels::getDensities(const ShardSizes &sizes,
                                          int64_t chunks, int64_t stride) {
  VisitedTiles tiles(op, assumptions);
  std::optional<TileDensity> given = getTileDensity(op);
  if (given)
    return {chunks, *given};
  constexpr int64_t otherTile = 128;
  int64_t queryTile = otherTile, keyTile = otherTile;
  if (ScheduleAttrInterface schedule = getPart(sizes).getSchedule()) {
    queryTile = schedule.getQueryTile();
    keyTile = schedule.getKeyTile();
  }
  queryTile *= stride;
  keyTile *= stride;
  auto getChunkTiles = [&](int64_t length, int64_t tile) {
    return double(length) / double(tile) / double(chunks);
  };
  double queryTiles = getChunkTiles(tiles.getNumQueries(), queryTile);
  double keyTiles = getChunkTiles(tiles.getNumKeys(), keyTile);
  SmallVector<SampledRow> sampled = sampleRows(chunks, queryTiles);
  auto numbers = llvm::map_to_vector(
      sampled, [](const SampledRow &row) { return row.number; });
  std::optional<std::vector<TileRow>> rows =
      tiles.getRows(queryTile, keyTile, numbers);
  if (!rows)
    return {chunks, {/*visited=*/1, /*cut=*/1}};
  ChunkDensities densities(chunks, {/*visited=*/0, /*cut=*/0});
  for (auto [row, visited] : llvm::zip_equal(sampled, *rows)) {
    addTiles(visited.masked, row, keyTiles, &TileDensity::visited, densities);
    addTiles(visited.masked, row, keyTiles, &TileDensity::cut, densities);
    addTiles(visited.full, row, keyTiles, &TileDensity::visited, densities);
  }
  return densities;
}

//===----------------------------------------------------------------------===//
// ShardKernels
//===----------------------------------------------------------------------===//

ShardKernels::ShardKernels(AttentionOpInterface op, const Target &target,
                           const DeviceModel &device,
                           const CostAssumptions &assumptions)
    : op(op), target(target), device(device), assumptions(assumptions) {}

ShardKernels::~ShardKernels() = default;

ShardKernels::Part &ShardKernels::getPart(const ShardSizes &sizes) {
  std::unique_ptr<Part> &part = parts[sizes];
  if (!part) {
    VisitedTiles tiles(op, assumptions);
    bool dependsOnRank = sizes.queries != tiles.getNumQueries() ||
                         sizes.keys != tiles.getNumKeys();
    part = std::make_unique<Part>(op, sizes, dependsOnRank, target, device,
                                  assumptions);
  }
  return *part;
}

/// Seconds of kernels with throttling, which the ones that wait for memory, and
/// hosts, do not have.
double ShardKernels::throttle(double computing, double waiting) const {
  if (computing > 0)
    computing *= getThrottling(busySeconds, device.calibration);
  return computing + waiting;
}

double ShardKernels::getSeconds(const ShardSizes &sizes, TileDensity density) {
  Part::Times times = getPart(sizes).getTimes(density, device, assumptions);
  return throttle(times.computing, times.waiting);
}

double ShardKernels::getSeconds(const ShardSizes &sizes) {
  Part::Times times = getPart(sizes).getTimes(device, assumptions);
  return throttle(times.computing, times.waiting);
}
