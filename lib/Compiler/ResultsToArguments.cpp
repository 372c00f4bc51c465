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

#include "attn/Compiler/Passes.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNRESULTSTOARGUMENTSPASS
#include "attn/Compiler/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;

static constexpr StringLiteral outputAttrName = "attn.output";
static constexpr StringLiteral writableAttrName = "bufferization.writable";

/// The function argument whose updated contents `value` is, if it is one:
/// found by walking up the destinations of `value`'s producers.
static BlockArgument getDestinationArgument(Value value, func::FuncOp func) {
  while (auto result = dyn_cast<OpResult>(value)) {
    auto op = dyn_cast<DestinationStyleOpInterface>(result.getOwner());
    if (!op)
      return {};
    OpOperand *init = op.getTiedOpOperand(result);
    value = init->get();
  }
  auto argument = cast<BlockArgument>(value);
  return argument.getOwner() == &func.getBody().front() ? argument
                                                        : BlockArgument();
}

static LogicalResult rewriteFunction(func::FuncOp func) {
  for (auto [index, type] : llvm::enumerate(func.getResultTypes()))
    if (!isa<RankedTensorType>(type))
      return func.emitOpError("result #")
             << index << " of a public function must be a ranked tensor (was "
             << type << ")";
  if (!llvm::hasSingleElement(func.getBody()))
    return func.emitOpError("with results must have a single block");

  Block &entry = func.getBody().front();
  Operation *terminator = entry.getTerminator();
  unsigned numInputs = func.getNumArguments();
  OpBuilder builder(terminator);
  llvm::SmallDenseSet<unsigned> destinations;
  SmallVector<DictionaryAttr> resultAttrs;
  func.getAllResultAttrs(resultAttrs);

  for (OpOperand &returned : terminator->getOpOperands()) {
    unsigned index = returned.getOperandNumber();
    BlockArgument argument = getDestinationArgument(returned.get(), func);
    if (argument && destinations.insert(argument.getArgNumber()).second) {
      func.setArgAttr(argument.getArgNumber(), outputAttrName,
                      builder.getUnitAttr());
      continue;
    }
    DictionaryAttr attrs = index < resultAttrs.size() && resultAttrs[index]
                               ? resultAttrs[index]
                               : builder.getDictionaryAttr({});
    unsigned position = func.getNumArguments();
    if (failed(func.insertArgument(position, returned.get().getType(), attrs,
                                   returned.get().getLoc())))
      return failure();
    func.setArgAttr(position, outputAttrName, builder.getUnitAttr());
    destinations.insert(position);
    auto materialize = bufferization::MaterializeInDestinationOp::create(
        builder, returned.get().getLoc(), returned.get().getType(),
        returned.get(), func.getArgument(position));
    returned.set(materialize.getResult());
  }
  for (unsigned i = 0, e = func.getNumArguments(); i < e; ++i) {
    if (!isa<TensorType>(func.getArgument(i).getType()))
      continue;
    bool isOutput = i >= numInputs || destinations.contains(i);
    func.setArgAttr(i, writableAttrName, builder.getBoolAttr(isOutput));
  }
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
