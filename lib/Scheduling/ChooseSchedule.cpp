//===- ChooseSchedule.cpp - Attach a schedule to each attention -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks that a target supports each operation, and gives it the schedule that
// the target's family of schedules prefers.
//
//===----------------------------------------------------------------------===//

#include "ChooseMatmulSchedule.h"
#include "RegionRequirements.h"
#include "ScheduleCandidates.h"
#include "attn/Dialect/Attn/IR/AttnLinearOps.h"
#include "attn/Dialect/Attn/IR/AttnMergeOps.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/AttnTile/IR/AttnTileDialect.h"
#include "attn/Dialect/AttnTile/IR/StreamingOpInterface.h"
#include "attn/PerfModel/Roofline.h"
#include "attn/Scheduling/ForwardSchedules.h"
#include "attn/Scheduling/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/DebugLog.h"

#include <cmath>

namespace mlir::attn {
#define GEN_PASS_DEF_CHOOSESCHEDULEPASS
#include "attn/Scheduling/Passes.h.inc"
} // namespace mlir::attn

#define DEBUG_TYPE "attn-choose-schedule"

using namespace mlir;
using namespace mlir::attn;

/// Checks that kernels on `target` support heads with `headDim` elements, at
/// most `most`. The error begins with `name`.
static LogicalResult verifyHeadDim(Operation *op, const Twine &name,
                                   int64_t headDim, int64_t most,
                                   const Target &target) {
  if (target.supportsHeadDim(headDim) && headDim <= most)
    return success();
  InFlightDiagnostic error =
      op->emitOpError() << name << " on " << target.getName() << " must be ";
  if (target.getHeadDimUnit() > 1)
    error << "a multiple of " << target.getHeadDimUnit() << " and ";
  return error << "at most " << most << " (was " << headDim << ")";
}

/// Checks that kernels on `target` support the tensors of `op`.
static LogicalResult verifyTensors(AttentionOpInterface op,
                                   const Target &target) {
  for (Value operand : {op.getQuery(), op.getKey()}) {
    Type element = getElementTypeOrSelf(operand);
    bool isConverted = operand == op.getKey() && convertsKeys(op);
    if (!isConverted && !target.supportsElementType(element))
      return op.emitOpError("element type on ")
             << target.getName() << " must be " << target.describeElementTypes()
             << " (was " << element << ")";
  }
  bool isGradient = isa<attn_tile::StreamingGradOpInterface>(op.getOperation());
  int64_t most = target.getMaxHeadDim();
  StringRef of = isGradient ? " of a gradient" : "";
  return success(succeeded(verifyHeadDim(op, "query head dim" + of,
                                         op.getQKHeadDim(), most, target)) &&
                 succeeded(verifyHeadDim(op, "value head dim" + of,
                                         op.getVHeadDim(), most, target)));
}

/// Checks the operands of 8 bits, if `op` has any, and what else it has.
static LogicalResult verifyFloat8(AttentionOp op, const Target &target) {
  Type query = getElementTypeOrSelf(op.getQuery());
  Type key = getElementTypeOrSelf(op.getKey());
  if (target.isHost() || !isFloat8(key))
    return success();
  bool isConverted = convertsKeys(op);
  if (isConverted && (query.isF32() || op.getIdentity()))
    return op.emitOpError("kernels on ")
           << target.getName() << " cannot convert keys and values of " << key
           << " to " << query << ": "
           << (query.isF32()
                   ? "they convert to 16 bits alone"
                   : "the identity is mixed with values in registers");
  std::optional<std::string> reason =
      isConverted ? std::nullopt : whyNotFloat8(op);
  if (reason)
    return op.emitOpError("kernels on ")
           << target.getName() << " cannot multiply elements of " << query
           << ": " << *reason;
  // Copies of rows are of whole 16 bytes.
  constexpr int64_t unit = 16;
  for (auto [name, headDim] : {std::pair("query", op.getQKHeadDim()),
                               std::pair("value", op.getVHeadDim())})
    if (int64_t most =
            isConverted ? target.getMaxHeadDim() : target.getMaxWholeHeadDim();
        headDim % unit != 0 || headDim > most)
      return op.emitOpError(name)
             << " head dim of " << key << " on " << target.getName()
             << " must be a multiple of " << unit << " and at most " << most
             << " (was " << headDim << ")";
  return success();
}

/// Checks that kernels can write the output of `op`, if it has 8 bits.
static LogicalResult verifyOutput(AttentionOp op, const Target &target) {
  Type out = getElementTypeOrSelf(op.getOut());
  std::optional<std::string> reason =
      isFloat8(out) ? whyNotWriteFloat8(op, target) : std::nullopt;
  if (reason)
    return op.emitOpError("kernels on ")
           << target.getName() << " cannot write an output of " << out << ": "
           << *reason;
  return success();
}

static LogicalResult verifyTensors(AttentionOp op, const Target &target) {
  return success(succeeded(verifyTensors(
                     cast<AttentionOpInterface>(op.getOperation()), target)) &&
                 succeeded(verifyFloat8(op, target)) &&
                 succeeded(verifyOutput(op, target)));
}

static LogicalResult verifyTensors(attn_tile::StreamingGradOpInterface op,
                                   const Target &target) {
  if (failed(verifyTensors(AttentionOpInterface(op), target)))
    return failure();
  Type element = getElementTypeOrSelf(op.getQuery().getType());
  Type other = getElementTypeOrSelf(op.getGradOperands().outputGrad);
  if (!target.isHost() && element != other)
    return op.emitOpError("gradient of the output on ")
           << target.getName()
           << " must have the element type of the query (expected " << element
           << ", found " << other << ")";
  return success();
}

/// Checks that `op` can have `schedule`, which may be a choice, on `target`.
static LogicalResult verifyGivenSchedule(Operation *op, Attribute schedule,
                                         const Target &target) {
  auto choice = dyn_cast<ByQueryLengthAttr>(schedule);
  if (!choice)
    return cast<ScheduleAttrInterface>(schedule).verifyUse(op, target);
  if (!isa<AttentionOp, attn_tile::StreamingGradOpInterface>(op))
    return op->emitOpError("cannot have schedule '")
           << schedule << "', it is for attention and gradients";
  return failure(choice.any([&](ScheduleAttrInterface each) {
    return failed(each.verifyUse(op, target));
  }));
}

/// Whether `given` is of the same kind as `expected`, or as a schedule that it
/// chooses.
static bool isLike(Attribute given, Attribute expected) {
  if (given.getTypeID() == expected.getTypeID())
    return true;
  auto choice = dyn_cast<attn_tile::ByWorkItemsAttr>(expected);
  return choice && isLike(given, choice.getOtherwise());
}

/// Gives `op` the schedule `expected`, or checks that the one it has is of the
/// same kind.
template <typename OpTy>
static LogicalResult setOrVerifySchedule(OpTy op,
                                         ScheduleAttrInterface expected,
                                         const Target &target) {
  if (!op.getScheduleAttr())
    op.setScheduleAttr(expected);
  if (!isLike(op.getScheduleAttr(), expected))
    return op.emitOpError("schedule on ")
           << target.getName() << " must be like " << Attribute(expected)
           << " (was " << Attribute(op.getScheduleAttr()) << ")";
  return success();
}

/// The smallest number of a resource, more than `device` has, with which a
/// schedule fits; `std::nullopt` if this resource is not the only limit.
static std::optional<int64_t>
findSmallest(DeviceModel device, int64_t DeviceModel::*resource,
             function_ref<bool(const DeviceModel &)> fits) {
  constexpr int64_t most = int64_t(1) << 30;
  int64_t tooFew = device.*resource, enough = most;
  device.*resource = enough;
  if (tooFew >= enough || !fits(device))
    return std::nullopt;
  while (enough - tooFew > 1) {
    device.*resource = tooFew + (enough - tooFew) / 2;
    (fits(device) ? enough : tooFew) = device.*resource;
  }
  return enough;
}

namespace {
struct ChooseSchedulePass
    : public attn::impl::ChooseSchedulePassBase<ChooseSchedulePass> {
  using Base::Base;

  void runOnOperation() override;
};

/// Gives each operation of a function a schedule.
class Chooser {
public:
  Chooser(const Target &target, StringRef deviceName, const DeviceModel &device,
          const ScheduleDatabase &measured, int64_t dqWorkspaceBytes)
      : target(target), family(ScheduleFamily::get(target)),
        deviceName(deviceName), device(device), measured(measured),
        dqWorkspaceBytes(dqWorkspaceBytes) {}

  LogicalResult choose(Operation *op);

private:
  using Choice = FailureOr<std::optional<ScheduleChoice>>;

  /// Choices for a device with the figures of this one, or with more shared
  /// memory.
  Choice find(AttentionOp op, const DeviceModel &figures);
  Choice find(attn_tile::StreamingGradOpInterface op,
              const DeviceModel &figures);
  template <typename OpTy>
  LogicalResult chooseAttention(OpTy op);
  template <typename OpTy>
  LogicalResult reportTooLarge(OpTy op);
  LogicalResult chooseStreaming(attn_tile::StreamingOpInterface op);
  LogicalResult chooseMap(MapHeadsOp map);
  template <typename OpTy>
  LogicalResult chooseMoveRows(OpTy op, ScheduleAttrInterface schedule);
  LogicalResult chooseAppend(CacheAppendOp append);
  template <typename OpTy>
  const ScheduleFamily &getFamily(OpTy op);
  LogicalResult chooseLinear(LinearAttentionOp op);
  LogicalResult chooseLinear(LinearAttentionGradOp op);
  template <typename OpTy>
  LogicalResult chooseMerge(OpTy op, ScheduleAttrInterface schedule);

  const Target &target;
  const ScheduleFamily &family;
  StringRef deviceName;
  const DeviceModel &device;
  const ScheduleDatabase &measured;
  int64_t dqWorkspaceBytes;
};
} // namespace

Chooser::Choice Chooser::find(AttentionOp op, const DeviceModel &figures) {
  // Measured times hold for the device itself, not for one with more memory.
  if (figures.sharedBytes == device.sharedBytes) {
    Choice choice = chooseMeasuredSchedule(op, target, deviceName, measured);
    LDBG() << (succeeded(choice) && *choice ? "measured times of "
                                            : "no measured times of ")
           << *op;
    if (failed(choice) || *choice)
      return choice;
  }
  return chooseForwardSchedule(op, target, figures);
}

Chooser::Choice Chooser::find(attn_tile::StreamingGradOpInterface op,
                              const DeviceModel &figures) {
  return ScheduleFamily::get(target, getElementTypeOrSelf(op.getQuery()))
      .chooseGradient(op, figures, dqWorkspaceBytes);
}

/// Reports that no schedule of `op` fits the device, and how much it lacks.
template <typename OpTy>
LogicalResult Chooser::reportTooLarge(OpTy op) {
  InFlightDiagnostic diagnostic =
      op.emitOpError("has no schedule that fits the capacities of ")
      << target.getName();
  auto fits = [&](const DeviceModel &larger) {
    Choice candidate = find(op, larger);
    return succeeded(candidate) && *candidate;
  };
  std::optional<int64_t> smallest =
      findSmallest(device, &DeviceModel::sharedBytes, fits);
  if (!smallest) {
    std::optional<int64_t> registers =
        findSmallest(device, &DeviceModel::extraRegisters, fits);
    diagnostic << ": all of them need more registers than a thread has";
    return registers ? diagnostic << " (" << *registers << " too many)"
                     : diagnostic;
  }
  return diagnostic << ": the smallest one needs " << *smallest
                    << " bytes of shared memory, but " << deviceName << " has "
                    << device.sharedBytes << " ("
                    << *smallest - device.sharedBytes << " too many)";
}

template <typename OpTy>
LogicalResult Chooser::chooseAttention(OpTy op) {
  if (failed(verifyTensors(op, target)))
    return failure();
  if (Attribute schedule = op.getScheduleAttr())
    return verifyGivenSchedule(op, schedule, target);
  Choice choice = find(op, device);
  if (failed(choice))
    return failure();
  if (!*choice)
    return reportTooLarge(op);
  op.setScheduleAttr((*choice)->schedule);
  std::string text = "chose ";
  llvm::raw_string_ostream(text)
      << (*choice)->schedule << ": " << (*choice)->reason;
  remark::passed(
      op.getLoc(),
      remark::RemarkOpts::name("schedule").category("attn-choose-schedule"))
      << text;
  return success();
}

/// Reductions other than attention have no model.
LogicalResult Chooser::chooseStreaming(attn_tile::StreamingOpInterface op) {
  auto attention = cast<AttentionOpInterface>(op.getOperation());
  if (failed(verifyTensors(attention, target)))
    return failure();
  if (Attribute schedule = attention.getScheduleAttr())
    return verifyGivenSchedule(op, schedule, target);
  Type element = getElementTypeOrSelf(attention.getQuery());
  ScheduleAttrInterface schedule =
      ScheduleFamily::get(target, element).getStreaming(attention, device);
  if (!schedule)
    return op->emitOpError("has no schedule that fits the capacities of ")
           << target.getName();
  LDBG() << Attribute(schedule) << " without a model, for " << *op;
  attention.setScheduleAttr(schedule);
  return success();
}

/// Functions of heads are computed by kernels without MMAs.
LogicalResult Chooser::chooseMap(MapHeadsOp map) {
  int64_t headDim = cast<ShapedType>(map.getIn().getType()).getShape().back();
  if (!target.isHost() &&
      failed(verifyHeadDim(map, "head dim", headDim,
                           target.getMaxWholeHeadDim(), target)))
    return failure();
  return setOrVerifySchedule(map, family.getMap(map, device), target);
}

/// Operations that move rows have a schedule for it. Threads of GPUs access
/// aligned neighbours.
template <typename OpTy>
LogicalResult Chooser::chooseMoveRows(OpTy op, ScheduleAttrInterface schedule) {
  if (!op.getScheduleAttr())
    op.setScheduleAttr(schedule);
  return op.getScheduleAttr().verifyUse(op, target);
}

LogicalResult Chooser::chooseAppend(CacheAppendOp append) {
  if (!target.isHost() &&
      (failed(verifyHeadDim(append, "head dim of 'key'",
                            getDimSize(append.getKey(), 3),
                            target.getMaxHeadDim(), target)) ||
       failed(verifyHeadDim(append, "head dim of 'value'",
                            getDimSize(append.getValue(), 3),
                            target.getMaxHeadDim(), target))))
    return failure();
  return chooseMoveRows(append, family.getMoveRows(append->getContext()));
}

/// Checks that kernels on a GPU, `target`, compute `op`, linear attention or
/// its gradient.
template <typename OpTy>
static LogicalResult verifyLinear(OpTy op, const Target &target) {
  int64_t chunk = op.getChunkOrDefault();
  if (op.needsPairMatrices() && chunk != 64)
    return op.emitOpError("'chunk' on ")
           << target.getName() << " with "
           << (op.getBeta() ? "'beta'" : "'log_decay' of each key element")
           << " must be 64 (was " << chunk << ")";
  if (chunk != 64 && chunk != 128)
    return op.emitOpError("'chunk' on ")
           << target.getName() << " must be 64 or 128 (was " << chunk << ")";
  int64_t most = target.getMaxWholeHeadDim();
  return success(succeeded(verifyHeadDim(op, "head dim of 'key'",
                                         op.getKeyHeadDim(), most, target)) &&
                 succeeded(verifyHeadDim(op, "head dim of 'value'",
                                         op.getValueHeadDim(), most, target)));
}

/// Checks what kernels of GPUs alone do not compute in a gradient.
static LogicalResult verifyLinearGradient(LinearAttentionGradOp op,
                                          const Target &target) {
  // The gradient of the state is divided by the scale.
  constexpr double leastScale = 1e-30;
  if (std::abs(op.getScaleOrDefault()) < leastScale)
    return op.emitOpError("'scale' on ")
           << target.getName() << " must be at least " << leastScale
           << ", or at most its negative (was " << op.getScaleOrDefault()
           << ")";
  return success();
}

/// The schedule of linear attention: the one for few tokens, if it has one, the
/// one for others or, if their number is dynamic, a choice. The mean number of
/// tokens of packed sequences counts.
static Attribute chooseForTokens(LinearAttentionOp op,
                                 const ScheduleFamily &family,
                                 ScheduleAttrInterface chunks,
                                 const DeviceModel &device) {
  int64_t tokens = getDimSize(op.getQuery(), 2);
  ScheduleAttrInterface recurrent = family.getRecurrent(op);
  if (!recurrent)
    return chunks;
  int64_t bound = family.getRecurrentBound(op, recurrent, chunks, device);
  if (ShapedType::isDynamic(tokens) || op.getSequences())
    return ByQueryLengthAttr::get(op.getContext(), bound, recurrent, chunks);
  return tokens < bound ? recurrent : chunks;
}

/// The family of the schedules of `op`, whose operands have one element type.
template <typename OpTy>
const ScheduleFamily &Chooser::getFamily(OpTy op) {
  return ScheduleFamily::get(target, getElementTypeOrSelf(op.getQuery()));
}

LogicalResult Chooser::chooseLinear(LinearAttentionOp op) {
  if (!target.isHost() && failed(verifyLinear(op, target)))
    return failure();
  const ScheduleFamily &family = getFamily(op);
  ScheduleAttrInterface chunks = family.getLinear(op, device);
  if (!op.getScheduleAttr())
    op.setScheduleAttr(chooseForTokens(op, family, chunks, device));
  auto isWrong = [&](ScheduleAttrInterface given) {
    if (isLike(given, chunks))
      return !target.isHost() && failed(given.verifyUse(op, target));
    if (isa<attn_tile::LinearRecurrentAttr>(given))
      return failed(given.verifyUse(op, target));
    op.emitOpError("schedule on ")
        << target.getName() << " must be like " << Attribute(chunks) << " (was "
        << Attribute(given) << ")";
    return true;
  };
  if (auto choice = dyn_cast<ByQueryLengthAttr>(op.getScheduleAttr()))
    return failure(choice.any(isWrong));
  return failure(isWrong(op.getChosenSchedule()));
}

LogicalResult Chooser::chooseLinear(LinearAttentionGradOp op) {
  if (!target.isHost() && (failed(verifyLinearGradient(op, target)) ||
                           failed(verifyLinear(op, target))))
    return failure();
  if (failed(
          setOrVerifySchedule(op, getFamily(op).getLinear(op, device), target)))
    return failure();
  return target.isHost() ? success()
                         : op.getScheduleAttr().verifyUse(op, target);
}

/// Merges and their gradients move rows.
template <typename OpTy>
LogicalResult Chooser::chooseMerge(OpTy op, ScheduleAttrInterface schedule) {
  if (!target.isHost() && failed(verifyHeadDim(op, "head dim", op.getHeadDim(),
                                               target.getMaxHeadDim(), target)))
    return failure();
  return chooseMoveRows(op, schedule);
}

LogicalResult Chooser::choose(Operation *op) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case<AttentionOp, attn_tile::StreamingGradOpInterface>(
          [&](auto attention) { return chooseAttention(attention); })
      .Case([&](attn_tile::StreamingOpInterface streaming) {
        return chooseStreaming(streaming);
      })
      .Case([&](MatmulOp matmul) {
        return chooseMatmulSchedule(matmul, target, device);
      })
      // Keep masks are generated by kernels that run before attention.
      .Case([&](DropoutMaskOp mask) {
        return setOrVerifySchedule(mask, family.getScalar(op->getContext()),
                                   target);
      })
      .Case([&](MapHeadsOp map) { return chooseMap(map); })
      .Case([&](CacheAppendOp append) { return chooseAppend(append); })
      .Case<LinearAttentionOp, LinearAttentionGradOp>(
          [&](auto linear) { return chooseLinear(linear); })
      .Case([&](MergeOp merge) {
        return chooseMerge(merge, family.getMerge(op->getContext()));
      })
      .Case([&](MergeGradOp merge) {
        return chooseMerge(merge, family.getMoveRows(op->getContext()));
      })
      .Case([&](MaskTableOpInterface table) {
        if (!table.getScheduleAttr())
          table.setScheduleAttr(family.getScalar(op->getContext()));
        return success();
      })
      .Default([](Operation *) { return success(); });
}

void ChooseSchedulePass::runOnOperation() {
  FailureOr<const Target *> found = lookupTarget(getOperation(), target);
  if (failed(found))
    return signalPassFailure();
  if (dqWorkspaceBytes < -1) {
    getOperation().emitError("dq-workspace-bytes must be a number of bytes, "
                             "or -1 for no limit (was ")
        << dqWorkspaceBytes.getValue() << ")";
    return signalPassFailure();
  }
  ScheduleDatabase measured;
  if (!database.empty() && failed(measured.read(getOperation(), database)))
    return signalPassFailure();
  FailureOr<DeviceModel> device = getDeviceModel(getOperation(), **found);
  if (failed(device))
    return signalPassFailure();
  StringRef deviceName = getDevice(getOperation(), target).getName();
  Chooser chooser(**found, deviceName, *device, measured, dqWorkspaceBytes);
  WalkResult result = getOperation().walk(
      [&](Operation *op) { return WalkResult(chooser.choose(op)); });
  if (result.wasInterrupted())
    return signalPassFailure();
}
