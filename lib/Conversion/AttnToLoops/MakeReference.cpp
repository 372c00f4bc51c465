//===- MakeReference.cpp - f64 references of functions --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Adds to each public function of attention one that computes the same in f64,
// for any selection of rows.
//
//===----------------------------------------------------------------------===//

#include "attn/Conversion/AttnToLoops/AttnToLoops.h"
#include "attn/Conversion/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNMAKEREFERENCEPASS
#include "attn/Conversion/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;

/// Whether `function` has an attention that could have a reference.
static bool isCandidate(func::FuncOp function) {
  return function.isPublic() && !function.isExternal() &&
         function.getBody()
             .walk([](AttentionOpInterface) { return WalkResult::interrupt(); })
             .wasInterrupted();
}

/// The destination of `op`, if it fills a buffer of floats.
static Value getFilled(Operation *op) {
  auto fill = dyn_cast<linalg::FillOp>(op);
  if (!fill || !fill.hasPureBufferSemantics() ||
      !isa<FloatType>(fill.value().getType()))
    return {};
  return fill.output();
}

/// Whether `op` makes plans of masks, or the memory of plans: references do not
/// need them.
static bool isOfPlan(Operation *op) {
  Value buffer;
  if (auto plan = dyn_cast<PlanMaskOp>(op))
    return plan.getOut().getDefiningOp<memref::AllocOp>();
  if (auto alloc = dyn_cast<memref::AllocOp>(op))
    buffer = alloc;
  else if (auto dealloc = dyn_cast<memref::DeallocOp>(op))
    buffer = dealloc.getMemref();
  return buffer && llvm::all_of(buffer.getUses(), [](OpOperand &use) {
           auto attention = dyn_cast<AttentionOp>(use.getOwner());
           return isa<PlanMaskOp, memref::DeallocOp>(use.getOwner()) ||
                  (attention && attention.getPlan() == use.get());
         });
}

/// Checks that `function` is straight-line code of attention and fills that
/// write arguments which only later attention reads. Adds these arguments to
/// `outputs`. Emits a remark and fails if it is not.
static LogicalResult findOutputs(func::FuncOp function,
                                 llvm::SmallSetVector<Value, 2> &outputs) {
  if (!function.getBody().hasOneBlock())
    return function.emitRemark("no reference for control flow");
  if (function.getNumResults() != 0)
    return function.emitRemark("no reference for a function with results");
  for (Operation &op : function.front().without_terminator()) {
    if (isOfPlan(&op))
      continue;
    SmallVector<Value> written;
    if (auto attention = dyn_cast<AttentionOpInterface>(op)) {
      if (!attention.isBufferized())
        return op.emitRemark("no reference for attention on tensors");
      llvm::append_range(written, attention.getDpsInits());
    } else if (Value filled = getFilled(&op)) {
      written.push_back(filled);
    } else if (!isMemoryEffectFree(&op) || op.getNumRegions() != 0) {
      return op.emitRemark() << "no reference for '" << op.getName() << "'";
    }
    for (Value output : written) {
      if (!isa<BlockArgument>(output))
        return op.emitRemark(
            "no reference for an output that is not an argument");
      outputs.insert(output);
    }
  }
  for (Value output : outputs)
    for (Operation *user : output.getUsers())
      if (user->getBlock() != &function.front() ||
          (!isa<AttentionOpInterface>(user) && getFilled(user) != output))
        return user->emitRemark("no reference for an output that is used");
  return success();
}

/// Whether an operation reads what `attention` writes, all rows of which must
/// then be there.
static bool isRead(AttentionOpInterface attention) {
  return llvm::any_of(attention.getDpsInits(), [&](Value init) {
    return llvm::any_of(init.getUses(), [](OpOperand &use) {
      auto reader = dyn_cast<AttentionOpInterface>(use.getOwner());
      return reader && !reader.isDpsInit(&use);
    });
  });
}

/// Adds the reference of `function` after it.
static LogicalResult
makeReference(func::FuncOp function,
              const llvm::SmallSetVector<Value, 2> &outputs, StringRef name) {
  OpBuilder builder(function.getContext());
  builder.setInsertionPointAfter(function);
  Location loc = function.getLoc();

  SmallVector<Type> types;
  for (BlockArgument argument : function.getArguments()) {
    Type type = argument.getType();
    if (outputs.contains(argument))
      type = MemRefType::Builder(cast<MemRefType>(type))
                 .setElementType(builder.getF64Type());
    types.push_back(type);
  }
  types.push_back(builder.getIndexType());

  auto reference = cast<func::FuncOp>(builder.cloneWithoutRegions(function));
  reference.setName(name);
  reference.setPrivate();
  reference.setType(builder.getFunctionType(types, {}));
  if (ArrayAttr argAttrs = function.getArgAttrsAttr()) {
    SmallVector<Attribute> attrs(argAttrs.getValue());
    attrs.push_back(builder.getDictionaryAttr({}));
    reference.setArgAttrsAttr(builder.getArrayAttr(attrs));
  }

  SmallVector<Location> locs;
  for (BlockArgument argument : function.getArguments())
    locs.push_back(argument.getLoc());
  locs.push_back(loc);
  Block *body = builder.createBlock(&reference.getBody(), {}, types, locs);
  IRMapping mapping;
  mapping.map(function.getArguments(), body->getArguments().drop_back());
  for (Operation &op : function.front().without_terminator()) {
    if (auto attention = dyn_cast<AttentionOpInterface>(op)) {
      Value step = body->getArguments().back();
      if (isRead(attention))
        step = arith::ConstantIndexOp::create(builder, op.getLoc(), 1);
      if (failed(writeLoops(builder, attention, mapping, step)))
        return failure();
    } else if (Value filled = getFilled(&op)) {
      Value element = mapping.lookupOrDefault(cast<linalg::FillOp>(op).value());
      if (!element.getType().isF64())
        element = arith::ExtFOp::create(builder, op.getLoc(),
                                        builder.getF64Type(), element);
      linalg::FillOp::create(builder, op.getLoc(), element,
                             mapping.lookup(filled));
    } else if (!isOfPlan(&op)) {
      builder.clone(op, mapping);
    }
  }
  func::ReturnOp::create(builder, loc);
  return success();
}

namespace {
struct AttnMakeReferencePass
    : public attn::impl::AttnMakeReferencePassBase<AttnMakeReferencePass> {
  using Base::Base;

  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    SmallVector<func::FuncOp> functions(llvm::make_filter_range(
        getOperation().getOps<func::FuncOp>(), isCandidate));
    for (func::FuncOp function : functions) {
      std::string name = (function.getName() + "_reference").str();
      if (symbols.lookup(name)) {
        function.emitRemark()
            << "no reference because '" << name << "' exists already";
        continue;
      }
      llvm::SmallSetVector<Value, 2> outputs;
      if (failed(findOutputs(function, outputs)))
        continue;
      if (failed(makeReference(function, outputs, name)))
        return signalPassFailure();
      ++numReferences;
    }
  }
};
} // namespace
