//===- FunctionArguments.cpp - Notes on arguments of functions ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FunctionArguments.h"
#include "attn/Dialect/Attn/IR/AttnInterfaces.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::attn;

BlockArgument attn::getFunctionArgument(FunctionOpInterface func, Value value) {
  while (auto cast = value.getDefiningOp<tensor::CastOp>())
    value = cast.getSource();
  auto argument = dyn_cast<BlockArgument>(value);
  if (!func || !argument ||
      argument.getOwner() != &func.getFunctionBody().front())
    return {};
  return argument;
}

void attn::nameArgument(RewriterBase &rewriter, FunctionOpInterface func,
                        BlockArgument argument, StringRef base) {
  if (func.getArgAttr(argument.getArgNumber(), argNameAttrName))
    return;
  llvm::StringSet<> used;
  for (unsigned i = 0, e = func.getNumArguments(); i < e; ++i)
    if (auto name = func.getArgAttrOfType<StringAttr>(i, argNameAttrName))
      used.insert(name.getValue());
  std::string name = base.str();
  for (unsigned i = 1; used.contains(name); ++i)
    name = (base + Twine(i)).str();
  rewriter.modifyOpInPlace(func, [&] {
    func.setArgAttr(argument.getArgNumber(), argNameAttrName,
                    rewriter.getStringAttr(name));
  });
}

void attn::noteEqualSizes(RewriterBase &rewriter, FunctionOpInterface func,
                          BlockArgument argument, int64_t dim,
                          BlockArgument other, int64_t otherDim) {
  SmallVector<int64_t> noted;
  if (auto attr = func.getArgAttrOfType<DenseI64ArrayAttr>(
          argument.getArgNumber(), equalSizesAttrName))
    noted.assign(attr.asArrayRef().begin(), attr.asArrayRef().end());
  SmallVector<int64_t> triple = {dim, int64_t(other.getArgNumber()), otherDim};
  for (ArrayRef<int64_t> rest = noted; rest.size() >= triple.size();
       rest = rest.drop_front(triple.size()))
    if (rest.take_front(triple.size()) == ArrayRef<int64_t>(triple))
      return;
  llvm::append_range(noted, triple);
  rewriter.modifyOpInPlace(func, [&] {
    func.setArgAttr(argument.getArgNumber(), equalSizesAttrName,
                    rewriter.getDenseI64ArrayAttr(noted));
  });
}

void attn::noteArguments(RewriterBase &rewriter, DescribableOpInterface op) {
  auto func = op->getParentOfType<FunctionOpInterface>();
  for (const DescribedOperand &operand : op.getNamedOperands())
    if (operand.value)
      if (BlockArgument argument = getFunctionArgument(func, operand.value))
        nameArgument(rewriter, func, argument, operand.name);
  for (const EqualOperandSizes &equal : op.getEqualSizes()) {
    BlockArgument first;
    int64_t firstDim = 0;
    for (auto [operand, dim] : equal.sizes) {
      BlockArgument argument = getFunctionArgument(func, operand);
      if (!argument)
        continue;
      if (!first) {
        first = argument;
        firstDim = dim;
      } else if (argument != first) {
        noteEqualSizes(rewriter, func, argument, dim, first, firstDim);
      }
    }
  }
}
