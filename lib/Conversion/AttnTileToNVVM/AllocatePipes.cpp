//===- AllocatePipes.cpp - Place pipes in shared memory -------------------===//
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
#include "attn/Conversion/AttnTileToNVVM/AttnTileToNVVM.h"
#include "attn/Conversion/Passes.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/Transforms/KernelPhase.h"
#include "attn/PerfModel/Roofline.h"
#include "attn/Target/TargetInfo.h"
#include "llvm/Support/DebugLog.h"

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNTILEALLOCATEPIPESPASS
#include "attn/Conversion/Passes.h.inc"
} // namespace mlir::attn

#define DEBUG_TYPE "attn-tile-allocate-pipes"

using namespace mlir;
using namespace mlir::attn;
using attn_tile::CreatePipeOp;
using attn_tile::KernelOp;
using attn_tile::KernelPhase;
using attn_tile::PhaseContract;

/// Bytes of the barriers of a pipe: one for each stage, or the barriers or
/// counters that replace them.
static int64_t getBarrierBytes(CreatePipeOp pipe, const TargetInfo &target) {
  // Each thread that runs ordered accumulation has its own barrier.
  if (llvm::any_of(pipe->getUsers(),
                   llvm::IsaPred<attn_tile::OrderedReduceAddOp>))
    return OrderedStage::numThreads * target.getBarrierBytes();
  // Each warp that releases its additions has a counter.
  if (llvm::any_of(pipe->getUsers(),
                   llvm::IsaPred<attn_tile::SemaphoreReleaseOp>)) {
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

bool attn::holdsFragments(CreatePipeOp pipe) {
  using namespace attn_tile;
  return !pipe->use_empty() &&
         llvm::all_of(pipe->getUsers(),
                      llvm::IsaPred<StageFragmentsOp, CommitFragmentsOp,
                                    OrderedReduceAddOp, SemaphoreReleaseOp,
                                    SemaphoreAddOp>);
}

static int64_t getStageBytes(CreatePipeOp pipe, const TargetInfo &target) {
  attn_tile::PipeType type = pipe.getPipe().getType();
  if (holdsFragments(pipe)) {
    int64_t bytes = type.getElementType().getIntOrFloatBitWidth() / 8;
    for (int64_t size : type.getShape())
      bytes *= size;
    return type.getStages() * llvm::alignTo(bytes, target.getStageAlignment());
  }
  return type.getStages() * target.getStageBytes(type.getBufferType());
}

/// Alignment of the parts of idle warps at the end of shared memory.
static constexpr int64_t idleAlignment = 128;

/// Bytes for the warps that a producer leaves idle: the part of a tile in
/// fragment order that each of them converts at a time.
static int64_t getIdleBytes(KernelOp kernel) {
  int64_t bytes = 0;
  for (auto [auxiliary, warps] : getIdleWarps(kernel))
    auxiliary->walk([&, count = warps.count](attn_tile::ConvertDqOp op) {
      constexpr int64_t sumBytes = 4;
      int64_t ofPart = op.getTileType().getNumElements() * sumBytes /
                       static_cast<int64_t>(op.getParts());
      bytes = std::max(bytes, std::max<int64_t>(count, 0) * ofPart);
    });
  return bytes;
}

/// Bytes of the ticket counter of `attn_tile.fetch_work_item`.
static constexpr int64_t fetchedWorkItemBytes = 16;

bool attn::fetchesWorkItems(KernelOp kernel) {
  return kernel
      .walk([](attn_tile::FetchWorkItemOp) { return WalkResult::interrupt(); })
      .wasInterrupted();
}

int64_t attn::getTicketOffset(KernelOp kernel, int64_t sharedBytes) {
  return sharedBytes - getIdleBytes(kernel) - fetchedWorkItemBytes;
}

Value attn::emitTicketAddress(OpBuilder &builder, Location loc,
                              const KernelContext &context) {
  auto pointer = LLVM::LLVMPointerType::get(
      builder.getContext(),
      static_cast<unsigned>(NVVM::NVVMMemorySpace::Shared));
  Value address = emitAdd(builder, loc, context.shared, context.ticketOffset);
  return LLVM::IntToPtrOp::create(builder, loc, pointer, address);
}

FailureOr<int64_t> attn::getSharedBytes(KernelOp kernel,
                                        const TargetInfo &target) {
  SmallVector<CreatePipeOp> pipes;
  kernel.walk([&](CreatePipeOp pipe) { pipes.push_back(pipe); });
  int64_t bytes = 0;
  for (CreatePipeOp pipe : pipes) {
    if (!holdsFragments(pipe) &&
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
  if (fetchesWorkItems(kernel))
    bytes = llvm::alignTo(bytes, fetchedWorkItemBytes) + fetchedWorkItemBytes;
  if (int64_t idle = getIdleBytes(kernel))
    bytes = llvm::alignTo(bytes, idleAlignment) + idle;
  // A device may have less than others of its architecture.
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

/// The alignment of a pipe whose stages take so many bytes: stages of rows are
/// no multiple of the alignment of tiles.
static int64_t getAlignment(int64_t bytes, const TargetInfo &target) {
  return bytes == 0 ? 1 : std::min(target.getStageAlignment(), bytes & -bytes);
}

/// Places all pipes: barriers first, then the stages.
static void allocatePipes(KernelOp kernel, const TargetInfo &target) {
  int64_t bytes = 0;
  kernel.walk([&](CreatePipeOp pipe) {
    pipe.setBarriers(bytes);
    bytes += getBarrierBytes(pipe, target);
  });
  kernel.walk([&](CreatePipeOp pipe) {
    int64_t ofStages = getStageBytes(pipe, target);
    bytes = llvm::alignTo(bytes, getAlignment(ofStages, target));
    pipe.setOffset(bytes);
    bytes += ofStages;
  });
}

namespace {
struct AttnTileAllocatePipesPass
    : attn_tile::KernelPass<AttnTileAllocatePipesPass,
                            attn::impl::AttnTileAllocatePipesPassBase> {
  using Base::Base;

  static constexpr PhaseContract phases{KernelPhase::Plain, KernelPhase::Final};

  void runOnKernel() {
    FailureOr<const TargetInfo *> target =
        lookupTargetInfo(getOperation(), targetName);
    if (failed(target))
      return signalPassFailure();
    const TargetInfo &info = (*target)->getKernelInfo(getOperation());
    allocatePipes(getOperation(), info);
    FailureOr<int64_t> bytes = getSharedBytes(getOperation(), info);
    if (failed(bytes))
      return signalPassFailure();
    LDBG() << "kernel " << getOperation().getName() << " has " << *bytes
           << " bytes of shared memory on " << info.getName();
    numBytes += *bytes;
  }
};
} // namespace
