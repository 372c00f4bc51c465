//===- AttnDataMasks.td - Masks that read operands --------*- tablegen -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Named masks that depend on data, and the operations that compute the tables
// they read.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_ATTNDATAMASKS_TD
#define ATTN_DIALECT_ATTN_IR_ATTNDATAMASKS_TD

include "attn/Dialect/Attn/IR/AttnAttrs.td"
include "mlir/Interfaces/DestinationStyleOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

class Attn_DataMaskAttr<string name, string mnemonicName>
    : Attn_Attr<name, mnemonicName, [DeclareAttrInterfaceMethods<
          Attn_MaskAttrInterface, ["getReads", "verifyReads", "getEqualSizes",
                                   "emitTables"]>]> {
  let assemblyFormat = "`<` struct(params) `>`";
}

def Attn_DocumentsAttr : Attn_DataMaskAttr<"Documents", "documents"> {
  let summary = "pairs within one document, by an id for each position";
  let description = [{
    Query `i` attends to key `j` if `queries[b, i] == keys[b, j]`, where `queries`
    and `keys` are numbers of operands that the mask reads. These are
    `[B|1, positions]` of `i32`: ids for each batch entry, or for all of them. Both
    may be the same operand. For causal documents, combine it with `#attn.causal`
    by `#attn.and`. With `key_lengths`, `keys` has an id for each key that the cache
    has room for; pages do not say how many these are, so that the mask cannot be
    used with `page_table`.

    ```mlir
    attn.attention ... mask(#attn.and<#attn.causal, #attn.documents<queries = 0, keys = 0>>)
        reads(%ids : tensor<?x?xi32>)
    ```
  }];
  let parameters = (ins "int64_t":$queries, "int64_t":$keys);
}

def Attn_PackedDocumentsAttr
    : Attn_DataMaskAttr<"PackedDocuments", "packed_documents"> {
  let summary = "pairs within one document, by the boundaries of documents";
  let description = [{
    Query `i` attends to key `j` if both are in the same document `n`:
    `queries[b, n] <= i < queries[b, n + 1]` and `keys[b, n] <= j < keys[b, n + 1]`.
    `queries` and `keys` are numbers of operands that the mask reads. These are
    `[B|1, N + 1]` of `i32`: sorted positions (`cu_seqlens`) for each batch entry, or
    for all of them, and may be the same operand. Positions before the first or
    after the last boundary are in no document. The runtime reports boundaries that
    are not sorted or out of bounds.

    Positions count from the beginning of the batch entry, so that `#attn.causal`
    in the same conjunction compares positions in the entry. Where queries and keys
    of a document differ in number, use `sequences packed` of `attn.attention`, which
    counts from the beginning of each document.

    ```mlir
    attn.attention ... mask(#attn.and<#attn.causal, #attn.packed_documents<queries = 0, keys = 0>>)
        reads(%boundaries : tensor<1x?xi32>)
    ```
  }];
  let parameters = (ins "int64_t":$queries, "int64_t":$keys);
}

def Attn_TreeAttr : Attn_DataMaskAttr<"Tree", "tree"> {
  let summary = "each node of a tree attends to its ancestors";
  let description = [{
    Queries are the nodes of a tree (speculative decoding: Miao et al. 2024), and
    the last keys are the same nodes. Query `i` attends to all keys before these,
    `j < keyLength - queryLength`, and to itself and its ancestors. `parents` is the
    number of an operand that the mask reads, `[B|1, queries]` of `i32`: the parent
    of each node, which comes before it, or -1 for roots. The runtime reports other
    entries.

    In a KV cache with `key_lengths`, the last keys are those before the length of
    each batch entry, so that drafts of any tree are verified after prefixes of any
    length. With `sequences packed_queries`, `parents` is `[1, queries]` and numbers
    nodes by the rows of `query`, over all sequences.

    ```mlir
    attn.attention ... mask(#attn.tree<parents = 0>) reads(%parents : tensor<1x64xi32>)
    ```
  }];
  let parameters = (ins "int64_t":$parents);
}

def Attn_BlockSparseAttr : Attn_DataMaskAttr<"BlockSparse", "block_sparse"> {
  let summary = "block-sparse mask in block compressed sparse row format";
  let description = [{
    Scores are cut into blocks of `rows` queries and `columns` keys, multiples of
    16, counted from position 0. Query `i` attends to key `j` if block row
    `r = i / rows` lists block column `j / columns`, that is, if
    `indices[b, h, offsets[b, h, r] .. offsets[b, h, r + 1]]` contains it. `offsets` and
    `indices` are numbers of operands that the mask reads, of `i32`: `[B|1, H|1, R + 1]`
    for `R` block rows, and `[B|1, H|1, capacity]`. Columns of a row need not be
    sorted.

    The runtime reports lists with a duplicate column or one that does not exist,
    and offsets that are not sorted, exceed the capacity or are not `R + 1` in
    number. Block rows with such a list attend to their valid columns.

    ```mlir
    attn.attention ... mask(#attn.block_sparse<rows = 128, columns = 64, offsets = 0, indices = 1>)
        reads(%offsets, %indices : tensor<1x32x?xi32>, tensor<1x32x?xi32>)
    ```
  }];
  let parameters = (ins "int64_t":$rows, "int64_t":$columns,
                        "int64_t":$offsets, "int64_t":$indices);
  let genVerifyDecl = 1;
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

/// i32, of rank `rank`.
class Attn_IntTensor<int rank>
    : Type<And<[Or<[AnyRankedTensor.predicate, AnyMemRef.predicate]>,
                CPred<"::llvm::cast<::mlir::ShapedType>($_self).getRank() == " #
                      rank>,
                CPred<"::llvm::cast<::mlir::ShapedType>($_self).getElementType()"
                      ".isSignlessInteger(32)">]>,
           rank # "-D tensor or memref of i32 values">;

class Attn_MaskTableOp<string mnemonic>
    : Attn_Op<mnemonic, [
          DestinationStyleOpInterface, Attn_MaskTableOpInterface,
          DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::MutableOperandRange getDpsInitsMutable() {
      return getTableMutable();
    }
  }];
}

def Attn_SequenceIdsOp : Attn_MaskTableOp<"sequence_ids"> {
  let summary = "the document of each position";
  let description = [{
    `table[b, i]` is the `n` with `boundaries[b, n] <= i < boundaries[b, n + 1]`, or
    `otherwise` if there is none. The runtime reports boundaries that are not sorted,
    or not between 0 and the number of positions; all positions are `otherwise`
    then.

    ```mlir
    %ids = attn.sequence_ids ins(%boundaries : tensor<1x?xi32>)
        outs(%init : tensor<1x?xi32>) otherwise(-1) -> tensor<1x?xi32>
    ```
  }];
  let arguments = (ins Attn_IntTensor<2>:$boundaries, Attn_IntTensor<2>:$table,
                       I32Attr:$otherwise,
                       OptionalAttr<Attn_ScheduleAttrInterface>:$schedule);
  let assemblyFormat = [{
    `ins` `(` $boundaries `:` type($boundaries) `)`
    `outs` `(` $table `:` type($table) `)` `otherwise` `(` $otherwise `)`
    (`schedule` `(` $schedule^ `)`)? attr-dict (`->` type($results)^)?
  }];
}

def Attn_AncestorMapOp : Attn_MaskTableOp<"ancestor_map"> {
  let summary = "bitmap of the ancestors of each node of a tree";
  let description = [{
    Bit `m mod 32` of `table[b, n, m / 32]` says whether node `m` is node `n` or an
    ancestor of it. `parents[b, n]` is the parent of node `n`, less than `n`, or -1.
    The runtime reports other entries, and they count as -1.

    ```mlir
    %map = attn.ancestor_map ins(%parents : tensor<1x?xi32>)
        outs(%init : tensor<1x?x?xi32>) -> tensor<1x?x?xi32>
    ```
  }];
  let arguments = (ins Attn_IntTensor<2>:$parents, Attn_IntTensor<3>:$table,
                       OptionalAttr<Attn_ScheduleAttrInterface>:$schedule);
  let assemblyFormat = [{
    `ins` `(` $parents `:` type($parents) `)`
    `outs` `(` $table `:` type($table) `)`
    (`schedule` `(` $schedule^ `)`)? attr-dict (`->` type($results)^)?
  }];
}

def Attn_BlockSparseMapOp : Attn_MaskTableOp<"block_sparse_map"> {
  let summary = "bitmap of the blocks of a block-sparse mask";
  let description = [{
    Bit `c mod 32` of `table[b, h, r, c / 32]` says whether block row `r` lists block
    column `c`, that is, whether
    `indices[b, h, offsets[b, h, r] .. offsets[b, h, r + 1]]` contains it. Columns are
    less than `columns`. The runtime reports lists with a duplicate column or one
    that does not exist, and offsets that are not sorted, exceed the size of
    `indices`, or are not one more than the rows of the table.

    ```mlir
    %map = attn.block_sparse_map ins(%offsets, %indices : tensor<1x8x?xi32>, tensor<1x8x?xi32>)
        columns(%n) outs(%init : tensor<1x8x?x?xi32>) -> tensor<1x8x?x?xi32>
    ```
  }];
  let arguments = (ins Attn_IntTensor<3>:$offsets, Attn_IntTensor<3>:$indices,
                       Index:$columns, Attn_IntTensor<4>:$table,
                       OptionalAttr<Attn_ScheduleAttrInterface>:$schedule);
  let assemblyFormat = [{
    `ins` `(` $offsets `,` $indices `:` type($offsets) `,` type($indices) `)`
    `columns` `(` $columns `)` `outs` `(` $table `:` type($table) `)`
    (`schedule` `(` $schedule^ `)`)? attr-dict (`->` type($results)^)?
  }];
}

#endif // ATTN_DIALECT_ATTN_IR_ATTNDATAMASKS_TD
