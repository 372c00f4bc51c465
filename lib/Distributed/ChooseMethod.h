//===- ChooseMethod.h - The fastest method of sharding ----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Chooses the method by which ranks share the attentions of a module.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DISTRIBUTED_CHOOSEMETHOD_H
#define ATTN_LIB_DISTRIBUTED_CHOOSEMETHOD_H

#include "attn/Distributed/Passes.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::attn {

/// A method, and, if it is `Ulysses` or `Usp`, how many neighboring ranks
/// exchange heads for positions.
struct ChosenMethod {
  ShardMethod method = ShardMethod::Ring;
  int64_t ulyssesDegree = 1;
};

/// The method with the least estimated time for all attentions and gradients of
/// `module` on `ranks` ranks of `target`; `Ring`, which reports why it cannot
/// serve, if no method can. Reports the choice as a remark, and a target or a
/// calibration that is not known as an error.
FailureOr<ChosenMethod> chooseMethod(ModuleOp module, StringRef target,
                                     int64_t ranks);

/// `Usp` with the degree of the model for all attentions and gradients of
/// `module`. Reports it as a remark, and errors as `chooseMethod` does.
FailureOr<ChosenMethod> chooseUspDegree(ModuleOp module, StringRef target,
                                        int64_t ranks);

} // namespace mlir::attn

#endif // ATTN_LIB_DISTRIBUTED_CHOOSEMETHOD_H
