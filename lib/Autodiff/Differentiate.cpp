//===- Differentiate.cpp - Gradients of functions -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Adds functions that compute gradients to functions on tensors: one that
// computes results and gradients, or a forward function that saves values and a
// backward function that needs them.
//
//===----------------------------------------------------------------------===//

#include "Differentiation.h"
#include "attn/Autodiff/Differentiation.h"
#include "attn/Autodiff/Passes.h"
#include "attn/Dialect/Attn/Transforms/DecomposeLinearAttention.h"
#include "attn/Support/DeadOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/Transforms/Transforms.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNDIFFERENTIATEPASS
#include "attn/Autodiff/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;

static bool isDifferentiableTensor(Type type) {
  return isa<RankedTensorType>(type) && isDifferentiableType(type);
}

//===----------------------------------------------------------------------===//
// Results and gradients in one function
//===----------------------------------------------------------------------===//

namespace {
/// A function that computes results and gradients.
struct Combined {
  func::FuncOp function;
  /// The last operation that belongs to the forward computation; null if there
  /// is none.
  Operation *lastForward;
};
} // namespace

/// Numbers of the arguments whose gradients are wanted.
static FailureOr<SmallVector<unsigned>>
getWantedArguments(func::FuncOp function, ArrayRef<unsigned> requested) {
  SmallVector<unsigned> wanted;
  if (requested.empty()) {
    for (BlockArgument argument : function.getArguments())
      if (isDifferentiableTensor(argument.getType()))
        wanted.push_back(argument.getArgNumber());
    return wanted;
  }
  for (unsigned number : requested) {
    if (number >= function.getNumArguments())
      return function.emitOpError("has no argument #")
             << number << " to compute a gradient of";
    Type type = function.getArgument(number).getType();
    if (!isDifferentiableTensor(type))
      return function.emitOpError("argument #")
             << number
             << " must be a ranked tensor of floats to compute a gradient of "
                "(was "
             << type << ")";
    wanted.push_back(number);
  }
  return wanted;
}

/// Fails if `function` has memrefs, which gradients do not follow.
static LogicalResult checkTensorsOnly(func::FuncOp function) {
  for (BlockArgument argument : function.getArguments())
    if (isa<BaseMemRefType>(argument.getType()))
      return function.emitOpError("must be of tensors to be differentiated "
                                  "(argument #")
             << argument.getArgNumber() << " is " << argument.getType() << ")";
  WalkResult result = function.getBody().walk([](Operation *op) {
    if (llvm::any_of(op->getOperandTypes(), llvm::IsaPred<BaseMemRefType>) ||
        llvm::any_of(op->getResultTypes(), llvm::IsaPred<BaseMemRefType>)) {
      op->emitError("cannot differentiate '")
          << op->getName() << "' on memrefs";
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

/// Expresses sizes of results by sizes of operands.
static LogicalResult resolveSizes(func::FuncOp function) {
  RewritePatternSet patterns(function.getContext());
  memref::populateResolveRankedShapedTypeResultDimsPatterns(patterns);
  tensor::DimOp::getCanonicalizationPatterns(patterns, function.getContext());
  return applyPatternsGreedily(function, std::move(patterns));
}

/// Drops operands of the linalg operations between `last` and the end of `body`
/// that their bodies do not use: they need not be saved.
static LogicalResult dropUnusedOperands(Operation *last, Block &body) {
  SmallVector<Operation *> generics;
  for (Operation &op : llvm::make_range(
           last ? std::next(Block::iterator(last)) : body.begin(), body.end()))
    if (isa<linalg::GenericOp>(op))
      generics.push_back(&op);
  RewritePatternSet patterns(body.getParentOp()->getContext());
  linalg::populateEraseUnusedOperandsAndResultsPatterns(patterns);
  return applyOpPatternsGreedily(
      generics, std::move(patterns),
      GreedyRewriteConfig().setStrictness(
          GreedyRewriteStrictness::ExistingAndNewOps));
}

/// Makes the operations of `combined` differentiable where that takes other
/// operations, and returns them. `state` learns which values depend on the
/// `wanted` arguments.
static SmallVector<Operation *> prepareOps(func::FuncOp combined,
                                           ArrayRef<unsigned> wanted,
                                           GradientState &state) {
  for (unsigned number : wanted)
    state.setActive(combined.getArgument(number));
  IRRewriter rewriter(combined.getContext());
  SmallVector<Operation *> ops;
  for (Operation &op : llvm::make_early_inc_range(
           combined.getBody().front().without_terminator()))
    ops.push_back(prepareForGradient(rewriter, &op, state));
  return ops;
}

/// Lets `combined` take the gradients of its results as further arguments.
static LogicalResult addResultGradients(OpBuilder &builder,
                                        func::FuncOp combined,
                                        GradientState &state) {
  Location loc = combined.getLoc();
  for (Value result :
       combined.getBody().front().getTerminator()->getOperands()) {
    if (!isDifferentiableTensor(result.getType()))
      continue;
    unsigned position = combined.getNumArguments();
    if (failed(combined.insertArgument(position,
                                       getGradientType(result.getType()),
                                       builder.getDictionaryAttr({}), loc)))
      return failure();
    state.addGradient(builder, loc, result, combined.getArgument(position));
  }
  return success();
}

/// Lets `combined` return the gradients of the `wanted` arguments, too.
static void returnGradients(OpBuilder &builder, func::FuncOp combined,
                            ArrayRef<unsigned> wanted, GradientState &state) {
  Operation *terminator = combined.getBody().front().getTerminator();
  SmallVector<Value> results(terminator->getOperands());
  unsigned numResults = results.size();
  for (unsigned number : wanted) {
    Value argument = combined.getArgument(number);
    Value gradient = state.getGradient(argument);
    if (!gradient)
      gradient =
          emitZeros(builder, combined.getLoc(), argument,
                    getElementTypeOrSelf(getGradientType(argument.getType())));
    results.push_back(gradient);
  }
  terminator->setOperands(results);
  combined.setType(builder.getFunctionType(combined.getArgumentTypes(),
                                           ValueRange(results).getTypes()));
  for (unsigned i = numResults, e = results.size(); i < e; ++i)
    combined.setResultAttrs(i, DictionaryAttr());
}

/// Adds the function after `function`.
static FailureOr<Combined> createCombined(func::FuncOp function,
                                          ArrayRef<unsigned> wanted,
                                          StringRef name, bool deterministic) {
  OpBuilder builder(function.getContext());
  builder.setInsertionPointAfter(function);
  auto combined = cast<func::FuncOp>(builder.clone(*function));
  combined.setName(name);
  auto fail = [&]() -> LogicalResult {
    combined.erase();
    return failure();
  };
  GradientState state;
  state.setDeterministic(deterministic);
  SmallVector<Operation *> ops = prepareOps(combined, wanted, state);
  Block &body = combined.getBody().front();
  builder.setInsertionPoint(body.getTerminator());
  if (failed(addResultGradients(builder, combined, state)))
    return fail();
  Combined result = {combined, ops.empty() ? nullptr : ops.back()};
  if (failed(emitGradients(builder, ops, state)))
    return fail();
  returnGradients(builder, combined, wanted, state);
  if (failed(dropUnusedOperands(result.lastForward, body)))
    return fail();
  return result;
}

//===----------------------------------------------------------------------===//
// A pair of functions
//===----------------------------------------------------------------------===//

bool attn::isFree(Operation *op) {
  if (!isPure(op) || op->getNumRegions() != 0)
    return isa<linalg::FillOp>(op) &&
           matchPattern(cast<linalg::FillOp>(op).value(), m_Constant());
  return isa<tensor::EmptyOp>(op) || op->hasTrait<OpTrait::ConstantLike>() ||
         llvm::none_of(op->getResultTypes(), llvm::IsaPred<ShapedType>);
}

/// Adds to `saved` the results of operations, and the arguments, that are
/// needed to compute `value`.
static void collectSaved(Value value, SetVector<Value> &saved) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return;
  if (!isFree(op)) {
    saved.insert(value);
    return;
  }
  for (Value operand : op->getOperands())
    collectSaved(operand, saved);
}

/// Clones the operations that compute `value`, which hold no data, unless the
/// value exists already.
static void rematerialize(OpBuilder &builder, Value value, IRMapping &mapping) {
  if (mapping.contains(value))
    return;
  Operation *op = value.getDefiningOp();
  for (Value operand : op->getOperands())
    rematerialize(builder, operand, mapping);
  builder.clone(*op, mapping);
}

SetVector<Value> attn::getUsedValues(Operation *op) {
  SetVector<Value> used(op->operand_begin(), op->operand_end());
  getUsedValuesDefinedAbove(op->getRegions(), used);
  return used;
}

void attn::mapForwardValues(func::FuncOp backward, ValueRange arguments,
                            ValueRange yielded, IRMapping &mapping) {
  ArrayRef<BlockArgument> mapped = backward.getArguments();
  mapping.map(arguments, mapped.take_front(arguments.size()));
  for (auto [value, argument] :
       llvm::zip(yielded, mapped.drop_front(arguments.size())))
    if (!mapping.contains(value))
      mapping.map(value, argument);
}

void attn::markUnusedArguments(func::FuncOp function) {
  for (BlockArgument argument : function.getArguments())
    if (argument.use_empty())
      function.setArgAttr(argument.getArgNumber(), "attn.unused",
                          UnitAttr::get(function.getContext()));
}

namespace {
/// Splits a function with results and gradients into a forward function that
/// saves values and a backward function that computes the gradients.
class FunctionSplitter {
public:
  /// `function` has the results alone.
  FunctionSplitter(const Combined &combined, func::FuncOp function);

  /// Creates both functions, and erases the combined one.
  void run(StringRef forwardName, StringRef backwardName);

private:
  void collectYielded();
  func::FuncOp createForward(OpBuilder &builder, StringRef name);
  void createBackward(OpBuilder &builder, StringRef name, func::FuncOp forward);
  /// The arguments of the combined function that `function` has, too.
  ArrayRef<BlockArgument> getArguments() {
    return ArrayRef<BlockArgument>(whole.getArguments())
        .take_front(function.getNumArguments());
  }
  /// The arguments of the combined function that are gradients of results.
  ArrayRef<BlockArgument> getResultGradients() {
    return ArrayRef<BlockArgument>(whole.getArguments())
        .drop_front(function.getNumArguments());
  }

  func::FuncOp whole, function;
  SmallVector<Operation *> forwardOps, backwardOps;
  /// The results, then other values to save.
  SmallVector<Value> yielded;
  SmallVector<Value> gradients;
};
} // namespace

FunctionSplitter::FunctionSplitter(const Combined &combined,
                                   func::FuncOp function)
    : whole(combined.function), function(function) {
  Block &body = whole.getBody().front();
  SmallVector<Operation *> *ops =
      combined.lastForward ? &forwardOps : &backwardOps;
  for (Operation &op : body.without_terminator()) {
    ops->push_back(&op);
    if (&op == combined.lastForward)
      ops = &backwardOps;
  }
  OperandRange returned = body.getTerminator()->getOperands();
  llvm::append_range(yielded, returned.take_front(function.getNumResults()));
  llvm::append_range(gradients, returned.drop_front(function.getNumResults()));
  collectYielded();
}

/// Adds the values that the backward function needs to `yielded`.
void FunctionSplitter::collectYielded() {
  llvm::SmallPtrSet<Operation *, 16> isBackward(backwardOps.begin(),
                                                backwardOps.end());
  SetVector<Value> saved;
  auto collect = [&](Value value) {
    Operation *op = value.getDefiningOp();
    if (op && !isBackward.contains(op))
      collectSaved(value, saved);
  };
  for (Operation *op : backwardOps)
    llvm::for_each(getUsedValues(op), collect);
  llvm::for_each(gradients, collect);
  for (Value value : saved)
    if (!llvm::is_contained(yielded, value))
      yielded.push_back(value);
}

func::FuncOp FunctionSplitter::createForward(OpBuilder &builder,
                                             StringRef name) {
  auto forward = cast<func::FuncOp>(builder.cloneWithoutRegions(function));
  forward.setName(name);
  forward.setType(builder.getFunctionType(function.getArgumentTypes(),
                                          ValueRange(yielded).getTypes()));
  for (unsigned i = function.getNumResults(), e = yielded.size(); i < e; ++i)
    forward.setResultAttrs(i, DictionaryAttr());
  IRMapping mapping;
  Block *entry = forward.addEntryBlock();
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(entry);
  mapping.map(getArguments(), entry->getArguments());
  for (Operation *op : forwardOps)
    builder.clone(*op, mapping);
  SmallVector<Value> returned;
  for (Value value : yielded)
    returned.push_back(mapping.lookup(value));
  func::ReturnOp::create(builder, function.getLoc(), returned);
  eraseDeadOps(*entry);
  return forward;
}

/// The backward function takes all arguments and results of the forward one.
void FunctionSplitter::createBackward(OpBuilder &builder, StringRef name,
                                      func::FuncOp forward) {
  Location loc = function.getLoc();
  SmallVector<Type> types(function.getArgumentTypes());
  llvm::append_range(types, ValueRange(yielded).getTypes());
  for (BlockArgument gradient : getResultGradients())
    types.push_back(gradient.getType());
  auto backward = func::FuncOp::create(
      builder, loc, name,
      builder.getFunctionType(types, ValueRange(gradients).getTypes()));
  backward.setVisibility(function.getVisibility());
  // Both functions have these arguments first.
  for (unsigned i = 0, e = function.getNumArguments(); i < e; ++i)
    if (Attribute sizes = function.getArgAttr(i, equalSizesAttrName))
      backward.setArgAttr(i, equalSizesAttrName, sizes);
  backward->setAttr(forwardAttrName, SymbolRefAttr::get(forward));
  backward->setAttr(
      numSavedAttrName,
      builder.getI64IntegerAttr(yielded.size() - function.getNumResults()));
  Block *entry = backward.addEntryBlock();
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(entry);
  IRMapping mapping;
  mapForwardValues(backward, getArguments(), yielded, mapping);
  mapping.map(getResultGradients(),
              backward.getArguments().take_back(getResultGradients().size()));
  for (Operation *op : backwardOps) {
    for (Value value : getUsedValues(op))
      rematerialize(builder, value, mapping);
    builder.clone(*op, mapping);
  }
  SmallVector<Value> returned;
  for (Value gradient : gradients) {
    rematerialize(builder, gradient, mapping);
    returned.push_back(mapping.lookup(gradient));
  }
  func::ReturnOp::create(builder, loc, returned);
  eraseDeadOps(*entry);
  markUnusedArguments(backward);
}

void FunctionSplitter::run(StringRef forwardName, StringRef backwardName) {
  OpBuilder builder(function.getContext());
  builder.setInsertionPointAfter(whole);
  func::FuncOp forward = createForward(builder, forwardName);
  builder.setInsertionPointAfter(forward);
  createBackward(builder, backwardName, forward);
  whole.erase();
}

namespace {
struct AttnDifferentiatePass
    : public attn::impl::AttnDifferentiatePassBase<AttnDifferentiatePass> {
  using Base::Base;

  LogicalResult differentiate(func::FuncOp function, SymbolTable &symbols) {
    if (function.isExternal() || !function.getBody().hasOneBlock())
      return function.emitOpError("must have one block to be differentiated");
    if (failed(checkTensorsOnly(function)))
      return failure();
    IRRewriter rewriter(&getContext());
    if (failed(decomposeAllLinearAttention(rewriter, function)))
      return failure();
    FailureOr<SmallVector<unsigned>> wanted =
        getWantedArguments(function, arguments);
    if (failed(wanted))
      return failure();
    SmallVector<std::string> names;
    SmallVector<StringRef> suffixes = {"_grad"};
    if (isPair())
      suffixes = {"_fwd", "_bwd"};
    for (StringRef suffix : suffixes) {
      names.push_back((function.getName() + suffix).str());
      if (symbols.lookup(names.back()))
        return function.emitOpError("cannot be differentiated: '")
               << names.back() << "' exists already";
    }
    FailureOr<Combined> combined =
        createCombined(function, *wanted, names.front(), deterministic);
    if (failed(combined))
      return failure();
    ++numFunctions;
    if (!isPair()) {
      eraseDeadOps(combined->function.getBody().front());
      return resolveSizes(combined->function);
    }
    FunctionSplitter(*combined, function).run(names[0], names[1]);
    eraseOther(names[0], names[1]);
    return success();
  }

  bool isPair() const { return mode != "combined"; }

  /// In a mode that adds one function of the pair, erases the other one.
  void eraseOther(StringRef forward, StringRef backward) {
    ModuleOp module = getOperation();
    if (mode == "forward")
      module.lookupSymbol(backward)->erase();
    if (mode != "backward")
      return;
    module.lookupSymbol(forward)->erase();
    Operation *kept = module.lookupSymbol(backward);
    kept->removeAttr(forwardAttrName);
    kept->removeAttr(numSavedAttrName);
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    constexpr StringLiteral modes[] = {"pair", "forward", "backward",
                                       "combined"};
    if (!llvm::is_contained(modes, mode)) {
      module.emitError("unknown mode '")
          << mode << "' (expected pair, forward, backward or combined)";
      return signalPassFailure();
    }
    SymbolTable symbols(module);
    SmallVector<func::FuncOp> functions;
    if (function.empty()) {
      for (auto candidate : module.getOps<func::FuncOp>())
        if (candidate.isPublic() && !candidate.isExternal())
          functions.push_back(candidate);
    } else if (auto named = symbols.lookup<func::FuncOp>(function)) {
      functions.push_back(named);
    } else {
      module.emitError("no function '") << function << "' to differentiate";
      return signalPassFailure();
    }
    for (func::FuncOp candidate : functions)
      if (failed(differentiate(candidate, symbols)))
        return signalPassFailure();
  }
};
} // namespace
