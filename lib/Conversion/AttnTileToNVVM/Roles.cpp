//===- Roles.cpp - Roles of warpgroups and their turns --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lowers roles to branches on the warpgroup, and turns to named barriers.
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::attn;
using namespace mlir::attn_tile;

/// Named barrier of the turn of warpgroup 0 of the consumers; barrier 0 is that
/// of the whole group.
static constexpr int64_t firstTurnBarrier = 1;

/// `bar.sync` or `bar.arrive` on the barrier of a warpgroup's turn, which the
/// warpgroup and its predecessor share.
static void emitTurnBarrier(OpBuilder &builder, Location loc, Value warpgroup,
                            bool arrive) {
  Value id = emitAdd(builder, loc, warpgroup, firstTurnBarrier);
  Value count = createI32(builder, loc, 2 * warpgroupSize);
  if (arrive)
    NVVM::BarrierArriveOp::create(builder, loc, id, count);
  else
    NVVM::BarrierOp::create(builder, loc, TypeRange{}, id, count,
                            /*reductionOp=*/nullptr,
                            /*reductionPredicate=*/nullptr);
}

namespace {
struct AwaitTurnLowering : public KernelPattern<AwaitTurnOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(AwaitTurnOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    emitTurnBarrier(rewriter, op.getLoc(),
                    context.getPosition(rewriter, op).warpgroup,
                    /*arrive=*/false);
    rewriter.eraseOp(op);
    return success();
  }
};
} // namespace

/// The warpgroup after `warpgroup`, of `count`.
static Value emitNextWarpgroup(OpBuilder &builder, Location loc,
                               Value warpgroup, int64_t count) {
  Value next = emitAdd(builder, loc, warpgroup, 1);
  Value isLast = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                       next, createI32(builder, loc, count));
  return arith::SelectOp::create(builder, loc, isLast,
                                 createI32(builder, loc, 0), next);
}

namespace {
struct PassTurnLowering : public KernelPattern<PassTurnOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(PassTurnOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto role = op->getParentOfType<RoleOp>();
    if (!role)
      return rewriter.notifyMatchFailure(op, "not in a role");
    Location loc = op.getLoc();
    Value warpgroup = context.getPosition(rewriter, op).warpgroup;
    emitTurnBarrier(
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
  patterns.add<AwaitTurnLowering, PassTurnLowering>(
      converter, patterns.getContext(), context);
}

/// Puts the code of a role that takes turns between what gives the first turn
/// to its first warpgroup and what takes up the turn that is passed last.
static void emitTurnFrame(OpBuilder &builder, Location loc, Value warpgroup,
                          int64_t first, int64_t count, bool atStart) {
  int64_t actor = atStart ? first + count - 1 : first;
  Value isActor =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, warpgroup,
                            createI32(builder, loc, actor));
  emitIf(builder, loc, isActor, [&](OpBuilder &inner) {
    emitTurnBarrier(inner, loc, createI32(inner, loc, 0), /*arrive=*/atStart);
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
  for (BesideOp beside : kernel.getOps<BesideOp>()) {
    if (!beside.getWarps())
      continue;
    auto count = static_cast<int64_t>(*beside.getWarps());
    result[beside] = {idle.first, std::min(count, idle.count)};
    idle = {idle.first + count, idle.count - count};
  }
  for (BesideOp beside : kernel.getOps<BesideOp>())
    if (!beside.getWarps())
      result[beside] = idle;
  return result;
}

void attn::lowerRoles(LLVM::LLVMFuncOp function, const KernelContext &context,
                      const DenseSet<Operation *> &takingTurns) {
  SmallVector<RoleOp> roles(function.getOps<RoleOp>());
  if (roles.empty())
    return;
  SmallVector<BesideOp> besides(function.getOps<BesideOp>());
  OpBuilder builder(roles.front());
  // The register file is handed out in units of eight registers a thread.
  int64_t before = llvm::alignDown(
      context.target.getRegisters() / (context.groups * context.numThreads), 8);
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
    bool takesTurns = takingTurns.contains(role);
    if (takesTurns)
      emitTurnFrame(builder, loc, context.warpgroup, first, count,
                    /*atStart=*/true);
    auto move = [](OpBuilder &inner, Region &region) {
      inner.getInsertionBlock()->getOperations().splice(
          inner.getInsertionPoint(), region.front().getOperations());
    };
    auto copy = [](OpBuilder &inner, Region &region) {
      IRMapping map;
      for (Operation &op : region.front())
        inner.clone(op, map);
    };
    auto moveBody = [&](OpBuilder &inner) { move(inner, role.getBody()); };
    if (role.getKind() == RoleKind::Producer &&
        context.target.isProducerSingleThread()) {
      Value isFirst = arith::CmpIOp::create(
          builder, loc, arith::CmpIPredicate::eq, context.thread,
          createI32(builder, loc, first * warpgroupSize));
      emitIf(builder, loc, isFirst, moveBody);
      for (BesideOp beside : besides) {
        IdleWarps warps = context.idleWarps.lookup(beside);
        Value place = emitAdd(builder, loc, context.warp, -warps.first);
        Value isIdle =
            arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult,
                                  place, createI32(builder, loc, warps.count));
        emitIf(builder, loc, isIdle,
               [&](OpBuilder &inner) { copy(inner, beside.getBody()); });
      }
    } else {
      moveBody(builder);
      for (BesideOp beside : besides)
        if (beside.getJoined())
          copy(builder, beside.getBody());
    }
    if (takesTurns)
      emitTurnFrame(builder, loc, context.warpgroup, first, count,
                    /*atStart=*/false);
    if (branch)
      builder.setInsertionPoint(branch.elseYield());
    role.erase();
  }
  for (BesideOp beside : besides)
    beside.erase();
}
