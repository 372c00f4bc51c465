//===- OutlineParallel.cpp - Parallel loops through the runtime -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Turns the loop over work items into a function that the runtime library calls
// from its threads.
//
//===----------------------------------------------------------------------===//

#include "attn/Conversion/Passes.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNOUTLINEPARALLELPASS
#include "attn/Conversion/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;

/// The entry of the runtime library; attn-runtime/attn_runtime.h.
static constexpr StringLiteral parallelForName = "attnrtParallelFor";

namespace {
struct OutlineParallel
    : attn::impl::AttnOutlineParallelPassBase<OutlineParallel> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<scf::ForallOp> loops;
    getOperation().walk([&](scf::ForallOp op) {
      if (!op->getParentOfType<scf::ForallOp>())
        loops.push_back(op);
    });
    SymbolTable symbols(getOperation());
    LLVMTypeConverter converter(&getContext());
    for (scf::ForallOp loop : loops)
      if (failed(outline(loop, symbols, converter)))
        return signalPassFailure();
  }

private:
  LogicalResult outline(scf::ForallOp loop, SymbolTable &symbols,
                        const LLVMTypeConverter &converter);
  void declareRuntime(SymbolTable &symbols);
};

/// The values of the function around a loop that the loop uses.
struct LoopContext {
  /// The sizes of the loop.
  SmallVector<Value> sizes;
  /// Values that are computed again for each range of iterations.
  SmallVector<Value> constants;
  /// Values that are passed in the fields of a structure of `type`.
  SmallVector<Value> captures;
  LLVM::LLVMStructType type;

  Type getFieldType(size_t i) { return type.getBody()[i]; }
  /// The address of field `i` of the structure at `pointer`.
  Value emitFieldAddress(ImplicitLocOpBuilder &b, Value pointer, size_t i) {
    return LLVM::GEPOp::create(
        b, pointer.getType(), type, pointer,
        ArrayRef<LLVM::GEPArg>{0, static_cast<int32_t>(i)});
  }
};
} // namespace

void OutlineParallel::declareRuntime(SymbolTable &symbols) {
  if (symbols.lookup(parallelForName))
    return;
  OpBuilder builder(&getContext());
  Type pointer = LLVM::LLVMPointerType::get(&getContext());
  auto function = LLVM::LLVMFuncOp::create(
      builder, getOperation().getLoc(), parallelForName,
      LLVM::LLVMFunctionType::get(builder.getI32Type(),
                                  {builder.getI64Type(), pointer, pointer}));
  symbols.insert(function, getOperation().getBody()->begin());
}

/// Moves static allocations of `body`, the body of `loop`, out of the loop.
static void hoistBuffers(Block &body, Operation *loop) {
  for (Operation &op : llvm::make_early_inc_range(body.without_terminator()))
    if (isa<memref::AllocaOp>(op) && op.getNumOperands() == 0)
      op.moveBefore(loop);
}

/// Finds the values that `loop` uses. Upper bounds are computed outside of the
/// loop; inside, they delinearize the iteration number.
static FailureOr<LoopContext> getContext(ImplicitLocOpBuilder &b,
                                         scf::ForallOp loop,
                                         const LLVMTypeConverter &converter) {
  LoopContext context;
  context.sizes =
      getValueOrCreateConstantIndexOp(b, b.getLoc(), loop.getMixedUpperBound());
  SetVector<Value> used(context.sizes.begin(), context.sizes.end());
  getUsedValuesDefinedAbove(loop->getRegions(), used);
  SmallVector<Type> fields;
  for (Value value : used) {
    if (matchPattern(value, m_Constant())) {
      context.constants.push_back(value);
      continue;
    }
    Type field = converter.convertType(value.getType());
    if (!field)
      return loop.emitOpError("uses a value of type ")
             << value.getType() << " that cannot be passed to a thread";
    context.captures.push_back(value);
    fields.push_back(field);
  }
  context.type = LLVM::LLVMStructType::getLiteral(b.getContext(), fields);
  return context;
}

/// Writes the body of `function`, which runs the iterations of `loop` from its
/// first argument to its second one; the third one points to the captures.
static void writeIterations(ImplicitLocOpBuilder &b, func::FuncOp function,
                            scf::ForallOp loop, LoopContext &context) {
  Block *entry = function.addEntryBlock();
  IRMapping mapping;
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(entry);
  for (Value constant : context.constants)
    b.clone(*constant.getDefiningOp(), mapping);
  for (auto [i, capture] : llvm::enumerate(context.captures)) {
    Value address = context.emitFieldAddress(b, entry->getArgument(2), i);
    Value field = LLVM::LoadOp::create(b, context.getFieldType(i), address);
    if (field.getType() != capture.getType())
      field = UnrealizedConversionCastOp::create(b, capture.getType(), field)
                  .getResult(0);
    mapping.map(capture, field);
  }
  Value begin =
      arith::IndexCastOp::create(b, b.getIndexType(), entry->getArgument(0));
  Value end =
      arith::IndexCastOp::create(b, b.getIndexType(), entry->getArgument(1));
  Value one = arith::ConstantIndexOp::create(b, 1);
  auto items = scf::ForOp::create(b, begin, end, one);
  func::ReturnOp::create(b);

  b.setInsertionPointToStart(items.getBody());
  Value rest = items.getInductionVar();
  SmallVector<Value> ids(context.sizes.size());
  for (size_t i = ids.size(); i-- > 1;) {
    Value size = mapping.lookup(context.sizes[i]);
    ids[i] = arith::RemUIOp::create(b, rest, size);
    rest = arith::DivUIOp::create(b, rest, size);
  }
  ids[0] = rest;
  mapping.map(loop.getInductionVars(), ids);
  for (Operation &op : loop.getBody()->without_terminator())
    b.clone(op, mapping);
  hoistBuffers(*items.getBody(), items);
}

/// Emits the call of the runtime that distributes the iterations over threads,
/// which call `function`; `attn-return-statuses` returns its status.
static void emitParallelCall(ImplicitLocOpBuilder &b, func::FuncOp function,
                             LoopContext &context) {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  Value one = arith::ConstantIntOp::create(b, 1, 64);
  Value count = context.sizes.front();
  for (Value size : ArrayRef<Value>(context.sizes).drop_front())
    count = arith::MulIOp::create(b, count, size);
  count = arith::IndexCastOp::create(b, b.getI64Type(), count);
  Value captures = LLVM::AllocaOp::create(b, pointer, context.type, one);
  for (auto [i, capture] : llvm::enumerate(context.captures)) {
    Value field = capture;
    if (field.getType() != context.getFieldType(i))
      field =
          UnrealizedConversionCastOp::create(b, context.getFieldType(i), field)
              .getResult(0);
    LLVM::StoreOp::create(b, field, context.emitFieldAddress(b, captures, i));
  }
  Value callee = func::ConstantOp::create(b, function.getFunctionType(),
                                          SymbolRefAttr::get(function));
  callee = UnrealizedConversionCastOp::create(b, pointer, callee).getResult(0);
  LLVM::CallOp::create(b, TypeRange{b.getI32Type()},
                       SymbolRefAttr::get(b.getContext(), parallelForName),
                       ValueRange{count, callee, captures});
}

LogicalResult OutlineParallel::outline(scf::ForallOp loop, SymbolTable &symbols,
                                       const LLVMTypeConverter &converter) {
  auto parent = loop->getParentOfType<func::FuncOp>();
  if (!parent || loop.getNumResults() != 0)
    return loop.emitOpError("must be in a function and have no results");
  if (!loop.isNormalized())
    return loop.emitOpError("must count from 0 in steps of 1");
  ImplicitLocOpBuilder b(loop.getLoc(), loop);
  FailureOr<LoopContext> context = ::getContext(b, loop, converter);
  if (failed(context))
    return failure();
  declareRuntime(symbols);

  Type pointer = LLVM::LLVMPointerType::get(&getContext());
  auto function = func::FuncOp::create(
      b.getLoc(), (parent.getName() + "_work_items").str(),
      b.getFunctionType({b.getI64Type(), b.getI64Type(), pointer}, {}));
  function.setPrivate();
  symbols.insert(function, Block::iterator(parent));
  writeIterations(b, function, loop, *context);
  emitParallelCall(b, function, *context);
  loop.erase();
  return success();
}
