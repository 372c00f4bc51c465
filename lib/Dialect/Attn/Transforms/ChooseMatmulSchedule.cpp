//===- ChooseMatmulSchedule.cpp - Schedules of products -------------------===//
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
//
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

/// Contracted elements of one step: what a row of a staged block holds.
static constexpr int64_t depthTile = 64;
/// Tiles are staged and stored in blocks of this many columns.
static constexpr int64_t columnUnit = 64;
static constexpr int64_t maxColumnTile = 256;
static constexpr int64_t consumers = 2;
using attn_tile::warpgroupRows;
/// Rows of tiles whose columns are walked together: at 128 rows each, they and
/// the columns that 132 groups read at a time stay in the L2 cache.
static constexpr int64_t rowsWalkedTogether = 16;

/// Shared memory that a block may use, less room for barriers.
static constexpr int64_t sharedBytes = (227 - 1) * 1024;
static constexpr int64_t elementBytes = 2;

/// Blocks of columns of a tile of the result that may be on their way to memory
/// at a time.
static constexpr int64_t storeStages = 2;

static constexpr int64_t hostRowTile = 16;
static constexpr int64_t hostColumnTile = 64;

/// Whether the epilogue reads an element for each of the result.
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

/// Columns of a tile: all of a narrow result, else the most that fit beside
/// what the epilogue reads.
static int64_t getColumnTile(MatmulOp op) {
  int64_t maxTile = readsMatrix(op) ? maxColumnTile / 2 : maxColumnTile;
  int64_t columns = getDimSize(op.getRhs(), op.getRhsColumnDim());
  if (ShapedType::isDynamic(columns) || columns >= maxTile)
    return maxTile;
  return std::max<int64_t>(columnUnit, llvm::alignTo(columns, columnUnit));
}

/// Whether there are kernels of products for a GPU.
static bool hasKernels(StringRef target) { return target == "sm_90a"; }

static LogicalResult verifyForGPU(MatmulOp op, StringRef target) {
  Type element = getElementTypeOrSelf(op.getLhs().getType());
  if (!element.isBF16() && !element.isF16())
    return op.emitOpError("element type on ")
           << target << " must be bf16 or f16 (was " << element << ")";
  if (!hasKernels(target))
    return op.emitOpError("has no kernels for ") << target;
  return success();
}

ScheduleAttrInterface attn::getMatmulSchedule(MatmulOp op, StringRef target) {
  MLIRContext *context = op.getContext();
  Attribute schedule;
  if (target == "host") {
    schedule = attn_tile::MatmulSequentialAttr::get(context, hostRowTile,
                                                    hostColumnTile, depthTile);
  } else if (hasKernels(target)) {
    int64_t rowTile = consumers * warpgroupRows;
    int64_t columnTile = getColumnTile(op);
    int64_t stageBytes = elementBytes * depthTile * (rowTile + columnTile);
    int64_t storeBytes = storeStages * elementBytes * rowTile * columnUnit;
    schedule = attn_tile::MatmulWarpSpecializedAttr::get(
        context, rowTile, columnTile, depthTile,
        (sharedBytes - storeBytes) / stageBytes, consumers, rowsWalkedTogether);
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
