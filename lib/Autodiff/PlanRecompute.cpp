//===- PlanRecompute.cpp - Values to save for the backward pass -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Moves the boundary between a forward function and its backward function to
// where saving and recomputing cost least.
//
//===----------------------------------------------------------------------===//

#include "Differentiation.h"
#include "attn/Analysis/PeakMemory.h"
#include "attn/Autodiff/Passes.h"
#include "attn/Autodiff/RecomputePlan.h"
#include "attn/Interfaces/Target.h"
#include "attn/PerfModel/Roofline.h"
#include "attn/Support/DeadOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/Support/FormatVariadic.h"

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNPLANRECOMPUTEPASS
#include "attn/Autodiff/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;

namespace {
/// A forward function and the backward function that belongs to it, which takes
/// the arguments and all results of the former, and gradients.
struct FunctionPair {
  func::FuncOp forward, backward;
  unsigned numSaved;

  unsigned getNumArguments() { return forward.getNumArguments(); }
  unsigned getNumResults() { return forward.getNumResults() - numSaved; }
  OperandRange getYielded() {
    return forward.getBody().front().getTerminator()->getOperands();
  }
  /// The argument of the backward function for result `index`.
  BlockArgument getArgument(unsigned index) {
    return backward.getArgument(getNumArguments() + index);
  }
};
} // namespace

/// Creates the backward function of a forward function that yields `yielded`,
/// without operations, before the present one.
static func::FuncOp createBackward(FunctionPair &pair, ValueRange yielded) {
  func::FuncOp backward = pair.backward;
  SmallVector<Type> types(pair.forward.getArgumentTypes());
  llvm::append_range(types, yielded.getTypes());
  llvm::append_range(
      types, backward.getArgumentTypes().drop_front(
                 pair.getNumArguments() + pair.forward.getNumResults()));
  OpBuilder builder(backward);
  auto created = func::FuncOp::create(
      builder, backward.getLoc(), backward.getName(),
      builder.getFunctionType(types, backward.getResultTypes()));
  created.setVisibility(backward.getVisibility());
  created->setDiscardableAttrs(backward->getDiscardableAttrDictionary());
  created->setAttr(
      numSavedAttrName,
      builder.getI64IntegerAttr(yielded.size() - pair.getNumResults()));
  created.addEntryBlock();
  return created;
}

/// Clones the operations of the forward function that compute `value` from the
/// `available` values, and makes it available.
static void recompute(OpBuilder &builder, Value value, IRMapping &available) {
  if (available.contains(value))
    return;
  Operation *op = value.getDefiningOp();
  for (Value used : getUsedValues(op))
    recompute(builder, used, available);
  // A result that is available already is not replaced.
  IRMapping before = available;
  builder.clone(*op, available);
  for (Value result : op->getResults())
    if (Value there = before.lookupOrNull(result))
      available.map(result, there);
}

/// Clones the operations of the backward function into `created`, whose forward
/// function yields `yielded`, and recomputes other values before their use.
static void cloneBackward(FunctionPair &pair, ArrayRef<Value> yielded,
                          func::FuncOp created) {
  unsigned numArguments = pair.getNumArguments();
  unsigned numYielded = pair.forward.getNumResults();
  ArrayRef<BlockArgument> arguments = created.getArguments();
  ArrayRef<BlockArgument> oldArguments = pair.backward.getArguments();
  IRMapping available;
  mapForwardValues(created, pair.forward.getArguments(), yielded, available);

  IRMapping mapping;
  mapping.map(oldArguments.take_front(numArguments),
              arguments.take_front(numArguments));
  mapping.map(oldArguments.drop_front(numArguments + numYielded),
              arguments.drop_front(numArguments + yielded.size()));
  llvm::DenseMap<Value, Value> forwardValue;
  for (auto [value, argument] :
       llvm::zip(pair.getYielded(), oldArguments.drop_front(numArguments)))
    forwardValue[argument] = value;
  OpBuilder builder = OpBuilder::atBlockBegin(&created.getBody().front());
  for (Operation &op : pair.backward.getBody().front()) {
    for (Value used : getUsedValues(&op))
      if (Value value = forwardValue.lookup(used)) {
        recompute(builder, value, available);
        mapping.map(used, available.lookup(value));
      }
    builder.clone(op, mapping);
  }
}

/// Lets the forward function save `saved`, and the backward function compute
/// all other values that it needs right before their use.
static void rewrite(FunctionPair &pair, ArrayRef<Value> saved) {
  SmallVector<Value> yielded(
      pair.getYielded().take_front(pair.getNumResults()));
  llvm::append_range(yielded, saved);
  func::FuncOp backward = createBackward(pair, yielded);
  cloneBackward(pair, yielded, backward);
  pair.backward.erase();
  markUnusedArguments(backward);
  pair.backward = backward;

  func::FuncOp forward = pair.forward;
  Block &body = forward.getBody().front();
  body.getTerminator()->setOperands(yielded);
  forward.setType(FunctionType::get(forward.getContext(),
                                    forward.getArgumentTypes(),
                                    ValueRange(yielded).getTypes()));
  pair.numSaved = saved.size();
  eraseDeadOps(body);
}

namespace {
/// Plans one pair.
class PairPlanner {
public:
  PairPlanner(FunctionPair pair, const DeviceFigures &device,
              const CostAssumptions &assumptions)
      : pair(pair), device(device), assumptions(assumptions) {
    buildGraph();
  }

  /// Rewrites the functions. Fails, with a diagnostic, if no plan saves at most
  /// `budget` bytes, or none is found with at most `peakBudget` bytes live at a
  /// time.
  FailureOr<RecomputePlan> run(std::optional<int64_t> budget,
                               std::optional<int64_t> peakBudget);

private:
  void buildGraph();
  int64_t getBytes(Value value) {
    return getValueBytes(value.getType(), assumptions);
  }
  double getSeconds(Operation *op);
  bool isFreeToUse(Value value) {
    return llvm::is_contained(
        pair.getYielded().take_front(pair.getNumResults()), value);
  }
  InFlightDiagnostic emitNoPlan(int64_t budget);
  LogicalResult checkUsers(ArrayRef<Value> saved);
  SmallVector<Value> getSavedValues(const RecomputePlan &plan);
  void report(const RecomputePlan &plan, const RecomputePlan &unlimited);
  int64_t getPeakBytes(FunctionPair pair);
  int64_t getPeakBytes(const RecomputePlan &plan);
  FailureOr<RecomputePlan> keepPeak(RecomputePlan plan, int64_t peakBudget);

  FunctionPair pair;
  double getSaveSeconds(double bytes) {
    // Saved values are written and read.
    return 2 * bytes / getSustainedRate(device, MemoryLevel::Memory);
  }

  const DeviceFigures &device;
  const CostAssumptions &assumptions;
  RecomputeGraph graph;
  SmallVector<Operation *> ops;
  SmallVector<Value> values;
};
} // namespace

double PairPlanner::getSeconds(Operation *op) {
  if (std::optional<OpCost> cost = getOpCost(op, assumptions))
    return estimate(*cost, device).seconds;
  // An operation without a model moves its tensors once, and runs its regions.
  double seconds = 0;
  if (llvm::any_of(op->getResultTypes(), llvm::IsaPred<TensorType>)) {
    OpCost cost;
    cost.launches = 1;
    cost.bytes(MemoryLevel::Memory) = getOperandBytes(op, assumptions);
    seconds = estimate(cost, device).seconds;
  }
  for (Region &region : op->getRegions())
    for (Operation &nested : region.getOps())
      seconds += getSeconds(&nested);
  return seconds;
}

void PairPlanner::buildGraph() {
  llvm::DenseMap<Value, unsigned> numbers;
  auto addValue = [&](Value value, std::optional<unsigned> op) {
    numbers[value] = values.size();
    values.push_back(value);
    int64_t bytes = getBytes(value);
    double cost = getSaveSeconds(double(bytes));
    if (op && isFree(ops[*op]))
      cost = RecomputeGraph::never;
    graph.values.push_back({op, cost, bytes});
  };
  for (BlockArgument argument : pair.forward.getArguments())
    addValue(argument, std::nullopt);
  for (Operation &op : pair.forward.getBody().front().without_terminator()) {
    unsigned number = ops.size();
    ops.push_back(&op);
    RecomputeGraph::Op node;
    node.cost = 0;
    if (!isMemoryEffectFree(&op))
      node.cost = RecomputeGraph::never;
    else if (!isFree(&op))
      node.cost = getSeconds(&op);
    for (Value used : getUsedValues(&op))
      node.inputs.push_back(numbers.lookup(used));
    graph.ops.push_back(node);
    for (Value result : op.getResults())
      addValue(result, isFreeToUse(result) ? std::nullopt
                                           : std::optional<unsigned>(number));
  }
  OperandRange yielded = pair.getYielded();
  for (unsigned i = pair.getNumResults(), e = yielded.size(); i < e; ++i)
    if (!pair.getArgument(i).use_empty())
      graph.needed.push_back(numbers.lookup(yielded[i]));
}

/// The most bytes of tensors that are live at a time, without the arguments of
/// the forward function. Its results stay live until the end, as do gradients
/// of results.
int64_t PairPlanner::getPeakBytes(FunctionPair pair) {
  BlockMemory forward =
      getBlockMemory(pair.forward.getBody().front(), assumptions);
  int64_t given = forward.kept;
  for (unsigned i = pair.getNumArguments() + pair.forward.getNumResults(),
                e = pair.backward.getNumArguments();
       i < e; ++i)
    given += getBytes(pair.backward.getArgument(i));
  BlockMemory backward =
      getBlockMemory(pair.backward.getBody().front(), assumptions);
  return std::max(forward.peak, given + backward.peak);
}

/// Reports for each value that is needed or saved where it comes from.
/// `unlimited` is the plan without a budget.
void PairPlanner::report(const RecomputePlan &plan,
                         const RecomputePlan &unlimited) {
  llvm::SmallDenseSet<unsigned> needed(graph.needed.begin(),
                                       graph.needed.end());
  for (auto [index, value] : llvm::enumerate(graph.values)) {
    bool isSaved = plan.saved[index];
    if (!value.op || (!isSaved && !needed.contains(index)) ||
        isFree(ops[*value.op]))
      continue;
    Operation *op = ops[*value.op];
    auto opts = remark::RemarkOpts::name(isSaved ? "save" : "recompute")
                    .category("attn-plan-recompute");
    StringRef why;
    if (isSaved && !unlimited.saved[index])
      why = "; without the budget it would not be saved";
    else if (!isSaved && unlimited.saved[index])
      why = "; without the budget it would be saved";
    double again = graph.ops[*value.op].cost;
    std::string toRun =
        again == RecomputeGraph::never
            ? "the operation cannot run again"
            : llvm::formatv("{0:f1} us to run the operation again", 1e6 * again)
                  .str();
    remark::passed(op->getLoc(), opts)
        << llvm::formatv("{0} result of '{1}', {2} bytes: {3:f1} us to move, "
                         "{4}{5}",
                         isSaved ? "saved" : "recomputed", op->getName(),
                         value.bytes, 1e6 * getSaveSeconds(double(value.bytes)),
                         toRun, why)
               .str();
  }
}

/// The values that the forward function saves: first the ones it saves already,
/// in that order.
SmallVector<Value> PairPlanner::getSavedValues(const RecomputePlan &plan) {
  SetVector<Value> all;
  for (unsigned index : plan.saved.set_bits())
    all.insert(values[index]);
  SetVector<Value> saved;
  for (Value value : pair.getYielded().drop_front(pair.getNumResults()))
    if (all.contains(value))
      saved.insert(value);
  saved.insert_range(all);
  return saved.takeVector();
}

/// Fails if `saved` changes the types of functions that are used elsewhere.
LogicalResult PairPlanner::checkUsers(ArrayRef<Value> saved) {
  if (ValueRange(saved).getTypes() ==
      pair.getYielded().drop_front(pair.getNumResults()).getTypes())
    return success();
  auto module = pair.forward->getParentOfType<ModuleOp>();
  for (func::FuncOp function : {pair.forward, pair.backward}) {
    auto uses = SymbolTable::getSymbolUses(function.getOperation(), module);
    if (!uses)
      continue;
    for (SymbolTable::SymbolUse use : *uses) {
      Operation *user = use.getUser();
      if (user == pair.backward)
        continue;
      auto caller = dyn_cast<func::FuncOp>(user);
      if (!caller)
        caller = user->getParentOfType<func::FuncOp>();
      InFlightDiagnostic diagnostic =
          pair.backward.emitOpError("cannot be planned: '")
          << function.getName() << "' would change its type, but ";
      if (caller)
        diagnostic << "'" << caller.getName() << "'";
      else
        diagnostic << "'" << user->getName() << "'";
      diagnostic << " uses it";
      diagnostic.attachNote(user->getLoc()) << "used here";
      return diagnostic;
    }
  }
  return success();
}

/// Says why no plan keeps to `budget`.
InFlightDiagnostic PairPlanner::emitNoPlan(int64_t budget) {
  std::optional<RecomputePlan> least = planLeastSaved(graph);
  assert(least && "whatever cannot run again can be saved");
  InFlightDiagnostic diagnostic =
      pair.backward.emitOpError("cannot be computed if at most ")
      << budget << " bytes are saved: at least " << least->bytes
      << " bytes must be";
  llvm::SmallPtrSet<Operation *, 8> seen;
  SmallVector<unsigned> list(least->saved.set_bits());
  while (!list.empty()) {
    unsigned number = list.pop_back_val();
    std::optional<unsigned> op = graph.values[number].op;
    if (!op || !seen.insert(ops[*op]).second)
      continue;
    if (graph.ops[*op].cost == RecomputeGraph::never)
      diagnostic.attachNote(ops[*op]->getLoc())
          << "'" << ops[*op]->getName() << "' cannot run again";
    else
      llvm::append_range(list, graph.ops[*op].inputs);
  }
  return diagnostic;
}

/// The peak of the functions under `plan`, which is tried on copies.
int64_t PairPlanner::getPeakBytes(const RecomputePlan &plan) {
  OwningOpRef<ModuleOp> scratch = ModuleOp::create(pair.forward.getLoc());
  OpBuilder builder = OpBuilder::atBlockEnd(scratch->getBody());
  IRMapping mapping;
  FunctionPair copy = pair;
  copy.forward = cast<func::FuncOp>(builder.clone(*pair.forward, mapping));
  copy.backward = cast<func::FuncOp>(builder.clone(*pair.backward));
  SmallVector<Value> saved;
  for (Value value : getSavedValues(plan))
    saved.push_back(mapping.lookup(value));
  rewrite(copy, saved);
  return getPeakBytes(copy);
}

/// Saves less than `plan` until the peak is at most `peakBudget`. With fewer
/// bytes to save, plans take longer, and the peak falls until recomputed values
/// that stay live outweigh values that are not saved.
FailureOr<RecomputePlan> PairPlanner::keepPeak(RecomputePlan plan,
                                               int64_t peakBudget) {
  // Each trial is limited to less work than the requested plan.
  constexpr uint64_t trialWork = 20'000'000;
  constexpr int64_t numTrials = 24;
  constexpr unsigned numHalvings = 5;
  RecomputePlan found = plan;
  int64_t lowest = getPeakBytes(plan);
  int64_t most = plan.bytes;
  // A budget of saved bytes that is too large.
  int64_t above = most;
  auto tryBudget = [&](int64_t bytes) {
    if (lowest <= peakBudget)
      return;
    std::optional<RecomputePlan> next = planRecompute(graph, bytes, trialWork);
    if (!next)
      return;
    int64_t peak = getPeakBytes(*next);
    if (peak > peakBudget)
      above = bytes;
    if (peak < lowest) {
      lowest = peak;
      found = *next;
    }
  };
  int64_t step = most / numTrials;
  for (int64_t i = numTrials - 1; i >= 0; --i)
    tryBudget(step * i);
  for (unsigned i = 0; i < numHalvings; ++i) {
    int64_t middle = found.bytes;
    step /= 2;
    tryBudget(middle + step);
    tryBudget(std::max<int64_t>(middle - step, 0));
  }
  if (lowest > peakBudget)
    return pair.backward.emitOpError("cannot be planned for a peak of ")
           << peakBudget << " bytes: the lowest that was found is " << lowest
           << " bytes, where " << found.bytes << " are saved";

  // Plans that save a little more take less time.
  for (unsigned i = 0; i < numHalvings && above - found.bytes > 1; ++i) {
    int64_t middle = found.bytes + (above - found.bytes) / 2;
    std::optional<RecomputePlan> next = planRecompute(graph, middle, trialWork);
    if (next && next->cost < found.cost && getPeakBytes(*next) <= peakBudget)
      found = *next;
    else
      above = middle;
  }
  return found;
}

FailureOr<RecomputePlan> PairPlanner::run(std::optional<int64_t> budget,
                                          std::optional<int64_t> peakBudget) {
  std::optional<RecomputePlan> unlimited = planRecompute(graph);
  assert(unlimited && "whatever cannot run again can be saved");
  RecomputePlan plan = *unlimited;
  if (budget && plan.bytes > *budget) {
    std::optional<RecomputePlan> limited = planRecompute(graph, budget);
    if (!limited)
      return emitNoPlan(*budget);
    plan = *limited;
  }
  if (peakBudget) {
    FailureOr<RecomputePlan> kept = keepPeak(plan, *peakBudget);
    if (failed(kept))
      return failure();
    plan = *kept;
  }
  SmallVector<Value> saved = getSavedValues(plan);
  if (failed(checkUsers(saved)))
    return failure();
  int64_t before = getPeakBytes(pair);
  int64_t savedBefore = 0;
  for (unsigned index : graph.needed)
    savedBefore += graph.values[index].bytes;
  report(plan, *unlimited);
  double seconds = 0;
  for (unsigned index : plan.recomputed.set_bits())
    seconds += graph.ops[index].cost;
  rewrite(pair, saved);
  std::string gap;
  if (!peakBudget && plan.bound < plan.cost)
    gap = llvm::formatv("; plans of up to {0:f1} us less may exist",
                        1e6 * (plan.cost - plan.bound));
  remark::analysis(
      pair.forward.getLoc(),
      remark::RemarkOpts::name("memory").category("attn-plan-recompute"))
      << llvm::formatv("saves {0} of {1} bytes and computes again for {2:f1} "
                       "us; peak memory {3} bytes, before {4}{5}",
                       plan.bytes, savedBefore, 1e6 * seconds,
                       getPeakBytes(pair), before, gap)
             .str();
  return plan;
}

namespace {
struct AttnPlanRecomputePass
    : public attn::impl::AttnPlanRecomputePassBase<AttnPlanRecomputePass> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(lookupTarget(module, target)))
      return signalPassFailure();
    DeviceAttr device = getDevice(module, target);
    CostAssumptions assumptions{dynamicSize, dynamicBatch};
    for (const auto *limit : {&budget, &peakBudget})
      if (*limit < -1) {
        module.emitError() << limit->ArgStr
                           << " must be a number of bytes, or -1 for no limit "
                           << "(was " << limit->getValue() << ")";
        return signalPassFailure();
      }
    std::optional<int64_t> bytes, peakBytes;
    if (budget >= 0)
      bytes = budget;
    if (peakBudget >= 0)
      peakBytes = peakBudget;
    SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
    for (func::FuncOp backward : functions) {
      auto symbol = backward->getAttrOfType<SymbolRefAttr>(forwardAttrName);
      if (!symbol)
        continue;
      FailureOr<FunctionPair> pair = getPair(module, backward, symbol);
      if (failed(pair))
        return signalPassFailure();
      FailureOr<RecomputePlan> plan =
          PairPlanner(*pair, device.getFigures(), assumptions)
              .run(bytes, peakBytes);
      if (failed(plan))
        return signalPassFailure();
      numSaved += plan->saved.count();
      numRecomputed += plan->recomputed.count();
    }
  }

private:
  /// The pair of `backward`, if its attributes agree with the functions.
  static FailureOr<FunctionPair> getPair(ModuleOp module, func::FuncOp backward,
                                         SymbolRefAttr symbol) {
    auto forward =
        SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(module, symbol);
    auto count = backward->getAttrOfType<IntegerAttr>(numSavedAttrName);
    auto hasOneBlock = [](func::FuncOp function) {
      return !function.isExternal() && function.getBody().hasOneBlock();
    };
    if (!forward || forward == backward || !count || !hasOneBlock(forward) ||
        !hasOneBlock(backward))
      return backward.emitOpError("must have one block, '")
             << numSavedAttrName << "' and a forward function of one block in '"
             << forwardAttrName << "'";
    SmallVector<Type> expected(forward.getArgumentTypes());
    llvm::append_range(expected, forward.getResultTypes());
    if (count.getInt() < 0 || count.getInt() > forward.getNumResults() ||
        backward.getNumArguments() < expected.size() ||
        backward.getArgumentTypes().take_front(expected.size()) !=
            ArrayRef<Type>(expected))
      return backward.emitOpError("must take the arguments and the results of "
                                  "its forward function first");
    return FunctionPair{forward, backward,
                        static_cast<unsigned>(count.getInt())};
  }
};
} // namespace
