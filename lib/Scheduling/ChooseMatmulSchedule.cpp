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
#include "ScheduleCandidates.h"
#include "attn/Dialect/AttnTile/IR/AttnTileAttrs.h"
#include "attn/Dialect/AttnTile/IR/MatmulInputs.h"
#include "attn/Dialect/AttnTile/IR/WarpgroupShapes.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::attn;

/// Whether the epilogue of `op` reads an element at each of the positions that
/// its arguments with these numbers stand for.
static bool readsAt(MatmulOp op, ArrayRef<unsigned> positions) {
  Region &epilogue = op.getEpilogue();
  return !epilogue.empty() &&
         epilogue
             .walk([&](tensor::ExtractOp extract) {
               bool reads = llvm::all_of(positions, [&](unsigned position) {
                 return llvm::is_contained(extract.getIndices(),
                                           epilogue.getArgument(position));
               });
               return reads ? WalkResult::interrupt() : WalkResult::advance();
             })
             .wasInterrupted();
}

bool attn::readsMatrix(MatmulOp op) { return readsAt(op, {2, 3}); }

bool attn::readsColumns(MatmulOp op) { return readsAt(op, {3}); }

int64_t attn::getMatmulColumnTile(MatmulOp op, int64_t maxTile) {
  // Tiles are staged and stored in blocks of this many columns.
  constexpr int64_t columnUnit = 64;
  int64_t columns = getDimSize(op.getRhs(), op.getRhsColumnDim());
  if (ShapedType::isDynamic(columns) || columns >= maxTile)
    return maxTile;
  return std::max<int64_t>(columnUnit, llvm::alignTo(columns, columnUnit));
}

ScheduleAttrInterface attn::getMatmulSchedule(MatmulOp op, const Target &target,
                                              const DeviceModel &device) {
  return ScheduleFamily::get(target, getElementTypeOrSelf(op.getLhs()))
      .getMatmul(op, device);
}

LogicalResult attn::chooseMatmulSchedule(MatmulOp op, const Target &target,
                                         const DeviceModel &device) {
  attn_tile::MatmulInputs inputs = {getElementTypeOrSelf(op.getLhs()),
                                    getElementTypeOrSelf(op.getRhs()),
                                    op.getTransposeLhs(), op.getTransposeRhs()};
  if (std::optional<std::string> reason =
          attn_tile::whyNotMatmul(inputs, target))
    return op.emitOpError(*reason);
  if (ScheduleAttrInterface schedule = op.getScheduleAttr())
    return schedule.verifyUse(op, target);
  ScheduleAttrInterface schedule = getMatmulSchedule(op, target, device);
  op.setScheduleAttr(schedule);
  std::string text = "chose ";
  llvm::raw_string_ostream(text) << Attribute(schedule);
  remark::passed(
      op.getLoc(),
      remark::RemarkOpts::name("schedule").category("attn-choose-schedule"))
      << text;
  return success();
}
