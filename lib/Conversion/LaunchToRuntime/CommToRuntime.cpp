//===- CommToRuntime.cpp - Communication becomes runtime calls ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Converts operations by which ranks communicate, on memrefs of the host, to
// calls of the runtime library. It takes sizes and addresses with memref
// operations, so that the result is valid at any later stage of the lowering to
// LLVM.
//
//===----------------------------------------------------------------------===//

#include "attn/Conversion/LaunchToRuntime/RuntimeCalls.h"
#include "attn/Conversion/Passes.h"
#include "attn/Dialect/Attn/IR/AttnCommOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mlir::attn {
#define GEN_PASS_DEF_CONVERTCOMMTORUNTIMEPASS
#include "attn/Conversion/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;

namespace {
/// Converts the operations of one module.
class CommConverter {
public:
  explicit CommConverter(ModuleOp module)
      : module(module), builder(module.getContext()), i64(builder.getI64Type()),
        pointer(LLVM::LLVMPointerType::get(module.getContext())) {}

  void convert(CommRankOp op);
  void convert(SendRecvOp op);
  void convert(AllGatherOp op) { convertCollective(op, "attnrtCommAllGather"); }
  void convert(AllToAllOp op) { convertCollective(op, "attnrtCommAllToAll"); }

private:
  /// Converts an operation whose destination has a part for each rank.
  template <typename OpTy>
  void convertCollective(OpTy op, StringRef function);

  /// The address of the first element of a memref with the identity layout.
  Value emitAddress(Value memref);
  /// The size of dimension `dim`, and of dimensions from `firstDim` on in
  /// bytes.
  Value emitSize(Value memref, int64_t dim);
  Value emitBytes(Value memref, int64_t firstDim);
  Value emitI64(Value index) {
    return arith::IndexCastOp::create(builder, loc, i64, index);
  }
  Value emitNull() { return LLVM::ZeroOp::create(builder, loc, pointer); }
  void emitCall(StringRef function, ValueRange arguments) {
    emitRuntimeCall(builder, loc, module, function, arguments);
  }
  void start(Operation *op) {
    builder.setInsertionPoint(op);
    loc = op->getLoc();
  }

  ModuleOp module;
  OpBuilder builder;
  Location loc = UnknownLoc::get(builder.getContext());
  Type i64, pointer;
};
} // namespace

Value CommConverter::emitAddress(Value memref) {
  Value address =
      memref::ExtractAlignedPointerAsIndexOp::create(builder, loc, memref);
  return LLVM::IntToPtrOp::create(builder, loc, pointer, emitI64(address));
}

Value CommConverter::emitSize(Value memref, int64_t dim) {
  auto type = cast<MemRefType>(memref.getType());
  if (!type.isDynamicDim(dim))
    return emitIntConstant(builder, loc, i64, type.getDimSize(dim));
  return emitI64(memref::DimOp::create(builder, loc, memref, dim));
}

Value CommConverter::emitBytes(Value memref, int64_t firstDim) {
  auto type = cast<MemRefType>(memref.getType());
  int64_t bytes = type.getElementTypeBitWidth() / 8;
  Value dynamic;
  for (int64_t dim = firstDim; dim < type.getRank(); ++dim) {
    if (!type.isDynamicDim(dim)) {
      bytes *= type.getDimSize(dim);
      continue;
    }
    Value size = emitSize(memref, dim);
    dynamic =
        dynamic ? arith::MulIOp::create(builder, loc, dynamic, size) : size;
  }
  Value total = emitIntConstant(builder, loc, i64, bytes);
  return dynamic ? arith::MulIOp::create(builder, loc, dynamic, total) : total;
}

void CommConverter::convert(CommRankOp op) {
  start(op);
  Value slot;
  {
    OpBuilder::InsertionGuard guard(builder);
    Block &entry = op->getParentOfType<func::FuncOp>().getBody().front();
    builder.setInsertionPointToStart(&entry);
    slot = LLVM::AllocaOp::create(
        builder, loc, pointer, i64,
        emitIntConstant(builder, loc, builder.getI32Type(), 1));
  }
  // A call that fails leaves rank 0.
  LLVM::StoreOp::create(builder, loc, emitIntConstant(builder, loc, i64, 0),
                        slot);
  emitCall("attnrtCommRank",
           {emitIntConstant(builder, loc, i64, op.getRanks()), slot});
  Value rank = LLVM::LoadOp::create(builder, loc, i64, slot);
  op.replaceAllUsesWith(
      arith::IndexCastOp::create(builder, loc, builder.getIndexType(), rank)
          .getResult());
  op.erase();
}

void CommConverter::convert(SendRecvOp op) {
  start(op);
  emitCall("attnrtCommSendRecv",
           {emitAddress(op.getSent()), emitBytes(op.getSent(), 0),
            emitI64(op.getTo()), emitAddress(op.getReceived()),
            emitBytes(op.getReceived(), 0), emitI64(op.getFrom()), emitNull()});
  op.erase();
}

template <typename OpTy>
void CommConverter::convertCollective(OpTy op, StringRef function) {
  start(op);
  Value received = op.getReceived();
  emitCall(function,
           {emitAddress(op.getSent()), emitAddress(received),
            emitSize(received, 0), emitBytes(received, 1), emitNull()});
  op.erase();
}

namespace {
struct ConvertCommToRuntimePass
    : attn::impl::ConvertCommToRuntimePassBase<ConvertCommToRuntimePass> {
  using Base::Base;

  void runOnOperation() override {
    CommConverter converter(getOperation());
    WalkResult walk = getOperation().walk([&](Operation *op) -> WalkResult {
      if (!op->hasTrait<Communicates>())
        return WalkResult::advance();
      if (llvm::any_of(op->getOperandTypes(), llvm::IsaPred<TensorType>))
        return op->emitOpError("must be bufferised");
      if (!op->getParentOfType<func::FuncOp>())
        return op->emitOpError("must be in a function");
      llvm::TypeSwitch<Operation *>(op)
          .Case<CommRankOp, SendRecvOp, AllGatherOp, AllToAllOp>(
              [&](auto comm) { converter.convert(comm); });
      return WalkResult::advance();
    });
    if (walk.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace
