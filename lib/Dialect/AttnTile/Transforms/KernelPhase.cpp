//===- KernelPhase.cpp - Order of the passes on kernels -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds the phase of a kernel, and reports passes that do not expect it.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/AttnTile/Transforms/KernelPhase.h"

using namespace mlir;
using namespace mlir::attn_tile;

StringRef attn_tile::stringifyKernelPhase(KernelPhase phase) {
  switch (phase) {
  case KernelPhase::Plain:
    return "plain";
  case KernelPhase::Staged:
    return "staged";
  case KernelPhase::Specialized:
    return "specialized";
  case KernelPhase::Final:
    return "final";
  }
  llvm_unreachable("unknown phase");
}

KernelPhase attn_tile::getKernelPhase(KernelOp kernel) {
  Block &body = kernel.getBody().front();
  if (llvm::any_of(kernel.getArgumentTypes(), llvm::IsaPred<TensorMapType>))
    return KernelPhase::Final;
  if (kernel.getLayoutAttr() || !body.getOps<RoleOp>().empty())
    return KernelPhase::Specialized;
  return body.getOps<CreatePipeOp>().empty() ? KernelPhase::Plain
                                             : KernelPhase::Staged;
}

LogicalResult attn_tile::verifyExpectedPhase(KernelOp kernel, StringRef pass,
                                             const PhaseContract &contract) {
  KernelPhase phase = getKernelPhase(kernel);
  if (contract.earliest <= phase && phase <= contract.latest)
    return success();
  InFlightDiagnostic error = kernel.emitError("pass '")
                             << pass << "' expects a kernel in phase '"
                             << stringifyKernelPhase(contract.earliest) << "'";
  if (contract.earliest != contract.latest)
    error << " to '" << stringifyKernelPhase(contract.latest) << "'";
  return error << " (was '" << stringifyKernelPhase(phase) << "')";
}

LogicalResult attn_tile::verifyLeftPhase(KernelOp kernel, StringRef pass,
                                         const PhaseContract &contract,
                                         KernelPhase before) {
  KernelPhase phase = getKernelPhase(kernel);
  if (phase == before || phase == contract.leaves)
    return success();
  return kernel.emitError("pass '")
         << pass << "' must leave a kernel in phase '"
         << stringifyKernelPhase(contract.leaves.value_or(before)) << "' (was '"
         << stringifyKernelPhase(phase) << "')";
}
