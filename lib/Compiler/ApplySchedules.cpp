//===- ApplySchedules.cpp - Run each schedule's kernel passes -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Asks the schedule attribute of each kernel for its passes and runs them. The
// pass knows nothing about particular schedules.
//
//===----------------------------------------------------------------------===//

#include "attn/Compiler/Passes.h"
#include "attn/Dialect/Attn/IR/AttnInterfaces.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/DebugLog.h"

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNAPPLYSCHEDULESPASS
#include "attn/Compiler/Passes.h.inc"
} // namespace mlir::attn

#define DEBUG_TYPE "attn-apply-schedules"

using namespace mlir;

/// Moves `launch` into a function of its own in `module`. Its operands become
/// the function's arguments.
static func::FuncOp outlineLaunch(attn_tile::LaunchOp launch, ModuleOp module,
                                  unsigned number) {
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  auto type = builder.getFunctionType(launch->getOperandTypes(), {});
  auto function = func::FuncOp::create(builder, launch.getLoc(),
                                       ("launch" + Twine(number)).str(), type);
  Block *entry = function.addEntryBlock();
  builder.setInsertionPointToStart(entry);
  IRMapping mapping;
  mapping.map(launch->getOperands(), entry->getArguments());
  builder.clone(*launch, mapping);
  func::ReturnOp::create(builder, launch.getLoc());
  return function;
}

/// Replaces `launch` by the body of `function`.
static void inlineLaunch(attn_tile::LaunchOp launch, func::FuncOp function) {
  IRMapping mapping;
  mapping.map(function.getArguments(), launch->getOperands());
  OpBuilder builder(launch);
  for (Operation &op : function.getBody().front().without_terminator())
    builder.clone(op, mapping);
  launch.erase();
}

/// Whether `kernel` writes nothing: static sizes leave it no work items.
static bool isEmpty(attn_tile::KernelOp kernel) {
  return llvm::all_of(kernel.getBody().getOps(),
                      [](Operation &op) { return isMemoryEffectFree(&op); });
}

/// The operations of `module` that use `kernel`.
static FailureOr<SmallVector<Operation *>> findUsers(attn_tile::KernelOp kernel,
                                                     ModuleOp module) {
  std::optional<SymbolTable::UseRange> uses =
      SymbolTable::getSymbolUses(kernel, module);
  if (!uses)
    return kernel.emitOpError("may have unknown uses");
  SmallVector<Operation *> users;
  for (SymbolTable::SymbolUse use : *uses) {
    if (!isa<attn_tile::LaunchOp>(use.getUser()))
      return use.getUser()->emitOpError("uses a kernel and is not a launch");
    users.push_back(use.getUser());
  }
  return users;
}

namespace {
struct AttnApplySchedulesPass
    : public attn::impl::AttnApplySchedulesPassBase<AttnApplySchedulesPass> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    llvm::MapVector<attn::ScheduleAttrInterface,
                    SmallVector<attn_tile::KernelOp>>
        groups;
    for (auto kernel :
         llvm::make_early_inc_range(module.getOps<attn_tile::KernelOp>())) {
      attn::ScheduleAttrInterface schedule = kernel.getScheduleAttr();
      if (!schedule) {
        kernel.emitOpError("has no schedule");
        return signalPassFailure();
      }
      LDBG() << "kernel " << kernel.getName() << " has schedule " << schedule
             << (isEmpty(kernel) ? ", and nothing to do" : "");
      if (isEmpty(kernel)) {
        FailureOr<SmallVector<Operation *>> users = findUsers(kernel, module);
        if (failed(users))
          return signalPassFailure();
        for (Operation *user : *users)
          user->erase();
        kernel.erase();
        continue;
      }
      groups[schedule].push_back(kernel);
    }
    for (auto &[schedule, kernels] : groups)
      if (failed(apply(schedule, kernels)))
        return signalPassFailure();
  }

  LogicalResult apply(attn::ScheduleAttrInterface schedule,
                      ArrayRef<attn_tile::KernelOp> kernels) {
    ModuleOp module = getOperation();
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    auto part = ModuleOp::create(builder, module.getLoc());

    SmallVector<std::pair<attn_tile::LaunchOp, func::FuncOp>> launches;
    for (attn_tile::KernelOp kernel : kernels) {
      FailureOr<SmallVector<Operation *>> users = findUsers(kernel, module);
      if (failed(users))
        return failure();
      kernel->moveBefore(part.getBody(), part.getBody()->end());
      for (Operation *user : *users) {
        auto launch = cast<attn_tile::LaunchOp>(user);
        launches.emplace_back(launch,
                              outlineLaunch(launch, part, launches.size()));
      }
    }

    OpPassManager passes(ModuleOp::getOperationName());
    schedule.buildKernelPipeline(passes);
    if (failed(runPipeline(passes, part)))
      return failure();

    for (auto [launch, function] : launches) {
      inlineLaunch(launch, function);
      function.erase();
    }
    for (Operation &op : llvm::make_early_inc_range(*part.getBody()))
      op.moveBefore(part);
    part.erase();
    return success();
  }
};
} // namespace
