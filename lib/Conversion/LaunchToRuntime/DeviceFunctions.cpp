//===- DeviceFunctions.cpp - Functions of memory of the device ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// If a function handles device memory, all of its memrefs are in device memory.
//
//===----------------------------------------------------------------------===//

#include "attn/Conversion/LaunchToRuntime/DeviceFunctions.h"
#include "attn/Dialect/Attn/IR/AttnCommOps.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::attn;

/// Set by attn-describe-arguments on the functions it has described.
static constexpr StringLiteral describedAttrName = "attn.symbols";

llvm::SetVector<Operation *> attn::findDeviceFunctions(ModuleOp module) {
  llvm::SetVector<Operation *> functions;
  for (auto func : module.getOps<func::FuncOp>()) {
    if (func.isPublic() && func->hasAttr(describedAttrName))
      functions.insert(func);
    func.walk([&](Operation *op) {
      if (isa<attn_tile::LaunchOp, attn_tile::MakeTensorMapOp>(op) ||
          op->hasTrait<Communicates>())
        functions.insert(func);
    });
  }
  for (unsigned i = 0; i < functions.size(); ++i) {
    auto uses = SymbolTable::getSymbolUses(functions[i], module);
    if (!uses)
      continue;
    for (SymbolTable::SymbolUse use : *uses)
      if (auto call = dyn_cast<func::CallOp>(use.getUser()))
        if (auto caller = call->getParentOfType<func::FuncOp>())
          functions.insert(caller);
  }
  return functions;
}

LogicalResult
attn::verifyDeviceMemory(const llvm::SetVector<Operation *> &functions) {
  for (Operation *function : functions) {
    WalkResult result = function->walk([&](memref::GetGlobalOp op) {
      InFlightDiagnostic diag =
          op.emitOpError("is a constant in the memory of the host, which "
                         "kernels of the device cannot read; pass it to '")
          << SymbolTable::getSymbolName(function).getValue()
          << "' as an argument";
      for (Operation *user : op->getUsers())
        diag.attachNote(user->getLoc())
            << "used by '" << user->getName() << "' here";
      return WalkResult::interrupt();
    });
    if (result.wasInterrupted())
      return failure();
  }
  return success();
}
