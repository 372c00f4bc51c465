//===- Passes.td - Passes on the attn dialect ----------------*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Graph passes.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_TRANSFORMS_PASSES_TD
#define ATTN_DIALECT_ATTN_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def ChooseSchedulePass : Pass<"attn-choose-schedule", "::mlir::func::FuncOp"> {
  let summary = "attach a schedule to each attention";
  let description = [{
    Derives a schedule for the target from the shapes of each `attn.attention`
    and attaches it as its `schedule`. An attention that already has a schedule
    keeps it. What was chosen is reported as a remark.
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"\"host\"",
           "Target: host, sm_80 or sm_90a">,
  ];
  let dependentDialects = ["::mlir::attn::AttnDialect",
                           "::mlir::attn_tile::AttnTileDialect"];
}

def DispatchSchedulesPass
    : Pass<"attn-dispatch-schedules", "::mlir::func::FuncOp"> {
  let summary = "choose among schedules at run time";
  let description = [{
    Replaces each `attn.attention` whose schedule is `#attn.by_query_length` by
    a conditional on the number of queries with an attention for each of the
    two schedules, or by the one that applies if that number is static.

    ```mlir
    %n = memref.dim %q, %c2 : memref<?x32x?x64xbf16>
    %short = arith.cmpi ult, %n, %c3072 : index
    scf.if %short {
      attn.attention ... schedule(#a)
    } else {
      attn.attention ... schedule(#b)
    }
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::memref::MemRefDialect",
                           "::mlir::scf::SCFDialect",
                           "::mlir::tensor::TensorDialect"];
}

#endif // ATTN_DIALECT_ATTN_TRANSFORMS_PASSES_TD
