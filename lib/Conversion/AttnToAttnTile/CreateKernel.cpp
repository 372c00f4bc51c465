//===- CreateKernel.cpp - Kernels and their launches ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels stand before the function that launches them.
//
//===----------------------------------------------------------------------===//

#include "CreateKernel.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace mlir::attn;

FailureOr<SmallVector<Value>> attn::getCaptures(Operation *op,
                                                ArrayRef<Value> used) {
  SmallVector<Value> captures;
  for (Value value : used) {
    if (matchPattern(value, m_Constant()))
      continue;
    if (isa<TensorType>(value.getType()))
      return op->emitOpError("captures ")
             << value.getType() << ", which must be bufferised";
    captures.push_back(value);
  }
  return captures;
}

attn_tile::KernelOp attn::createKernel(RewriterBase &rewriter, Operation *user,
                                       ScheduleAttrInterface schedule,
                                       SymbolTable &symbols, StringRef suffix,
                                       ValueRange operands) {
  Location loc = user->getLoc();
  OpBuilder::InsertionGuard guard(rewriter);
  Operation *place = user;
  while (place->getParentOp() != symbols.getOp())
    place = place->getParentOp();
  std::string name = "attention";
  if (auto function = user->getParentOfType<FunctionOpInterface>())
    name = function.getName().str();
  rewriter.setInsertionPoint(place);
  auto kernel = attn_tile::KernelOp::create(
      rewriter, loc, name + suffix.str(),
      rewriter.getFunctionType(TypeRange(operands), {}));
  kernel.setScheduleAttr(schedule);
  if (auto precision = user->getAttrOfType<MatmulPrecisionAttr>("precision"))
    kernel.setPrecisionAttr(precision);
  // This only makes the name unique: the kernel is in place already.
  symbols.insert(kernel);
  rewriter.setInsertionPoint(user);
  attn_tile::LaunchOp::create(rewriter, loc, SymbolRefAttr::get(kernel),
                              /*grid=*/ValueRange(), operands,
                              /*ctas_per_sm=*/IntegerAttr());
  return kernel;
}
