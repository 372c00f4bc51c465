//===- FuseOverlap.cpp - One kernel for a product and a mask --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds the overlaps of which one kernel can be made: a product, and decisions
// of dropout that its idle warps make, and at last its consumers.
//
//===----------------------------------------------------------------------===//

#include "FuseOverlap.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mlir::attn;

namespace {
/// What becomes one kernel.
struct Members {
  MatmulOp product;
  DropoutMaskOp mask;
};
} // namespace

/// Finds the members of `op`, or says why there is no kernel for them.
static std::optional<std::string> whyNotFuse(OverlapOp op, Members &members) {
  for (Region &body : op.getBodies())
    for (Operation &other : body.front().without_terminator()) {
      if (auto product = dyn_cast<MatmulOp>(other)) {
        if (members.product)
          return "there is more than one product";
        members.product = product;
      } else if (auto mask = dyn_cast<DropoutMaskOp>(other)) {
        if (members.mask)
          return "there is more than one mask";
        members.mask = mask;
      } else if (!isMemoryEffectFree(&other)) {
        return ("'" + other.getName().getStringRef() +
                "' is neither a product nor a mask")
            .str();
      }
    }
  if (!members.product || !members.mask)
    return members.product ? "there is no mask" : "there is no product";
  if (members.product->getParentRegion() == members.mask->getParentRegion())
    return "product and mask are in one region, and may depend on each other";
  ScheduleAttrInterface schedule = members.product.getScheduleAttr();
  if (schedule && !schedule.leavesWarps()) {
    std::string text = "all warps have work in kernels of ";
    llvm::raw_string_ostream(text) << schedule;
    return text;
  }
  return std::nullopt;
}

LogicalResult attn::fuseOverlap(RewriterBase &rewriter, OverlapOp op,
                                SymbolTable &symbols) {
  if (op.getKind() != OverlapKind::Fused)
    return success();
  auto options =
      remark::RemarkOpts::name("overlap").category("convert-attn-to-attn-tile");
  Members members;
  if (std::optional<std::string> reason = whyNotFuse(op, members)) {
    remark::missed(op.getLoc(), options)
        << "no fused kernel for the regions: " + *reason;
    return success();
  }
  // Failing before anything has moved.
  if (!isa<MemRefType>(members.mask.getOut().getType()))
    return members.mask.emitOpError("must be bufferised");
  remark::passed(op.getLoc(), options)
      << "idle warps of a product make decisions";
  SmallVector<Value> yielded;
  for (unsigned i = 0; i < op.getBodies().size(); ++i)
    llvm::append_range(yielded, op.getYielded(i));
  // The launch comes after all that it needs.
  for (Region &body : op.getBodies())
    for (Operation &other :
         llvm::make_early_inc_range(body.front().without_terminator()))
      if (&other != members.product)
        rewriter.moveOpBefore(&other, op);
  rewriter.moveOpBefore(members.product, op);
  rewriter.replaceOp(op, yielded);
  return lowerMatmulToKernel(rewriter, members.product, members.mask, symbols);
}
