//===- KVAddressingOpInterface.td - Own KV addressings -----*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The interface of attention whose KV addressing does not follow from the
// operands of AttentionOpInterface.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_KVADDRESSINGOPINTERFACE_TD
#define ATTN_DIALECT_ATTN_IR_KVADDRESSINGOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def Attn_KVAddressingOpInterface : OpInterface<"KVAddressingOpInterface"> {
  let cppNamespace = "::mlir::attn";
  let description = [{
    An operation with `AttentionOpInterface` that states its KV addressing, an
    attribute of any dialect. Without this interface, `getKVAddressing` finds the
    addressing by the operands of `AttentionOpInterface`.
  }];
  let methods = [
    InterfaceMethod<[{
        How kernels find the rows of keys and values; null if the operands of
        `AttentionOpInterface` say so.
      }],
      "::mlir::attn::KVAddressingAttrInterface", "getAddressing">,
  ];
}

#endif // ATTN_DIALECT_ATTN_IR_KVADDRESSINGOPINTERFACE_TD
