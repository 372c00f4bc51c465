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
    An operation on tensors each of whose elements follows from few elements of
    operands. Where it makes an operand of attention or uses its result,
    `attn-fuse` can make it part of the attention: as a layout, conversion or
    scale, if that is all it does to one operand, or else as scalar code of a
    region.

    Operations of upstream dialects implement it by external models. An
    operation of another dialect joins by implementing it.
  }];
  let methods = [
    InterfaceMethod<[{
        How the elements of the only result follow from those of an operand;
        none if they do so in another way.
      }],
      "::std::optional<::mlir::attn::TensorMapping>", "getMapping",
      (ins), /*methodBody=*/"", /*defaultImplementation=*/"return std::nullopt;">,
    InterfaceMethod<[{
        Whether `emitElement` can state elements of the only result, which is a
        tensor.
      }],
      "bool", "isElementwise", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return false;">,
    InterfaceMethod<[{
        Emits the element of the result at `indices`, from what `source` gives;
        null if that does not give what is needed, which may leave dead code.
        Floating point values are f32, and so is all arithmetic on them.
      }],
      "::mlir::Value", "emitElement",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$indices,
           "::mlir::attn::ElementSource &":$source),
      /*methodBody=*/"", /*defaultImplementation=*/"return {};">,
  ];
}

#endif // ATTN_INTERFACES_FUSIBLEOPINTERFACE_TD
