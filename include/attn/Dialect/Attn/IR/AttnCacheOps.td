//===- AttnCacheOps.td - Operations on KV caches ----------*- tablegen -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Operations that write KV caches, from which attention reads.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_ATTNCACHEOPS_TD
#define ATTN_DIALECT_ATTN_IR_ATTNCACHEOPS_TD

include "attn/Dialect/Attn/IR/AttnOps.td"

/// bf16, f16 or f32, two dimensions: position, pair of elements.
def Attn_RotaryTable
    : Type<And<[Or<[AnyRankedTensor.predicate, AnyMemRef.predicate]>,
                CPred<"::llvm::cast<::mlir::ShapedType>($_self).getRank() == 2">,
                CPred<"::llvm::isa<::mlir::BFloat16Type, ::mlir::Float16Type, "
                      "::mlir::Float32Type>(::llvm::cast<::mlir::ShapedType>($_self)"
                      ".getElementType())">]>,
           "2-D tensor or memref of bf16, f16 or f32 values">;

/// f32, two dimensions: batch entry, key or value head.
def Attn_ScaleTable
    : Type<And<[Or<[AnyRankedTensor.predicate, AnyMemRef.predicate]>,
                CPred<"::llvm::cast<::mlir::ShapedType>($_self).getRank() == 2">,
                CPred<"::llvm::cast<::mlir::ShapedType>($_self)"
                      ".getElementType().isF32()">]>,
           "2-D tensor or memref of f32 values">;

def Attn_CacheAppendOp : Attn_Op<"cache_append", [
    AttrSizedOperandSegments, DestinationStyleOpInterface,
    DeclareOpInterfaceMethods<DescribableOpInterface, ["getStagedOperands"]>,
    DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>,
    DeclareOpInterfaceMethods<ConditionallySpeculatable>]> {
  let summary = "append keys and values to a KV cache";
  let description = [{
    Writes `Snew` keys and values of each batch entry `b` into its cache, behind the
    `key_lengths[b]` keys that it has. For `i` from 0 to `Snew - 1`:

    ```
    key_cache[b, h, key_lengths[b] + i, :]   = rotate(key[b, h, i, :], key_lengths[b] + i)
    value_cache[b, h, key_lengths[b] + i, :] = value[b, h, i, :]
    rotated_query[b, h, i, :] = rotate(query[b, h, i, :], key_lengths[b] + i)
    new_lengths[b]            = key_lengths[b] + Snew
    ```

    All other elements of the cache stay as they are. With `page_table`, the cache is
    paged as in `attn.attention`: key `j` of batch entry `b` is row `j % page` of page
    `page_table[b, j / page]`.

    | operand | shape | element type |
    |---|---|---|
    | `key` | `[B, Hk, Snew, Dqk]` | bf16, f16 or f32 |
    | `value` | `[B, Hv, Snew, Dv]` | as `key` |
    | `key_cache` | `[B, Hk, Skv, Dqk]`, or `[pages, Hk, page, Dqk]` | as `key`, f8E4M3FN or f8E5M2 |
    | `value_cache` | `[B, Hv, Skv, Dv]`, or `[pages, Hv, page, Dv]` | as `key_cache` |
    | `key_lengths` | `[B]` | i32 |
    | `new_lengths` (optional) | `[B]` | i32 |
    | `page_table` (optional) | `[B, max_pages]` | i32 |
    | `cos`, `sin` (optional) | `[positions, R / 2]` | bf16, f16 or f32 |
    | `key_scale`, `value_scale` (optional) | `[B, Hk]`, `[B, Hv]` | f32 |
    | `query`, `rotated_query` (optional) | `[B, Hq, Sq, Dqk]` | as `key` |

    Batch and sequence dimensions may be dynamic; heads, head dims, the page size and
    the columns of `cos` and `sin` are static.

    `rotary` is a rotary position embedding (RoFormer, Su et al. 2021,
    arXiv:2104.09864) of the keys, and of the queries if there are any. It rotates the
    first `R` elements of the head dim as `attn.rope` does, by the angles of row
    `position` of the tables: pairs are `(c, c + R / 2)`, or `(2 c, 2 c + 1)` if
    `interleaved`. The arithmetic is f32, and the result is rounded once. Without
    `rotary`, `rotate` does nothing. With `same_position` all queries of an entry have
    the position of its first new key, `key_lengths[b]`.

    A cache of 8 bits holds quotients of f32, rounded once to nearest even: of the
    elements and the scale of their batch entry and head, by which readers of the
    cache multiply, or 1 without `scales`. Quotients beyond the largest finite number
    of the type become that number; NaN stays NaN. Elements of wider caches have no
    scales.

    Lengths and tables are read when the operation runs, on the device that runs it.
    An entry is valid if `key_lengths[b]` is not negative, `key_lengths[b] + Snew` is
    at most the number of keys that it has room for, `Skv` or `max_pages * page`, and
    the rows of `cos` and `sin` include all positions of its new keys and queries. The
    runtime reports entries that are not; nothing is written into their caches, their
    `new_lengths` is 0 and their rows of `rotated_query` are undefined. Entries of
    `page_table` for the new keys are between 0 and `pages - 1`. The runtime reports
    others, and the keys and values of these pages are not written.

    It is one kernel on GPUs, where head dims obey the rules of `attn.attention`. The
    operation is in destination style: on tensors it returns the new contents of
    `key_cache` and `value_cache`, then of `rotated_query` and `new_lengths` if it has
    them. On memrefs it writes them.

    ```mlir
    attn.cache_append ins(%k, %v : memref<?x8x1x128xbf16>, memref<?x8x1x128xbf16>)
        outs(%key_pages, %value_pages : memref<?x8x64x128xbf16>, memref<?x8x64x128xbf16>)
        key_lengths(%lengths : memref<?xi32>) new_lengths(%next : memref<?xi32>)
        page_table(%table : memref<?x?xi32>)
        rotary(%cos, %sin : memref<8192x64xf32>, memref<8192x64xf32>) interleaved
        query(%q into %rotated : memref<?x32x1x128xbf16>, memref<?x32x1x128xbf16>)
    attn.cache_append ins(%k, %v : memref<?x8x1x128xbf16>, memref<?x8x1x128xbf16>)
        outs(%key_cache, %value_cache
            : memref<?x8x4096x128xf8E4M3FN>, memref<?x8x4096x128xf8E4M3FN>)
        key_lengths(%lengths : memref<?xi32>)
        scales(%key_scale, %value_scale : memref<?x8xf32>, memref<?x8xf32>)
    ```
  }];
  let arguments = (ins Attn_HeadTensor:$key, Attn_HeadTensor:$value,
                       Attn_SequenceTensor:$key_lengths,
                       Optional<Attn_PageTable>:$page_table,
                       Optional<Attn_RotaryTable>:$cos,
                       Optional<Attn_RotaryTable>:$sin,
                       Optional<Attn_HeadTensor>:$query,
                       Optional<Attn_ScaleTable>:$key_scale,
                       Optional<Attn_ScaleTable>:$value_scale,
                       Attn_MultiplicandTensor:$key_cache, Attn_MultiplicandTensor:$value_cache,
                       Optional<Attn_HeadTensor>:$rotated_query,
                       Optional<Attn_SequenceTensor>:$new_lengths,
                       UnitAttr:$interleaved, UnitAttr:$same_position,
                       OptionalAttr<Attn_ScheduleAttrInterface>:$schedule);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    `ins` `(` $key `,` $value `:` type($key) `,` type($value) `)`
    `outs` `(` $key_cache `,` $value_cache `:` type($key_cache) `,` type($value_cache) `)`
    `key_lengths` `(` $key_lengths `:` type($key_lengths) `)`
    (`new_lengths` `(` $new_lengths^ `:` type($new_lengths) `)`)?
    (`page_table` `(` $page_table^ `:` type($page_table) `)`)?
    (`rotary` `(` $cos^ `,` $sin `:` type($cos) `,` type($sin) `)`)?
    (`interleaved` $interleaved^)?
    (`query` `(` $query^ `into` $rotated_query
        `:` type($query) `,` type($rotated_query) `)`)?
    (`same_position` $same_position^)?
    (`scales` `(` $key_scale^ `,` $value_scale `:` type($key_scale) `,` type($value_scale) `)`)?
    (`schedule` `(` $schedule^ `)`)? attr-dict (`->` type($results)^)?
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Whether the operands are memrefs.
    bool isBufferized() {
      return ::llvm::isa<::mlir::MemRefType>(getKey().getType());
    }
    /// `R`: elements of a row that are rotated; 0 without `rotary`.
    int64_t getNumRotated() {
      return getCos() ? 2 * ::mlir::attn::getDimSize(getCos(), 1) : 0;
    }
    /// The number of neighbours that a thread accesses at a time: all rows, and
    /// rotated halves of rows, are multiples of it.
    int64_t getAccessWidth();
    /// Whether rows of contiguous tables are multiples of `maxAccessBytes`. On GPUs,
    /// rows of tables then begin at multiples of it.
    bool hasAlignedTables();

    /// Where the keys of the cache are.
    ::mlir::attn::KVAddressingAttrInterface getAddressing();

    /// DestinationStyleOpInterface: the cache, the rotated queries and the new
    /// lengths.
    ::mlir::MutableOperandRange getDpsInitsMutable();
  }];
}

#endif // ATTN_DIALECT_ATTN_IR_ATTNCACHEOPS_TD
