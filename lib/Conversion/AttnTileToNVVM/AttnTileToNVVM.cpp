//===- AttnTileToNVVM.cpp - Kernels to NVVM -------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lowers kernels on tiles to the code of one GPU thread. The target decides on
// instructions of the architecture. The kernel's layout decides how tiles are
// distributed over threads.
//
//===----------------------------------------------------------------------===//

#include "attn/Conversion/AttnTileToNVVM/AttnTileToNVVM.h"
#include "KernelLowering.h"
#include "attn/Conversion/Passes.h"
#include "attn/Dialect/AttnTile/Transforms/KernelPhase.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/Transforms/Patterns.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Transforms/LoopInvariantCodeMotionUtils.h"

namespace mlir::attn {
#define GEN_PASS_DEF_CONVERTATTNTILETONVVMPASS
#include "attn/Conversion/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;
using namespace mlir::attn_tile;

namespace {
template <typename OpTy, typename XOp, typename YOp, typename ZOp>
struct ProgramLowering : public KernelPattern<OpTy> {
  using KernelPattern<OpTy>::KernelPattern;
  using KernelPattern<OpTy>::context;

  LogicalResult
  matchAndRewrite(OpTy op, typename KernelPattern<OpTy>::OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Type i32 = rewriter.getI32Type();
    auto auxiliary = op->template getParentOfType<AuxiliaryWarpsOp>();
    if (auxiliary && !auxiliary.getJoined()) {
      rewriter.replaceOp(op, emitAuxiliaryWarps(rewriter, op));
      return success();
    }
    switch (op.getDim()) {
    case 0:
      rewriter.replaceOpWithNewOp<XOp>(op, i32);
      return success();
    case 1:
      rewriter.replaceOpWithNewOp<YOp>(op, i32);
      return success();
    default:
      rewriter.replaceOpWithNewOp<ZOp>(op, i32);
      return success();
    }
  }

  /// Each auxiliary warp acts as a CTA of its own.
  Value emitAuxiliaryWarps(OpBuilder &builder, OpTy op) const {
    Location loc = op.getLoc();
    Value groups = XOp::create(builder, loc, builder.getI32Type());
    IdleWarps warps = context.getIdleWarps(op);
    Value result = arith::MulIOp::create(builder, loc, groups,
                                         createI32(builder, loc, warps.count));
    if (isa<NumProgramsOp>(op))
      return result;
    Value warp = emitAdd(builder, loc, context.warp, -warps.first);
    return arith::AddIOp::create(builder, loc, result, warp);
  }
};

template <typename OpTy, typename RegisterOp>
struct ClusterLowering : public OpConversionPattern<OpTy> {
  using OpConversionPattern<OpTy>::OpConversionPattern;

  LogicalResult
  matchAndRewrite(OpTy op, typename OpTy::Adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<RegisterOp>(op, rewriter.getI32Type());
    return success();
  }
};

struct ConsumerIdLowering : public KernelPattern<ConsumerIdOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(ConsumerIdOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto role = op->getParentOfType<RoleOp>();
    if (!role || role.getKind() != RoleKind::Consumer)
      return rewriter.notifyMatchFailure(op, "not in the consumer role");
    rewriter.replaceOp(op, context.getPosition(rewriter, op).warpgroup);
    return success();
  }
};

struct ReturnLowering : public KernelPattern<attn_tile::ReturnOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(attn_tile::ReturnOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (const BulkReductionTarget *bulk = context.target.getBulkReductions();
        bulk && context.copiesFromStages)
      bulk->emitBulkDone(rewriter, op.getLoc());
    if (context.cluster > 1)
      context.target.getClusters()->emitClusterDone(rewriter, op.getLoc());
    rewriter.replaceOpWithNewOp<LLVM::ReturnOp>(op, ValueRange{});
    return success();
  }
};
} // namespace

namespace {
/// Operations that order the kernel with the ones before and after it.
template <typename SourceOp, NVVM::GridDepActionKind action>
struct LaunchOrderLowering : OpConversionPattern<SourceOp> {
  LaunchOrderLowering(const TypeConverter &converter, MLIRContext *context,
                      const TargetInfo &target)
      : OpConversionPattern<SourceOp>(converter, context), target(target) {}

  LogicalResult
  matchAndRewrite(SourceOp op, typename SourceOp::Adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (!target.hasEarlyLaunches())
      return op.emitOpError("cannot be on ") << target.getName();
    rewriter.replaceOpWithNewOp<NVVM::GriddepcontrolOp>(op, action);
    return success();
  }

  const TargetInfo &target;
};
} // namespace

/// Moves the body of `kernel` to a new function in `gpuModule`, with the
/// converted parameters of the kernel.
static LLVM::LLVMFuncOp createFunction(RewriterBase &rewriter, KernelOp kernel,
                                       gpu::GPUModuleOp gpuModule,
                                       const TypeConverter &converter) {
  Location loc = kernel.getLoc();
  MLIRContext *context = kernel.getContext();
  Type i64 = rewriter.getI64Type();
  SmallVector<Type> parameters;
  SmallVector<DictionaryAttr> attributes;
  for (Type type : kernel.getArgumentTypes()) {
    SmallVector<Type> types;
    if (type.isIndex())
      types = {i64};
    else
      (void)converter.convertType(type, types);
    NamedAttrList attrs;
    if (isa<TensorMapType>(type)) {
      auto bytes = LLVM::LLVMArrayType::get(rewriter.getI8Type(), 128);
      attrs.set(LLVM::LLVMDialect::getByValAttrName(), TypeAttr::get(bytes));
      attrs.set(LLVM::LLVMDialect::getAlignAttrName(),
                rewriter.getI64IntegerAttr(64));
      attrs.set(NVVM::NVVMDialect::getGridConstantAttrName(),
                rewriter.getUnitAttr());
    }
    parameters.append(types);
    attributes.append(types.size(), attrs.getDictionary(context));
  }

  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPointToEnd(gpuModule.getBody());
  auto function = LLVM::LLVMFuncOp::create(
      rewriter, loc, kernel.getName(),
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context),
                                  parameters));
  for (auto [i, dictionary] : llvm::enumerate(attributes))
    function.setArgAttrs(i, dictionary);
  function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(),
                    rewriter.getUnitAttr());
  return function;
}

namespace {
struct ConvertAttnTileToNVVMPass
    : public attn::impl::ConvertAttnTileToNVVMPassBase<
          ConvertAttnTileToNVVMPass> {
  using Base::Base;

  static constexpr PhaseContract phases{KernelPhase::Specialized,
                                        KernelPhase::Final};

  void runOnOperation() override {
    FailureOr<const TargetInfo *> target =
        lookupTargetInfo(getOperation(), targetName);
    if (failed(target))
      return signalPassFailure();
    SmallVector<KernelOp> kernels(getOperation().getOps<KernelOp>());
    for (KernelOp kernel : kernels)
      if (failed(verifyExpectedPhase(kernel, getArgument(), phases)) ||
          failed(lowerKernel(kernel, (*target)->getKernelInfo(kernel))))
        return signalPassFailure();
  }

private:
  LogicalResult lowerKernel(KernelOp kernel, const TargetInfo &target);
};
} // namespace

/// Checks that each `semaphore_add` after additions has one `semaphore_release`
/// of its pipe.
static LogicalResult verifyCounts(KernelOp kernel) {
  WalkResult walk = kernel.walk([](SemaphoreAddOp op) -> WalkResult {
    if (!op.getPipe())
      return WalkResult::advance();
    auto pipe = op.getPipe().getDefiningOp<CreatePipeOp>();
    if (!pipe || !holdsFragments(pipe) ||
        llvm::any_of(pipe->getUsers(), llvm::IsaPred<OrderedReduceAddOp>))
      return op.emitOpError("pipe must be created in the kernel, for tiles "
                            "that consumers stage and add");
    auto count = [&](auto isCounted) {
      return llvm::count_if(pipe->getUsers(), isCounted);
    };
    if (count(llvm::IsaPred<SemaphoreAddOp>) != 1 ||
        count(llvm::IsaPred<SemaphoreReleaseOp>) != 1)
      return op.emitOpError(
          "after additions needs one 'attn_tile.semaphore_release' of its "
          "pipe, and no other 'attn_tile.semaphore_add'");
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

/// Checks that only one `attn_tile.auxiliary_warps` converts dQ: it uses the
/// shared memory of the idle warps.
static LogicalResult verifyConvertDq(KernelOp kernel) {
  AuxiliaryWarpsOp first;
  for (auto auxiliary : kernel.getOps<AuxiliaryWarpsOp>()) {
    bool rounds =
        auxiliary.walk([](ConvertDqOp) { return WalkResult::interrupt(); })
            .wasInterrupted();
    if (rounds && first)
      return auxiliary.emitOpError("cannot have 'attn_tile.convert_dq', which "
                                   "another 'attn_tile.auxiliary_warps' has");
    if (rounds)
      first = auxiliary;
  }
  return success();
}

/// Checks the assumptions of the patterns, with readable diagnostics.
static LogicalResult verifyKernel(KernelOp kernel, const TargetInfo &target) {
  ThreadLayoutAttrInterface layout = kernel.getLayoutAttr();
  if (!layout)
    return kernel.emitOpError("needs a 'layout' to be lowered for a GPU");
  if (!kernel.getBody().hasOneBlock())
    return kernel.emitOpError("must have one block");
  bool hasIdleWarps = target.isProducerSingleThread() &&
                      llvm::any_of(kernel.getOps<RoleOp>(), [](RoleOp role) {
                        return role.getKind() == RoleKind::Producer;
                      });
  for (auto auxiliary : kernel.getOps<AuxiliaryWarpsOp>())
    if (!hasIdleWarps)
      return auxiliary.emitOpError("needs a producer whose warps but the first "
                                   "one are idle");
  DenseMap<Operation *, IdleWarps> idleWarps = getIdleWarps(kernel);
  for (auto auxiliary : kernel.getOps<AuxiliaryWarpsOp>()) {
    int64_t count = idleWarps.lookup(auxiliary).count;
    int64_t needed = auxiliary.getWarps().value_or(1);
    if (count >= needed)
      continue;
    if (!auxiliary.getWarps())
      return auxiliary.emitOpError(
          "has no idle warps: others have all of them");
    return auxiliary.emitOpError("needs ")
           << needed << " idle warps, but there are only "
           << std::max<int64_t>(count, 0) << " for it";
  }
  if (failed(verifyCounts(kernel)) || failed(verifyConvertDq(kernel)))
    return failure();
  WalkResult result = kernel.walk([&](Operation *op) -> WalkResult {
    if (auto loop = dyn_cast<scf::ForallOp>(op))
      return loop.emitOpError("must be replaced by a traversal before the "
                              "kernel is lowered for a GPU");
    for (Type type : op->getResultTypes()) {
      auto tile = dyn_cast<VectorType>(type);
      if (tile && !layout.supports(tile.getShape()))
        return op->emitOpError("has a tile ")
               << tile << " that cannot be spread over threads by " << layout;
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

/// Declares zeros in global memory, as many bytes as the largest element.
static LLVM::GlobalOp declareZeros(OpBuilder &builder,
                                   gpu::GPUModuleOp gpuModule) {
  constexpr int64_t bytes = 16;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(gpuModule.getBody());
  Type type = LLVM::LLVMArrayType::get(builder.getI64Type(), bytes / 8);
  auto zeros = DenseIntElementsAttr::get(
      RankedTensorType::get(bytes / 8, builder.getI64Type()), int64_t(0));
  return LLVM::GlobalOp::create(
      builder, gpuModule.getLoc(), type, /*isConstant=*/true,
      LLVM::Linkage::Internal, "attn_zeros", zeros,
      /*alignment=*/bytes,
      static_cast<unsigned>(NVVM::NVVMMemorySpace::Global));
}

/// Emits the values that all code of `kernel` uses, at its entry.
static void emitEntryValues(KernelOp kernel, KernelContext &context,
                            LLVM::GlobalOp shared, LLVM::GlobalOp zeros) {
  Location loc = kernel.getLoc();
  OpBuilder builder = OpBuilder::atBlockBegin(&kernel.getBody().front());
  Type i32 = builder.getI32Type();
  context.thread = NVVM::ThreadIdXOp::create(builder, loc, i32);
  Value warp = arith::ShRUIOp::create(builder, loc, context.thread,
                                      createI32(builder, loc, 5));
  // Reading the index from one lane makes it known to be uniform in the warp.
  context.warp = NVVM::ShflOp::create(
      builder, loc, i32, createI32(builder, loc, -1), warp,
      createI32(builder, loc, 0), createI32(builder, loc, 31),
      NVVM::ShflKind::idx, UnitAttr());
  context.warpgroup = arith::ShRUIOp::create(builder, loc, context.warp,
                                             createI32(builder, loc, 2));
  auto pointer = LLVM::LLVMPointerType::get(
      builder.getContext(),
      static_cast<unsigned>(NVVM::NVVMMemorySpace::Shared));
  Value base =
      LLVM::AddressOfOp::create(builder, loc, pointer, shared.getSymName());
  context.shared = LLVM::PtrToIntOp::create(builder, loc, i32, base);
  auto global = LLVM::LLVMPointerType::get(
      builder.getContext(),
      static_cast<unsigned>(NVVM::NVVMMemorySpace::Global));
  context.zeros = LLVM::AddrSpaceCastOp::create(
      builder, loc, LLVM::LLVMPointerType::get(builder.getContext()),
      LLVM::AddressOfOp::create(builder, loc, global, zeros.getSymName()));

  SmallVector<CreatePipeOp> pipes(kernel.getOps<CreatePipeOp>());
  bool counts = fetchesWorkItems(kernel);
  if (pipes.empty() && !counts)
    return;
  if (!pipes.empty())
    builder.setInsertionPointAfter(pipes.back());
  if (counts) {
    Value isFirst =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                              context.thread, createI32(builder, loc, 0));
    emitIf(builder, loc, isFirst, [&](OpBuilder &inner) {
      LLVM::StoreOp::create(inner, loc, createI32(inner, loc, 0),
                            emitTicketAddress(inner, loc, context));
    });
  }
  context.target.emitInitDone(builder, loc, context.cluster);
}

/// Declares the dynamic shared memory of a kernel.
static LLVM::GlobalOp declareSharedMemory(OpBuilder &builder,
                                          gpu::GPUModuleOp gpuModule,
                                          const TargetInfo &target) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(gpuModule.getBody());
  auto type = LLVM::LLVMArrayType::get(builder.getI8Type(), 0);
  return LLVM::GlobalOp::create(
      builder, gpuModule.getLoc(), type, /*isConstant=*/false,
      LLVM::Linkage::External, "attn_shared_memory", /*value=*/Attribute(),
      /*alignment=*/target.getStageAlignment(),
      static_cast<unsigned>(NVVM::NVVMMemorySpace::Shared));
}

static void populatePatterns(RewritePatternSet &patterns,
                             const TypeConverter &converter,
                             const KernelContext &context) {
  populateTilePatterns(patterns, converter, context);
  populateScorePatterns(patterns, converter, context);
  populateInversePatterns(patterns, converter, context);
  populateDropoutPatterns(patterns, converter, context);
  populateMaskBitsPatterns(patterns, converter, context);
  populateMemoryPatterns(patterns, converter, context);
  populateStorePatterns(patterns, converter, context);
  populatePipePatterns(patterns, converter, context);
  populateSemaphorePatterns(patterns, converter, context);
  populateThreadPatterns(patterns, converter, context);
  populateRolePatterns(patterns, converter, context);
  patterns.add<ReturnLowering, ConsumerIdLowering>(
      converter, patterns.getContext(), context);
  patterns.add<ProgramLowering<ProgramIdOp, NVVM::BlockIdXOp, NVVM::BlockIdYOp,
                               NVVM::BlockIdZOp>,
               ProgramLowering<NumProgramsOp, NVVM::GridDimXOp,
                               NVVM::GridDimYOp, NVVM::GridDimZOp>>(
      converter, patterns.getContext(), context);
  patterns.add<ClusterLowering<ClusterIdOp, NVVM::ClusterIdXOp>,
               ClusterLowering<NumClustersOp, NVVM::ClusterDimXOp>,
               ClusterLowering<ClusterRankOp, NVVM::BlockInClusterIdXOp>>(
      converter, patterns.getContext());
  patterns
      .add<LaunchOrderLowering<AllowLaunchesOp,
                               NVVM::GridDepActionKind::launch_dependents>,
           LaunchOrderLowering<AwaitLaunchesOp, NVVM::GridDepActionKind::wait>>(
          converter, patterns.getContext(), context.target);
}

/// The `create_pipe` that `buffer` is a stage of, even if loops carry it.
static Operation *getPipe(Value buffer) {
  while (true) {
    if (auto wait = buffer.getDefiningOp<WaitOp>())
      return wait.getPipe().getDefiningOp();
    auto argument = dyn_cast<BlockArgument>(buffer);
    Operation *loop =
        argument ? argument.getOwner()->getParentOp() : buffer.getDefiningOp();
    auto loopLike = dyn_cast_if_present<LoopLikeOpInterface>(loop);
    OpOperand *init = nullptr;
    if (loopLike)
      init = argument ? loopLike.getTiedLoopInit(argument)
                      : loopLike.getTiedLoopInit(cast<OpResult>(buffer));
    if (!init)
      return nullptr;
    buffer = init->get();
  }
}

/// Functions for which one instruction is accurate enough; see
/// docs/Numerics.md.
static bool isApproximated(Operation *op) {
  return isa<math::Exp2Op, math::ExpOp, math::LogOp, math::TanhOp>(op) &&
         getElementTypeOrSelf(op->getResult(0).getType()).isF32();
}

/// Checks that MMA instructions have the registers without which they cannot be
/// assembled.
static LogicalResult verifyMmas(KernelOp kernel, const KernelContext &context) {
  MmaStartOp largest;
  int64_t needed = 0;
  kernel.walk([&](MmaStartOp op) {
    int64_t registers = context.target.getMmaRegisters(op);
    if (registers > needed) {
      needed = registers;
      largest = op;
    }
  });
  int64_t launched =
      getLaunchedRegisters(context.numThreads, context.ctasPerSm);
  if (needed <= launched)
    return success();
  InFlightDiagnostic diagnostic = kernel.emitOpError("needs at least ")
                                  << needed << " registers of each thread, but "
                                  << context.target.getName()
                                  << " launches CTAs of " << context.numThreads
                                  << " threads with " << launched;
  if (context.ctasPerSm > 1)
    diagnostic << " if " << context.ctasPerSm << " of them share an SM";
  diagnostic << " (" << needed - launched << " too many)";
  diagnostic.attachNote(largest.getLoc())
      << "MMAs with " << largest.getResult().getType().getValueType()
      << " as their result need them";
  return diagnostic;
}

/// Checks that tiles have a number of registers that can be compiled: a thread
/// has 255, and each further one is an operation of its own in the kernel.
static LogicalResult verifyTiles(KernelOp kernel,
                                 const KernelContext &context) {
  constexpr int64_t most = 1024;
  WalkResult walk = kernel.walk([&](Operation *op) -> WalkResult {
    for (Type type : op->getResultTypes()) {
      auto tile = dyn_cast<VectorType>(type);
      if (!tile || !tile.getElementType().isIntOrFloat())
        continue;
      int64_t bits = tile.getNumElements() * tile.getElementTypeBitWidth();
      int64_t registers = bits / (32 * context.numThreads);
      if (registers > most)
        return op->emitOpError("makes a tile ")
               << tile << " of " << registers << " registers in each of the "
               << context.numThreads << " threads of a CTA (at most " << most
               << ")";
    }
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

/// Gives each MMA its instruction, which depends on the kernel.
static LogicalResult chooseMmas(KernelOp kernel, const TargetInfo &target) {
  WalkResult walk = kernel.walk([&](MmaStartOp op) -> WalkResult {
    FailureOr<MmaAttrInterface> mma = target.getMmaOf(op);
    if (failed(mma))
      return WalkResult::interrupt();
    op.setMmaAttr(*mma);
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

/// Gives roles their threads and the kernel its CTAs. As many share an SM as
/// the registers of their roles allow: a role that requests more registers than
/// the CTA has at launch, and than other roles release, would wait forever.
static LogicalResult assignThreads(KernelOp kernel, KernelContext &context) {
  int64_t warpgroups = 0, registers = 0;
  for (RoleOp role : kernel.getOps<RoleOp>()) {
    context.firstWarpgroup[role] = warpgroups;
    warpgroups += role.getWarpgroups();
    registers += role.getWarpgroups() * role.getRegisters() * warpgroupSize;
    int64_t &users = role.getKind() == RoleKind::Producer
                         ? context.stageThreads.producers
                         : context.stageThreads.consumers;
    users += role.getWarpgroups() * warpgroupSize;
  }
  context.numThreads =
      warpgroups ? warpgroups * warpgroupSize : context.layout.getNumThreads();
  if (!warpgroups)
    context.stageThreads = {context.numThreads, context.numThreads};
  auto getLaunched = [&](int64_t ctasPerSm) -> int64_t {
    return getLaunchedRegisters(context.numThreads, ctasPerSm) *
           context.numThreads;
  };
  if (registers)
    context.ctasPerSm =
        std::max<int64_t>(1, context.target.getRegisters() / registers);
  while (context.ctasPerSm > 1 && registers > getLaunched(context.ctasPerSm))
    --context.ctasPerSm;
  if (registers > getLaunched(context.ctasPerSm))
    return kernel.emitOpError(
               "roles take more registers than a CTA is launched with (")
           << registers << " instead of at most "
           << getLaunched(context.ctasPerSm) << ")";
  return success();
}

/// Collects what patterns have to know of other operations of the kernel.
static void collectUses(KernelOp kernel, KernelContext &context) {
  kernel.walk([&](Operation *op) {
    context.copiesFromStages |= isa<StageFragmentsOp, StoreThroughOp>(op);
    if (auto wait = dyn_cast<MmaWaitOp>(op))
      context.newerMmas[op] = countNewerMmas(op, wait.getPending());
    else if (auto wait = dyn_cast<MmaWaitBeforeOp>(op))
      context.newerMmas[op] = countNewerMmas(op, wait.getPending());
    if (auto add = dyn_cast<OrderedReduceAddOp>(op))
      context.addedInOrder.insert(add.getPipe().getDefiningOp());
    if (auto count = dyn_cast<SemaphoreAddOp>(op); count && count.getPipe())
      context.counted.insert(count.getPipe().getDefiningOp());
    if (auto convert = dyn_cast<ConvertOp>(op)) {
      int64_t warps = context.countWarps(convert);
      context.fillingWarps[convert.getPipe().getDefiningOp()] = warps;
      if (Operation *pipe = getPipe(convert.getBuffer())) {
        context.convertingWarps[pipe] = warps;
        context.readByThreads.insert(pipe);
      }
    }
    auto read = dyn_cast<ReadOp>(op);
    if (Operation *pipe = read ? getPipe(read.getBuffer()) : nullptr)
      context.readByThreads.insert(pipe);
  });
  kernel.walk([&](ReleaseOp release) {
    if (context.readByThreads.contains(getPipe(release.getBuffer())))
      context.readByThreads.insert(release);
  });
}

/// Attaches what a launch, and the assembler, have to know of a kernel.
static void setLaunchAttributes(LLVM::LLVMFuncOp function,
                                const KernelContext &context) {
  Builder builder(function.getContext());
  auto numThreads = static_cast<int32_t>(context.numThreads);
  auto cluster = static_cast<int32_t>(context.cluster);
  function->setAttr(kBlockSizeAttrName, builder.getI32IntegerAttr(numThreads));
  function->setAttr(
      kSharedBytesAttrName,
      builder.getI32IntegerAttr(static_cast<int32_t>(context.sharedBytes)));
  if (cluster > 1) {
    function->setAttr(kClusterSizeAttrName, builder.getI32IntegerAttr(cluster));
    function->setAttr(NVVM::NVVMDialect::getClusterDimAttrName(),
                      builder.getDenseI32ArrayAttr({cluster}));
  }
  function->setAttr(NVVM::NVVMDialect::getReqntidAttrName(),
                    builder.getDenseI32ArrayAttr({numThreads}));
  function->setAttr(
      NVVM::NVVMDialect::getMinctasmAttrName(),
      builder.getI32IntegerAttr(static_cast<int32_t>(context.ctasPerSm)));
}

/// Moves the body of a kernel to its function. The kernel's arguments become
/// casts of the function's parameters, which the conversion resolves.
static LogicalResult moveBody(IRRewriter &rewriter, KernelOp kernel,
                              LLVM::LLVMFuncOp function,
                              const TypeConverter &converter) {
  Block *body = &kernel.getBody().front();
  Block *entry = function.addEntryBlock(rewriter);
  rewriter.setInsertionPointToStart(entry);
  ValueRange parameters = entry->getArguments();
  SmallVector<Value> arguments;
  for (BlockArgument argument : body->getArguments()) {
    Location loc = argument.getLoc();
    SmallVector<Type> types;
    if (failed(converter.convertType(argument.getType(), types)))
      return kernel.emitOpError("has an argument of type ")
             << argument.getType() << " that cannot be passed to a GPU";
    SmallVector<Value> values(parameters.take_front(types.size()));
    parameters = parameters.drop_front(types.size());
    if (argument.getType().isIndex())
      values.front() = arith::TruncIOp::create(
          rewriter, loc, rewriter.getI32Type(), values.front());
    if (types.size() == 1 && values.front().getType() == argument.getType()) {
      arguments.push_back(values.front());
      continue;
    }
    arguments.push_back(UnrealizedConversionCastOp::create(
                            rewriter, loc, argument.getType(), values)
                            .getResult(0));
  }
  rewriter.mergeBlocks(body, entry, arguments);
  return success();
}

/// Converts the operations of a kernel's function.
static LogicalResult convertBody(LLVM::LLVMFuncOp function,
                                 TileTypeConverter &converter,
                                 KernelContext &context) {
  MLIRContext *mlirContext = function.getContext();
  RewritePatternSet patterns(mlirContext);
  ConversionTarget conversionTarget(*mlirContext);
  populatePatterns(patterns, converter, context);
  scf::populateSCFStructuralTypeConversionsAndLegality(converter, patterns,
                                                       conversionTarget);
  // Loops without results have bounds to convert, too.
  conversionTarget.addDynamicallyLegalOp<scf::ForOp>([&](scf::ForOp op) {
    return converter.isLegal(op) && converter.isLegal(&op.getRegion());
  });
  conversionTarget.addIllegalDialect<AttnTileDialect, vector::VectorDialect,
                                     memref::MemRefDialect>();
  conversionTarget.addIllegalOp<gpu::SubgroupReduceOp>();
  conversionTarget.addLegalOp<AuxiliaryWarpsOp, RoleOp>();
  conversionTarget.addLegalDialect<LLVM::LLVMDialect, NVVM::NVVMDialect>();
  conversionTarget
      .addDynamicallyLegalDialect<arith::ArithDialect, math::MathDialect>(
          [&](Operation *op) -> std::optional<bool> {
            return converter.isLegal(op) && !isApproximated(op);
          });
  // Masks divide positions that may be negative.
  arith::populateCeilFloorDivExpandOpsPatterns(patterns);
  conversionTarget.addIllegalOp<arith::FloorDivSIOp, arith::CeilDivSIOp,
                                arith::CeilDivUIOp>();
  conversionTarget.addLegalOp<UnrealizedConversionCastOp>();
  return applyPartialConversion(function, conversionTarget,
                                std::move(patterns));
}

/// Invariants of `attn_tile.thread_for` loops are hoisted only in warps that
/// generate keep masks and nothing else: they have the registers for it.
static void hoistInvariants(LLVM::LLVMFuncOp function,
                            const KernelContext &context) {
  auto hoist = [](Operation *root) {
    root->walk([](scf::ForOp loop) { moveLoopInvariantCode(loop); });
  };
  for (AuxiliaryWarpsOp auxiliary : function.getOps<AuxiliaryWarpsOp>())
    if (auxiliary.getJoined())
      hoist(auxiliary);
  if (context.numThreads == attn_tile::warpThreads)
    hoist(function);
}

LogicalResult ConvertAttnTileToNVVMPass::lowerKernel(KernelOp kernel,
                                                     const TargetInfo &target) {
  if (failed(verifyKernel(kernel, target)) ||
      failed(chooseMmas(kernel, target)))
    return failure();
  FailureOr<int64_t> sharedBytes = getSharedBytes(kernel, target);
  if (failed(sharedBytes))
    return failure();

  KernelContext context(target, kernel.getLayoutAttr());
  context.sharedBytes = *sharedBytes;
  context.ticketOffset = getTicketOffset(kernel, *sharedBytes);
  context.cluster = kernel.getClusterSize();
  if (context.cluster > 1 && !target.getClusters())
    return emitMissing(kernel, "clusters", target);
  context.idleWarps = getIdleWarps(kernel);
  if (failed(assignThreads(kernel, context)) ||
      failed(verifyTiles(kernel, context)) ||
      failed(verifyMmas(kernel, context)))
    return failure();
  DenseSet<Operation *> pingpongRoles;
  kernel.walk([&](PingpongWaitOp wait) {
    if (auto role = wait->getParentOfType<RoleOp>())
      pingpongRoles.insert(role);
  });
  collectUses(kernel, context);
  expectFewMasks(kernel);

  // The function goes to a module of its own, to which launches refer.
  IRRewriter rewriter(&getContext());
  rewriter.setInsertionPoint(kernel);
  std::string moduleName = (kernel.getName() + "_module").str();
  auto gpuModule =
      gpu::GPUModuleOp::create(rewriter, kernel.getLoc(), moduleName);
  LLVM::GlobalOp shared = declareSharedMemory(rewriter, gpuModule, target);
  emitEntryValues(kernel, context, shared, declareZeros(rewriter, gpuModule));
  TileTypeConverter converter(context);
  LLVM::LLVMFuncOp function =
      createFunction(rewriter, kernel, gpuModule, converter);
  setLaunchAttributes(function, context);
  if (failed(moveBody(rewriter, kernel, function, converter)) ||
      failed(convertBody(function, converter, context)))
    return failure();
  hoistInvariants(function, context);
  lowerRoles(function, context, pingpongRoles);

  auto symbol = SymbolRefAttr::get(
      &getContext(), moduleName,
      {FlatSymbolRefAttr::get(&getContext(), function.getSymName())});
  StringAttr kernelName = kernel.getSymNameAttr();
  getOperation().walk([&](LaunchOp launch) {
    if (launch.getKernelAttr().getRootReference() == kernelName)
      launch.setKernelAttr(symbol);
  });
  kernel.erase();
  return success();
}
