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

#include "KernelLowering.h"
#include "attn/Analysis/Roofline.h"
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

/// Bytes of the barriers of a pipe: of its stages, or of what takes their
/// place.
static int64_t getBarrierBytes(CreatePipeOp pipe, const TargetInfo &target) {
  // Each of the threads that add in turn has its own.
  if (llvm::any_of(pipe->getUsers(), llvm::IsaPred<attn_tile::AddInTurnOp>))
    return TurnStage::numThreads * target.getBarrierBytes();
  // Each warp that says that its additions are complete has a number.
  if (llvm::any_of(pipe->getUsers(), llvm::IsaPred<attn_tile::CompleteOp>)) {
    int64_t warps = 0;
    auto kernel = pipe->getParentOfType<KernelOp>();
    for (auto role : kernel.getOps<attn_tile::RoleOp>())
      if (role.getKind() == attn_tile::RoleKind::Consumer)
        warps += role.getWarpgroups() * warpsPerWarpgroup;
    return llvm::alignTo(warps * TargetInfo::numberBytes,
                         target.getBarrierBytes());
  }
  return pipe.getPipe().getType().getStages() * target.getBarrierBytes();
}

bool attn::holdsPackedTiles(CreatePipeOp pipe) {
  using namespace attn_tile;
  return !pipe->use_empty() &&
         llvm::all_of(pipe->getUsers(),
                      llvm::IsaPred<PackOp, PublishOp, AddInTurnOp, CompleteOp,
                                    CountOp>);
}

static int64_t getStageBytes(CreatePipeOp pipe, const TargetInfo &target) {
  attn_tile::PipeType type = pipe.getPipe().getType();
  if (holdsPackedTiles(pipe)) {
    int64_t bytes = type.getElementType().getIntOrFloatBitWidth() / 8;
    for (int64_t size : type.getShape())
      bytes *= size;
    return type.getStages() * llvm::alignTo(bytes, target.getStageAlignment());
  }
  return type.getStages() * target.getStageBytes(type.getBufferType());
}

/// Alignment of the parts of idle warps, which end the shared memory.
static constexpr int64_t idleAlignment = 128;

/// Bytes of the warps that a producer leaves idle: the part of a packed tile
/// that each of them rounds at a time.
static int64_t getIdleBytes(KernelOp kernel) {
  int64_t bytes = 0;
  for (auto [beside, warps] : getIdleWarps(kernel))
    beside->walk([&, count = warps.count](attn_tile::RoundPackedOp op) {
      constexpr int64_t sumBytes = 4;
      int64_t ofPart = op.getTileType().getNumElements() * sumBytes /
                       static_cast<int64_t>(op.getParts());
      bytes = std::max(bytes, std::max<int64_t>(count, 0) * ofPart);
    });
  return bytes;
}

/// Bytes of what `attn_tile.take_number` counts by.
static constexpr int64_t takenNumberBytes = 16;

bool attn::takesNumbers(KernelOp kernel) {
  return kernel
      .walk([](attn_tile::TakeNumberOp) { return WalkResult::interrupt(); })
      .wasInterrupted();
}

int64_t attn::getNumberOffset(KernelOp kernel, int64_t sharedBytes) {
  return sharedBytes - getIdleBytes(kernel) - takenNumberBytes;
}

Value attn::emitNumberAddress(OpBuilder &builder, Location loc,
                              const KernelContext &context) {
  auto pointer = LLVM::LLVMPointerType::get(
      builder.getContext(),
      static_cast<unsigned>(NVVM::NVVMMemorySpace::Shared));
  Value address = emitAdd(builder, loc, context.shared, context.numberOffset);
  return LLVM::IntToPtrOp::create(builder, loc, pointer, address);
}

FailureOr<int64_t> attn::getSharedBytes(KernelOp kernel,
                                        const TargetInfo &target) {
  SmallVector<CreatePipeOp> pipes;
  kernel.walk([&](CreatePipeOp pipe) { pipes.push_back(pipe); });
  int64_t bytes = 0;
  for (CreatePipeOp pipe : pipes) {
    if (!holdsPackedTiles(pipe) &&
        failed(target.verifyStagedTile(pipe.getPipe().getType().getBufferType(),
                                       [&] { return pipe.emitOpError(); })))
      return failure();
    if (!pipe.getOffset() || !pipe.getBarriers())
      return pipe.emitOpError("has no place in shared memory; "
                              "attn-tile-allocate-pipes gives it one");
    int64_t barriersEnd = *pipe.getBarriers() + getBarrierBytes(pipe, target);
    int64_t stagesEnd = *pipe.getOffset() + getStageBytes(pipe, target);
    bytes = std::max({bytes, barriersEnd, stagesEnd});
  }
  if (takesNumbers(kernel))
    bytes = llvm::alignTo(bytes, takenNumberBytes) + takenNumberBytes;
  if (int64_t idle = getIdleBytes(kernel))
    bytes = llvm::alignTo(bytes, idleAlignment) + idle;
  // A device may have less than others of the architecture.
  int64_t available = target.getSharedMemoryBytes();
  StringRef owner = target.getName();
  DeviceAttr device = getDevice(kernel, target.getName());
  int64_t ofDevice = device.getFigures().sharedBytes;
  if (ofDevice > 0 && ofDevice < available) {
    available = ofDevice;
    owner = device.getName();
  }
  if (bytes > available) {
    InFlightDiagnostic diagnostic = kernel.emitOpError("needs ")
                                    << bytes << " bytes of shared memory, but "
                                    << owner << " has " << available << " ("
                                    << bytes - available << " too many)";
    for (CreatePipeOp pipe : pipes)
      diagnostic.attachNote(pipe.getLoc())
          << pipe.getPipe().getType() << " takes "
          << getStageBytes(pipe, target) << " bytes";
    return diagnostic;
  }
  return bytes;
}

/// Gives all pipes their places: barriers first, then the stages.
static void allocatePipes(KernelOp kernel, const TargetInfo &target) {
  int64_t bytes = 0;
  kernel.walk([&](CreatePipeOp pipe) {
    pipe.setBarriers(bytes);
    bytes += getBarrierBytes(pipe, target);
  });
  kernel.walk([&](CreatePipeOp pipe) {
    bytes = llvm::alignTo(bytes, target.getStageAlignment());
    pipe.setOffset(bytes);
    bytes += getStageBytes(pipe, target);
  });
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
    allocatePipes(getOperation(), *target);
    FailureOr<int64_t> bytes = getSharedBytes(getOperation(), *target);
    if (failed(bytes))
      return signalPassFailure();
    numBytes += *bytes;
  }
};
} // namespace
