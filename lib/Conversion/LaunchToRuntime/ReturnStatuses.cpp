//===- ReturnStatuses.cpp - Statuses of runtime calls ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Host functions return the status of the first runtime call that fails, and
// afterwards make no call that can fail. Control flow stays structured, and
// every buffer is freed where it was before.
//
//===----------------------------------------------------------------------===//

#include "attn/Conversion/LaunchToRuntime/RuntimeCalls.h"
#include "attn/Conversion/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNRETURNSTATUSESPASS
#include "attn/Conversion/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;

/// Whether `op` calls the runtime library and nothing looks at the status.
static bool dropsStatus(Operation *op) {
  auto call = dyn_cast<LLVM::CallOp>(op);
  return call && call.getCallee() &&
         call.getCallee()->starts_with(runtimeFunctionPrefix) &&
         call->getNumResults() == 1 &&
         call.getResult().getType().isInteger(32) && call->use_empty();
}

namespace {
/// Changes one function that makes calls that can fail.
class StatusReturner {
public:
  explicit StatusReturner(func::FuncOp func)
      : func(func), builder(func.getContext()), loc(func.getLoc()) {}

  /// `calls` are the calls of `func` that can fail, in any order.
  LogicalResult run(ArrayRef<Operation *> calls);

private:
  /// Makes `op` conditional on no earlier failure, and records its status.
  void guard(Operation *op);

  /// Emits `op` and returns its status. `results` gets the results of `op`.
  Value emitCall(Operation *op, SmallVectorImpl<Value> &results);

  func::FuncOp func;
  OpBuilder builder;
  Location loc;
  /// Holds the status of the first call that failed, or 0.
  Value slot;
};
} // namespace

Value StatusReturner::emitCall(Operation *op, SmallVectorImpl<Value> &results) {
  auto call = dyn_cast<func::CallOp>(op);
  if (!call)
    return builder.clone(*op)->getResult(0);
  SmallVector<Type> types{builder.getI32Type()};
  llvm::append_range(types, call.getResultTypes());
  auto created = func::CallOp::create(builder, op->getLoc(), call.getCallee(),
                                      types, call.getOperands());
  llvm::append_range(results, created.getResults().drop_front());
  return created.getResult(0);
}

void StatusReturner::guard(Operation *op) {
  builder.setInsertionPoint(op);
  // A runtime call that is guarded has no use.
  bool hasResults = isa<func::CallOp>(op) && op->getNumResults() != 0;
  TypeRange types = hasResults ? TypeRange(op->getResultTypes()) : TypeRange();
  Value status = memref::LoadOp::create(builder, op->getLoc(), slot);
  Value zero = arith::ConstantIntOp::create(builder, op->getLoc(), 0, 32);
  Value isOk = arith::CmpIOp::create(builder, op->getLoc(),
                                     arith::CmpIPredicate::eq, status, zero);
  auto branch = scf::IfOp::create(builder, op->getLoc(), types, isOk,
                                  /*withElseRegion=*/hasResults);
  {
    OpBuilder::InsertionGuard insertion(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    SmallVector<Value> results;
    Value called = emitCall(op, results);
    memref::StoreOp::create(builder, op->getLoc(), called, slot);
    if (hasResults) {
      scf::YieldOp::create(builder, op->getLoc(), results);
      builder.setInsertionPointToStart(branch.elseBlock());
      results.clear();
      for (Type type : types)
        results.push_back(ub::PoisonOp::create(builder, op->getLoc(), type));
      scf::YieldOp::create(builder, op->getLoc(), results);
    }
  }
  if (hasResults)
    op->replaceAllUsesWith(branch);
  op->erase();
}

LogicalResult StatusReturner::run(ArrayRef<Operation *> calls) {
  builder.setInsertionPointToStart(&func.getBody().front());
  slot = memref::AllocaOp::create(builder, loc,
                                  MemRefType::get({}, builder.getI32Type()));
  Value zero = arith::ConstantIntOp::create(builder, loc, 0, 32);
  memref::StoreOp::create(builder, loc, zero, slot);
  for (Operation *op : calls)
    guard(op);
  func.walk([&](func::ReturnOp op) {
    builder.setInsertionPoint(op);
    Value status = memref::LoadOp::create(builder, op.getLoc(), slot);
    op->insertOperands(0, status);
  });
  return func.insertResult(0, builder.getI32Type(), {});
}

namespace {
struct AttnReturnStatusesPass
    : attn::impl::AttnReturnStatusesPassBase<AttnReturnStatusesPass> {
  using Base::Base;

  void runOnOperation() override;

private:
  /// The calls of each function that can fail. Functions that have such calls
  /// can fail themselves.
  llvm::MapVector<Operation *, SmallVector<Operation *>> findCalls();

  /// Functions whose address is taken must keep their signature.
  LogicalResult verifyNotReferenced(func::ConstantOp op);

  llvm::MapVector<Operation *, SmallVector<Operation *>> failing;
};
} // namespace

llvm::MapVector<Operation *, SmallVector<Operation *>>
AttnReturnStatusesPass::findCalls() {
  ModuleOp module = getOperation();
  SymbolTable symbols(module);
  llvm::MapVector<Operation *, SmallVector<Operation *>> calls;
  llvm::DenseMap<Operation *, SmallVector<func::CallOp>> callers;
  SmallVector<Operation *> worklist;
  auto addCall = [&](Operation *op) {
    Operation *function = op->getParentOfType<func::FuncOp>();
    if (!function)
      return;
    auto [it, isNew] = calls.try_emplace(function);
    it->second.push_back(op);
    if (isNew)
      worklist.push_back(function);
  };
  module.walk([&](Operation *op) {
    if (auto call = dyn_cast<func::CallOp>(op))
      callers[symbols.lookup(call.getCallee())].push_back(call);
    else if (dropsStatus(op))
      addCall(op);
  });
  while (!worklist.empty())
    for (func::CallOp call : callers.lookup(worklist.pop_back_val()))
      addCall(call);
  return calls;
}

LogicalResult AttnReturnStatusesPass::verifyNotReferenced(func::ConstantOp op) {
  Operation *function = getOperation().lookupSymbol(op.getValueAttr());
  auto *it = failing.find(function);
  if (it == failing.end())
    return success();
  InFlightDiagnostic diag = it->second.front()->emitOpError(
      "can fail, but iterations of parallel loops cannot return its status");
  diag.attachNote(op.getLoc()) << "the loop runs here";
  return diag;
}

void AttnReturnStatusesPass::runOnOperation() {
  failing = findCalls();
  WalkResult verified = getOperation().walk([&](func::ConstantOp op) {
    return failed(verifyNotReferenced(op)) ? WalkResult::interrupt()
                                           : WalkResult::advance();
  });
  if (verified.wasInterrupted())
    return signalPassFailure();
  for (auto &[function, calls] : failing)
    if (failed(StatusReturner(cast<func::FuncOp>(function)).run(calls)))
      return signalPassFailure();
}
