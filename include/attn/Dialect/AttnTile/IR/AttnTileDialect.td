//===- AttnTileDialect.td - Definition of the attn_tile dialect -*- tablegen -*-===//
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

include "mlir/IR/OpBase.td"

def AttnTile_Dialect : Dialect {
  let name = "attn_tile";
  let cppNamespace = "::mlir::attn_tile";
  let summary = "one kernel as a program on register tiles";
  let description = [{
    A kernel of the `attn_tile` dialect is a program that one cooperating group
    of threads (a CTA on a GPU, one task on a CPU) runs for each work item.
    Register tiles are upstream `vector` values of the whole group; elementwise
    work on them is plain `arith` and `math`, control flow is `scf`.

    The dialect adds what upstream has no word for: the kernel itself, loads
    and stores of tiles, masks by position, and - introduced step by step by the
    kernel passes - pipes of staged tiles, matrix products in flight, and roles
    of warpgroups. Asynchrony is explicit: a product in flight is a
    `!attn_tile.pending` value that cannot be used before `mma_wait`, a staged
    tile is a `!attn_tile.buffer` that exists only between `wait` and `release`
    (or `acquire` and `commit`).
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::mlir::attn::AttnDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::memref::MemRefDialect",
                           "::mlir::vector::VectorDialect"];
  let extraClassDeclaration = [{
    void registerTypes();
    void registerAttributes();
  }];
}

class AttnTile_Op<string mnemonic, list<Trait> traits = []>
    : Op<AttnTile_Dialect, mnemonic, traits>;

#endif // ATTN_DIALECT_ATTNTILE_IR_ATTNTILEDIALECT_TD
