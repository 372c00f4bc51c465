//===- FusibleOpInterface.td - Fusion with attention ---------*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The interface of operations that can become part of attention.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_INTERFACES_FUSIBLEOPINTERFACE_TD
#define ATTN_INTERFACES_FUSIBLEOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def FusibleOpInterface : OpInterface<"FusibleOpInterface"> {
  let cppNamespace = "::mlir::attn";
  let description = [{
    An operation on tensors that may copy, convert and scale the elements of one
    operand. Where it makes an operand of attention or uses its result,
    `attn-fuse` can make it part of the attention.

    Operations of upstream dialects implement it by external models. An
    operation of another dialect joins by implementing it.
  }];
  let methods = [
    InterfaceMethod<[{
        How the elements of the only result follow from those of an operand;
        none if they do so in another way.
      }],
      "::std::optional<::mlir::attn::TensorMapping>", "getMapping">,
  ];
}

#endif // ATTN_INTERFACES_FUSIBLEOPINTERFACE_TD
