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
#include "attn/Dialect/Attn/IR/AttnCommOps.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Interfaces/Target.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNLOWEROVERLAPPASS
#include "attn/Conversion/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;

static bool communicates(Region &body) {
  return body
      .walk([](Operation *op) {
        return op->hasTrait<Communicates>() ? WalkResult::interrupt()
                                            : WalkResult::advance();
      })
      .wasInterrupted();
}

/// The operation of a region of an overlap that `op` is, or is in.
static Operation *findAncestor(Region &body, Operation *op) {
  return body.findAncestorOpInRegion(*op);
}

/// Whether `op` of `body` can be ordered among kernels of several streams, by
/// itself or in a branch. Buffers are allocated before all kernels.
static bool canBeOrdered(Region &body, Operation *op) {
  if (isa<attn_tile::LaunchOp, attn_tile::MakeTensorMapOp,
          attn_tile::ErrorFlagOp, memref::DeallocOp, scf::IfOp>(op) ||
      op->hasTrait<Communicates>())
    return true;
  Operation *ancestor = findAncestor(body, op);
  if (isa<memref::AllocOp>(op))
    return llvm::none_of(op->getOperands(), [&](Value size) {
      Operation *source = size.getDefiningOp();
      return source && ancestor->isProperAncestor(source);
    });
  return isMemoryEffectFree(op);
}

/// An operation of `overlap` that cannot be ordered among kernels of several
/// streams, or null.
static Operation *findUnordered(OverlapOp overlap) {
  Operation *found = nullptr;
  for (Region &body : overlap.getBodies())
    body.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (op == body.front().getTerminator() || canBeOrdered(body, op))
        return WalkResult::advance();
      found = op;
      return WalkResult::interrupt();
    });
  return found;
}

/// Takes the buffers of branches out of them.
static void hoistBuffers(RewriterBase &rewriter, Region &body) {
  SmallVector<Operation *> buffers;
  body.walk([&](Operation *op) {
    if (isa<memref::AllocOp, memref::DeallocOp>(op))
      buffers.push_back(op);
  });
  for (Operation *op : buffers) {
    Operation *ancestor = findAncestor(body, op);
    if (ancestor == op)
      continue;
    if (isa<memref::AllocOp>(op))
      rewriter.moveOpBefore(op, ancestor);
    else
      rewriter.moveOpAfter(op, ancestor);
  }
}

namespace {
/// The operations of a region of an overlap, which has a stream of its own.
struct RegionOfStream {
  /// Launches and communication, branches with such, and operations on results
  /// of these.
  SmallVector<Operation *> ordered;
  bool communicates = false;
};
} // namespace

/// Whether `op` or an operation in it is a launch, communicates, or uses a
/// result of `ordered`.
static bool mustBeOrdered(Operation *op, ArrayRef<Operation *> ordered) {
  return op
      ->walk([&](Operation *inner) {
        bool found =
            isa<attn_tile::LaunchOp>(inner) ||
            inner->hasTrait<Communicates>() ||
            llvm::any_of(inner->getOperands(), [&](Value operand) {
              return llvm::is_contained(ordered, operand.getDefiningOp());
            });
        return found ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// The regions of `overlap`, with their launches and communication. Operations
/// that launches need move before all launches.
static SmallVector<RegionOfStream>
collectRegions(RewriterBase &rewriter, OverlapOp overlap,
               SmallVectorImpl<memref::DeallocOp> &deallocs) {
  SmallVector<RegionOfStream> regions;
  for (Region &body : overlap.getBodies()) {
    hoistBuffers(rewriter, body);
    RegionOfStream &region = regions.emplace_back();
    region.communicates = communicates(body);
    for (Operation &op :
         llvm::make_early_inc_range(body.front().without_terminator()))
      if (auto dealloc = dyn_cast<memref::DeallocOp>(op))
        deallocs.push_back(dealloc);
      else if (mustBeOrdered(&op, region.ordered))
        region.ordered.push_back(&op);
      else
        rewriter.moveOpBefore(&op, overlap);
  }
  return regions;
}

/// Moves the launches and communication of `region` before `overlap`, to
/// `stream` if it is not null.
static void moveToStream(RewriterBase &rewriter, OverlapOp overlap,
                         const RegionOfStream &region, Value stream) {
  for (Operation *op : region.ordered) {
    rewriter.moveOpBefore(op, overlap);
    if (stream)
      op->walk([&](attn_tile::LaunchOp launch) {
        rewriter.modifyOpInPlace(
            launch, [&] { launch.getStreamMutable().assign(stream); });
      });
  }
}

/// Runs each region on a stream of its own. One of them is the caller's stream:
/// regions that communicate are on it, or else the first one. Communication
/// starts first, since kernels may leave it no room on the device.
static void lowerToStreams(RewriterBase &rewriter, OverlapOp overlap) {
  Location loc = overlap.getLoc();
  SmallVector<memref::DeallocOp> deallocs;
  SmallVector<RegionOfStream> regions =
      collectRegions(rewriter, overlap, deallocs);
  SmallVector<RegionOfStream *> inOrder;
  for (bool communicating : {true, false})
    for (RegionOfStream &region : regions)
      if (region.communicates == communicating)
        inOrder.push_back(&region);
  rewriter.setInsertionPoint(overlap);
  SmallVector<Value> streams;
  for (RegionOfStream *region : inOrder) {
    bool isOnStreamOfCaller = streams.empty() || region->communicates;
    streams.push_back(isOnStreamOfCaller
                          ? Value()
                          : attn_tile::ForkStreamOp::create(rewriter, loc));
  }
  for (auto [region, stream] : llvm::zip_equal(inOrder, streams))
    moveToStream(rewriter, overlap, *region, stream);
  rewriter.setInsertionPoint(overlap);
  for (Value stream : streams)
    if (stream)
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
