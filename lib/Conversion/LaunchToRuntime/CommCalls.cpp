//===- CommCalls.cpp - Calls of communication -----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Takes sizes and addresses with memref operations, so that calls are valid at
// any later stage of the lowering to LLVM.
//
//===----------------------------------------------------------------------===//

#include "attn/Conversion/LaunchToRuntime/CommCalls.h"
#include "attn-runtime/attn_comm.h"
#include "attn/Conversion/LaunchToRuntime/RuntimeCalls.h"
#include "attn/Dialect/Attn/IR/AttnCommOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::attn;

namespace {
/// Converts one operation. Functions return the status of the call.
class CommConverter {
public:
  CommConverter(OpBuilder &builder, ModuleOp module, Location loc, Value stream)
      : module(module), builder(builder), loc(loc), stream(stream),
        i64(builder.getI64Type()),
        pointer(LLVM::LLVMPointerType::get(module.getContext())) {}

  Value convert(CommRankOp op);
  Value convert(SendRecvOp op);
  Value convert(AllGatherOp op) {
    return convertCollective(op, "attnrtCommAllGather");
  }
  Value convert(AllToAllOp op) {
    return convertCollective(op, "attnrtCommAllToAll");
  }

private:
  /// Converts an operation whose destination has a part for each rank.
  template <typename OpTy>
  Value convertCollective(OpTy op, StringRef function);

  /// The address of the first element of a memref with the identity layout.
  Value emitAddress(Value memref);
  /// The size of dimension `dim`, and of dimensions from `firstDim` on in
  /// bytes.
  Value emitSize(Value memref, int64_t dim);
  Value emitBytes(Value memref, int64_t firstDim);
  Value emitI64(Value index) {
    return arith::IndexCastOp::create(builder, loc, i64, index);
  }
  Value emitStream();
  Value emitCall(StringRef function, ValueRange arguments) {
    return emitRuntimeCall(builder, loc, module, function, arguments);
  }

  ModuleOp module;
  OpBuilder &builder;
  Location loc;
  Value stream;
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

/// The stream as the runtime takes it: null stands for memory of the host.
Value CommConverter::emitStream() {
  Value null = LLVM::ZeroOp::create(builder, loc, pointer);
  if (!stream)
    return null;
  Value isLegacy =
      LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::eq, stream, null);
  Value legacy = LLVM::IntToPtrOp::create(
      builder, loc, pointer,
      emitIntConstant(builder, loc, i64, ATTN_COMM_LEGACY_STREAM));
  return LLVM::SelectOp::create(builder, loc, isLegacy, legacy, stream);
}

Value CommConverter::convert(CommRankOp op) {
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
  Value status =
      emitCall("attnrtCommRank",
               {emitIntConstant(builder, loc, i64, op.getRanks()), slot});
  Value rank = LLVM::LoadOp::create(builder, loc, i64, slot);
  op.replaceAllUsesWith(
      arith::IndexCastOp::create(builder, loc, builder.getIndexType(), rank)
          .getResult());
  return status;
}

Value CommConverter::convert(SendRecvOp op) {
  Value sent = emitAddress(op.getSent());
  Value sentBytes = emitBytes(op.getSent(), 0);
  Value to = emitI64(op.getTo());
  Value received = emitAddress(op.getReceived());
  Value receivedBytes = emitBytes(op.getReceived(), 0);
  Value from = emitI64(op.getFrom());
  return emitCall("attnrtCommSendRecv", {sent, sentBytes, to, received,
                                         receivedBytes, from, emitStream()});
}

template <typename OpTy>
Value CommConverter::convertCollective(OpTy op, StringRef function) {
  Value sent = emitAddress(op.getSent());
  Value received = emitAddress(op.getReceived());
  Value ranks = emitSize(op.getReceived(), 0);
  Value bytes = emitBytes(op.getReceived(), 1);
  return emitCall(function, {sent, received, ranks, bytes, emitStream()});
}

Value attn::convertToCommCall(OpBuilder &builder, ModuleOp module,
                              Operation *op, Value stream) {
  builder.setInsertionPoint(op);
  CommConverter converter(builder, module, op->getLoc(), stream);
  Value status = llvm::TypeSwitch<Operation *, Value>(op)
                     .Case<CommRankOp, SendRecvOp, AllGatherOp, AllToAllOp>(
                         [&](auto comm) { return converter.convert(comm); });
  builder.setInsertionPointAfter(op);
  op->erase();
  return status;
}
