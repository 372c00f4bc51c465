//===- ChooseMatmulSchedule.cpp - Schedules of matmuls --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Derives tile shapes from the capacities of the target: tiles of the result
// are as large as the registers of the consumers allow, since each element of
// an input is then read the fewest times.
//===----------------------------------------------------------------------===//

#include "ChooseMatmulSchedule.h"
#include "attn/Dialect/AttnTile/IR/AttnTileAttrs.h"
#include "attn/Dialect/AttnTile/IR/WarpgroupShapes.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::attn;

/// Contracted elements of one step: the elements in a row of a staged block.
static constexpr int64_t depthTile = 64;
/// Tiles are staged and stored in blocks of this many columns.
static constexpr int64_t columnUnit = 64;
static constexpr int64_t maxColumnTile = 256;
static constexpr int64_t consumers = 2;
using attn_tile::warpgroupRows;
/// Rows of tiles that CTAs visit together, column by column: at 128 rows each,
/// the inputs that 132 CTAs read at a time stay in L2.
static constexpr int64_t interleave = 16;

/// Shared memory that a CTA may use, less room for barriers.
static constexpr int64_t sharedBytes = (227 - 1) * 1024;
static constexpr int64_t elementBytes = 2;

/// Blocks of columns of a result tile that may be on their way to memory at the
/// same time.
static constexpr int64_t storeStages = 2;

/// Tiles for GPUs whose warps all copy and compute. Each warp has 32 rows,
/// whose accumulator takes 128 registers of a thread, and reads each staged
/// column for two blocks of 16 rows. Two stages let two CTAs share an SM.
static constexpr int64_t multistageRowTile = 128;
static constexpr int64_t multistageMaxColumnTile = 128;
static constexpr int64_t multistageStages = 2;
static constexpr int64_t multistageWarps = 4;

static constexpr int64_t hostRowTile = 16;
static constexpr int64_t hostColumnTile = 64;

/// Whether the epilogue reads an element for each element of the result.
static bool readsMatrix(MatmulOp op) {
  Region &epilogue = op.getEpilogue();
  return !epilogue.empty() &&
         epilogue
             .walk([&](tensor::ExtractOp extract) {
               return llvm::is_contained(extract.getIndices(),
                                         epilogue.getArgument(2)) &&
                              llvm::is_contained(extract.getIndices(),
                                                 epilogue.getArgument(3))
                          ? WalkResult::interrupt()
                          : WalkResult::advance();
             })
             .wasInterrupted();
}

/// Columns of a tile: all columns of a narrow result, else `maxTile`.
static int64_t getColumnTile(MatmulOp op, int64_t maxTile) {
  int64_t columns = getDimSize(op.getRhs(), op.getRhsColumnDim());
  if (ShapedType::isDynamic(columns) || columns >= maxTile)
    return maxTile;
  return std::max<int64_t>(columnUnit, llvm::alignTo(columns, columnUnit));
}

static LogicalResult verifyForGPU(MatmulOp op, StringRef target) {
  Type element = getElementTypeOrSelf(op.getLhs().getType());
  if (!element.isBF16() && !element.isF16())
    return op.emitOpError("element type on ")
           << target << " must be bf16 or f16 (was " << element << ")";
  return success();
}

ScheduleAttrInterface attn::getMatmulSchedule(MatmulOp op, StringRef target) {
  MLIRContext *context = op.getContext();
  Attribute schedule;
  if (target == "host") {
    schedule = attn_tile::MatmulSequentialAttr::get(context, hostRowTile,
                                                    hostColumnTile, depthTile);
  } else if (target == "sm_80") {
    // Elements that an epilogue reads take as many registers as the
    // accumulator.
    int64_t maxTile =
        readsMatrix(op) ? multistageMaxColumnTile / 2 : multistageMaxColumnTile;
    schedule = attn_tile::MatmulMultistageAttr::get(
        context, multistageRowTile, getColumnTile(op, maxTile), depthTile,
        multistageStages, multistageWarps);
  } else if (target == "sm_90a") {
    int64_t rowTile = consumers * warpgroupRows;
    // The most columns that fit next to the elements that an epilogue reads.
    int64_t columnTile =
        getColumnTile(op, readsMatrix(op) ? maxColumnTile / 2 : maxColumnTile);
    int64_t stageBytes = elementBytes * depthTile * (rowTile + columnTile);
    int64_t storeBytes = storeStages * elementBytes * rowTile * columnUnit;
    schedule = attn_tile::MatmulWarpSpecializedAttr::get(
        context, rowTile, columnTile, depthTile,
        (sharedBytes - storeBytes) / stageBytes, consumers, interleave);
  }
  return cast_if_present<ScheduleAttrInterface>(schedule);
}

LogicalResult attn::chooseMatmulSchedule(MatmulOp op, StringRef target) {
  bool isHost = target == "host";
  if (!isHost && failed(verifyForGPU(op, target)))
    return failure();
  if (ScheduleAttrInterface schedule = op.getScheduleAttr())
    return schedule.verifyUse(op, target);
  ScheduleAttrInterface schedule = getMatmulSchedule(op, target);
  op.setScheduleAttr(schedule);
  std::string text = "chose ";
  llvm::raw_string_ostream(text) << Attribute(schedule);
  remark::passed(
      op.getLoc(),
      remark::RemarkOpts::name("schedule").category("attn-choose-schedule"))
      << text;
  return success();
}
