//===- ChooseMethod.cpp - The fastest method of sharding ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compares the simulated times of methods.
//
//===----------------------------------------------------------------------===//

#include "ChooseMethod.h"
#include "LinearShard.h"
#include "MethodTime.h"
#include "SequenceShard.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::attn;

/// The methods among which the pass chooses, and their names in the model. Of
/// equal ones, the first is taken: the simplest order of positions, and then
/// the least memory.
static constexpr std::pair<RankMethod, ShardMethod> shardMethods[] = {
    {RankMethod::Ring, ShardMethod::Ring},
    {RankMethod::LightSeq, ShardMethod::LightSeq},
    {RankMethod::AllGather, ShardMethod::AllGather},
    {RankMethod::Zigzag, ShardMethod::Zigzag},
    {RankMethod::Striped, ShardMethod::Striped},
    {RankMethod::Ulysses, ShardMethod::Ulysses},
    {RankMethod::Usp, ShardMethod::Usp}};

/// Times of methods that differ by less than this part count as equal.
static constexpr double methodIndifference = 0.01;

/// As text: its name, the degree of USP, and its time.
static std::string describe(const MethodTime &time) {
  std::string text = stringifyRankMethod(time.method).str();
  if (time.method == RankMethod::Usp)
    text += llvm::formatv(" of degree {0}", time.ulyssesDegree);
  return text + llvm::formatv(", {0:f0} us", time.seconds * 1e6).str();
}

/// The number of the method to take, among `times` with the fastest one first.
static size_t findChosen(ArrayRef<MethodTime> times) {
  double most = times.front().seconds * (1 + methodIndifference);
  for (RankMethod method : llvm::make_first_range(shardMethods))
    for (auto [number, time] : llvm::enumerate(times))
      if (time.method == method && time.seconds <= most)
        return number;
  llvm_unreachable("the first of the times is not above itself");
}

/// The attentions and gradients of `module` that some method may distribute;
/// others are errors of all methods.
static SmallVector<AttentionOpInterface> findAttentions(ModuleOp module) {
  SmallVector<AttentionOpInterface> ops;
  for (auto func : module.getOps<func::FuncOp>())
    func.walk([&](AttentionOpInterface op) {
      if (isa<AttentionOp, AttentionGradOp>(op.getOperation()) &&
          isa<RankedTensorType>(op.getQuery().getType()) &&
          !findOtherClause(op) && whyNotShardSequences(op).empty())
        ops.push_back(op);
    });
  return ops;
}

/// Linear attention or its gradient in a function of `module`; null if there is
/// none.
static Operation *findLinearAttention(ModuleOp module) {
  Operation *found = nullptr;
  for (auto func : module.getOps<func::FuncOp>())
    func.walk([&](Operation *op) {
      if (!isLinearAttention(op))
        return WalkResult::advance();
      found = op;
      return WalkResult::interrupt();
    });
  return found;
}

namespace {
/// A target and its device.
struct TargetDevice {
  const Target *target;
  DeviceModel device;
};
} // namespace

/// Fails, with an error, for a target or a calibration that is not known.
static FailureOr<TargetDevice> findDevice(ModuleOp module, StringRef target) {
  FailureOr<const Target *> found = lookupTarget(module, target);
  if (failed(found))
    return failure();
  FailureOr<DeviceModel> device = getDeviceModel(module, **found);
  if (failed(device))
    return failure();
  return TargetDevice{*found, *device};
}

/// Of remarks on the choice of `what`.
static remark::RemarkOpts getRemarkOptions(StringRef what) {
  return remark::RemarkOpts::name(what).category("attn-shard-attention");
}

FailureOr<ChosenMethod> attn::chooseUspDegree(ModuleOp module, StringRef target,
                                              int64_t ranks) {
  FailureOr<TargetDevice> found = findDevice(module, target);
  if (failed(found))
    return failure();
  SmallVector<AttentionOpInterface> ops = findAttentions(module);
  int64_t degree =
      chooseUlyssesDegree(ops, ranks, getRankLinks(found->device).hostRanks);
  if (!ops.empty())
    remark::passed(ops.front()->getParentOfType<func::FuncOp>().getLoc(),
                   getRemarkOptions("degree"))
        << llvm::formatv("chose degree {0} of usp for {1} ranks", degree, ranks)
               .str();
  return ChosenMethod{ShardMethod::Usp, degree};
}

FailureOr<ChosenMethod> attn::chooseMethod(ModuleOp module, StringRef target,
                                           int64_t ranks) {
  FailureOr<TargetDevice> found = findDevice(module, target);
  if (failed(found))
    return failure();
  remark::RemarkOpts options = getRemarkOptions("method");
  if (Operation *linear = findLinearAttention(module)) {
    remark::passed(linear->getParentOfType<func::FuncOp>().getLoc(), options)
        << "chose allgather, the only method for linear attention";
    return ChosenMethod{ShardMethod::AllGather};
  }
  SmallVector<AttentionOpInterface> ops = findAttentions(module);
  if (ops.empty())
    return ChosenMethod();
  Location loc = ops.front()->getParentOfType<func::FuncOp>().getLoc();
  MethodModel model(ops, *found->target, found->device, CostAssumptions());
  auto methods = llvm::to_vector(llvm::make_first_range(shardMethods));
  // It would be another method.
  int64_t degree = model.getUlyssesDegree(RankMethod::Usp, ranks);
  if (degree == 1 || degree == ranks)
    llvm::erase(methods, RankMethod::Usp);
  // Its schedule balances one sequence, and lengths are not known here.
  if (llvm::any_of(ops,
                   [](AttentionOpInterface op) { return op.hasSequences(); }))
    llvm::erase(methods, RankMethod::LightSeq);
  SmallVector<MethodTime> times = model.estimateAll(methods, ranks);
  while (!times.empty() && !times.back().obstacle.empty()) {
    MethodTime time = times.pop_back_val();
    std::string name = stringifyRankMethod(time.method).str();
    remark::missed(loc, options) << name + " cannot serve: " + time.obstacle;
  }
  if (times.empty())
    return ChosenMethod();
  size_t number = findChosen(times);
  std::string text = llvm::formatv("chose {0}, of {1} methods for {2} ranks",
                                   describe(times[number]), times.size(), ranks)
                         .str();
  if (times.size() > 1)
    text += "; runner-up: " + describe(times[number == 0 ? 1 : 0]);
  remark::passed(loc, options) << text;
  const auto *chosen = llvm::find_if(shardMethods, [&](const auto &entry) {
    return entry.first == times[number].method;
  });
  return ChosenMethod{chosen->second, times[number].ulyssesDegree};
}
