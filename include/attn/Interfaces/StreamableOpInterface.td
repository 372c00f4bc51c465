//===- StreamableOpInterface.td - Axes cut into pieces -----*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The interface of operations whose axes can be cut into pieces.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_INTERFACES_STREAMABLEOPINTERFACE_TD
#define ATTN_INTERFACES_STREAMABLEOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def StreamableOpInterface : OpInterface<"StreamableOpInterface"> {
  let cppNamespace = "::mlir::attn";
  let description = [{
    An operation in destination style that walks over axes, and what becomes of
    it where an axis is cut into pieces (FlashAttention on a Napkin, Abbott and
    Zardini 2025). An axis that is only mapped over can be dealt out to groups,
    which work side by side. An axis can be streamed, one piece after another,
    if there are a head, which makes a state of the first piece, a body, which
    takes one more piece into a state, and a merge, an associative operation on
    states of different pieces.

    What this says of single operations, `OpChain` puts together to what a
    kernel of several can do.

    Operations of upstream dialects implement it by external models. An
    operation of another dialect joins by implementing it.
  }];
  let methods = [
    InterfaceMethod<"The axes that the operation walks over.",
      "::llvm::SmallVector<::mlir::attn::OpAxis>", "getAxes", (ins)>,
    InterfaceMethod<[{
        The axes that the dimensions of `operand` are indexed by; none where all
        of a dimension may be read at each point. Empty if the operand is not a
        tensor or buffer that is walked over; destinations are.
      }],
      "::mlir::attn::DimAxes", "getDimAxes",
      (ins "::mlir::OpOperand &":$operand)>,
    InterfaceMethod<[{
        What the operation makes and uses itself, beside operands and results,
        in all steps of its walk.
      }],
      "::llvm::SmallVector<::mlir::attn::HeldTile>", "getHeldTiles", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/"return {};">,
    InterfaceMethod<[{
        The part of a streamed axis that groups visit on average, where a mask
        leaves out others.
      }],
      "double", "getVisitedPart",
      (ins "const ::mlir::attn::CostAssumptions &":$assumptions),
      /*methodBody=*/"", /*defaultImplementation=*/"return 1;">,
  ];
}

#endif // ATTN_INTERFACES_STREAMABLEOPINTERFACE_TD
