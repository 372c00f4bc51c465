//===- SimulateRanks.cpp - Report of times of ranks -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Prints the estimated times of methods of sharding as a table or as JSON.
//
//===----------------------------------------------------------------------===//

#include "MethodTime.h"
#include "SequenceShard.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/AttnTile/IR/AttnTileDialect.h"
#include "attn/Distributed/Passes.h"
#include "attn/PerfModel/Roofline.h"
#include "attn/Support/Picture.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNSIMULATERANKSPASS
#include "attn/Distributed/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;

namespace {
/// The times of some ranks, fastest first, with the methods that cannot serve
/// at the end.
struct RankReport {
  int64_t ranks = 0;
  SmallVector<MethodTime> methods;
};

struct FunctionReport {
  std::string name;
  /// Why ranks cannot share the function; empty if they can.
  std::string obstacle;
  double seconds = 0;
  SmallVector<RankReport> groups;
};
} // namespace

/// Why ranks cannot share `ops`, with any method; empty if they can.
static std::string whyNotShard(ArrayRef<AttentionOpInterface> ops) {
  for (AttentionOpInterface op : ops) {
    std::string name = ("'" + op->getName().getStringRef() + "' ").str();
    if (!isa<AttentionOp, AttentionGradOp>(op.getOperation()))
      return name + "cannot be distributed over ranks";
    if (!isa<RankedTensorType>(op.getQuery().getType()))
      return name + "must be on tensors to be distributed over ranks";
    if (std::optional<StringRef> clause = findOtherClause(op))
      return name + "cannot be distributed over ranks with '" + clause->str() +
             "'";
    std::string reason = whyNotShardSequences(op);
    if (!reason.empty())
      return name + reason;
  }
  return "";
}

static FunctionReport makeReport(func::FuncOp func,
                                 ArrayRef<AttentionOpInterface> ops,
                                 ArrayRef<int64_t> ranks, const Target &target,
                                 const DeviceModel &device,
                                 const CostAssumptions &assumptions) {
  FunctionReport report;
  report.name = func.getName().str();
  report.obstacle = whyNotShard(ops);
  if (!report.obstacle.empty())
    return report;
  MethodModel model(ops, target, device, assumptions);
  report.seconds = model.getWholeSeconds();
  for (int64_t number : ranks)
    report.groups.push_back(
        {number, model.estimateAll(getRankMethods(), number)});
  return report;
}

static void printTable(raw_ostream &os, DeviceAttr device,
                       ArrayRef<FunctionReport> functions) {
  os << "device " << device << "\n";
  for (const FunctionReport &function : functions) {
    os << "\n@" << function.name;
    if (!function.obstacle.empty()) {
      os << ": " << function.obstacle << "\n";
      continue;
    }
    os << llvm::formatv(", {0:f3} ms on one rank\n", function.seconds * 1e3);
    os << llvm::formatv("{0,6} {1,-10} {2,12} {3,8} {4,12} {5,12} {6,8} {7,10} "
                        "{8,12}\n",
                        "ranks", "method", "ms", "times", "compute ms",
                        "exposed ms", "hidden", "imbalance", "MB sent");
    for (const RankReport &group : function.groups)
      for (const MethodTime &time : group.methods) {
        os << llvm::formatv("{0,6} {1,-10} ", group.ranks,
                            stringifyRankMethod(time.method));
        if (!time.obstacle.empty()) {
          os << time.obstacle << "\n";
          continue;
        }
        os << llvm::formatv(
            "{0,12:f3} {1,8:f2} {2,12:f3} {3,12:f3} {4,7:f0}% {5,10:f2} "
            "{6,12:f1}\n",
            time.seconds * 1e3, function.seconds / time.seconds,
            time.computation * 1e3, time.exposed * 1e3, time.hiddenShare * 100,
            time.imbalance, time.bytesSent * 1e-6);
      }
  }
}

static void printMethod(llvm::json::OStream &json, const MethodTime &time) {
  json.attribute("method", stringifyRankMethod(time.method));
  if (time.method == RankMethod::Usp)
    json.attribute("ulysses_degree", time.ulyssesDegree);
  if (!time.obstacle.empty()) {
    json.attribute("obstacle", time.obstacle);
    return;
  }
  json.attribute("seconds", time.seconds);
  json.attribute("computation", time.computation);
  json.attribute("exposed", time.exposed);
  json.attribute("critical_computation", time.criticalComputation);
  json.attribute("hidden", time.hiddenShare);
  json.attribute("imbalance", time.imbalance);
  json.attribute("bytes_sent", time.bytesSent);
}

static void printFunction(llvm::json::OStream &json,
                          const FunctionReport &function) {
  json.attribute("name", function.name);
  if (!function.obstacle.empty()) {
    json.attribute("obstacle", function.obstacle);
    return;
  }
  json.attribute("seconds", function.seconds);
  json.attributeArray("groups", [&] {
    for (const RankReport &group : function.groups)
      json.object([&] {
        json.attribute("ranks", group.ranks);
        json.attributeArray("methods", [&] {
          for (const MethodTime &time : group.methods)
            json.object([&] { printMethod(json, time); });
        });
      });
  });
}

static void printJSON(raw_ostream &os, DeviceAttr device, StringRef calibration,
                      ArrayRef<FunctionReport> functions) {
  std::string text;
  llvm::raw_string_ostream(text) << device;
  llvm::json::OStream json(os, /*IndentSize=*/2);
  json.object([&] {
    json.attribute("device", text);
    json.attribute("calibration", calibration);
    json.attributeArray("functions", [&] {
      for (const FunctionReport &function : functions)
        json.object([&] { printFunction(json, function); });
    });
  });
  os << "\n";
}

namespace {
struct AttnSimulateRanksPass
    : attn::impl::AttnSimulateRanksPassBase<AttnSimulateRanksPass> {
  using Base::Base;

  void runOnOperation() override;

private:
  LogicalResult verifyOptions();
};
} // namespace

LogicalResult AttnSimulateRanksPass::verifyOptions() {
  ModuleOp module = getOperation();
  if (format != "table" && format != "json")
    return module.emitError("unknown format '")
           << format << "' (expected table or json)";
  for (int64_t number : ranks)
    if (number < 1 || number > maxRanks)
      return module.emitError("'ranks' must be from 1 to ")
             << maxRanks << " (was " << number << ")";
  for (auto [name, size] :
       {std::pair<StringRef, int64_t>("dynamic-size", dynamicSize),
        std::pair<StringRef, int64_t>("dynamic-batch", dynamicBatch)})
    if (size <= 0)
      return module.emitError()
             << name << " must be positive (was " << size << ")";
  return success();
}

void AttnSimulateRanksPass::runOnOperation() {
  markAllAnalysesPreserved();
  ModuleOp module = getOperation();
  FailureOr<const Target *> found = lookupTarget(module, target);
  if (failed(found) || failed(verifyOptions()))
    return signalPassFailure();
  FailureOr<DeviceModel> model = getDeviceModel(module, **found);
  if (failed(model))
    return signalPassFailure();
  static constexpr int64_t fewRanks[] = {2, 4, 8};
  SmallVector<int64_t> numbers(ranks.begin(), ranks.end());
  if (numbers.empty())
    numbers.assign(std::begin(fewRanks), std::end(fewRanks));
  SmallVector<FunctionReport> functions;
  for (auto func : module.getOps<func::FuncOp>()) {
    SmallVector<AttentionOpInterface> ops;
    func.walk([&](AttentionOpInterface op) { ops.push_back(op); });
    if (!ops.empty())
      functions.push_back(makeReport(func, ops, numbers, **found, *model,
                                     {dynamicSize, dynamicBatch}));
  }
  DeviceAttr device = getDevice(module, target);
  auto print = [&](raw_ostream &os) {
    if (format == "json")
      printJSON(os, device, model->calibratedFor, functions);
    else
      printTable(os, device, functions);
  };
  if (output.empty())
    print(llvm::errs());
  else if (failed(writeFile(module, output, print)))
    return signalPassFailure();
}
