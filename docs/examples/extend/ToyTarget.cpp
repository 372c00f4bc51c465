//===- ToyTarget.cpp - The architecture sm_89 -----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An architecture that has the instructions of sm_80, less shared memory and
// fewer head dims. Its kernels are written in the instructions of the target
// that Attn has for sm_80.
//
//===----------------------------------------------------------------------===//

#include "ToyTarget.h"
#include "attn/Target/TargetInfo.h"

using namespace mlir;
using namespace mlir::attn;
using attn_tile::BufferType;

namespace {
class SM89Target : public TargetInfo {
public:
  explicit SM89Target(const TargetInfo &sm80) : sm80(sm80) {}

  // Names.
  StringRef getName() const override { return "sm_89"; }
  StringRef getDefaultDevice() const override { return "a100"; }
  int64_t getMinPTXVersion() const override { return 78; }
  bool isForwardCompatible() const override { return true; }

  // Kernels and tensors.
  KernelScheduleKind getKernelScheduleKind() const override {
    return KernelScheduleKind::Multistage;
  }
  int64_t getMaxHeadDim() const override { return 128; }
  Attribute getMma(Type type, bool isHighest) const override {
    return sm80.getMma(type, isHighest);
  }

  // Capacities: 100 KiB on an SM, of which each CTA reserves one.
  int64_t getSharedMemoryBytes() const override { return 99 * 1024; }

  // Staged tiles.
  LogicalResult verifyStagedTile(
      BufferType type,
      function_ref<InFlightDiagnostic()> emitError) const override {
    return sm80.verifyStagedTile(type, emitError);
  }
  int64_t getStageBytes(BufferType type) const override {
    return sm80.getStageBytes(type);
  }
  int64_t getStageAlignment() const override {
    return sm80.getStageAlignment();
  }

  // Pipes.
  int64_t getBarrierBytes() const override { return sm80.getBarrierBytes(); }
  void emitInitBarriers(OpBuilder &builder, Location loc,
                        const StagedTile &stage, const StageThreads &threads,
                        bool byThreads, int64_t cluster) const override {
    sm80.emitInitBarriers(builder, loc, stage, threads, byThreads, cluster);
  }
  void emitInitDone(OpBuilder &builder, Location loc,
                    int64_t cluster) const override {
    sm80.emitInitDone(builder, loc, cluster);
  }
  void emitAcquire(OpBuilder &builder, Location loc, const StagedTile &stage,
                   Value parity, BufferType type) const override {
    sm80.emitAcquire(builder, loc, stage, parity, type);
  }
  LogicalResult emitCopy(OpBuilder &builder, attn_tile::CopyOp op,
                         ValueRange source, ValueRange indices,
                         const CopiedRows &pages, const StagedTile &stage,
                         const ThreadPosition &position) const override {
    return sm80.emitCopy(builder, op, source, indices, pages, stage, position);
  }
  void emitCommit(OpBuilder &builder, Location loc,
                  const StagedTile &stage) const override {
    sm80.emitCommit(builder, loc, stage);
  }
  void emitWait(OpBuilder &builder, Location loc, const StagedTile &stage,
                Value parity) const override {
    sm80.emitWait(builder, loc, stage, parity);
  }
  void emitClear(OpBuilder &builder, Location loc, const StagedTile &stage,
                 BufferType type, Value firstRow,
                 const ThreadPosition &position) const override {
    sm80.emitClear(builder, loc, stage, type, firstRow, position);
  }
  void emitRelease(OpBuilder &builder, Location loc, const StagedTile &stage,
                   bool byThreads, ValueRange after, int64_t cluster,
                   const ThreadPosition &position) const override {
    sm80.emitRelease(builder, loc, stage, byThreads, after, cluster, position);
  }

  // MMAs.
  FailureOr<SmallVector<Value>>
  emitMmaStart(OpBuilder &builder, attn_tile::MmaStartOp op, ValueRange lhs,
               const StagedTile &rhs, ValueRange acc,
               const ThreadPosition &position) const override {
    return sm80.emitMmaStart(builder, op, lhs, rhs, acc, position);
  }
  SmallVector<Value> emitMmaWait(OpBuilder &builder, Location loc,
                                 ValueRange pending,
                                 int64_t newer) const override {
    return sm80.emitMmaWait(builder, loc, pending, newer);
  }

  // Roles: there are none.
  bool isProducerSingleThread() const override { return false; }
  void emitSetRegisters(OpBuilder &, Location, int64_t,
                        int64_t) const override {}

private:
  const TargetInfo &sm80;
};
} // namespace

void toy::registerToyTarget() {
  registerAllTargets();
  registerTarget(std::make_unique<SM89Target>(*lookupTargetInfo("sm_80")),
                 TargetGPUs{{8, 9}, /*andLater=*/false});
}
