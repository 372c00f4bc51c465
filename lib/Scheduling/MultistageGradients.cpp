//===- MultistageGradients.cpp - Schedules of gradients on sm_80 ----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Chooses the tiles of kernels of gradients in which all warps copy and
// compute: of the tiles that fit registers and shared memory, the ones with the
// least estimated time.
//
//===----------------------------------------------------------------------===//

#include "ScheduleCandidates.h"
#include "attn/Analysis/MaskArea.h"
#include "attn/Analysis/MaskTiles.h"
#include "attn/Dialect/AttnTile/IR/AttnTileParameters.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include <tuple>

using namespace mlir;
using namespace mlir::attn;
using attn_tile::columnBlockBytes;
using attn_tile::headDimStep;

static constexpr int64_t gradientStages = 2;

/// Rows of the stationary tile, and the warps that share them.
static constexpr std::pair<int64_t, int64_t> rowsAndWarps[] = {
    {128, 8}, {128, 4}, {64, 4}};
/// Where none of them fits, as with wide heads, and where these do not fit,
/// either.
static constexpr std::pair<int64_t, int64_t> fewRowsAndWarps[] = {{32, 2}},
                                             leastRowsAndWarps[] = {{16, 1}};

/// The largest tile that a kernel iterates over, and its unit.
static constexpr int64_t maxStreamedTile = 128;

/// Registers of a thread that addresses and the operands of instructions take,
/// next to tiles. The iteration over many ranges of tiles takes some more; in
/// four warps with 128 rows, operands serve two MMAs.
static constexpr int64_t gradRegistersBesideTiles = 47;
static constexpr int64_t gradRegistersBesideTilesManyRanges = 71;
static constexpr int64_t gradRegistersBesideTilesFourWarps = 31;

/// Shared memory that barriers and the rows next to tiles take.
static constexpr int64_t rowAndBarrierBytes = 4096;

namespace {
/// The storage of one of the kernels.
struct KernelShape {
  /// Sum of the head dims of the accumulators that stay in registers.
  int64_t accumulatedHeadDimSum;
  /// 32-bit values that are kept for each score.
  double valuesOfScore;
  /// Bytes of a row of the stationary tiles.
  int64_t stationaryRowBytes;
  /// Bytes of a row of the tiles that the kernel iterates over.
  int64_t streamedRowBytes;
};

/// The tiles of a kernel: rows of the stationary tile, and of the tile that it
/// iterates over.
struct Tiles {
  int64_t stationary, streamed, warps;
};

class MultistageGradients {
public:
  MultistageGradients(attn_tile::StreamingGradOpInterface op,
                      const DeviceModel &device);

  std::optional<ScheduleChoice> choose();

private:
  /// The tiles that fit, largest number of scores first.
  SmallVector<Tiles> getCandidates(const KernelShape &shape);
  SmallVector<Tiles>
  getCandidates(const KernelShape &shape,
                ArrayRef<std::pair<int64_t, int64_t>> choices);
  /// The storage of kernels of dK and dV, of dK alone, of dV alone and of dQ.
  struct KernelShapes {
    KernelShape together, ofKeys, ofValues, ofQueries;
  };
  KernelShapes getShapes(int64_t qkHeadDim, int64_t vHeadDim);
  /// The schedules of a kernel whose result has `resultHeadDim` columns.
  /// Kernels of wide heads compute tiles of them.
  template <typename Make>
  SmallVector<ScheduleAttrInterface> makeAll(KernelShape shape,
                                             int64_t resultHeadDim, Make make);
  ScheduleAttrInterface makeKeys(const Tiles &tiles, int64_t headDimTile);
  ScheduleAttrInterface makeQueries(const Tiles &tiles, int64_t headDimTile);
  Attribute makeGradient(ScheduleAttrInterface keys,
                         ScheduleAttrInterface queries,
                         ScheduleAttrInterface values);
  ScheduleAttrInterface
  pick(ArrayRef<ScheduleAttrInterface> candidates,
       function_ref<Attribute(ScheduleAttrInterface)> make) {
    return pickByTime(op, device, work, candidates, make);
  }

  attn_tile::StreamingGradOpInterface op;
  attn_tile::GradOperands operands;
  const DeviceModel &device;
  /// For the analyses of all candidates.
  std::shared_ptr<WorkBudget> work = VisitedTiles::createBudget();
  bool hasFewRanges;
  /// Whether there is nothing but a named mask that leaves few ranges.
  bool isPlain;
  /// Registers that the operands of MMAs take beyond 16-bit operands. In the
  /// highest precision, S and dP each need two multiplicands.
  int64_t operandRegisters = 0;
  /// Whether elements are split into two multiplicands.
  bool isSplit = false;
};
} // namespace

/// The precision of the matmuls of `op`, if it states one.
static std::optional<MatmulPrecision> getPrecision(Operation *op) {
  if (auto precision = op->getAttrOfType<MatmulPrecisionAttr>("precision"))
    return precision.getValue();
  return std::nullopt;
}

MultistageGradients::MultistageGradients(attn_tile::StreamingGradOpInterface op,
                                         const DeviceModel &device)
    : op(op), operands(op.getGradOperands()), device(device) {
  // As in attention: up to three, as for a window or a prefix.
  constexpr size_t maxRangesBesideTiles = 3;
  constexpr int64_t tile = 64;
  MaskAttrInterface mask =
      op.getMaskReads().empty() ? op.getMaskAttr() : nullptr;
  auto areFew = [&](MaskDim dim) {
    return countTileRanges(op, mask, dim, tile, tile) <= maxRangesBesideTiles;
  };
  hasFewRanges = areFew(MaskDim::Query) && areFew(MaskDim::Key);
  isPlain = hasFewRanges && op.getScoreMod().empty() &&
            op.getMaskMod().empty() && !op.hasDropout() &&
            !op.getAddressing().isListed() && !operands.identity;
  bool isF32 = getElementTypeOrSelf(op.getQuery()).isF32();
  isSplit = splitsElements(op.getQuery(), getPrecision(op));
  if (isF32)
    operandRegisters = (isSplit ? 4 : 3) * f32OperandRegisters / 2;
}

SmallVector<Tiles>
MultistageGradients::getCandidates(const KernelShape &shape) {
  SmallVector<Tiles> candidates;
  for (ArrayRef<std::pair<int64_t, int64_t>> choices :
       {ArrayRef(rowsAndWarps), ArrayRef(fewRowsAndWarps),
        ArrayRef(leastRowsAndWarps)})
    if (candidates.empty())
      candidates = getCandidates(shape, choices);
  llvm::sort(candidates, [](const Tiles &a, const Tiles &b) {
    return std::tuple(-a.streamed * a.stationary, a.streamed, -a.warps) <
           std::tuple(-b.streamed * b.stationary, b.streamed, -b.warps);
  });
  return candidates;
}

SmallVector<Tiles> MultistageGradients::getCandidates(
    const KernelShape &shape, ArrayRef<std::pair<int64_t, int64_t>> choices) {
  constexpr int64_t unit = keyTileUnit;
  static_assert(unit % DropoutAttr::keysOfWord == 0,
                "tiles hold whole words of keep masks");
  SmallVector<Tiles> candidates;
  for (auto [rows, warps] : choices) {
    constexpr int64_t rowsOfWarp = 32;
    bool isTall = rows / warps >= rowsOfWarp;
    if (isTall && (!isPlain || isSplit))
      continue;
    int64_t besideTiles = isTall         ? gradRegistersBesideTilesFourWarps
                          : hasFewRanges ? gradRegistersBesideTiles
                                         : gradRegistersBesideTilesManyRanges;
    double threads = double(warps * attn_tile::warpThreads);
    Capacity capacity;
    capacity.registers = double(maxThreadRegisters - besideTiles);
    capacity.sharedBytes = double(getTileBytes(device) - rowAndBarrierBytes);
    for (int64_t streamed = unit; streamed <= maxStreamedTile;
         streamed += unit) {
      CapacityNeed need;
      need.registers = double(rows) / threads *
                           (double(shape.accumulatedHeadDimSum) +
                            shape.valuesOfScore * double(streamed)) +
                       double(operandRegisters);
      need.sharedBytes =
          double(rows * shape.stationaryRowBytes +
                 gradientStages * streamed * shape.streamedRowBytes);
      if (capacity.fits(need))
        candidates.push_back({rows, streamed, warps});
    }
  }
  return candidates;
}

ScheduleAttrInterface MultistageGradients::makeKeys(const Tiles &tiles,
                                                    int64_t headDimTile) {
  attn_tile::KeyMultistageParameters parameters;
  parameters.queryTile = tiles.streamed;
  parameters.keyTile = tiles.stationary;
  parameters.stages = gradientStages;
  parameters.warps = tiles.warps;
  parameters.headDimTile = headDimTile;
  return makeSchedule(op.getContext(), parameters);
}

ScheduleAttrInterface MultistageGradients::makeQueries(const Tiles &tiles,
                                                       int64_t headDimTile) {
  attn_tile::MultistageParameters parameters;
  parameters.queryTile = tiles.stationary;
  parameters.keyTile = tiles.streamed;
  parameters.stages = gradientStages;
  parameters.warps = tiles.warps;
  parameters.headDimTile = headDimTile;
  return makeSchedule(op.getContext(), parameters);
}

Attribute MultistageGradients::makeGradient(ScheduleAttrInterface keys,
                                            ScheduleAttrInterface queries,
                                            ScheduleAttrInterface values) {
  attn_tile::MultistageParameters rows;
  rows.queryTile = 128;
  rows.keyTile = 64;
  rows.stages = gradientStages;
  rows.warps = 8;
  return attn_tile::GradientAttr::get(op.getContext(),
                                      makeSchedule(op.getContext(), rows), keys,
                                      queries, values);
}

std::optional<double>
attn::estimateGradient(attn_tile::StreamingGradOpInterface op,
                       Attribute schedule, const DeviceModel &device,
                       std::shared_ptr<WorkBudget> work,
                       CostAssumptions assumptions) {
  VisitedTiles tiles(op, assumptions,
                     /*batch=*/0, /*head=*/0, std::move(work));
  SmallVector<KernelTime> kernels =
      cast<ScheduleAttrInterface>(schedule).estimateKernels(tiles, device);
  if (kernels.empty())
    return std::nullopt;
  return getWorkSeconds(kernels);
}

ScheduleAttrInterface
attn::pickByTime(attn_tile::StreamingGradOpInterface op,
                 const DeviceModel &device,
                 const std::shared_ptr<WorkBudget> &work,
                 ArrayRef<ScheduleAttrInterface> candidates,
                 function_ref<Attribute(ScheduleAttrInterface)> make) {
  ScheduleAttrInterface best = candidates.front();
  if (candidates.size() == 1)
    return best;
  std::optional<double> least;
  for (ScheduleAttrInterface candidate : candidates) {
    std::optional<double> seconds =
        estimateGradient(op, make(candidate), device, work);
    if (seconds && (!least || *seconds < *least))
      std::tie(best, least) = std::pair(candidate, seconds);
  }
  return best;
}

/// The tiles of columns in which kernels may compute a result of `headDim`
/// columns; 0 for all of them.
static SmallVector<int64_t> getColumnTiles(int64_t headDim) {
  // Tiles begin at blocks of staged columns.
  constexpr int64_t unit = 64;
  int64_t least = llvm::divideCeil(headDim, attn_tile::maxMmaColumns);
  if (least == 1)
    return {0};
  SmallVector<int64_t> tiles;
  for (int64_t count : {least, least + 1})
    tiles.push_back(llvm::alignTo(llvm::divideCeil(headDim, count), unit));
  return tiles;
}

MultistageGradients::KernelShapes
MultistageGradients::getShapes(int64_t qkHeadDim, int64_t vHeadDim) {
  int64_t valueBytes = getElementBytes(op.getQuery());
  bool isF32 = getElementTypeOrSelf(op.getQuery()).isF32();
  int64_t keyBytes = llvm::alignTo(valueBytes * qkHeadDim, columnBlockBytes);
  int64_t valuesBytes = llvm::alignTo(valueBytes * vHeadDim, columnBlockBytes);
  // Scores and gradients of P in f32, and each of them in 16 bits; f32 values
  // are operands themselves, and few of them are being rounded. A score_mod
  // also needs the scores before it, and generating keep masks takes some.
  double changed = op.getScoreMod().empty() ? 0 : 1;
  double more = changed + (op.hasDropout() ? 0.5 : 0) +
                (op.getMaskMod().empty() ? 0 : 0.5);
  double both = (isF32 ? 2.25 : 3) + more, alone = (isF32 ? 1.15 : 1.5) + more;
  int64_t rowBytes = 2 * sumBytes, bothBytes = keyBytes + valuesBytes;
  KernelShape together{qkHeadDim + vHeadDim, both, bothBytes,
                       bothBytes + rowBytes};
  KernelShape ofOne = together;
  ofOne.accumulatedHeadDimSum = qkHeadDim;
  KernelShape ofValues{vHeadDim, alone, keyBytes, bothBytes + rowBytes};
  return {together, /*ofKeys=*/ofOne, ofValues, /*ofQueries=*/ofOne};
}

template <typename Make>
SmallVector<ScheduleAttrInterface>
MultistageGradients::makeAll(KernelShape shape, int64_t resultHeadDim,
                             Make make) {
  SmallVector<ScheduleAttrInterface> schedules;
  for (int64_t columns : getColumnTiles(resultHeadDim)) {
    if (columns != 0)
      shape.accumulatedHeadDimSum = columns;
    for (const Tiles &tiles : getCandidates(shape))
      schedules.push_back((this->*make)(tiles, columns));
  }
  return schedules;
}

std::optional<ScheduleChoice> MultistageGradients::choose() {
  int64_t qkHeadDim = llvm::alignTo(op.getQKHeadDim(), headDimStep);
  int64_t vHeadDim = llvm::alignTo(op.getVHeadDim(), headDimStep);
  KernelShapes shapes = getShapes(qkHeadDim, vHeadDim);
  bool isWide = std::max(qkHeadDim, vHeadDim) > attn_tile::maxMmaColumns;
  SmallVector<ScheduleAttrInterface> queries =
      makeAll(shapes.ofQueries, qkHeadDim, &MultistageGradients::makeQueries);
  SmallVector<ScheduleAttrInterface> keys;
  if (!isWide)
    keys = makeAll(shapes.together, qkHeadDim, &MultistageGradients::makeKeys);
  SmallVector<ScheduleAttrInterface> keysAlone =
      makeAll(shapes.ofKeys, qkHeadDim, &MultistageGradients::makeKeys);
  SmallVector<ScheduleAttrInterface> values =
      makeAll(shapes.ofValues, vHeadDim, &MultistageGradients::makeKeys);
  if (queries.empty() || keysAlone.empty() || values.empty())
    return std::nullopt;

  ScheduleAttrInterface none;
  auto pickKeys = [&](ArrayRef<ScheduleAttrInterface> candidates,
                      ScheduleAttrInterface ofValues) {
    return pick(candidates, [&](ScheduleAttrInterface candidate) {
      return makeGradient(candidate, queries.front(), ofValues);
    });
  };
  // With two kernels, all scores are computed twice.
  ScheduleAttrInterface byKey, byValue;
  if (!keys.empty()) {
    byKey = pickKeys(keys, none);
  } else {
    byKey = pickKeys(keysAlone, values.front());
    byValue = pick(values, [&](ScheduleAttrInterface candidate) {
      return makeGradient(byKey, queries.front(), candidate);
    });
  }
  ScheduleAttrInterface byQuery =
      pick(queries, [&](ScheduleAttrInterface candidate) {
        return makeGradient(byKey, candidate, byValue);
      });
  Attribute schedule = makeGradient(byKey, byQuery, byValue);
  std::string reason =
      llvm::formatv("tiles of {0} queries and {1} keys that stay, of {2} and "
                    "{3} that fit",
                    byQuery.getQueryTile(), byKey.getKeyTile(), queries.size(),
                    byValue ? keysAlone.size() : keys.size());
  if (byValue)
    reason += "; gradients of keys and values do not fit one kernel";
  reason += describeGradientTime(op, schedule, device);
  if (work->isExhausted())
    reportLimitedEstimates(op.getLoc());
  return ScheduleChoice{schedule, reason};
}

std::optional<ScheduleChoice>
attn::chooseMultistageGradient(attn_tile::StreamingGradOpInterface op,
                               const DeviceModel &device) {
  return MultistageGradients(op, device).choose();
}
