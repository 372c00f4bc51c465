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
             .walk([](AttentionOp) { return WalkResult::interrupt(); })
             .wasInterrupted();
}

/// Checks that `function` is straight-line code of attention that writes
/// arguments nobody reads. Adds these arguments to `outputs`. Emits a remark
/// and fails if it is not.
static LogicalResult findOutputs(func::FuncOp function,
                                 llvm::SmallSetVector<Value, 2> &outputs) {
  if (!function.getBody().hasOneBlock())
    return function.emitRemark("no reference for control flow");
  if (function.getNumResults() != 0)
    return function.emitRemark("no reference for a function with results");
  for (Operation &op : function.front().without_terminator()) {
    auto attention = dyn_cast<AttentionOp>(op);
    if (!attention) {
      if (isMemoryEffectFree(&op) && op.getNumRegions() == 0)
        continue;
      return op.emitRemark() << "no reference for '" << op.getName() << "'";
    }
    if (!attention.isBufferized())
      return op.emitRemark("no reference for attention on tensors");
    for (Value init : attention.getDpsInits()) {
      if (!isa<BlockArgument>(init))
        return op.emitRemark(
            "no reference for an output that is not an argument");
      outputs.insert(init);
    }
  }
  for (Value output : outputs)
    for (OpOperand &use : output.getUses()) {
      auto attention = dyn_cast<AttentionOp>(use.getOwner());
      if (!attention || !attention.isDpsInit(&use))
        return use.getOwner()->emitRemark(
            "no reference for an output that is used");
    }
  return success();
}

/// Adds the reference of `function` after it.
static void makeReference(func::FuncOp function,
                          const llvm::SmallSetVector<Value, 2> &outputs,
                          StringRef name) {
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
    if (auto attention = dyn_cast<AttentionOp>(op))
      writeAttentionLoops(builder, attention, mapping,
                          body->getArguments().back());
    else
      builder.clone(op, mapping);
  }
  func::ReturnOp::create(builder, loc);
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
      makeReference(function, outputs, name);
      ++numReferences;
    }
  }
};
} // namespace
