//===- FuseOverlap.cpp - One kernel for a matmul and a mask ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds the overlaps that can become one kernel: a matmul, and a dropout keep
// mask that its auxiliary warps generate, joined by the consumer warps at the
// end.
//
//===----------------------------------------------------------------------===//

#include "FuseOverlap.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mlir::attn;

namespace {
/// The operations that become one kernel.
struct Members {
  MatmulOp matmul;
  DropoutMaskOp mask;
};
} // namespace

/// Finds the members of `op`. Returns a reason if they cannot be one kernel.
static std::optional<std::string> whyNotFuse(OverlapOp op, Members &members) {
  for (Region &body : op.getBodies())
    for (Operation &other : body.front().without_terminator()) {
      if (auto matmul = dyn_cast<MatmulOp>(other)) {
        if (members.matmul)
          return "there is more than one matmul";
        members.matmul = matmul;
      } else if (auto mask = dyn_cast<DropoutMaskOp>(other)) {
        if (members.mask)
          return "there is more than one keep mask";
        members.mask = mask;
      } else if (!isMemoryEffectFree(&other)) {
        return ("'" + other.getName().getStringRef() +
                "' is neither a matmul nor a keep mask")
            .str();
      }
    }
  if (!members.matmul || !members.mask)
    return members.matmul ? "there is no keep mask" : "there is no matmul";
  if (members.matmul->getParentRegion() == members.mask->getParentRegion())
    return "matmul and keep mask are in one region, and may depend on each "
           "other";
  ScheduleAttrInterface schedule = members.matmul.getScheduleAttr();
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
  // This fails before anything has moved.
  if (!isa<MemRefType>(members.mask.getOut().getType()))
    return members.mask.emitOpError("must be bufferised");
  remark::passed(op.getLoc(), options)
      << "idle warps of a GEMM generate keep masks";
  SmallVector<Value> yielded;
  for (unsigned i = 0; i < op.getBodies().size(); ++i)
    llvm::append_range(yielded, op.getYielded(i));
  // The launch comes after all its operands.
  for (Region &body : op.getBodies())
    for (Operation &other :
         llvm::make_early_inc_range(body.front().without_terminator()))
      if (&other != members.matmul)
        rewriter.moveOpBefore(&other, op);
  rewriter.moveOpBefore(members.matmul, op);
  rewriter.replaceOp(op, yielded);
  return lowerMatmulToKernel(rewriter, members.matmul, members.mask, symbols);
}
