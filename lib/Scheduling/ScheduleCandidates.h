//===- ScheduleCandidates.h - Schedules that fit a device ------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the families of schedules share, and the families themselves. Registers
// that values other than tiles take depend on the assembler: with the numbers
// here kernels do not spill, or spill as the pages of docs/experiments say.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_SCHEDULING_SCHEDULECANDIDATES_H
#define ATTN_LIB_SCHEDULING_SCHEDULECANDIDATES_H

#include "attn/Analysis/MaskTiles.h"
#include "attn/Dialect/AttnTile/IR/AttnTileParameters.h"
#include "attn/Dialect/AttnTile/IR/StreamingOpInterface.h"
#include "attn/Dialect/AttnTile/IR/WarpgroupShapes.h"
#include "attn/PerfModel/Capacity.h"
#include "attn/Scheduling/ForwardSchedules.h"
#include "attn/Scheduling/ScheduleFamily.h"
#include "mlir/IR/TypeUtilities.h"

namespace mlir::attn {

using attn_tile::warpgroupRows;

/// Registers per thread for register tiles: the registers of a consumer (240 of
/// two consumers, 160 of three, 255 of four or eight warps) less room for
/// addresses, row statistics and the operands of instructions. One consumer has
/// 240 as well, or 200 if two CTAs share an SM.
inline constexpr int64_t tileRegistersTwoConsumers = 200;
inline constexpr int64_t tileRegistersThreeConsumers = 132;
inline constexpr int64_t tileRegistersTwoCtas = 160;
inline constexpr int64_t tileRegistersFourWarps = 192;
inline constexpr int64_t tileRegistersEightWarps = 160;
/// Registers that f32 operands of MMAs take beyond 16-bit operands: the values
/// before and after they are rounded, and addresses of single words.
inline constexpr int64_t f32OperandRegisters = 16;

/// Whether MMAs split each element of `operand` into two multiplicands.
inline bool splitsElements(Value operand,
                           std::optional<MatmulPrecision> precision) {
  return getElementTypeOrSelf(operand).isF32() && isHighest(precision);
}

/// The schedule with these parameters of an attribute of attn_tile.
template <typename Parameters>
ScheduleAttrInterface makeSchedule(MLIRContext *context,
                                   const Parameters &parameters) {
  return cast<ScheduleAttrInterface>(Attribute(parameters.get(context)));
}

/// Sizes at which candidates for GPUs are timed.
inline constexpr TypicalSizes deviceSizes = {
    {1024, 2048, 4096, 8192, 16384}, 16384, 4096, 0.005};
/// Hosts have fewer queries, and take as long again to compile a second kernel.
inline constexpr TypicalSizes hostSizes = {
    {32, 128, 512, 2048, 4096}, 4096, 4096, 0.05};

/// The one object of each family.
const ScheduleFamily &getSequentialFamily();
const ScheduleFamily &getMultistageFamily();
const ScheduleFamily &getWarpSpecializedFamily();

/// Work items with tiles of `queryTile` queries, among `headDimTiles` of which
/// the columns of the values are divided; none if a size is not known.
std::optional<int64_t> countWorkItems(AttentionOp op, OpChain &chain,
                                      int64_t queryTile, int64_t headDimTiles);
/// The work items of `schedule`, without splits of the keys.
std::optional<int64_t> countWorkItems(AttentionOp op, OpChain &chain,
                                      ScheduleAttrInterface schedule);

/// Of the candidates that compute each score least often, the one whose tiles
/// have the most scores; `std::nullopt` if there are none.
std::optional<ScheduleCandidate>
findMostScores(AttentionOp op, ArrayRef<ScheduleCandidate> candidates);

/// Whether batch entries of `op` may have different numbers of keys, so that
/// each should have splits of its own.
bool paysToBalanceSplits(AttentionOp op);

/// `schedule` with split-KV until there are `items` work items.
ScheduleAttrInterface splitKV(AttentionOp op, ScheduleAttrInterface schedule,
                              int64_t items);

/// Ranges of tiles that `mask` keeps where a tile of `rowTile` rows along `dim`
/// stays. Each step of the tile iteration selects among them.
size_t countTileRanges(Operation *op, MaskAttrInterface mask, MaskDim dim,
                       int64_t rowTile, int64_t columnTile);

/// Columns of a tile of a matmul: all columns of a narrow result, else
/// `maxTile`.
int64_t getMatmulColumnTile(MatmulOp op, int64_t maxTile);

/// Whether the epilogue of a matmul reads an element for each element of the
/// result.
bool readsMatrix(MatmulOp op);

/// Whether the epilogue of a matmul reads an element for each column of the
/// result, at least.
bool readsColumns(MatmulOp op);

/// The candidate with which attention or a gradient takes least time, by the
/// model of its kernels; `std::nullopt` without candidates or model.
std::optional<ScheduleChoice>
chooseByModel(AttentionOpInterface op, ArrayRef<ScheduleCandidate> candidates,
              const TypicalSizes &sizes, const DeviceModel &device);

/// The schedules of the kernels of a gradient in which all warps copy and
/// compute; `std::nullopt` if none fit.
std::optional<ScheduleChoice>
chooseMultistageGradient(attn_tile::StreamingGradOpInterface op,
                         const DeviceModel &device);

/// The same for kernels with producers and consumers. The dQ accumulator takes
/// at most `dqWorkspaceBytes` bytes, if that is not negative, where a dQ ring
/// buffer is possible.
std::optional<ScheduleChoice>
chooseWarpSpecializedGradient(attn_tile::StreamingGradOpInterface op,
                              const DeviceModel &device,
                              int64_t dqWorkspaceBytes);

/// Seconds of all kernels of a gradient with `schedule`, by its model.
/// `assumptions` replace unknown lengths, by default with the lengths at which
/// attention is timed. The analyses of the mask share `work`. `std::nullopt` if
/// there are no figures for an estimate.
std::optional<double>
estimateGradient(attn_tile::StreamingGradOpInterface op, Attribute schedule,
                 const DeviceModel &device, std::shared_ptr<WorkBudget> work,
                 CostAssumptions assumptions = {/*dynamicSize=*/4096,
                                                /*dynamicBatch=*/4});

/// The candidate whose gradient by `make` takes the least time, or the first
/// candidate where times are not known.
ScheduleAttrInterface
pickByTime(attn_tile::StreamingGradOpInterface op, const DeviceModel &device,
           const std::shared_ptr<WorkBudget> &work,
           ArrayRef<ScheduleAttrInterface> candidates,
           function_ref<Attribute(ScheduleAttrInterface)> make);

/// As text for a reason: the time of a gradient with `schedule`, which may be a
/// choice by length, for the sizes that `estimateGradient` assumes; empty
/// without an estimate.
std::string describeGradientTime(attn_tile::StreamingGradOpInterface op,
                                 Attribute schedule, const DeviceModel &device);

} // namespace mlir::attn

#endif // ATTN_LIB_SCHEDULING_SCHEDULECANDIDATES_H
