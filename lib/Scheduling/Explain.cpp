//===- Explain.cpp - Cost report of work and its bounds -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Prints work and memory traffic of operations as a table, as JSON and as
// pictures.
//
//===----------------------------------------------------------------------===//

#include "CostReportPictures.h"
#include "attn/Analysis/DropoutUsers.h"
#include "attn/Analysis/MaskArea.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/AttnTile/IR/AttnTileDialect.h"
#include "attn/PerfModel/Roofline.h"
#include "attn/Scheduling/DropoutTime.h"
#include "attn/Scheduling/ForwardSchedules.h"
#include "attn/Scheduling/Passes.h"
#include "attn/Scheduling/ScheduleFamily.h"
#include "attn/Support/Picture.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

#include <cmath>

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNEXPLAINPASS
#include "attn/Scheduling/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;

/// The dimension of queries that counts them.
static constexpr unsigned queryLengthDim = 2;

/// The schedule of an attention, or of its gradient, for the assumed sizes;
/// null if it has none.
static ScheduleAttrInterface getSchedule(AttentionOpInterface op,
                                         const VisitedTiles &tiles) {
  Attribute chosen = op.getScheduleAttr();
  if (auto choice = dyn_cast_if_present<ByQueryLengthAttr>(chosen))
    chosen = choice.getFor(tiles.getNumQueries());
  return dyn_cast_if_present<ScheduleAttrInterface>(chosen);
}

/// The times of the kernels of an attention, or of its gradient, whose schedule
/// has a model.
static SmallVector<KernelTime>
estimateKernels(AttentionOpInterface op, const DeviceModel &device,
                const CostAssumptions &assumptions,
                ScheduleAttrInterface &schedule) {
  VisitedTiles tiles(op, assumptions);
  schedule = getSchedule(op, tiles);
  if (!schedule)
    return {};
  return schedule.estimateKernels(tiles, device);
}

/// The same of an operation that is no attention.
static SmallVector<KernelTime>
estimateOpKernels(Operation *op, const DeviceModel &device,
                  const CostAssumptions &assumptions,
                  ScheduleAttrInterface &schedule) {
  Attribute chosen = op->getAttr("schedule");
  if (auto choice = dyn_cast_if_present<ByQueryLengthAttr>(chosen))
    chosen = choice.getFor(
        assumptions.getSize(getDimSize(op->getOperand(0), queryLengthDim)));
  schedule = dyn_cast_if_present<ScheduleAttrInterface>(chosen);
  if (!schedule)
    return {};
  SmallVector<KernelTime> kernels =
      schedule.estimateOpKernels(op, assumptions, device);
  if (kernels.empty())
    schedule = {};
  return kernels;
}

/// Whether the sizes of a tensor of `function` have to be assumed.
static bool hasDynamicSizes(FunctionOpInterface function) {
  auto isDynamic = [](Type type) {
    auto shaped = dyn_cast<ShapedType>(type);
    return shaped && !shaped.hasStaticShape();
  };
  if (llvm::any_of(function.getArgumentTypes(), isDynamic))
    return true;
  return function.getFunctionBody()
      .walk([&](Operation *op) {
        return llvm::any_of(op->getResultTypes(), isDynamic)
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Counts the operations of `function` that take time, in order. Operations in
/// regions of counted operations belong to them.
static CostReportFunction makeCostReport(FunctionOpInterface function,
                                         const Target &target,
                                         const DeviceModel &device,
                                         const CostAssumptions &assumptions) {
  CostReportFunction report;
  report.name = function.getName().str();
  function.getFunctionBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
    std::optional<OpCost> cost = getOpCost(op, assumptions);
    if (!cost)
      return WalkResult::advance();
    RooflineEstimate time = estimate(*cost, device);
    SmallVector<KernelTime> kernels;
    ScheduleAttrInterface schedule;
    if (auto attention = dyn_cast<AttentionOpInterface>(op))
      kernels = estimateKernels(attention, device, assumptions, schedule);
    else
      kernels = estimateOpKernels(op, device, assumptions, schedule);
    if (!kernels.empty())
      time.seconds = getSeconds(kernels);
    else if (auto matmul = dyn_cast<MatmulOp>(op))
      time.seconds = estimateMatmul(matmul, device, assumptions);
    if (time.seconds > 0) {
      report.entries.push_back(
          {op->getName().getStringRef().str(), *cost, time, kernels, schedule});
      report.total += *cost;
      report.seconds += time.seconds;
    }
    return WalkResult::skip();
  });
  for (const DropoutUsers &users : collectDropoutUsers(function)) {
    std::string reason;
    SmallVector<MatmulOp> matmuls =
        findMatmulsBefore(users, {users.seed, users.offset}, reason);
    report.dropouts.push_back(
        {users.ops.size(), matmuls.size(),
         estimateDropout(users.ops, matmuls, target, device, assumptions)});
  }
  std::optional<TileCapacities> capacities =
      ScheduleFamily::get(target).getTileCapacities(device);
  for (OpChain &chain : findChains(function.getFunctionBody())) {
    std::optional<Derivation> tiles;
    if (capacities)
      tiles = derive(chain, assumptions, *capacities, device);
    ScheduleAttrInterface schedule;
    if (chain.getOps().size() == 1)
      if (auto attention =
              dyn_cast<AttentionOpInterface>(chain.getOps().front()))
        schedule = getSchedule(attention, VisitedTiles(attention, assumptions));
    report.derivations.push_back(
        {std::move(chain), std::move(tiles), schedule});
  }
  return report;
}

//===----------------------------------------------------------------------===//
// Axes
//===----------------------------------------------------------------------===//

/// The role of an axis in a kernel, and why.
static std::pair<StringRef, std::string>
describeAxis(const CostReportDerivation &derivation, unsigned axis) {
  const OpChain &chain = derivation.chain;
  auto describe = [](const AxisObstacle &obstacle) {
    return (obstacle.op->getName().getStringRef() + " " + obstacle.reason)
        .str();
  };
  std::optional<AxisObstacle> distribution = chain.whyNotDistribute(axis);
  if (!distribution)
    return {"distribute", ""};
  std::optional<AxisObstacle> streaming = chain.whyNotStream(axis);
  if (!streaming) {
    if (!derivation.tiles || derivation.tiles->streamed == axis)
      return {"stream", chain.getMerge(axis).str()};
    return {"whole", ("could be streamed by " + chain.getMerge(axis)).str()};
  }
  // Where nothing is accumulated, an axis can only be distributed over CTAs.
  bool isMapped = llvm::all_of(chain.getAxes()[axis].uses, [](const auto &use) {
    return use.second.law == AxisLaw::Map;
  });
  return {"whole", describe(isMapped ? *distribution : *streaming)};
}

//===----------------------------------------------------------------------===//
// Table
//===----------------------------------------------------------------------===//

static void printRow(raw_ostream &os, StringRef name, const OpCost &cost,
                     double seconds, StringRef bound) {
  double memory = cost.bytes(MemoryLevel::Memory);
  std::string intensity =
      memory > 0 ? llvm::formatv("{0:f1}", cost.getIntensity()).str() : "-";
  os << llvm::formatv("{0,-30} {1,12:f3} {2,12:f3} {3,10} {4,11:f2}  {5}\n",
                      name, cost.getFlops() * 1e-9, memory * 1e-6, intensity,
                      seconds * 1e6, bound);
}

/// The work and traffic of a step over tiles, below the row of its operation.
static void printSteps(raw_ostream &os, const OpCost &cost) {
  if (cost.steps == 0)
    return;
  os << llvm::formatv("  {0:f0} steps; per step {1:f2} MFLOP", cost.steps,
                      cost.getFlops() / cost.steps * 1e-6);
  for (MemoryLevel level : {MemoryLevel::L2, MemoryLevel::Shared})
    os << llvm::formatv(", {0:f1} kB {1}",
                        cost.bytes(level) / cost.steps * 1e-3,
                        stringifyMemoryLevel(level));
  os << "\n";
}

/// The schedule of an attention, and the time by which it was chosen.
static void printSchedule(raw_ostream &os, const CostReportEntry &entry) {
  if (!entry.schedule)
    return;
  os << "  schedule " << Attribute(entry.schedule);
  if (!entry.kernels.empty())
    os << llvm::formatv(", estimated {0:f0} us", entry.time.seconds * 1e6);
  os << "\n";
}

/// Below the table: dropout times, by where keep masks are generated.
static void printDropout(raw_ostream &os, const CostReportDropout &dropout) {
  os << llvm::formatv("dropout of {0} operation{1} after {2} matmul{3}: {4}; "
                      "mask of {5:f1} MB\n",
                      dropout.attentions, dropout.attentions == 1 ? "" : "s",
                      dropout.matmuls, dropout.matmuls == 1 ? "" : "s",
                      dropout.times.describe(), dropout.times.maskBytes * 1e-6);
}

/// Prints for how many queries `chosen`, a choice by length, has `schedule`.
static void printLengths(raw_ostream &os, Attribute chosen,
                         ScheduleAttrInterface schedule) {
  auto choice = dyn_cast_if_present<ByQueryLengthAttr>(chosen);
  for (int64_t least = 0; choice;
       choice = dyn_cast<ByQueryLengthAttr>(choice.getFrom())) {
    bool isBelow = schedule == choice.getBelow();
    if (isBelow && least > 0)
      os << ", for " << least << " to " << choice.getBound() - 1 << " queries";
    else if (isBelow)
      os << ", for less than " << choice.getBound() << " queries";
    else if (schedule == choice.getFrom())
      os << ", for at least " << choice.getBound() << " queries";
    if (isBelow)
      return;
    least = choice.getBound();
  }
}

/// Below the table: the roles that axes can have in one kernel.
static void printDerivation(raw_ostream &os,
                            const CostReportDerivation &derivation) {
  ArrayRef<Operation *> ops = derivation.chain.getOps();
  os << "derivation of " << ops.front()->getName();
  if (ops.size() > 1)
    os << " to " << ops.back()->getName() << ", " << ops.size()
       << " operations";
  os << "\n";
  const std::optional<Derivation> &tiles = derivation.tiles;
  for (auto [number, axis] : llvm::enumerate(derivation.chain.getAxes())) {
    auto [use, reason] = describeAxis(derivation, number);
    std::string size =
        ShapedType::isDynamic(axis.size) ? "?" : std::to_string(axis.size);
    os << llvm::formatv("  {0,-14} {1,8}  {2}", axis.name, size, use);
    if (tiles && use != "whole")
      os << " by " << tiles->tiles[number];
    if (!reason.empty())
      os << ": " << reason;
    os << "\n";
  }
  if (!tiles)
    return;
  os << llvm::formatv("  {0} {1:f1} kB of registers and {2:f1} kB of shared "
                      "memory",
                      tiles->fits ? "a step has" : "no tiles fit: a step needs",
                      tiles->registerBytes * 1e-3, tiles->sharedBytes * 1e-3);
  if (tiles->fits && tiles->streamed)
    os << ", bounded by " << tiles->limit;
  os << "\n";
  if (tiles->fits)
    os << llvm::formatv(
        "  {0:f0} steps move {1:f1} MB {2} and {3:f1} MB {4}; {5:f2} us, "
        "bounded by {6}\n",
        tiles->cost.steps, tiles->cost.bytes(MemoryLevel::L2) * 1e-6,
        stringifyMemoryLevel(MemoryLevel::L2),
        tiles->cost.bytes(MemoryLevel::Memory) * 1e-6,
        stringifyMemoryLevel(MemoryLevel::Memory), tiles->time.seconds * 1e6,
        tiles->time.bound);
  auto attention = dyn_cast<AttentionOpInterface>(ops.front());
  if (ops.size() > 1 || !attention)
    return;
  if (!derivation.schedule) {
    os << "  no schedule is chosen yet: attn-choose-schedule, run before, "
          "chooses the tiles of the kernel\n";
    return;
  }
  ScheduleAttrInterface schedule = derivation.schedule;
  os << llvm::formatv("  the kernel has the tiles of its schedule instead: "
                      "query {0}, key {1}",
                      schedule.getQueryTile(), schedule.getKeyTile());
  printLengths(os, attention.getScheduleAttr(), schedule);
  os << "\n";
}

static void printTable(raw_ostream &os, DeviceAttr device,
                       StringRef calibration,
                       ArrayRef<CostReportFunction> functions,
                       const std::optional<CostAssumptions> &assumed) {
  os << "device " << device
     << llvm::formatv("; ridge {0:f1} FLOP per byte\n",
                      getRidge(device.getFigures()));
  if (calibration != device.getName())
    os << "the model has the calibration of " << calibration << "\n";
  if (assumed)
    os << llvm::formatv("dynamic sizes (?) are assumed to be {0}, batch sizes "
                        "{1}; see the options dynamic-size and dynamic-batch\n",
                        assumed->dynamicSize, assumed->dynamicBatch);
  for (const CostReportFunction &function : functions) {
    os << "\n@" << function.name << "\n";
    os << llvm::formatv("{0,-30} {1,12} {2,12} {3,10} {4,11}  {5}\n",
                        "operation", "GFLOP", "MB", "FLOP/B", "us", "bound");
    for (const CostReportEntry &entry : function.entries) {
      printRow(os, entry.name, entry.cost, entry.time.seconds,
               entry.time.bound);
      printSteps(os, entry.cost);
      printSchedule(os, entry);
    }
    printRow(os, "total", function.total, function.seconds, "");
    for (const CostReportDropout &dropout : function.dropouts)
      printDropout(os, dropout);
    for (const CostReportDerivation &derivation : function.derivations)
      printDerivation(os, derivation);
  }
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

static void printCost(llvm::json::OStream &json, const OpCost &cost,
                      double seconds) {
  json.attribute("flops", cost.getFlops());
  json.attributeObject("units", [&] {
    for (unsigned i = 0; i < numExecutionUnits; ++i) {
      auto unit = static_cast<ExecutionUnit>(i);
      json.attribute(stringifyExecutionUnit(unit), cost.operations(unit));
    }
  });
  json.attributeObject("bytes", [&] {
    for (unsigned i = 0; i < numMemoryLevels; ++i) {
      auto level = static_cast<MemoryLevel>(i);
      json.attribute(stringifyMemoryLevel(level), cost.bytes(level));
    }
  });
  double intensity = cost.getIntensity();
  json.attribute("intensity", std::isfinite(intensity)
                                  ? llvm::json::Value(intensity)
                                  : llvm::json::Value(nullptr));
  json.attribute("steps", cost.steps);
  json.attribute("seconds", seconds);
}

static std::string toText(Attribute attribute) {
  std::string text;
  llvm::raw_string_ostream(text) << attribute;
  return text;
}

static void printKernel(llvm::json::OStream &json, const KernelTime &kernel) {
  json.object([&] {
    json.attribute("name", kernel.name);
    json.attribute("consumers", kernel.consumers);
    json.attribute("mma", kernel.mma);
    json.attribute("chain", kernel.chain);
    json.attribute("exponentials", kernel.exponentials);
    json.attribute("step", kernel.step);
    json.attribute("mask", kernel.mask);
    json.attribute("work_item", kernel.workItem);
    json.attribute("launch", kernel.launch);
    json.attribute("steps", kernel.numSteps);
    json.attribute("masked_steps", kernel.numMasked);
    json.attribute("work_items", kernel.numWorkItems);
    json.attribute("memory", kernel.memory);
    json.attribute("combine", kernel.combine);
    json.attribute("cycles_per_second", kernel.cyclesPerSecond);
  });
}

static void printDropout(llvm::json::OStream &json,
                         const CostReportDropout &dropout) {
  auto print = [&](StringRef name, std::optional<double> seconds) {
    json.attribute(name, seconds ? llvm::json::Value(*seconds)
                                 : llvm::json::Value(nullptr));
  };
  json.attribute("attentions", int64_t(dropout.attentions));
  json.attribute("matmuls", int64_t(dropout.matmuls));
  print("in_kernel", dropout.times.inKernel);
  print("sequential", dropout.times.sequential);
  print("fused", dropout.times.fused);
  json.attribute("mask_bytes", dropout.times.maskBytes);
}

static void printDerivation(llvm::json::OStream &json,
                            const CostReportDerivation &derivation) {
  const std::optional<Derivation> &tiles = derivation.tiles;
  json.attributeArray("operations", [&] {
    for (Operation *op : derivation.chain.getOps())
      json.value(op->getName().getStringRef());
  });
  json.attributeArray("axes", [&] {
    for (auto [number, axis] : llvm::enumerate(derivation.chain.getAxes()))
      json.object([&, number = number, &axis = axis] {
        auto [use, reason] = describeAxis(derivation, number);
        json.attribute("name", axis.name);
        json.attribute("size", ShapedType::isDynamic(axis.size)
                                   ? llvm::json::Value(nullptr)
                                   : llvm::json::Value(axis.size));
        json.attribute("use", use);
        json.attribute("reason", reason);
        if (tiles)
          json.attribute("tile", tiles->tiles[number]);
      });
  });
  if (ScheduleAttrInterface schedule = derivation.schedule)
    json.attributeObject("schedule", [&] {
      json.attribute("query_tile", schedule.getQueryTile());
      json.attribute("key_tile", schedule.getKeyTile());
    });
  if (!tiles)
    return;
  json.attribute("fits", tiles->fits);
  json.attribute("register_bytes", tiles->registerBytes);
  json.attribute("shared_bytes", tiles->sharedBytes);
  json.attribute("limit", tiles->limit);
  printCost(json, tiles->cost, tiles->time.seconds);
  json.attribute("bound", tiles->time.bound);
}

static void printEntry(llvm::json::OStream &json,
                       const CostReportEntry &entry) {
  json.attribute("name", entry.name);
  printCost(json, entry.cost, entry.time.seconds);
  json.attribute("bound", entry.time.bound);
  if (entry.schedule)
    json.attribute("schedule", toText(entry.schedule));
  if (!entry.kernels.empty())
    json.attributeArray("kernels", [&] {
      for (const KernelTime &kernel : entry.kernels)
        printKernel(json, kernel);
    });
}

static void printFunction(llvm::json::OStream &json,
                          const CostReportFunction &function) {
  json.attribute("name", function.name);
  json.attributeArray("operations", [&] {
    for (const CostReportEntry &entry : function.entries)
      json.object([&] { printEntry(json, entry); });
  });
  json.attributeObject(
      "total", [&] { printCost(json, function.total, function.seconds); });
  json.attributeArray("dropout", [&] {
    for (const CostReportDropout &dropout : function.dropouts)
      json.object([&] { printDropout(json, dropout); });
  });
  json.attributeArray("derivations", [&] {
    for (const CostReportDerivation &derivation : function.derivations)
      json.object([&] { printDerivation(json, derivation); });
  });
}

static void printJSON(raw_ostream &os, DeviceAttr device, StringRef calibration,
                      ArrayRef<CostReportFunction> functions,
                      const std::optional<CostAssumptions> &assumed) {
  llvm::json::OStream json(os, /*IndentSize=*/2);
  json.object([&] {
    json.attribute("device", toText(device));
    json.attribute("calibration", calibration);
    json.attribute("ridge", getRidge(device.getFigures()));
    json.attribute("bandwidth",
                   getPeakRate(device.getFigures(), MemoryLevel::Memory));
    if (assumed) {
      json.attribute("dynamic_size", assumed->dynamicSize);
      json.attribute("dynamic_batch", assumed->dynamicBatch);
    }
    json.attributeArray("functions", [&] {
      for (const CostReportFunction &function : functions)
        json.object([&] { printFunction(json, function); });
    });
  });
  os << "\n";
}

namespace {
struct AttnExplainPass
    : public attn::impl::AttnExplainPassBase<AttnExplainPass> {
  using Base::Base;

  void runOnOperation() override {
    markAllAnalysesPreserved();
    ModuleOp module = getOperation();
    FailureOr<const Target *> found = lookupTarget(module, target);
    if (failed(found))
      return signalPassFailure();
    DeviceAttr device = getDevice(module, target);
    FailureOr<DeviceModel> model = getDeviceModel(module, **found);
    if (failed(model))
      return signalPassFailure();
    if (format != "table" && format != "json") {
      module.emitError("unknown format '")
          << format << "' (expected table or json)";
      return signalPassFailure();
    }
    for (auto [name, size] :
         {std::pair<StringRef, int64_t>("dynamic-size", dynamicSize),
          std::pair<StringRef, int64_t>("dynamic-batch", dynamicBatch)})
      if (size <= 0) {
        module.emitError() << name << " must be positive (was " << size << ")";
        return signalPassFailure();
      }
    CostAssumptions assumptions{dynamicSize, dynamicBatch};
    SmallVector<CostReportFunction> functions;
    std::optional<CostAssumptions> assumed;
    for (auto function : module.getOps<FunctionOpInterface>()) {
      if (function.isExternal())
        continue;
      functions.push_back(
          makeCostReport(function, **found, *model, assumptions));
      if (hasDynamicSizes(function))
        assumed = assumptions;
    }

    auto print = [&](raw_ostream &os) {
      if (format == "json")
        printJSON(os, device, model->calibratedFor, functions, assumed);
      else
        printTable(os, device, model->calibratedFor, functions, assumed);
    };
    if (output.empty())
      print(llvm::errs());
    else if (failed(writeFile(module, output, print)))
      return signalPassFailure();
    if (!roofline.empty() &&
        failed(writeFile(module, roofline, [&](raw_ostream &os) {
          drawRoofline(os, device, functions);
        })))
      return signalPassFailure();
    if (!flow.empty() && failed(writeFile(module, flow, [&](raw_ostream &os) {
          drawFlow(os, functions);
        })))
      return signalPassFailure();
  }
};
} // namespace
