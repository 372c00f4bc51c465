//===- LowerOverlap.cpp - Order kernels that may run together -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Turns `attn.overlap` into launches, on several streams or on one.
//
//===----------------------------------------------------------------------===//

#include "attn/Conversion/Passes.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Interfaces/Target.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNLOWEROVERLAPPASS
#include "attn/Conversion/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;

/// An operation of `overlap` that cannot be ordered among kernels of several
/// streams, or null.
static Operation *findUnordered(OverlapOp overlap) {
  for (Region &body : overlap.getBodies())
    for (Operation &op : body.front().without_terminator())
      if (!isa<attn_tile::LaunchOp, attn_tile::MakeTensorMapOp, memref::AllocOp,
               memref::DeallocOp>(op) &&
          !isMemoryEffectFree(&op))
        return &op;
  return nullptr;
}

/// Launches the kernels of each region but the first on a stream of its own.
static void lowerToStreams(RewriterBase &rewriter, OverlapOp overlap) {
  Location loc = overlap.getLoc();
  SmallVector<SmallVector<attn_tile::LaunchOp>> launches;
  SmallVector<memref::DeallocOp> deallocs;
  // Operations that launches need come before all launches.
  for (Region &body : overlap.getBodies()) {
    SmallVector<attn_tile::LaunchOp> &found = launches.emplace_back();
    for (Operation &op :
         llvm::make_early_inc_range(body.front().without_terminator()))
      if (auto launch = dyn_cast<attn_tile::LaunchOp>(op))
        found.push_back(launch);
      else if (auto dealloc = dyn_cast<memref::DeallocOp>(op))
        deallocs.push_back(dealloc);
      else
        rewriter.moveOpBefore(&op, overlap);
  }
  rewriter.setInsertionPoint(overlap);
  SmallVector<Value> streams = {Value()};
  for (size_t i = 1; i < launches.size(); ++i)
    streams.push_back(attn_tile::ForkStreamOp::create(rewriter, loc));
  for (size_t i = 0; i < launches.size(); ++i)
    for (attn_tile::LaunchOp launch : launches[i]) {
      rewriter.moveOpBefore(launch, overlap);
      if (i > 0)
        rewriter.modifyOpInPlace(
            launch, [&] { launch.getStreamMutable().assign(streams[i]); });
    }
  rewriter.setInsertionPoint(overlap);
  for (Value stream : ArrayRef(streams).drop_front())
    attn_tile::JoinStreamOp::create(rewriter, loc, stream);
  for (memref::DeallocOp dealloc : deallocs)
    rewriter.moveOpBefore(dealloc, overlap);
}

/// Moves the regions before `overlap`, one after another.
static void lowerToSequence(RewriterBase &rewriter, OverlapOp overlap) {
  for (Region &body : overlap.getBodies())
    for (Operation &op :
         llvm::make_early_inc_range(body.front().without_terminator()))
      rewriter.moveOpBefore(&op, overlap);
}

namespace {
struct AttnLowerOverlapPass
    : attn::impl::AttnLowerOverlapPassBase<AttnLowerOverlapPass> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<const Target *> found = lookupTarget(getOperation(), target);
    if (failed(found))
      return signalPassFailure();
    SmallVector<OverlapOp> worklist;
    // Inner ones first.
    getOperation()->walk([&](OverlapOp op) { worklist.push_back(op); });
    IRRewriter rewriter(&getContext());
    for (OverlapOp op : worklist)
      lower(rewriter, op, **found);
  }

  void lower(RewriterBase &rewriter, OverlapOp op, const Target &target) {
    OverlapKind kind = op.getKind().value_or(OverlapKind::Sequential);
    if (target.isHost())
      kind = OverlapKind::Sequential;
    auto missed = [&](const Twine &reason) {
      remark::missed(op.getLoc(), remark::RemarkOpts::name("overlap").category(
                                      "attn-lower-overlap"))
          << reason.str();
    };
    if (kind == OverlapKind::Fused) {
      missed("has no fused kernel for these regions; uses streams");
      kind = OverlapKind::Streams;
    }
    if (kind == OverlapKind::Streams)
      if (Operation *other = findUnordered(op)) {
        missed("runs one region after another, since '" +
               other->getName().getStringRef() +
               "' cannot be ordered among streams");
        kind = OverlapKind::Sequential;
      }
    SmallVector<Value> yielded;
    for (unsigned i = 0; i < op.getBodies().size(); ++i)
      llvm::append_range(yielded, op.getYielded(i));
    if (kind == OverlapKind::Streams)
      lowerToStreams(rewriter, op);
    else
      lowerToSequence(rewriter, op);
    rewriter.replaceOp(op, yielded);
  }
};
} // namespace
