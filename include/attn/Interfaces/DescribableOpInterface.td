//===- DescribableOpInterface.td - Operands for callers ----*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The interface of operations whose operands are arguments of compiled
// functions.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_INTERFACES_DESCRIBABLEOPINTERFACE_TD
#define ATTN_INTERFACES_DESCRIBABLEOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def DescribableOpInterface : OpInterface<"DescribableOpInterface"> {
  let cppNamespace = "::mlir::attn";
  let description = [{
    An operation on memrefs that says what callers of a compiled function must know
    of arguments that are its operands. `attn-describe-arguments` asks it.
  }];
  let methods = [
    InterfaceMethod<[{
        Operands that name an argument without a name, in the order in which
        names are given away. Absent operands may be in the list, as null.
      }],
      "::llvm::SmallVector<::mlir::attn::DescribedOperand>", "getNamedOperands">,
    InterfaceMethod<"Sizes of operands that must be equal.",
      "::llvm::SmallVector<::mlir::attn::EqualOperandSizes>",
      "getEqualSizes">,
    InterfaceMethod<[{
        Operands whose rows kernels access in blocks, so that they must be aligned.
      }],
      "::llvm::SmallVector<::mlir::Value>", "getStagedOperands", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/"return {};">,
  ];
}

#endif // ATTN_INTERFACES_DESCRIBABLEOPINTERFACE_TD
