//===- AttnTileDialect.td - Definition of the attn_tile dialect -*- tablegen -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The dialect in which a kernel is a program on tiles.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTNTILE_IR_ATTNTILEDIALECT_TD
#define ATTN_DIALECT_ATTNTILE_IR_ATTNTILEDIALECT_TD

include "attn/Dialect/Attn/IR/VerifiedSegments.td"
include "mlir/IR/OpBase.td"

def AttnTile_Dialect : Dialect {
  let name = "attn_tile";
  let cppNamespace = "::mlir::attn_tile";
  let summary = "one kernel as a program on register tiles";
  let description = [{
    A kernel of the `attn_tile` dialect is a program that one CTA runs for each
    work item: a thread block on a GPU, one task on a CPU. Register tiles are
    upstream `vector` values that the threads of the whole CTA hold. Elementwise
    operations on them are `arith` and `math`, control flow is `scf`.

    The dialect adds what upstream lacks: the kernel itself, loads and stores of
    tiles, and masks by position. Kernel passes then introduce pipes of staged
    tiles, MMAs in flight, and roles of warpgroups. Asynchrony is explicit. An
    MMA in flight is a `!attn_tile.pending` value, which cannot be used before
    `mma_wait`. A staged tile is a `!attn_tile.buffer`, which exists only
    between `wait` and `release`, or between `acquire` and `commit`.
    docs/Glossary.md defines the terms.
  }];
  let dependentDialects = ["::mlir::attn::AttnDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::memref::MemRefDialect",
                           "::mlir::vector::VectorDialect"];
  let extraClassDeclaration = [{
    void registerTypes();
    void registerAttributes();

    /// Messages about unknown names list the known ones.
    ::mlir::Attribute parseAttribute(::mlir::DialectAsmParser &parser,
                                     ::mlir::Type type) const override;
    void printAttribute(::mlir::Attribute attribute,
                        ::mlir::DialectAsmPrinter &printer) const override;
    ::mlir::Type parseType(::mlir::DialectAsmParser &parser) const override;
    void printType(::mlir::Type type,
                   ::mlir::DialectAsmPrinter &printer) const override;
    ::std::optional<ParseOpHook>
    getParseOperationHook(::llvm::StringRef name) const override;
  }];
}

class AttnTile_Op<string mnemonic, list<Trait> opTraits = []>
    : Op<AttnTile_Dialect, mnemonic> {
  let traits = Attn_WithVerifiedSegments<opTraits, arguments>.result;
}

#endif // ATTN_DIALECT_ATTNTILE_IR_ATTNTILEDIALECT_TD
