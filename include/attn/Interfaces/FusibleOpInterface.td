//===- FusibleOpInterface.td - Fusion with attention ---------*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The interface of operations that can be fused into attention.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_INTERFACES_FUSIBLEOPINTERFACE_TD
#define ATTN_INTERFACES_FUSIBLEOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def FusibleOpInterface : OpInterface<"FusibleOpInterface"> {
  let cppNamespace = "::mlir::attn";
  let description = [{
    An operation on tensors. Each element of its result depends on few elements of
    its operands. Where it computes an operand of attention or uses its result,
    `attn-fuse` can fuse it: as a layout, conversion or scale, if it does nothing
    else to one operand, or as scalar code of a region.

    Operations of upstream dialects implement it by external models. An
    operation of another dialect joins by implementing it.
  }];
  let methods = [
    InterfaceMethod<[{
        The only result as a permuted, converted or scaled operand; none if the
        operation does anything else.
      }],
      "::std::optional<::mlir::attn::TensorMapping>", "getMapping",
      (ins), /*methodBody=*/"", /*defaultImplementation=*/"return std::nullopt;">,
    InterfaceMethod<[{
        Whether `emitElement` can emit elements of the only result, which is a
        tensor.
      }],
      "bool", "isElementwise", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return false;">,
    InterfaceMethod<[{
        Emits the element of the result at `indices` from elements that `source`
        provides; null if one of them is not available, which may leave dead
        code. Floating point values are f32, and so is all arithmetic on them.
      }],
      "::mlir::Value", "emitElement",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$indices,
           "::mlir::attn::ElementSource &":$source),
      /*methodBody=*/"", /*defaultImplementation=*/"return {};">,
  ];
}

#endif // ATTN_INTERFACES_FUSIBLEOPINTERFACE_TD
