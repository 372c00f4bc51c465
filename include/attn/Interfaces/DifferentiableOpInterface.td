//===- DifferentiableOpInterface.td - Differentiation ------*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How an operation takes part in reverse-mode differentiation.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_INTERFACES_DIFFERENTIABLEOPINTERFACE_TD
#define ATTN_INTERFACES_DIFFERENTIABLEOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::mlir::attn";
  let description = [{
    An operation whose gradient can be computed from the gradients of its
    results: reverse-mode differentiation of a graph of such operations visits
    them last to first and lets each add to the gradients of what it uses.

    Operations of upstream dialects implement it by external models. An
    operation of another dialect joins by implementing it.
  }];
  let methods = [
    InterfaceMethod<[{
        Called for each operation that will be differentiated, before any
        gradient is computed. May replace the operation by one that computes the
        same and yields more, after the same results, that the gradient needs.
        Returns the operation that is there afterwards.
      }],
      "::mlir::Operation *", "prepareForGradient",
      (ins "::mlir::RewriterBase &":$rewriter), /*methodBody=*/"",
      /*defaultImplementation=*/"return $_op;">,
    InterfaceMethod<[{
        Emits the gradients of what the operation uses, operands and captured
        values alike, and adds them to `state`. At least one result has a
        gradient; gradients of values that are not active are not needed. Fails
        with a diagnostic if the operation cannot be differentiated.
      }],
      "::llvm::LogicalResult", "emitGradients",
      (ins "::mlir::OpBuilder &":$builder,
           "::mlir::attn::GradientState &":$state)>,
  ];
}

#endif // ATTN_INTERFACES_DIFFERENTIABLEOPINTERFACE_TD
