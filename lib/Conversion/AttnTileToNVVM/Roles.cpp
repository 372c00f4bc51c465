//===- Roles.cpp - Roles of warpgroups and their ping-pong ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lowers roles to branches on the warpgroup, and ping-pong to named barriers.
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::attn;
using namespace mlir::attn_tile;

/// Named barrier of consumer warpgroup 0 for ping-pong; barrier 0 belongs to
/// the whole CTA.
static constexpr int64_t firstPingpongBarrier = 1;

/// `bar.sync` or `bar.arrive` on the ping-pong barrier of a warpgroup, on which
/// the warpgroup waits and its predecessor arrives.
static void emitPingpongBarrier(OpBuilder &builder, Location loc,
                                Value warpgroup, bool arrive) {
  Value id = emitAdd(builder, loc, warpgroup, firstPingpongBarrier);
  Value count = createI32(builder, loc, 2 * warpgroupSize);
  if (arrive)
    NVVM::BarrierArriveOp::create(builder, loc, id, count);
  else
    NVVM::BarrierOp::create(builder, loc, TypeRange{}, id, count,
                            /*reductionOp=*/nullptr,
                            /*reductionPredicate=*/nullptr);
}

namespace {
struct PingpongWaitLowering : public KernelPattern<PingpongWaitOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(PingpongWaitOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    emitPingpongBarrier(rewriter, op.getLoc(),
                        context.getPosition(rewriter, op).warpgroup,
                        /*arrive=*/false);
    rewriter.eraseOp(op);
    return success();
  }
};
} // namespace

/// The warpgroup after `warpgroup`, cyclically among `count`.
static Value emitNextWarpgroup(OpBuilder &builder, Location loc,
                               Value warpgroup, int64_t count) {
  Value next = emitAdd(builder, loc, warpgroup, 1);
  Value isLast = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                       next, createI32(builder, loc, count));
  return arith::SelectOp::create(builder, loc, isLast,
                                 createI32(builder, loc, 0), next);
}

namespace {
struct PingpongArriveLowering : public KernelPattern<PingpongArriveOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(PingpongArriveOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto role = op->getParentOfType<RoleOp>();
    if (!role)
      return rewriter.notifyMatchFailure(op, "not in a role");
    Location loc = op.getLoc();
    Value warpgroup = context.getPosition(rewriter, op).warpgroup;
    emitPingpongBarrier(
        rewriter, loc,
        emitNextWarpgroup(rewriter, loc, warpgroup, role.getWarpgroups()),
        /*arrive=*/true);
    rewriter.eraseOp(op);
    return success();
  }
};
} // namespace

void attn::populateRolePatterns(RewritePatternSet &patterns,
                                const TypeConverter &converter,
                                const KernelContext &context) {
  patterns.add<PingpongWaitLowering, PingpongArriveLowering>(
      converter, patterns.getContext(), context);
}

/// Frames the code of a ping-pong role. At its start the last warpgroup arrives
/// on the barrier of the first one; at its end the first one waits for the last
/// arrival.
static void emitPingpongFrame(OpBuilder &builder, Location loc, Value warpgroup,
                              int64_t first, int64_t count, bool atStart) {
  int64_t actor = atStart ? first + count - 1 : first;
  Value isActor =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, warpgroup,
                            createI32(builder, loc, actor));
  emitIf(builder, loc, isActor, [&](OpBuilder &inner) {
    emitPingpongBarrier(inner, loc, createI32(inner, loc, 0),
                        /*arrive=*/atStart);
  });
}

DenseMap<Operation *, IdleWarps> attn::getIdleWarps(KernelOp kernel) {
  IdleWarps idle;
  int64_t warps = 0;
  for (RoleOp role : kernel.getOps<RoleOp>()) {
    int64_t ofRole = role.getWarpgroups() * warpsPerWarpgroup;
    if (role.getKind() == RoleKind::Producer)
      idle = {warps + 1, ofRole - 1};
    warps += ofRole;
  }
  DenseMap<Operation *, IdleWarps> result;
  for (AuxiliaryWarpsOp auxiliary : kernel.getOps<AuxiliaryWarpsOp>()) {
    if (!auxiliary.getWarps())
      continue;
    auto count = static_cast<int64_t>(*auxiliary.getWarps());
    result[auxiliary] = {idle.first, std::min(count, idle.count)};
    idle = {idle.first + count, idle.count - count};
  }
  for (AuxiliaryWarpsOp auxiliary : kernel.getOps<AuxiliaryWarpsOp>())
    if (!auxiliary.getWarps())
      result[auxiliary] = idle;
  return result;
}

/// Moves the operations of `region` to the insertion point.
static void moveBody(OpBuilder &builder, Region &region) {
  builder.getInsertionBlock()->getOperations().splice(
      builder.getInsertionPoint(), region.front().getOperations());
}

/// Copies the operations of `region` to the insertion point.
static void copyBody(OpBuilder &builder, Region &region) {
  IRMapping map;
  for (Operation &op : region.front())
    builder.clone(op, map);
}

/// Emits the code of each idle warp of the producer.
static void emitIdleWarps(OpBuilder &builder, Location loc,
                          const KernelContext &context,
                          ArrayRef<AuxiliaryWarpsOp> auxiliaries) {
  for (AuxiliaryWarpsOp auxiliary : auxiliaries) {
    IdleWarps warps = context.idleWarps.lookup(auxiliary);
    Value place = emitAdd(builder, loc, context.warp, -warps.first);
    Value isIdle =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, place,
                              createI32(builder, loc, warps.count));
    emitIf(builder, loc, isIdle,
           [&](OpBuilder &inner) { copyBody(inner, auxiliary.getBody()); });
  }
}

void attn::lowerRoles(LLVM::LLVMFuncOp function, const KernelContext &context,
                      const DenseSet<Operation *> &pingpongRoles) {
  SmallVector<RoleOp> roles(function.getOps<RoleOp>());
  if (roles.empty())
    return;
  SmallVector<AuxiliaryWarpsOp> auxiliaries(
      function.getOps<AuxiliaryWarpsOp>());
  OpBuilder builder(roles.front());
  // Registers are allocated in units of eight for each thread.
  int64_t before = llvm::alignDown(context.target.getRegisters() /
                                       (context.ctasPerSm * context.numThreads),
                                   8);
  for (RoleOp role : roles) {
    Location loc = role.getLoc();
    int64_t first = context.firstWarpgroup.lookup(role);
    int64_t count = role.getWarpgroups();
    if (role != roles.back()) {
      Value inRole = emitLess(builder, loc, context.warpgroup,
                              createI32(builder, loc, first + count));
      auto ifOp = scf::IfOp::create(builder, loc, inRole, /*withElse=*/true);
      builder.setInsertionPoint(ifOp.thenYield());
    }
    scf::IfOp branch = role == roles.back()
                           ? nullptr
                           : cast<scf::IfOp>(builder.getBlock()->getParentOp());

    context.target.emitSetRegisters(builder, loc, role.getRegisters(), before);
    bool isPingpong = pingpongRoles.contains(role);
    if (isPingpong)
      emitPingpongFrame(builder, loc, context.warpgroup, first, count,
                        /*atStart=*/true);
    if (role.getKind() == RoleKind::Producer &&
        context.target.isProducerSingleThread()) {
      Value isFirst = arith::CmpIOp::create(
          builder, loc, arith::CmpIPredicate::eq, context.thread,
          createI32(builder, loc, first * warpgroupSize));
      emitIf(builder, loc, isFirst,
             [&](OpBuilder &inner) { moveBody(inner, role.getBody()); });
      emitIdleWarps(builder, loc, context, auxiliaries);
    } else {
      moveBody(builder, role.getBody());
      for (AuxiliaryWarpsOp auxiliary : auxiliaries)
        if (auxiliary.getJoined())
          copyBody(builder, auxiliary.getBody());
    }
    if (isPingpong)
      emitPingpongFrame(builder, loc, context.warpgroup, first, count,
                        /*atStart=*/false);
    if (branch)
      builder.setInsertionPoint(branch.elseYield());
    role.erase();
  }
  for (AuxiliaryWarpsOp auxiliary : auxiliaries)
    auxiliary.erase();
}
