//===- CostOpInterface.td - Work of operations -------------*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The interface of operations with a cost model.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_INTERFACES_COSTOPINTERFACE_TD
#define ATTN_INTERFACES_COSTOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::mlir::attn";
  let description = [{
    An operation whose arithmetic and data movement can be counted. All choices by
    cost use these counts and the rates of `#attn.device`.

    Operations of upstream dialects implement it by external models. An
    operation of another dialect joins by implementing it.
  }];
  let methods = [
    InterfaceMethod<[{
        Counts the operations and the traffic of one execution. Intermediate
        data that is not stored in the device's memory does not count as traffic
        of that level.
      }],
      "::mlir::attn::OpCost", "getCost",
      (ins "const ::mlir::attn::CostAssumptions &":$assumptions)>,
  ];
}

#endif // ATTN_INTERFACES_COSTOPINTERFACE_TD
