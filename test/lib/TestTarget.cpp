//===- TestTarget.cpp - A target whose instructions are their names -------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A GPU architecture that emits a line of assembly with the name of each method
// that the compiler calls. It has no optional capability.
//
//===----------------------------------------------------------------------===//

#include "TestAttn.h"
#include "attn/Target/TargetInfo.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace mlir::attn;
using attn_tile::BufferType;

/// Emits `name` as an instruction that reads `operands`.
static void emit(OpBuilder &builder, Location loc, StringRef name,
                 ValueRange operands = {}) {
  std::string constraints;
  for (Value operand : operands)
    constraints += operand.getType().isF32() ? "f," : "r,";
  LLVM::InlineAsmOp::create(builder, loc, TypeRange(), operands, name,
                            constraints + "~{memory}",
                            /*has_side_effects=*/true,
                            /*is_align_stack=*/false, LLVM::TailCallKind::None,
                            /*asm_dialect=*/LLVM::AsmDialectAttr(),
                            /*operand_attrs=*/ArrayAttr());
}

namespace {
class TestTarget : public TargetInfo {
public:
  // Names, kernels and tensors.
  StringRef getName() const override { return "test_gpu"; }
  StringRef getDefaultDevice() const override { return "a100"; }
  int64_t getMinPTXVersion() const override { return 70; }
  KernelScheduleKind getKernelScheduleKind() const override {
    return KernelScheduleKind::Multistage;
  }
  Attribute getMma(Type type, bool) const override {
    return type.isBF16() ? Attribute(test_attn::DotAttr::get(type.getContext()))
                         : Attribute();
  }
  StringRef describeElementTypes() const override { return "bf16"; }
  int64_t getMaxHeadDim() const override { return 64; }

  // Capacities and staged tiles: rows have no padding.
  int64_t getSharedMemoryBytes() const override { return 48 * 1024; }
  LogicalResult verifyStagedTile(
      BufferType type,
      function_ref<InFlightDiagnostic()> emitError) const override {
    if (type.getElementType().isBF16())
      return success();
    return emitError() << "test_gpu stages tiles of bf16 values (was "
                       << type.getElementType() << ")";
  }
  int64_t getStageBytes(BufferType type) const override {
    return type.getShape()[0] * type.getShape()[1] * 2;
  }
  int64_t getStageAlignment() const override { return 64; }
  int64_t getBarrierBytes() const override { return 32; }
  bool isProducerSingleThread() const override { return false; }

  // Pipes.
  void emitInitBarriers(OpBuilder &builder, Location loc,
                        const StagedTile &stage, const StageThreads &, bool,
                        int64_t) const override {
    emit(builder, loc, "test.init_barriers", {stage.full, stage.empty});
  }
  void emitInitDone(OpBuilder &builder, Location loc, int64_t) const override {
    emit(builder, loc, "test.init_done");
  }
  void emitAcquire(OpBuilder &builder, Location loc, const StagedTile &stage,
                   Value parity, BufferType) const override {
    emit(builder, loc, "test.acquire", {stage.empty, parity});
  }
  LogicalResult emitCopy(OpBuilder &builder, attn_tile::CopyOp op, ValueRange,
                         ValueRange indices, const CopiedRows &,
                         const StagedTile &stage,
                         const ThreadPosition &position) const override {
    emit(builder, op.getLoc(), "test.copy",
         {stage.address, indices[0], position.thread});
    return success();
  }
  void emitCommit(OpBuilder &builder, Location loc,
                  const StagedTile &stage) const override {
    emit(builder, loc, "test.commit", {stage.full});
  }
  void emitWait(OpBuilder &builder, Location loc, const StagedTile &stage,
                Value parity) const override {
    emit(builder, loc, "test.wait", {stage.full, parity});
  }
  void emitClear(OpBuilder &builder, Location loc, const StagedTile &stage,
                 BufferType, Value firstRow,
                 const ThreadPosition &) const override {
    emit(builder, loc, "test.clear", {stage.address, firstRow});
  }
  void emitRelease(OpBuilder &builder, Location loc, const StagedTile &stage,
                   bool, ValueRange, int64_t,
                   const ThreadPosition &) const override {
    emit(builder, loc, "test.release", {stage.empty});
  }

  // MMAs. The result is zero.
  FailureOr<SmallVector<Value>>
  emitMmaStart(OpBuilder &builder, attn_tile::MmaStartOp op, ValueRange lhs,
               const StagedTile &rhs, ValueRange,
               const ThreadPosition &position) const override {
    FailureOr<attn_tile::MmaAttrInterface> mma = getMmaOf(op);
    if (failed(mma))
      return failure();
    emit(builder, op.getLoc(), "test.mma_start", {lhs.front(), rhs.address});
    VectorType type = op.getResult().getType().getValueType();
    Value zero = arith::ConstantOp::create(builder, op.getLoc(),
                                           builder.getF32FloatAttr(0));
    return SmallVector<Value>(type.getNumElements() / position.numThreads,
                              zero);
  }
  SmallVector<Value> emitMmaWait(OpBuilder &builder, Location loc,
                                 ValueRange pending, int64_t) const override {
    emit(builder, loc, "test.mma_wait");
    return SmallVector<Value>(pending);
  }

  // Roles.
  void emitSetRegisters(OpBuilder &builder, Location loc, int64_t,
                        int64_t) const override {
    emit(builder, loc, "test.set_registers");
  }
};
} // namespace

void test_attn::registerTestTarget() {
  registerAllTargets();
  registerTarget(std::make_unique<TestTarget>());
}
