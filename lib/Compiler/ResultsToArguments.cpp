//===- ResultsToArguments.cpp - Callers provide result memory -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Gives public functions a destination argument for each result. Done on
// tensors rather than on memrefs, so that the destination may have any strides
// and bufferization avoids the copy.
//
//===----------------------------------------------------------------------===//

#include "Signature.h"
#include "Views.h"
#include "attn/Compiler/Passes.h"
#include "attn/Dialect/Attn/IR/AttnCommOps.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/Support/DebugLog.h"

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNRESULTSTOARGUMENTSPASS
#include "attn/Compiler/Passes.h.inc"
} // namespace mlir::attn

#define DEBUG_TYPE "attn-results-to-arguments"

using namespace mlir;
using namespace mlir::attn;

static constexpr StringLiteral writableAttrName = "bufferization.writable";

/// Whether at most one of the uses of `value` takes place each time.
static bool isUsedOnce(Value value) {
  SmallVector<Operation *> users(value.getUsers());
  for (auto [number, user] : llvm::enumerate(users))
    for (Operation *other : ArrayRef(users).drop_front(number + 1))
      if (!insideMutuallyExclusiveRegions(user, other))
        return false;
  return true;
}

/// The function argument whose updated contents `value` is, if there is one:
/// found through the destinations of the producers, in both branches of
/// conditions. Sets `isReadElsewhere` if a destination on the way has other
/// uses, and may need memory of its own.
static BlockArgument getDestinationArgument(Value value, func::FuncOp func,
                                            bool &isReadElsewhere) {
  while (auto result = dyn_cast<OpResult>(value)) {
    if (Value yielded = getYieldedByOverlap(result)) {
      value = yielded;
      continue;
    }
    if (auto branch = dyn_cast<scf::IfOp>(result.getOwner())) {
      auto follow = [&](scf::YieldOp yield) {
        return getDestinationArgument(
            yield.getOperand(result.getResultNumber()), func, isReadElsewhere);
      };
      BlockArgument argument = follow(branch.thenYield());
      return argument && argument == follow(branch.elseYield())
                 ? argument
                 : BlockArgument();
    }
    auto op = dyn_cast<DestinationStyleOpInterface>(result.getOwner());
    if (!op)
      return {};
    OpOperand *init = op.getTiedOpOperand(result);
    value = init->get();
    isReadElsewhere |= !isUsedOnce(value);
  }
  auto argument = cast<BlockArgument>(value);
  if (argument.getOwner() != &func.getBody().front())
    return {};
  // Callers may say that an argument is an input alone.
  auto isWritable = func.getArgAttrOfType<BoolAttr>(argument.getArgNumber(),
                                                    writableAttrName);
  return !isWritable || isWritable.getValue() ? argument : BlockArgument();
}

/// Whether each of `groups` of dimensions of `type` can be collapsed in memory
/// of any strides, of which only the last one is known to be 1.
static bool isCollapsible(RankedTensorType type,
                          ArrayRef<ReassociationIndices> groups) {
  return llvm::all_of(groups, [&](ArrayRef<int64_t> group) {
    auto isUnit = [&](int64_t dim) { return type.getDimSize(dim) == 1; };
    return group.back() == type.getRank() - 1 ||
           llvm::all_of(group.drop_back(), isUnit);
  });
}

/// Whether `op` is a view whose opposite is a view, too, and that is a view of
/// an argument, which may have any strides.
static bool isInvertibleView(Operation *op) {
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op))
    return llvm::all_of(
        expand.getReassociationIndices(), [&](ArrayRef<int64_t> group) {
          return llvm::count_if(group, [&](int64_t dim) {
                   return expand.getResultType().getDimSize(dim) != 1;
                 }) <= 1;
        });
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op))
    return isCollapsible(collapse.getSrcType(),
                         collapse.getReassociationIndices());
  return isa<PermuteOp>(op);
}

/// The tensor that `value` is a view of.
static Value getViewed(Value value) {
  while (
      isa_and_present<PermuteOp, tensor::CollapseShapeOp, tensor::ExpandShapeOp,
                      tensor::CastOp, tensor::ExtractSliceOp>(
          value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

/// Whether `value` is an empty tensor, or a view of one.
static bool isEmptyTensor(Value value) {
  while (isa_and_present<PermuteOp, tensor::CollapseShapeOp,
                         tensor::ExpandShapeOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value.getDefiningOp<tensor::EmptyOp>() != nullptr;
}

/// Emits the expansion of `destination` that is the opposite of `collapse`;
/// null if more than a dynamic size was collapsed to a dimension. Dynamic sizes
/// are taken from the destination.
static Value emitExpansion(OpBuilder &builder, Location loc, Value destination,
                           tensor::CollapseShapeOp collapse) {
  RankedTensorType type = collapse.getSrcType();
  SmallVector<OpFoldResult> sizes;
  for (auto [group, dims] : llvm::enumerate(collapse.getReassociationIndices()))
    for (int64_t dim : dims) {
      int64_t size = type.getDimSize(dim);
      if (!ShapedType::isDynamic(size)) {
        sizes.push_back(builder.getIndexAttr(size));
        continue;
      }
      int64_t others = 1;
      for (int64_t other : dims)
        others *= other == dim ? 1 : type.getDimSize(other);
      if (others != 1)
        return nullptr;
      sizes.push_back(tensor::getMixedSize(builder, loc, destination, group));
    }
  return tensor::ExpandShapeOp::create(builder, loc, type, destination,
                                       collapse.getReassociationIndices(),
                                       sizes);
}

/// Emits the view of `destination` that is the opposite of `view`; null if
/// there is none.
static Value emitOpposite(OpBuilder &builder, Location loc, Value destination,
                          Operation *view) {
  if (auto permute = dyn_cast<PermuteOp>(view))
    return PermuteOp::create(builder, loc, destination,
                             invertPermutationVector(permute.getPermutation()));
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(view))
    return emitExpansion(builder, loc, destination, collapse);
  auto expand = cast<tensor::ExpandShapeOp>(view);
  return tensor::CollapseShapeOp::create(builder, loc, expand.getSrcType(),
                                         destination,
                                         expand.getReassociationIndices());
}

/// Lets the operation that computes `returned`, a view of a result, write the
/// corresponding view of `argument`. Fails if there is no such operation, it
/// needs contiguous memory, or its destination is not an empty tensor.
static LogicalResult writeInView(Value returned, BlockArgument argument,
                                 OpBuilder &builder) {
  SmallVector<Operation *> views;
  Value value = returned;
  while (Operation *op = value.getDefiningOp()) {
    if (!value.hasOneUse() || !isInvertibleView(op))
      break;
    views.push_back(op);
    value = op->getOperand(0);
  }
  auto op = value.getDefiningOp<DestinationStyleOpInterface>();
  if (views.empty() || !op || !value.hasOneUse() ||
      op->hasTrait<Communicates>())
    return failure();
  OpOperand *init = op.getTiedOpOperand(cast<OpResult>(value));
  if (!isEmptyTensor(init->get()))
    return failure();

  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(op);
  Value destination = argument;
  for (Operation *view : views) {
    destination = emitOpposite(builder, op->getLoc(), destination, view);
    if (!destination)
      return failure();
  }
  LDBG() << "writes a view of " << argument << " instead of a copy: " << *op;
  init->set(destination);
  return success();
}

/// Writes the terminator's operand to `destination`, and lets the terminator
/// return the destination's contents.
static void writeTo(OpBuilder &builder, OpOperand &returned,
                    BlockArgument destination) {
  auto materialize = bufferization::MaterializeInDestinationOp::create(
      builder, returned.get().getLoc(), returned.get().getType(),
      returned.get(), destination);
  returned.set(materialize.getResult());
}

/// Says of each tensor that `func` takes whether it is an output: one of the
/// `destinations`, or an argument after the `numInputs` first ones.
static void markWritable(func::FuncOp func, unsigned numInputs,
                         const llvm::SmallDenseSet<unsigned> &destinations) {
  Builder builder(func.getContext());
  for (unsigned i = 0, e = func.getNumArguments(); i < e; ++i) {
    if (!isa<TensorType>(func.getArgument(i).getType()))
      continue;
    bool isOutput = i >= numInputs || destinations.contains(i);
    func.setArgAttr(i, writableAttrName, builder.getBoolAttr(isOutput));
  }
}

/// Checks that the results of `func` can become arguments.
static LogicalResult checkResults(func::FuncOp func) {
  for (auto [index, type] : llvm::enumerate(func.getResultTypes()))
    if (!isa<RankedTensorType>(type))
      return func.emitOpError("result #")
             << index << " of a public function must be a ranked tensor (was "
             << type << ")";
  if (!llvm::hasSingleElement(func.getBody()))
    return func.emitOpError("with results must have a single block");
  return success();
}

static LogicalResult rewriteFunction(func::FuncOp func) {
  if (failed(checkResults(func)))
    return failure();
  Block &entry = func.getBody().front();
  Operation *terminator = entry.getTerminator();
  unsigned numInputs = func.getNumArguments();
  OpBuilder builder(terminator);
  llvm::SmallDenseSet<unsigned> destinations;
  SmallVector<DictionaryAttr> resultAttrs;
  func.getAllResultAttrs(resultAttrs);

  SmallVector<std::pair<OpOperand *, BlockArgument>> writtenLast;
  llvm::SmallDenseSet<Value> returnedBefore;
  auto isReturnedAgain = [&](OpOperand &returned) {
    return llvm::any_of(terminator->getOpOperands(), [&](OpOperand &other) {
      return other.getOperandNumber() > returned.getOperandNumber() &&
             getViewed(other.get()) == getViewed(returned.get());
    });
  };
  for (OpOperand &returned : terminator->getOpOperands()) {
    unsigned index = returned.getOperandNumber();
    bool isReadElsewhere = false;
    BlockArgument argument =
        getDestinationArgument(returned.get(), func, isReadElsewhere);
    if (argument && destinations.insert(argument.getArgNumber()).second) {
      func.setArgAttr(argument.getArgNumber(), argOutputAttrName,
                      builder.getUnitAttr());
      if (isReadElsewhere)
        writtenLast.emplace_back(&returned, argument);
      continue;
    }
    DictionaryAttr attrs = index < resultAttrs.size() && resultAttrs[index]
                               ? resultAttrs[index]
                               : builder.getDictionaryAttr({});
    unsigned position = func.getNumArguments();
    if (failed(func.insertArgument(position, returned.get().getType(), attrs,
                                   returned.get().getLoc())))
      return failure();
    func.setArgAttr(position, argOutputAttrName, builder.getUnitAttr());
    destinations.insert(position);
    // Only one destination can become the memory of a tensor.
    if (!returnedBefore.insert(getViewed(returned.get())).second) {
      returned.set(linalg::CopyOp::create(builder, returned.get().getLoc(),
                                          returned.get(),
                                          func.getArgument(position))
                       .getResult(0));
      continue;
    }
    if (succeeded(
            writeInView(returned.get(), func.getArgument(position), builder)))
      continue;
    if (isReturnedAgain(returned))
      writtenLast.emplace_back(&returned, func.getArgument(position));
    else
      writeTo(builder, returned, func.getArgument(position));
  }
  // Other results may be copied from there.
  for (auto [returned, argument] : writtenLast)
    writeTo(builder, *returned, argument);
  markWritable(func, numInputs, destinations);
  for (unsigned i = 0, e = func.getNumResults(); i < e; ++i)
    func.setResultAttrs(i, ArrayRef<NamedAttribute>());
  return success();
}

namespace {
struct AttnResultsToArgumentsPass
    : public attn::impl::AttnResultsToArgumentsPassBase<
          AttnResultsToArgumentsPass> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    for (auto func : module.getOps<func::FuncOp>()) {
      if (!func.isPublic() || func.isExternal())
        continue;
      bool takesTensors =
          llvm::any_of(func.getArgumentTypes(), llvm::IsaPred<TensorType>);
      if (!takesTensors && func.getNumResults() == 0)
        continue;
      std::optional<SymbolTable::UseRange> uses =
          SymbolTable::getSymbolUses(func, module);
      // Attributes of functions, such as the forward one of a backward one,
      // name functions and do not call them.
      if (!uses || !llvm::all_of(*uses, [](SymbolTable::SymbolUse use) {
            return isa<FunctionOpInterface>(use.getUser());
          })) {
        func.emitOpError("is public and must not be called in its module");
        return signalPassFailure();
      }
      if (failed(rewriteFunction(func)))
        return signalPassFailure();
    }
  }
};
} // namespace
