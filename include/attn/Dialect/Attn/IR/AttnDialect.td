//===- AttnDialect.td - Definition of the attn dialect -----*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The dialect that states attention as a graph on tensors.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_ATTNDIALECT_TD
#define ATTN_DIALECT_ATTN_IR_ATTNDIALECT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/OpBase.td"

def Attn_Dialect : Dialect {
  let name = "attn";
  let cppNamespace = "::mlir::attn";
  let summary = "attention on tensors and buffers, with value semantics";
  let description = [{
    The `attn` dialect states *what* attention computes: an operation over
    query, key and value with an optional change of the scores and an optional
    mask, each of them an attribute or a region. It says nothing of tiles,
    memory or threads; those appear in the `attn_tile` dialect, to which
    `convert-attn-to-attn-tile` lowers.

    Operations take tensors (value semantics, destination style) or, after
    bufferisation, memrefs.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasCanonicalizer = 1;
  let hasOperationAttrVerify = 1;
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::tensor::TensorDialect"];
  let extraClassDeclaration = [{
    void registerAttributes();

    /// Of a module: the `#attn.device` that it is compiled for.
    static constexpr ::llvm::StringLiteral getDeviceAttrName() {
      return "attn.device";
    }

    /// A unit attribute of attention: which tiles its mask leaves out must be
    /// known at compile time, as closed forms of the lengths and of values that
    /// do not depend on the pair. `attn-check-regions` reports masks of which
    /// they are not.
    static constexpr ::llvm::StringLiteral getStaticTilesAttrName() {
      return "attn.static_tiles";
    }
  }];
}

class Attn_Attr<string name, string mnemonicName, list<Trait> traits = []>
    : AttrDef<Attn_Dialect, name, traits> {
  let mnemonic = mnemonicName;
}

class Attn_Op<string mnemonic, list<Trait> traits = []>
    : Op<Attn_Dialect, mnemonic, traits>;

#endif // ATTN_DIALECT_ATTN_IR_ATTNDIALECT_TD
