//===- MultistageGradients.cpp - Schedules of gradients on sm_80 ----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Chooses the tiles of kernels of gradients all of whose warps copy and
// compute: of those that registers and shared memory have room for, the ones
// with the least estimate.
//
//===----------------------------------------------------------------------===//

#include "FittingSchedules.h"
#include "attn/Analysis/MaskArea.h"
#include "attn/Dialect/AttnTile/IR/AttnTileAttrs.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include <tuple>

using namespace mlir;
using namespace mlir::attn;
using attn_tile::channelStep;
using attn_tile::columnBlockBytes;

static constexpr int64_t gradientStages = 2;
static constexpr int64_t valueBytes = 2, sumBytes = 4;

/// Rows of the tile that stays, and the warps that share them.
static constexpr std::pair<int64_t, int64_t> rowsAndWarps[] = {
    {128, 8}, {128, 4}, {64, 4}};

/// The largest tile that a kernel walks over, and what it is a multiple of.
static constexpr int64_t maxWalkedTile = 128;

/// Registers of a thread for tiles: 255 less what addresses and the operands of
/// instructions take. The walk over many ranges of tiles takes some; in four
/// warps with 128 rows operands serve two products.
static constexpr double tileRegisters = 208;
static constexpr double tileRegistersManyRanges = 184;
static constexpr double tileRegistersFourWarps = 224;

/// Shared memory that barriers and the rows beside tiles take.
static constexpr int64_t besideTilesBytes = 4096;

namespace {
/// What one of the kernels keeps.
struct KernelShape {
  /// Channels of the sums that stay in registers.
  int64_t summedChannels;
  /// Values of 32 bits that are kept for each score.
  double valuesOfScore;
  /// Bytes of a row of the tiles that stay.
  int64_t stayingRowBytes;
  /// Bytes of a row of the tiles that are walked over.
  int64_t walkedRowBytes;
};

/// The tiles of a kernel: the rows that stay, and those walked over.
struct Tiles {
  int64_t staying, walked, warps;
};

class MultistageGradients {
public:
  MultistageGradients(AttentionGradOp op, const DeviceFigures &device);

  std::optional<ScheduleChoice> choose();

private:
  /// The tiles that fit, those with most scores first.
  SmallVector<Tiles> getFitting(const KernelShape &shape);
  ScheduleAttrInterface makeKeys(const Tiles &tiles);
  ScheduleAttrInterface makeQueries(const Tiles &tiles);
  Attribute makeGradient(ScheduleAttrInterface keys,
                         ScheduleAttrInterface queries,
                         ScheduleAttrInterface values);
  /// That of `candidates` with which what `make` makes takes the least time,
  /// or the first one where that is not known.
  ScheduleAttrInterface
  pick(ArrayRef<ScheduleAttrInterface> candidates,
       function_ref<Attribute(ScheduleAttrInterface)> make);

  AttentionGradOp op;
  const DeviceFigures &device;
  bool hasFewRanges;
  /// Whether there is nothing but a named mask that leaves few ranges.
  bool isPlain;
};
} // namespace

MultistageGradients::MultistageGradients(AttentionGradOp op,
                                         const DeviceFigures &device)
    : op(op), device(device) {
  // As of attention: up to three, as of a window or a prefix.
  constexpr size_t maxRangesBesideTiles = 3;
  constexpr int64_t tile = 64;
  MaskAttrInterface mask =
      op.getMaskReads().empty() ? op.getMaskAttr() : nullptr;
  auto areFew = [&](MaskDim dim) {
    return countTileRanges(op, mask, dim, tile, tile) <= maxRangesBesideTiles;
  };
  hasFewRanges = areFew(MaskDim::Query) && areFew(MaskDim::Key);
  isPlain = hasFewRanges && op.getScoreRegion().empty() &&
            op.getKeepRegion().empty() && !op.hasDropout() &&
            !op.hasSequences() && !op.getIdentity();
}

SmallVector<Tiles> MultistageGradients::getFitting(const KernelShape &shape) {
  constexpr int64_t barrierBytes = 1024;
  constexpr int64_t unit = keyTileUnit;
  static_assert(unit % DropoutAttr::keysOfWord == 0,
                "tiles hold whole words of decisions");
  SmallVector<Tiles> fitting;
  for (auto [rows, warps] : rowsAndWarps) {
    constexpr int64_t rowsOfWarp = 32;
    bool isTall = rows / warps >= rowsOfWarp;
    if (isTall && !isPlain)
      continue;
    double most = isTall         ? tileRegistersFourWarps
                  : hasFewRanges ? tileRegisters
                                 : tileRegistersManyRanges;
    double threads = double(warps * attn_tile::warpThreads);
    for (int64_t walked = unit; walked <= maxWalkedTile; walked += unit) {
      double registers =
          double(rows) / threads *
          (double(shape.summedChannels) + shape.valuesOfScore * double(walked));
      int64_t bytes = rows * shape.stayingRowBytes +
                      gradientStages * walked * shape.walkedRowBytes;
      if (registers <= most &&
          bytes + besideTilesBytes + barrierBytes <= device.sharedBytes)
        fitting.push_back({rows, walked, warps});
    }
  }
  llvm::sort(fitting, [](const Tiles &a, const Tiles &b) {
    return std::tuple(-a.walked * a.staying, a.walked, -a.warps) <
           std::tuple(-b.walked * b.staying, b.walked, -b.warps);
  });
  return fitting;
}

ScheduleAttrInterface MultistageGradients::makeKeys(const Tiles &tiles) {
  return cast<ScheduleAttrInterface>(
      Attribute(attn_tile::KeyMultistageAttr::get(op.getContext(), tiles.walked,
                                                  tiles.staying, gradientStages,
                                                  tiles.warps)));
}

ScheduleAttrInterface MultistageGradients::makeQueries(const Tiles &tiles) {
  return cast<ScheduleAttrInterface>(Attribute(attn_tile::MultistageAttr::get(
      op.getContext(), tiles.staying, tiles.walked, gradientStages, tiles.warps,
      /*split_items=*/0, /*pack_heads=*/false)));
}

Attribute MultistageGradients::makeGradient(ScheduleAttrInterface keys,
                                            ScheduleAttrInterface queries,
                                            ScheduleAttrInterface values) {
  auto rows =
      cast<ScheduleAttrInterface>(Attribute(attn_tile::MultistageAttr::get(
          op.getContext(), /*query_tile=*/128, /*key_tile=*/64, gradientStages,
          /*warps=*/8, /*split_items=*/0, /*pack_heads=*/false)));
  return attn_tile::GradientAttr::get(op.getContext(), rows, keys, queries,
                                      values);
}

std::optional<double> attn::estimateGradient(AttentionGradOp op,
                                             Attribute schedule,
                                             const DeviceFigures &device,
                                             CostAssumptions assumptions) {
  VisitedTiles tiles(cast<AttentionOpInterface>(op.getOperation()),
                     assumptions);
  SmallVector<KernelTime> kernels =
      cast<ScheduleAttrInterface>(schedule).estimateKernels(tiles, device);
  if (kernels.empty())
    return std::nullopt;
  return getWorkSeconds(kernels);
}

ScheduleAttrInterface
MultistageGradients::pick(ArrayRef<ScheduleAttrInterface> candidates,
                          function_ref<Attribute(ScheduleAttrInterface)> make) {
  ScheduleAttrInterface best = candidates.front();
  if (candidates.size() == 1)
    return best;
  std::optional<double> least;
  for (ScheduleAttrInterface candidate : candidates) {
    std::optional<double> seconds =
        estimateGradient(op, make(candidate), device);
    if (seconds && (!least || *seconds < *least))
      std::tie(best, least) = std::pair(candidate, seconds);
  }
  return best;
}

std::optional<ScheduleChoice> MultistageGradients::choose() {
  int64_t keyChannels = llvm::alignTo(op.getQueryHeadDim(), channelStep);
  int64_t valueChannels = llvm::alignTo(op.getValueHeadDim(), channelStep);
  int64_t keyBytes = llvm::alignTo(valueBytes * keyChannels, columnBlockBytes);
  int64_t valuesBytes =
      llvm::alignTo(valueBytes * valueChannels, columnBlockBytes);
  // Scores and gradients of weights in f32, and each of them in 16 bits; what a
  // region changes is needed as it was, and decisions take some to make.
  double changed = op.getScoreRegion().empty() ? 0 : 1;
  double more = changed + (op.hasDropout() ? 0.5 : 0) +
                (op.getKeepRegion().empty() ? 0 : 0.5);
  double both = 3 + more, alone = 1.5 + more;
  int64_t rowBytes = 2 * sumBytes, bothBytes = keyBytes + valuesBytes;
  KernelShape together{keyChannels + valueChannels, both, bothBytes,
                       bothBytes + rowBytes};
  KernelShape ofKeys = together, ofValues = together, ofQueries = together;
  ofKeys.summedChannels = ofQueries.summedChannels = keyChannels;
  ofValues = {valueChannels, alone, keyBytes, bothBytes + rowBytes};

  auto makeAll = [&](const KernelShape &shape, auto make) {
    return llvm::map_to_vector(getFitting(shape), make);
  };
  auto makeKeysOf = [&](const Tiles &tiles) { return makeKeys(tiles); };
  SmallVector<ScheduleAttrInterface> queries = makeAll(
      ofQueries, [&](const Tiles &tiles) { return makeQueries(tiles); });
  SmallVector<ScheduleAttrInterface> keys = makeAll(together, makeKeysOf);
  SmallVector<ScheduleAttrInterface> keysAlone = makeAll(ofKeys, makeKeysOf);
  SmallVector<ScheduleAttrInterface> values = makeAll(ofValues, makeKeysOf);
  if (queries.empty() || keysAlone.empty() || values.empty())
    return std::nullopt;

  ScheduleAttrInterface none;
  auto pickKeys = [&](ArrayRef<ScheduleAttrInterface> candidates,
                      ScheduleAttrInterface ofValues) {
    return pick(candidates, [&](ScheduleAttrInterface candidate) {
      return makeGradient(candidate, queries.front(), ofValues);
    });
  };
  // Two kernels make all scores twice.
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
  if (std::optional<double> seconds = estimateGradient(op, schedule, device))
    reason += llvm::formatv(", estimated {0:f0} us", *seconds * 1e6).str();
  return ScheduleChoice{schedule, reason};
}

std::optional<ScheduleChoice>
attn::chooseMultistageGradient(AttentionGradOp op,
                               const DeviceFigures &device) {
  return MultistageGradients(op, device).choose();
}
