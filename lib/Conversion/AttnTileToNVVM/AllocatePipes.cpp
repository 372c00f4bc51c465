//===- AllocatePipes.cpp - Place pipes in shared memory -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Gives each pipe of a kernel its place in shared memory.
//
//===----------------------------------------------------------------------===//

#include "attn/Conversion/AttnTileToNVVM/AttnTileToNVVM.h"
#include "attn/Conversion/Passes.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Target/TargetInfo.h"

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNTILEALLOCATEPIPESPASS
#include "attn/Conversion/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;
using attn_tile::CreatePipeOp;
using attn_tile::KernelOp;

FailureOr<int64_t> attn::allocatePipes(KernelOp kernel,
                                       const TargetInfo &target) {
  SmallVector<CreatePipeOp> pipes;
  kernel.walk([&](CreatePipeOp pipe) { pipes.push_back(pipe); });

  Builder builder(kernel.getContext());
  int64_t bytes = 0;
  for (CreatePipeOp pipe : pipes) {
    pipe.setBarriersAttr(builder.getI64IntegerAttr(bytes));
    bytes += pipe.getPipe().getType().getStages() * target.getBarrierBytes();
  }
  for (CreatePipeOp pipe : pipes) {
    attn_tile::PipeType type = pipe.getPipe().getType();
    attn_tile::BufferType buffer = type.getBufferType();
    if (failed(target.verifyStagedTile(buffer,
                                       [&] { return pipe.emitOpError(); })))
      return failure();
    bytes = llvm::alignTo(bytes, target.getStageAlignment());
    pipe.setOffsetAttr(builder.getI64IntegerAttr(bytes));
    bytes += type.getStages() * target.getStageBytes(buffer);
  }
  if (bytes > target.getSharedMemoryBytes()) {
    InFlightDiagnostic diagnostic =
        kernel.emitOpError("needs ")
        << bytes << " bytes of shared memory, but " << target.getName()
        << " has " << target.getSharedMemoryBytes() << " ("
        << bytes - target.getSharedMemoryBytes() << " too many)";
    for (CreatePipeOp pipe : pipes)
      diagnostic.attachNote(pipe.getLoc())
          << pipe.getPipe().getType() << " takes "
          << pipe.getPipe().getType().getStages() *
                 target.getStageBytes(pipe.getPipe().getType().getBufferType())
          << " bytes";
    return diagnostic;
  }
  return bytes;
}

namespace {
struct AttnTileAllocatePipesPass
    : public attn::impl::AttnTileAllocatePipesPassBase<
          AttnTileAllocatePipesPass> {
  using Base::Base;

  void runOnOperation() override {
    std::unique_ptr<TargetInfo> target = createTargetInfo(targetName);
    if (!target) {
      getOperation().emitError("unknown GPU architecture '")
          << targetName << "'";
      return signalPassFailure();
    }
    FailureOr<int64_t> bytes = allocatePipes(getOperation(), *target);
    if (failed(bytes))
      return signalPassFailure();
    numBytes += *bytes;
  }
};
} // namespace
