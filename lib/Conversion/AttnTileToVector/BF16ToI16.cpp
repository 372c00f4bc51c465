//===- BF16ToI16.cpp - Move bf16 as integers ------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// LLVM keeps scalars of bf16 as f32 on processors with AVX512-BF16, and rounds
// them back by an instruction that flushes subnormal numbers (vcvtneps2bf16).
// Code for the host computes in f32 and converts by integers, so that bf16 is
// only loaded, stored and selected: i16 does it without a rounding.
//
//===----------------------------------------------------------------------===//

#include "attn/Conversion/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/TypeUtilities.h"

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNBF16TOI16PASS
#include "attn/Conversion/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;

/// i16 for bf16, a vector of i16 for a vector of bf16; null for other types.
static Type getIntegerType(Type type) {
  if (!getElementTypeOrSelf(type).isBF16())
    return Type();
  Type i16 = IntegerType::get(type.getContext(), 16);
  if (auto vector = dyn_cast<VectorType>(type))
    return vector.clone(i16);
  return type.isBF16() ? i16 : Type();
}

/// Whether `op` moves values, and asks nothing of their type.
static bool isMove(Operation *op) {
  return isa<LLVM::LoadOp, LLVM::StoreOp, LLVM::ConstantOp, LLVM::ZeroOp,
             LLVM::UndefOp, LLVM::PoisonOp, LLVM::BitcastOp, LLVM::SelectOp,
             LLVM::InsertElementOp, LLVM::ExtractElementOp,
             LLVM::ShuffleVectorOp, LLVM::vector_insert, LLVM::vector_extract,
             LLVM::MaskedLoadOp, LLVM::MaskedStoreOp, LLVM::masked_gather,
             LLVM::masked_scatter, LLVM::masked_expandload,
             LLVM::masked_compressstore>(op) ||
         isa<BranchOpInterface>(op);
}

/// The constant with the same bits.
static Attribute getBits(Attribute value, Type type) {
  if (auto number = dyn_cast<FloatAttr>(value))
    return IntegerAttr::get(getElementTypeOrSelf(type),
                            number.getValue().bitcastToAPInt());
  auto elements = cast<DenseFPElementsAttr>(value);
  return elements.mapValues(
      getElementTypeOrSelf(type),
      [](const APFloat &number) { return number.bitcastToAPInt(); });
}

/// Makes the results of moves, and the arguments of blocks that they branch to,
/// integers.
static void convertMoves(LLVM::LLVMFuncOp function,
                         ArrayRef<Operation *> moves) {
  auto convert = [](auto values) {
    for (Value value : values)
      if (Type type = getIntegerType(value.getType()))
        value.setType(type);
  };
  for (Block &block : llvm::drop_begin(function))
    convert(block.getArguments());
  for (Operation *op : moves) {
    auto constant = dyn_cast<LLVM::ConstantOp>(op);
    if (Type type = constant ? getIntegerType(constant.getType()) : Type())
      constant.setValueAttr(getBits(constant.getValue(), type));
    convert(op->getResults());
  }
}

/// Lets the users of `values`, which remain floats, have integers.
static void castValues(OpBuilder &b, Location loc, ValueRange values) {
  for (Value value : values)
    if (Type type = getIntegerType(value.getType())) {
      auto cast = LLVM::BitcastOp::create(b, loc, type, value);
      value.replaceAllUsesExcept(cast, cast);
    }
}

static void convertFunction(LLVM::LLVMFuncOp function) {
  SmallVector<Operation *> moves, others;
  SmallVector<std::pair<OpOperand *, Type>> operands;
  function.getBody().walk([&](Operation *op) {
    if (isMove(op)) {
      moves.push_back(op);
      return;
    }
    others.push_back(op);
    for (OpOperand &operand : op->getOpOperands())
      if (getIntegerType(operand.get().getType()))
        operands.push_back({&operand, operand.get().getType()});
  });
  convertMoves(function, moves);

  OpBuilder b = OpBuilder::atBlockBegin(&function.front());
  castValues(b, function.getLoc(), function.getArguments());
  for (Operation *op : others) {
    b.setInsertionPointAfter(op);
    castValues(b, op->getLoc(), op->getResults());
  }
  for (auto [operand, type] : operands) {
    Operation *op = operand->getOwner();
    b.setInsertionPoint(op);
    operand->set(
        LLVM::BitcastOp::create(b, op->getLoc(), type, operand->get()));
  }
}

namespace {
struct BF16ToI16 : attn::impl::AttnBF16ToI16PassBase<BF16ToI16> {
  void runOnOperation() override {
    if (!getOperation().isExternal())
      convertFunction(getOperation());
  }
};
} // namespace
