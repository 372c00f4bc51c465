//===- Toy.td - A mask and a schedule of another dialect ---*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TOY_TD
#define TOY_TD

include "attn/Dialect/Attn/IR/AttnInterfaces.td"
include "mlir/IR/AttrTypeBase.td"

def Toy_Dialect : Dialect {
  let name = "toy";
  let cppNamespace = "::toy";
  let useDefaultAttributePrinterParser = 1;
}

def Toy_StreamingAttr : AttrDef<Toy_Dialect, "Streaming", [
    DeclareAttrInterfaceMethods<Attn_MaskAttrInterface, ["getConstantValue"]>]> {
  let mnemonic = "streaming";
  let summary = "causal attention to the first keys and to a window (StreamingLLM)";
  let parameters = (ins "int64_t":$first, "int64_t":$window);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Toy_SingleStageAttr : AttrDef<Toy_Dialect, "SingleStage", [
    DeclareAttrInterfaceMethods<Attn_ScheduleAttrInterface>]> {
  let mnemonic = "single_stage";
  let summary = "kernels for sm_80 whose pipes have a single stage";
  let parameters = (ins "int64_t":$key_tile, "int64_t":$warps);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

#endif // TOY_TD
