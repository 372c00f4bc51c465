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

#endif // ATTN_DIALECT_ATTN_TRANSFORMS_PASSES_TD
