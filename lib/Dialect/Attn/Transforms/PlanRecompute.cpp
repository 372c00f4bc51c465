//===- PlanRecompute.cpp - What to save for the backward pass -------------===//
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
#include "attn/Analysis/RecomputePlan.h"
#include "attn/Analysis/Roofline.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
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
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
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

/// Plans one pair.
class PairPlanner {
public:
  PairPlanner(FunctionPair pair, const DeviceFigures &device,
              const CostAssumptions &assumptions)
      : pair(pair), device(device), assumptions(assumptions) {
    buildGraph();
  }

  /// Rewrites the functions. Fails, with a diagnostic, if there is no plan.
  FailureOr<RecomputePlan> run(std::optional<int64_t> budget);

private:
  void buildGraph();
  bool growsWithSquare(Type type);
  int64_t getBytes(Value value) {
    return isa<TensorType>(value.getType())
               ? int64_t(getShapedBytes(value.getType(), assumptions))
               : 0;
  }
  double getSeconds(Operation *op) {
    std::optional<OpCost> cost = getOpCost(op, assumptions);
    return cost ? estimate(*cost, device).seconds : 0;
  }
  bool isFreeToUse(Value value) {
    return llvm::is_contained(
        pair.getYielded().take_front(pair.getNumResults()), value);
  }
  void report(const RecomputePlan &plan);
  void rewrite(ArrayRef<Value> saved);
  int64_t getPeakBytes();

  FunctionPair pair;
  double getSaveSeconds(double bytes) {
    // What is saved is written and read.
    return 2 * bytes / getSustainedRate(device, MemoryLevel::Memory);
  }

  const DeviceFigures &device;
  const CostAssumptions &assumptions;
  RecomputeGraph graph;
  SmallVector<Operation *> ops;
  SmallVector<Value> values;
};
} // namespace

/// Whether the attention of the function makes `type` one of scores.
bool PairPlanner::growsWithSquare(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return false;
  llvm::SmallDenseSet<int64_t> lengths;
  pair.forward.walk([&](AttentionOpInterface op) {
    lengths.insert(getDimSize(op.getQuery(), 2));
    lengths.insert(getDimSize(op.getKey(), 2));
  });
  return tensor.getRank() >= 2 &&
         llvm::all_of(tensor.getShape().take_back(2),
                      [&](int64_t size) { return lengths.contains(size); });
}

void PairPlanner::buildGraph() {
  llvm::DenseMap<Value, unsigned> numbers;
  auto addValue = [&](Value value, std::optional<unsigned> op) {
    numbers[value] = values.size();
    values.push_back(value);
    int64_t bytes = getBytes(value);
    double cost = getSaveSeconds(double(bytes));
    if (op &&
        (isFree(ops[*op]) || bytes == 0 || growsWithSquare(value.getType())))
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

/// The largest sum of the sizes of tensors that are there at a time, beside the
/// arguments of the forward function. What is saved stays until the end.
int64_t PairPlanner::getPeakBytes() {
  int64_t live = 0, peak = 0;
  auto run = [&](Block &block, ValueRange kept) {
    llvm::DenseMap<Value, Operation *> lastUse;
    for (Operation &op : block)
      for (Value value : getUsedValues(&op))
        lastUse[value] = &op;
    llvm::DenseMap<Operation *, int64_t> freed;
    for (Operation &op : block.without_terminator()) {
      bool isView = getSeconds(&op) == 0;
      if (!isFree(&op) && !isView)
        for (Value result : op.getResults()) {
          int64_t bytes = getBytes(result);
          live += bytes;
          Operation *last = lastUse.lookup(result);
          if (!llvm::is_contained(kept, result))
            freed[last ? last : &op] += bytes;
        }
      peak = std::max(peak, live);
      live -= freed.lookup(&op);
    }
  };
  Block &forward = pair.forward.getBody().front();
  run(forward, forward.getTerminator()->getOperands());
  for (unsigned i = pair.getNumArguments() + pair.forward.getNumResults(),
                e = pair.backward.getNumArguments();
       i < e; ++i)
    live += getBytes(pair.backward.getArgument(i));
  Block &backward = pair.backward.getBody().front();
  run(backward, backward.getTerminator()->getOperands());
  return peak;
}

/// Says what is done with each value that is needed or saved.
void PairPlanner::report(const RecomputePlan &plan) {
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
    std::string why;
    if (!isSaved && value.saveCost == RecomputeGraph::never)
      why = "; it grows with the square of the length";
    remark::passed(op->getLoc(), opts)
        << llvm::formatv(
               "{0} result of '{1}', {2} bytes: {3:f1} us to move, {4:f1} us "
               "to run the operation again{5}",
               isSaved ? "saved" : "recomputed", op->getName(), value.bytes,
               1e6 * getSaveSeconds(double(value.bytes)),
               1e6 * graph.ops[*value.op].cost, why)
               .str();
  }
}

/// Lets the forward function save `saved`, and the backward function compute
/// what else it needs right before it is used.
void PairPlanner::rewrite(ArrayRef<Value> saved) {
  func::FuncOp forward = pair.forward, backward = pair.backward;
  unsigned numArguments = pair.getNumArguments();
  unsigned numResults = pair.getNumResults();
  unsigned numYielded = forward.getNumResults();
  SmallVector<Value> yielded(pair.getYielded().take_front(numResults));
  SmallVector<Value> oldYielded(pair.getYielded());
  llvm::append_range(yielded, saved);

  ArrayRef<BlockArgument> oldArguments = backward.getArguments();
  SmallVector<Type> types(forward.getArgumentTypes());
  llvm::append_range(types, ValueRange(yielded).getTypes());
  for (BlockArgument argument :
       oldArguments.drop_front(numArguments + numYielded))
    types.push_back(argument.getType());
  OpBuilder builder(backward);
  auto replacement = func::FuncOp::create(
      builder, backward.getLoc(), backward.getName(),
      builder.getFunctionType(types, backward.getResultTypes()));
  replacement.setVisibility(backward.getVisibility());
  replacement->setDiscardableAttrs(backward->getDiscardableAttrDictionary());
  replacement->setAttr(numSavedAttrName,
                       builder.getI64IntegerAttr(saved.size()));
  Block *entry = replacement.addEntryBlock();
  builder.setInsertionPointToStart(entry);
  ArrayRef<BlockArgument> arguments = entry->getArguments();

  // Values of the forward function that are there.
  IRMapping available;
  available.map(forward.getArguments(), arguments.take_front(numArguments));
  for (auto [value, argument] :
       llvm::zip(yielded, arguments.drop_front(numArguments)))
    if (!available.contains(value))
      available.map(value, argument);
  auto compute = [&](auto &self, Value value) -> void {
    if (available.contains(value))
      return;
    Operation *op = value.getDefiningOp();
    for (Value used : getUsedValues(op))
      self(self, used);
    // A result that is there already stays what it is.
    IRMapping before = available;
    builder.clone(*op, available);
    for (Value result : op->getResults())
      if (Value there = before.lookupOrNull(result))
        available.map(result, there);
  };

  IRMapping mapping;
  mapping.map(oldArguments.take_front(numArguments),
              arguments.take_front(numArguments));
  mapping.map(oldArguments.drop_front(numArguments + numYielded),
              arguments.drop_front(numArguments + yielded.size()));
  llvm::DenseMap<Value, Value> forwardValue;
  for (auto [value, argument] :
       llvm::zip(oldYielded, oldArguments.drop_front(numArguments)))
    forwardValue[argument] = value;
  for (Operation &op : backward.getBody().front()) {
    for (Value used : getUsedValues(&op))
      if (Value value = forwardValue.lookup(used)) {
        compute(compute, value);
        mapping.map(used, available.lookup(value));
      }
    builder.clone(op, mapping);
  }
  backward.erase();
  markUnusedArguments(replacement);
  pair.backward = replacement;

  Block &body = forward.getBody().front();
  body.getTerminator()->setOperands(yielded);
  forward.setType(builder.getFunctionType(forward.getArgumentTypes(),
                                          ValueRange(yielded).getTypes()));
  pair.numSaved = saved.size();
  eraseDeadOps(body);
}

FailureOr<RecomputePlan> PairPlanner::run(std::optional<int64_t> budget) {
  std::optional<RecomputePlan> plan = planRecompute(graph, budget);
  if (!plan)
    return pair.backward.emitOpError("cannot be computed if at most ")
           << *budget << " bytes are saved";
  int64_t before = getPeakBytes();
  int64_t savedBefore = 0;
  for (unsigned index : graph.needed)
    savedBefore += graph.values[index].bytes;
  report(*plan);
  SmallVector<Value> saved;
  for (unsigned index : plan->saved.set_bits())
    saved.push_back(values[index]);
  double seconds = 0;
  for (unsigned index : plan->recomputed.set_bits())
    seconds += graph.ops[index].cost;
  rewrite(saved);
  remark::analysis(
      pair.forward.getLoc(),
      remark::RemarkOpts::name("memory").category("attn-plan-recompute"))
      << llvm::formatv("saves {0} of {1} bytes and computes again for {2:f1} "
                       "us; peak memory {3} bytes, before {4}",
                       plan->bytes, savedBefore, 1e6 * seconds, getPeakBytes(),
                       before)
             .str();
  return *plan;
}

namespace {
struct AttnPlanRecomputePass
    : public attn::impl::AttnPlanRecomputePassBase<AttnPlanRecomputePass> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    DeviceAttr device = getDevice(module, target);
    if (!device) {
      module.emitError("unknown target '")
          << target << "' (expected host, sm_80 or sm_90a)";
      return signalPassFailure();
    }
    CostAssumptions assumptions{dynamicSize, dynamicBatch};
    std::optional<int64_t> bytes;
    if (budget >= 0)
      bytes = budget;
    SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
    for (func::FuncOp backward : functions) {
      auto symbol = backward->getAttrOfType<SymbolRefAttr>(forwardAttrName);
      if (!symbol)
        continue;
      FailureOr<FunctionPair> pair = getPair(module, backward, symbol);
      if (failed(pair))
        return signalPassFailure();
      FailureOr<RecomputePlan> plan =
          PairPlanner(*pair, device.getFigures(), assumptions).run(bytes);
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
    if (!forward || !count || !hasOneBlock(forward) || !hasOneBlock(backward))
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
