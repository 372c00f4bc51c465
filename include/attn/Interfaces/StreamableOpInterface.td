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
    An operation in destination style that iterates over axes, and the ways in which
    an axis can be cut into pieces (FlashAttention on a Napkin, Abbott and Zardini
    2025). The pieces of an axis that is only mapped over can be distributed among
    CTAs, which work in parallel. An axis can be streamed, one piece after another,
    if there are a head, which computes a state from the first piece, a body, which
    adds one more piece to a state, and a merge, an associative operation on states
    of different pieces.

    The interface describes single operations; `OpChain` combines them for a kernel
    of several operations.

    Operations of upstream dialects implement it by external models. An
    operation of another dialect joins by implementing it.
  }];
  let methods = [
    InterfaceMethod<"The axes that the operation iterates over.",
      "::llvm::SmallVector<::mlir::attn::OpAxis>", "getAxes", (ins)>,
    InterfaceMethod<[{
        The axis that indexes each dimension of `operand`; none where the whole
        dimension may be read at each point. Empty if the operand is not a
        tensor or buffer that the operation iterates over. It iterates over
        destinations.
      }],
      "::mlir::attn::DimAxes", "getDimAxes",
      (ins "::mlir::OpOperand &":$operand)>,
    InterfaceMethod<[{
        Tiles, other than operands and results, that the operation holds in all
        steps of its iteration.
      }],
      "::llvm::SmallVector<::mlir::attn::HeldTile>", "getHeldTiles", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/"return {};">,
    InterfaceMethod<[{
        The fraction of a streamed axis that CTAs visit on average, where a mask
        skips the rest.
      }],
      "double", "getVisitedPart",
      (ins "const ::mlir::attn::CostAssumptions &":$assumptions),
      /*methodBody=*/"", /*defaultImplementation=*/"return 1;">,
  ];
}

#endif // ATTN_INTERFACES_STREAMABLEOPINTERFACE_TD
