//===- HoistRng.cpp - Generates keep masks before attention ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Gives attentions with dropout a keep mask, which is generated once,
// concurrently with matmuls that run before.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/DropoutUsers.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/Attn/IR/KeepMaskLayout.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "attn/Interfaces/Target.h"
#include "attn/PerfModel/Roofline.h"
#include "attn/Scheduling/DropoutTime.h"
#include "attn/Scheduling/ForwardSchedules.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/Transforms/Transforms.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <numeric>

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNHOISTRNGPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;

//===----------------------------------------------------------------------===//
// Rewriting
//===----------------------------------------------------------------------===//

/// Adds the `tensor.dim` operations from which `size` is computed to `dims`.
static void collectDims(Value size, SmallVectorImpl<Operation *> &dims) {
  Operation *op = size.getDefiningOp();
  if (isa_and_present<tensor::DimOp>(op)) {
    if (!llvm::is_contained(dims, op))
      dims.push_back(op);
  } else if (isa_and_present<arith::CeilDivUIOp, arith::MulIOp>(op)) {
    for (Value operand : op->getOperands())
      collectDims(operand, dims);
  }
}

/// An uninitialised mask for `users`, whose sizes depend on as few operations
/// as possible.
static tensor::EmptyOp emitMask(ImplicitLocOpBuilder &b,
                                const DropoutUsers &users) {
  auto size = [&](Value value, unsigned dim) {
    return tensor::getMixedSize(b, b.getLoc(), value, dim);
  };
  std::array<OpFoldResult, 4> pairs = {
      size(users.query, 0), size(users.query, 1), size(users.query, 2),
      size(users.key, 2)};
  SmallVector<OpFoldResult> sizes =
      emitKeepMaskSizes(b, b.getLoc(), pairs[0], pairs[1], pairs[2], pairs[3]);
  if (users.getLayout() == MaskLayout::Columns)
    std::swap(sizes[2], sizes[3]);
  auto mask = tensor::EmptyOp::create(b, sizes, b.getI32Type());
  SmallVector<Operation *> dims;
  for (OpOperand &size : mask->getOpOperands())
    collectDims(size.get(), dims);
  if (!dims.empty()) {
    RewritePatternSet patterns(b.getContext());
    memref::populateResolveRankedShapedTypeResultDimsPatterns(patterns);
    tensor::DimOp::getCanonicalizationPatterns(patterns, b.getContext());
    // Sizes that cannot be resolved stay.
    (void)applyOpPatternsGreedily(dims, std::move(patterns));
  }
  return mask;
}

/// Generates the keep mask of heads from `first` on in `part`.
static Value emitKeepMask(ImplicitLocOpBuilder &b, const DropoutUsers &users,
                          Value part, int64_t first) {
  return DropoutMaskOp::create(b, part.getType(), users.seed, users.offset,
                               part, users.positions, users.dropout,
                               users.getLayout(), first,
                               /*schedule=*/nullptr)
      .getResult();
}

/// Replaces `matmul` by an overlap with the keep mask of `heads` heads from
/// `first` on. Returns the new contents of `mask`.
static Value overlap(RewriterBase &rewriter, MatmulOp matmul,
                     const DropoutUsers &users, Value mask, int64_t first,
                     int64_t heads, OverlapKind kind) {
  Location loc = matmul.getLoc();
  rewriter.setInsertionPoint(matmul);
  ImplicitLocOpBuilder b(users.getLoc(), rewriter);
  b.setInsertionPoint(matmul);
  bool isWhole = heads == getDimSize(mask, 1);
  SmallVector<OpFoldResult> offsets(4, b.getIndexAttr(0)),
      strides(4, b.getIndexAttr(1)), sizes;
  Value part = mask;
  if (!isWhole) {
    sizes = tensor::getMixedSizes(b, loc, mask);
    offsets[1] = b.getIndexAttr(first);
    sizes[1] = b.getIndexAttr(heads);
    part = tensor::ExtractSliceOp::create(b, mask, offsets, sizes, strides);
  }

  OperationState state(loc, OverlapOp::getOperationName(), ValueRange(),
                       {matmul.getResult().getType(), part.getType()});
  state.getOrAddProperties<OverlapOp::Properties>().kind =
      OverlapKindAttr::get(b.getContext(), kind);
  Block *matmulBody = &state.addRegion()->emplaceBlock();
  Block *maskBody = &state.addRegion()->emplaceBlock();
  auto op = cast<OverlapOp>(b.create(state));
  rewriter.replaceAllUsesWith(matmul.getResult(), op.getResult(0));
  rewriter.moveOpBefore(matmul, matmulBody, matmulBody->end());
  b.setInsertionPointToEnd(matmulBody);
  OverlapYieldOp::create(b, loc, matmul->getResults());
  b.setInsertionPointToEnd(maskBody);
  OverlapYieldOp::create(b, ValueRange{emitKeepMask(b, users, part, first)});
  b.setInsertionPointAfter(op);
  if (isWhole)
    return op.getResult(1);
  return tensor::InsertSliceOp::create(b, op.getResult(1), mask, offsets, sizes,
                                       strides);
}

/// Erases `op` if nothing uses it, and then its unused operands.
static void eraseUnused(RewriterBase &rewriter, Operation *op) {
  if (!op || !isOpTriviallyDead(op))
    return;
  llvm::SmallSetVector<Value, 4> operands(op->operand_begin(),
                                          op->operand_end());
  rewriter.eraseOp(op);
  for (Value operand : operands)
    eraseUnused(rewriter, operand.getDefiningOp());
}

/// Makes `op` read `mask`.
template <typename OpTy>
static void readMask(RewriterBase &rewriter, OpTy op, Value mask,
                     MaskLayout layout) {
  DropoutAttr dropout = op.getDropoutAttr();
  rewriter.modifyOpInPlace(op, [&] {
    op.getSeedMutable().clear();
    op.getOffsetMutable().clear();
    op.removeDropoutAttr();
    if (op.getDropoutOnly()) {
      op.getPositionsMutable().clear();
      op.setDropoutOnly(false);
    }
    op.getDropoutMaskMutable().assign(mask);
    op.setMaskLayout(layout);
    op.setDropProbabilityAttr(rewriter.getF32FloatAttr(
        static_cast<float>(dropout.getDropProbability())));
  });
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
/// How the keep mask of some attentions may be generated.
enum class Alternative { InKernel, Sequential, Streams, Fused };

struct AttnHoistRngPass
    : public attn::impl::AttnHoistRngPassBase<AttnHoistRngPass> {
  using Base::Base;

  void getDependentDialects(DialectRegistry &registry) const override {
    AttnHoistRngPassBase::getDependentDialects(registry);
    registerScheduleDialects(registry);
  }

  void runOnOperation() override;

  LogicalResult readOptions();
  void hoist(DropoutUsers &users);
  bool replace(RewriterBase &rewriter, DropoutUsers &users,
               tensor::EmptyOp empty);
  Alternative choose(const DropoutTimes &times);
  SmallVector<int64_t> shareHeads(const DropoutUsers &users,
                                  ArrayRef<MatmulOp> matmuls);

  /// Reports why keep masks are not hoisted; returns false.
  bool missed(const DropoutUsers &users, const Twine &reason) {
    remark::missed(users.getLoc(), remark::RemarkOpts::name("dropout").category(
                                       "attn-hoist-rng"))
        << ("makes random numbers in the kernel: " + reason).str();
    return false;
  }

  const Target *targetInfo = nullptr;
  DeviceModel device;
  CostAssumptions assumptions;
  std::optional<Alternative> forced;
};
} // namespace

LogicalResult AttnHoistRngPass::readOptions() {
  func::FuncOp function = getOperation();
  FailureOr<const Target *> found = lookupTarget(function, target);
  if (failed(found))
    return failure();
  targetInfo = *found;
  FailureOr<DeviceModel> model = getDeviceModel(function, *targetInfo);
  if (failed(model))
    return failure();
  device = *model;
  assumptions = {dynamicSize, dynamicBatch};
  if (maxMatmuls <= 0)
    return function.emitError() << "max-matmuls must be positive (was "
                                << maxMatmuls.getValue() << ")";
  if (memoryBudget < -1)
    return function.emitError()
           << "memory-budget must be a number of bytes, or -1 for an eighth of "
              "the device's memory (was "
           << memoryBudget.getValue() << ")";
  auto known =
      llvm::StringSwitch<std::optional<std::optional<Alternative>>>(alternative)
          .Case("best", std::optional<Alternative>())
          .Case("in-kernel", Alternative::InKernel)
          .Case("sequential", Alternative::Sequential)
          .Case("streams", Alternative::Streams)
          .Case("fused", Alternative::Fused)
          .Default(std::nullopt);
  if (!known)
    return function.emitError()
           << "unknown alternative '" << alternative
           << "' (expected best, in-kernel, sequential, streams or fused)";
  forced = *known;
  return success();
}

/// The alternative that `times` and the options choose for `users`.
Alternative AttnHoistRngPass::choose(const DropoutTimes &times) {
  if (forced)
    return *forced;
  // Layers with fused kernels were never faster than layers whose attention
  // generates keep masks itself (docs/experiments/dropout-hoisting.md). So
  // fused kernels are used only on request, as are side streams.
  return times.sequential && *times.sequential < times.inKernel
             ? Alternative::Sequential
             : Alternative::InKernel;
}

void AttnHoistRngPass::hoist(DropoutUsers &users) {
  if (forced == Alternative::InKernel) {
    (void)missed(users, "as was asked for");
    return;
  }
  IRRewriter rewriter(&getContext());
  ImplicitLocOpBuilder b(users.getLoc(), rewriter);
  b.setInsertionPoint(users.ops.front());
  tensor::EmptyOp empty = emitMask(b, users);
  if (!replace(rewriter, users, empty) && empty->use_empty()) {
    // With the operations that compute its sizes.
    llvm::SmallSetVector<Value, 4> sizes(empty->operand_begin(),
                                         empty->operand_end());
    rewriter.eraseOp(empty);
    for (Value size : sizes)
      eraseUnused(rewriter, size.getDefiningOp());
  }
}

/// Heads whose keep masks are generated concurrently with each of `matmuls`: in
/// proportion to its time, at least one.
SmallVector<int64_t> AttnHoistRngPass::shareHeads(const DropoutUsers &users,
                                                  ArrayRef<MatmulOp> matmuls) {
  SmallVector<double> times = llvm::map_to_vector(matmuls, [&](MatmulOp op) {
    return estimateMatmul(op, device, assumptions);
  });
  double total = std::accumulate(times.begin(), times.end(), 0.0);
  int64_t left = users.getNumHeads();
  SmallVector<int64_t> shares;
  for (auto [i, seconds] : llvm::enumerate(times)) {
    auto others = int64_t(times.size() - i) - 1;
    int64_t share = std::llround(double(left) * seconds / total);
    share = others == 0 ? left : std::clamp<int64_t>(share, 1, left - others);
    shares.push_back(share);
    left -= share;
    total -= seconds;
  }
  return shares;
}

/// Makes `users` read keep masks, in the memory `empty`, if that is possible
/// and takes less time.
bool AttnHoistRngPass::replace(RewriterBase &rewriter, DropoutUsers &users,
                               tensor::EmptyOp empty) {
  std::string reason;
  SmallVector<Value> needed = {users.seed, users.offset, empty};
  if (users.positions)
    needed.push_back(users.positions);
  SmallVector<MatmulOp> matmuls = findMatmulsBefore(users, needed, reason);
  DropoutTimes times =
      estimateDropout(users.ops, matmuls, *targetInfo, device, assumptions);
  Alternative best = choose(times);
  if (best == Alternative::InKernel)
    return missed(users, times.describe());
  if (memoryBudget >= 0 && !empty.getType().hasStaticShape())
    return missed(users, llvm::formatv("how many bytes a mask takes is not "
                                       "known, and {0} may be used",
                                       memoryBudget.getValue())
                             .str());
  int64_t budget = memoryBudget >= 0 ? memoryBudget : device.memoryBytes / 8;
  if (times.maskBytes > double(budget))
    return missed(users,
                  llvm::formatv("a mask takes {0:f0} bytes, of which {1} "
                                "may be used",
                                times.maskBytes, budget)
                      .str());
  bool isConcurrent = best != Alternative::Sequential;
  if (isConcurrent && matmuls.empty())
    return missed(users, reason);

  Value mask = empty;
  ImplicitLocOpBuilder b(users.getLoc(), rewriter);
  if (isConcurrent) {
    int64_t most = std::min<int64_t>(maxMatmuls, users.getNumHeads());
    if (int64_t(matmuls.size()) > most)
      matmuls.truncate(most);
    if (failed(moveValueDefinitions(rewriter, needed, matmuls.back())))
      return missed(users, "seed, offset or sizes cannot be moved");
    SmallVector<int64_t> shares = shareHeads(users, matmuls);
    int64_t head = 0;
    for (auto [matmul, heads] :
         llvm::reverse(llvm::zip_equal(matmuls, shares))) {
      mask = overlap(rewriter, matmul, users, mask, head, heads,
                     best == Alternative::Fused ? OverlapKind::Fused
                                                : OverlapKind::Streams);
      head += heads;
    }
    numMatmuls += matmuls.size();
  } else {
    b.setInsertionPointAfter(empty);
    mask = emitKeepMask(b, users, mask, /*first=*/0);
  }
  ++numMasks;
  for (AttentionOpInterface op : users.ops)
    if (auto attention = dyn_cast<AttentionOp>(op.getOperation()))
      readMask(rewriter, attention, mask, users.getLayout());
    else
      readMask(rewriter, cast<AttentionGradOp>(op.getOperation()), mask,
               users.getLayout());
  remark::passed(users.getLoc(),
                 remark::RemarkOpts::name("dropout").category("attn-hoist-rng"))
      << llvm::formatv("reads keep masks generated {0}, {1} bytes: {2}",
                       isConcurrent ? "concurrently with " +
                                          Twine(matmuls.size()) + " matmuls"
                                    : Twine("before"),
                       int64_t(times.maskBytes), times.describe())
             .str();
  return true;
}

void AttnHoistRngPass::runOnOperation() {
  if (failed(readOptions()))
    return signalPassFailure();
  for (DropoutUsers &users : collectDropoutUsers(getOperation())) {
    if (llvm::any_of(users.ops, [](AttentionOpInterface op) {
          return op.getKeyLengths() || op.hasPackedQueries();
        })) {
      (void)missed(users,
                   "a KV cache has room for more keys than its sequences have");
      continue;
    }
    if (llvm::any_of(users.ops, [](AttentionOpInterface op) {
          return !op.getAddressing().hasEntries();
        })) {
      (void)missed(users,
                   "lengths of packed sequences are known on the device alone");
      continue;
    }
    hoist(users);
  }
}
