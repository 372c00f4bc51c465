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

include "attn/Dialect/Attn/IR/VerifiedSegments.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/OpBase.td"

def Attn_Dialect : Dialect {
  let name = "attn";
  let cppNamespace = "::mlir::attn";
  let summary = "attention on tensors and buffers, with value semantics";
  let description = [{
    The `attn` dialect states *what* attention computes: an operation on query, key
    and value with an optional `score_mod` and an optional mask, which is an
    attribute, a `mask_mod` region or both. It says nothing of tiles, memory or
    threads; these appear in the `attn_tile` dialect, to which
    `convert-attn-to-attn-tile` lowers.

    Operations take tensors (value semantics, destination style) or, after
    bufferisation, memrefs. docs/Glossary.md defines the terms.
  }];
  let hasCanonicalizer = 1;
  let hasOperationAttrVerify = 1;
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::tensor::TensorDialect"];
  let extraClassDeclaration = [{
    void registerAttributes();

    /// Messages about unknown names list the known ones.
    ::mlir::Attribute parseAttribute(::mlir::DialectAsmParser &parser,
                                     ::mlir::Type type) const override;
    void printAttribute(::mlir::Attribute attribute,
                        ::mlir::DialectAsmPrinter &printer) const override;
    ::std::optional<ParseOpHook>
    getParseOperationHook(::llvm::StringRef name) const override;

    /// Attribute of a module: the `#attn.device` that it is compiled for.
    static constexpr ::llvm::StringLiteral getDeviceAttrName() {
      return "attn.device";
    }

    /// A unit attribute of attention: the empty tiles of its mask must be known
    /// at compile time, as closed forms of the lengths and of values that do not
    /// depend on the pair. `attn-check-regions` reports other masks.
    static constexpr ::llvm::StringLiteral getStaticTilesAttrName() {
      return "attn.static_tiles";
    }

    /// A unit attribute of attention: kernels that run before it classify the
    /// tiles of its mask, as they do for masks that read tensors.
    /// `attn-classify-masks` adds it where closed forms do not give the tiles.
    static constexpr ::llvm::StringLiteral getClassifiedTilesAttrName() {
      return "attn.classified_tiles";
    }
  }];
}

class Attn_Attr<string name, string mnemonicName, list<Trait> traits = []>
    : AttrDef<Attn_Dialect, name, traits> {
  let mnemonic = mnemonicName;
}

class Attn_Op<string mnemonic, list<Trait> opTraits = []>
    : Op<Attn_Dialect, mnemonic> {
  let traits = Attn_WithVerifiedSegments<opTraits, arguments>.result;
}

#endif // ATTN_DIALECT_ATTN_IR_ATTNDIALECT_TD
