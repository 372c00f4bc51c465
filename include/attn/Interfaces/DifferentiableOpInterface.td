//===- DifferentiableOpInterface.td - Differentiation ------*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The interface of operations with a reverse-mode derivative.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_INTERFACES_DIFFERENTIABLEOPINTERFACE_TD
#define ATTN_INTERFACES_DIFFERENTIABLEOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::mlir::attn";
  let description = [{
    An operation whose gradient can be computed from the gradients of its results.
    Reverse-mode differentiation visits the operations last to first, and each adds
    to the gradients of its operands and captured values.

    Operations of upstream dialects implement it by external models. An
    operation of another dialect joins by implementing it.
  }];
  let methods = [
    InterfaceMethod<[{
        Called for each operation that will be differentiated, before any
        gradient is computed. May replace the operation by one with the same
        results, followed by additional results that the gradient needs.
        Returns the operation or its replacement.
      }],
      "::mlir::Operation *", "prepareForGradient",
      (ins "::mlir::RewriterBase &":$rewriter), /*methodBody=*/"",
      /*defaultImplementation=*/"return $_op;">,
    InterfaceMethod<[{
        Emits the gradients of operands and captured values, and adds them to
        `state`. At least one result has a gradient; gradients of values that
        are not active are not needed. Fails with a diagnostic if the operation
        cannot be differentiated.
      }],
      "::llvm::LogicalResult", "emitGradients",
      (ins "::mlir::OpBuilder &":$builder,
           "::mlir::attn::GradientState &":$state)>,
  ];
}

#endif // ATTN_INTERFACES_DIFFERENTIABLEOPINTERFACE_TD
