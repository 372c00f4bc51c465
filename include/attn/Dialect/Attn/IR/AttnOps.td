//===- AttnOps.td - Operations of the attn dialect --------*- tablegen -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Attention, its gradient and the operations of their regions.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_ATTNOPS_TD
#define ATTN_DIALECT_ATTN_IR_ATTNOPS_TD

include "attn/Dialect/Attn/IR/AttnDataMasks.td"
include "attn/Interfaces/DescribableOpInterface.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/DestinationStyleOpInterface.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

/// bf16, f16 or f32, four dimensions: batch, head, position, head dim.
def Attn_HeadTensor
    : Type<And<[Or<[AnyRankedTensor.predicate, AnyMemRef.predicate]>,
                CPred<"::llvm::cast<::mlir::ShapedType>($_self).getRank() == 4">,
                CPred<"::llvm::isa<::mlir::BFloat16Type, ::mlir::Float16Type, "
                      "::mlir::Float32Type>(::llvm::cast<::mlir::ShapedType>($_self)"
                      ".getElementType())">]>,
           "4-D tensor or memref of bf16, f16 or f32 values">;

/// bf16, f16, f32, E4M3 or E5M2, four dimensions: batch, head, position, head
/// dim.
def Attn_MultiplicandTensor
    : Type<Or<[Attn_HeadTensor.predicate,
               And<[Or<[AnyRankedTensor.predicate, AnyMemRef.predicate]>,
                    CPred<"::llvm::cast<::mlir::ShapedType>($_self).getRank() == 4">,
                    CPred<"::mlir::attn::isFloat8(::llvm::cast<::mlir::ShapedType>($_self)"
                          ".getElementType())">]>]>,
           "4-D tensor or memref of bf16, f16, f32, f8E4M3FN or f8E5M2 values">;

/// f32, three dimensions: batch, head, query position.
def Attn_RowTensor
    : Type<And<[Or<[AnyRankedTensor.predicate, AnyMemRef.predicate]>,
                CPred<"::llvm::cast<::mlir::ShapedType>($_self).getRank() == 3">,
                CPred<"::llvm::cast<::mlir::ShapedType>($_self).getElementType()"
                      ".isF32()">]>,
           "3-D tensor or memref of f32 values">;

/// i32, one dimension: an entry for each sequence, or one more.
def Attn_SequenceTensor
    : Type<And<[Or<[AnyRankedTensor.predicate, AnyMemRef.predicate]>,
                CPred<"::llvm::cast<::mlir::ShapedType>($_self).getRank() == 1">,
                CPred<"::llvm::cast<::mlir::ShapedType>($_self).getElementType()"
                      ".isSignlessInteger(32)">]>,
           "1-D tensor or memref of i32 values">;

/// i32, one dimension: the positions of a shard (`ShardPosition`).
def Attn_PositionsTensor
    : Type<And<[Or<[AnyRankedTensor.predicate, AnyMemRef.predicate]>,
                CPred<"::llvm::cast<::mlir::ShapedType>($_self).getRank() == 1">,
                CPred<"::llvm::cast<::mlir::ShapedType>($_self).getDimSize(0) == 6">,
                CPred<"::llvm::cast<::mlir::ShapedType>($_self).getElementType()"
                      ".isSignlessInteger(32)">]>,
           "1-D tensor or memref of 6 i32 values">;

/// i32, two dimensions: the pages of each batch entry.
def Attn_PageTable
    : Type<And<[Or<[AnyRankedTensor.predicate, AnyMemRef.predicate]>,
                CPred<"::llvm::cast<::mlir::ShapedType>($_self).getRank() == 2">,
                CPred<"::llvm::cast<::mlir::ShapedType>($_self).getElementType()"
                      ".isSignlessInteger(32)">]>,
           "2-D tensor or memref of i32 values">;

/// i32, one dimension: a key and value head for each query head.
def Attn_HeadMapTensor
    : Type<And<[Or<[AnyRankedTensor.predicate, AnyMemRef.predicate]>,
                CPred<"::llvm::cast<::mlir::ShapedType>($_self).getRank() == 1">,
                CPred<"::llvm::cast<::mlir::ShapedType>($_self).getElementType()"
                      ".isSignlessInteger(32)">]>,
           "1-D tensor or memref of i32 values">;

/// bf16, f16 or f32, one dimension: an entry for each query head.
def Attn_HeadScalarTensor
    : Type<And<[Or<[AnyRankedTensor.predicate, AnyMemRef.predicate]>,
                CPred<"::llvm::cast<::mlir::ShapedType>($_self).getRank() == 1">,
                CPred<"::llvm::isa<::mlir::BFloat16Type, ::mlir::Float16Type, "
                      "::mlir::Float32Type>(::llvm::cast<::mlir::ShapedType>($_self)"
                      ".getElementType())">]>,
           "1-D tensor or memref of bf16, f16 or f32 values">;

/// i64: a value, or memory that is read where the operation runs.
def Attn_RngState
    : Type<And<[Or<[I64.predicate, AnyRankedTensor.predicate,
                    AnyMemRef.predicate]>,
                CPred<"::mlir::getElementTypeOrSelf($_self)"
                      ".isSignlessInteger(64)">,
                CPred<"!::llvm::isa<::mlir::ShapedType>($_self) || "
                      "::llvm::cast<::mlir::ShapedType>($_self).getRank() == 0">]>,
           "i64, or 0-D tensor or memref of i64">;

/// i32, four dimensions: batch, head and two more. Holds the words of a dropout
/// keep mask, or a block mask.
def Attn_WordTensor
    : Type<And<[Or<[AnyRankedTensor.predicate, AnyMemRef.predicate]>,
                CPred<"::llvm::cast<::mlir::ShapedType>($_self).getRank() == 4">,
                CPred<"::llvm::cast<::mlir::ShapedType>($_self).getElementType()"
                      ".isSignlessInteger(32)">]>,
           "4-D tensor or memref of i32 values">;

/// i32, any number of dimensions.
def Attn_MaskRead
    : Type<And<[Or<[AnyRankedTensor.predicate, AnyMemRef.predicate]>,
                CPred<"::llvm::cast<::mlir::ShapedType>($_self).getElementType()"
                      ".isSignlessInteger(32)">]>,
           "ranked tensor or memref of i32 values">;

/// f32, any number of dimensions.
def Attn_GradTensor
    : Type<And<[Or<[AnyRankedTensor.predicate, AnyMemRef.predicate]>,
                CPred<"::llvm::cast<::mlir::ShapedType>($_self).getElementType()"
                      ".isF32()">]>,
           "ranked tensor or memref of f32 values">;

/// bf16, f16 or f32, two dimensions, or three with a batch before them.
def Attn_MatrixTensor
    : Type<And<[Or<[AnyRankedTensor.predicate, AnyMemRef.predicate]>,
                CPred<"::llvm::is_contained({2, 3}, "
                      "::llvm::cast<::mlir::ShapedType>($_self).getRank())">,
                CPred<"::llvm::isa<::mlir::BFloat16Type, ::mlir::Float16Type, "
                      "::mlir::Float32Type>(::llvm::cast<::mlir::ShapedType>($_self)"
                      ".getElementType())">]>,
           "2-D or 3-D tensor or memref of bf16, f16 or f32 values">;

/// bf16, f16, f32, E4M3 or E5M2, two dimensions, or three with a batch before
/// them.
def Attn_MatrixMultiplicand
    : Type<Or<[Attn_MatrixTensor.predicate,
               And<[Or<[AnyRankedTensor.predicate, AnyMemRef.predicate]>,
                    CPred<"::llvm::is_contained({2, 3}, "
                          "::llvm::cast<::mlir::ShapedType>($_self).getRank())">,
                    CPred<"::mlir::attn::isFloat8(::llvm::cast<::mlir::ShapedType>($_self)"
                          ".getElementType())">]>]>,
           "2-D or 3-D tensor or memref of bf16, f16, f32, f8E4M3FN or f8E5M2 values">;

def Attn_AttentionOp : Attn_Op<"attention", [
    AttrSizedOperandSegments, SingleBlock, RecursiveMemoryEffects,
    DeclareOpInterfaceMethods<Attn_AttentionOpInterface, [
        "statesScoreGrad", "getShapedOperands", "getHeadOperands",
        "getRegionDestinations", "getFlopsPerPair"]>,
    DeclareOpInterfaceMethods<DescribableOpInterface, ["getStagedOperands"]>,
    DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>,
    DeclareOpInterfaceMethods<ConditionallySpeculatable>,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "scaled dot-product attention";
  let description = [{
    For each batch `b`, query head `h` and query position `i`:

    ```
    s[j]   = score_mod(scale * dot(query[b,h,i,:], key[b,h/gk,j,:]), b, h, i, j)
    p[j]   = exp(s[j] - lse[b,h,i])        where mask(b, h, i, j), else 0
    lse    = log(sum over attended j of exp(s[j]))
    out    = sum over j of p[j] * value[b,h/gv,j,:]
    ```

    | operand | shape | element type |
    |---|---|---|
    | `query` | `[B, Hq, Sq, Dqk]` | bf16, f16, f32, f8E4M3FN or f8E5M2 |
    | `key` | `[B, Hk, Skv, Dqk]` | as `query`, or 8 bits |
    | `value` | `[B, Hv, Skv, Dv]` | as `key`; any of 8 bits if `query` has 8 bits |
    | `out` | `[B, Hq, Sq, Dv]` | as `query`, or f32; bf16, f16 or f32 for 8 bits; or 8 bits |
    | `lse` (optional) | `[B, Hq, Sq]` | f32 |
    | `state_out`, `state_lse` (optional) | as `out` and `lse` | bf16, f16 or f32; f32 |
    | `sinks` (optional) | `[Hq]` | bf16, f16 or f32 |
    | `head_map` (optional) | `[Hq]` | i32 |
    | `identity` (optional) | `[Hq]` | bf16, f16 or f32 |

    Batch and sequence dimensions may be dynamic; heads and head dimensions are
    static. `Hk` and `Hv` each divide `Hq`; query head `h` uses key head `h / gk`
    with `gk = Hq / Hk` and value head `h / gv` with `gv = Hq / Hv` (grouped-query
    attention, Ainslie et al. 2023). The two numbers may differ, so that for instance
    all query heads share one key head, and each has a value head of its own:

    ```mlir
    attn.attention
        ins(%q, %k, %v : memref<?x12x?x128xbf16>, memref<?x1x?x128xbf16>,
            memref<?x12x?x128xbf16>)
        outs(%out : memref<?x12x?x128xbf16>) mask(#attn.causal)
    ```

    The softmax statistics, the accumulation and the log-sum-exp are f32. A row
    with no attended key gives `out = 0` and `lse = -inf`.

    The scales of tensors of 8 bits (Micikevicius et al. 2022) are part of regions:
    `score_mod` multiplies scores by the scales of queries and keys, `epilogue`
    multiplies results by the scale of values. With queries of 8 bits, probabilities
    times a power of two are rounded to E4M3 before they are multiplied by values,
    as tensor cores demand; the factor leaves few of them below the least number of
    E4M3. With wider queries, keys and values of 8 bits, such as a KV cache, are
    extended, on GPUs to queries of 16 bits and without `identity`. GPUs before Hopper
    have no kernels for queries of 8 bits, and Hopper has none with `sequences`,
    `key_lengths`, `identity` or a `query` region.

    ```mlir
    %out = attn.attention
        ins(%q, %k, %v : tensor<1x8x512x64xf8E4M3FN>, tensor<1x2x512x64xf8E4M3FN>,
            tensor<1x2x512x64xf8E4M3FN>)
        outs(%init : tensor<1x8x512x64xbf16>)
        score_mod {
        ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
          %scale = tensor.extract %scales[%b, %h] : tensor<1x8xf32>
          %t = arith.mulf %s, %scale : f32
          attn.yield %t : f32
        } -> tensor<1x8x512x64xbf16>
    ```

    An `out` of 8 bits is rounded once, to nearest even, from the f32 result, after the
    `epilogue`, which divides by the scale of `out`, as `attn.quantize` does. Results
    beyond the largest number, infinities included, become the largest number, and NaN
    stays NaN: the mode `saturate` of `attn.quantize`, which `attn-fuse` makes an
    `out` of 8 bits. On GPUs it needs Hopper, and a `Dv` that is a multiple of 16.
    Gradients need the output before it is rounded to 8 bits.

    ```mlir
    %out = attn.attention
        ins(%q, %k, %v : tensor<1x8x512x64xbf16>, tensor<1x2x512x64xbf16>,
            tensor<1x2x512x64xbf16>)
        outs(%init : tensor<1x8x512x64xf8E4M3FN>)
        epilogue {
        ^bb0(%x: f32, %b: index, %h: index, %i: index, %d: index):
          %s = tensor.extract %scale[] : tensor<f32>
          %y = arith.divf %x, %s : f32
          attn.yield %y : f32
        } -> tensor<1x8x512x64xf8E4M3FN>
    ```

    `scale` defaults to `1 / sqrt(Dqk)`; it may be applied before, during or after
    the matmul of queries and keys. The mask is the conjunction of the `mask`
    attribute and the `mask_mod` region, each of which may be absent. The
    `score_mod` and `mask_mod` regions may use values defined outside of the
    operation, such as tensors read with `tensor.extract`. They may read memory but
    have no other effect, and do not read the buffers that the operation writes.
    Index arithmetic in them is done with at least 32 bits, and positions are less
    than 2^31.

    Reads in regions never access memory outside of their tensor. An index that is
    out of bounds, also a negative one, becomes the last index of the dimension; an
    empty tensor reads as zero. A read at the positions themselves, `[..., i, j]` or
    `[..., i]`, may give zero instead where they are out of bounds.

    Masks that depend on data, such as `#attn.documents`, refer to operands of
    `reads` by their number. These operands are read when the operation runs, on
    the device that runs it. Such masks cannot be used with `sequences`, but for
    `#attn.tree` with `packed_queries`.

    `block_mask` is the result of `attn.create_block_mask` for the same mask, lengths
    and `schedule`: lists of the partial and full tiles. Kernels whose mask reads
    tensors iterate over these lists and skip all other tiles. Without a `block_mask`, such an operation
    creates one each time it runs. It does not change the meaning, but must belong
    to the mask: with the block mask of another mask, results are undefined.

    `state` gives the results of attention of the same queries to other keys, from which
    the operation goes on. It computes the results of attention to both sets of keys: what
    `attn.merge` makes of the state and of the results without a state, which are
    `out'` and `lse'` here:

    ```
    lse    = log(exp(state_lse[b,h,i]) + exp(lse'))
    out    = exp(state_lse[b,h,i] - lse) * state_out[b,h,i,:] + exp(lse' - lse) * out'
    ```

    Kernels begin with the state instead of with an empty one: no pass over memory is
    added, and `out'` is not rounded. A row of the state without keys, with `state_lse =
    -inf`, does not count, whatever its `state_out` is; other entries of `state_lse` are
    finite. `sinks`, dropout and masks belong to the keys of the operation: a sink that
    the state includes must not be given again, and `state_out` is not dropped. The
    `epilogue` region maps the merged output. The state cannot be used with `identity`.
    Memrefs of the state must not overlap memrefs of results.

    ```mlir
    %out1, %lse1 = attn.attention
        ins(%q, %k1, %v1 : tensor<?x32x?x128xbf16>, tensor<?x8x?x128xbf16>,
            tensor<?x8x?x128xbf16>)
        outs(%out_init, %lse_init : tensor<?x32x?x128xbf16>, tensor<?x32x?xf32>)
        state(%out0, %lse0 : tensor<?x32x?x128xf32>, tensor<?x32x?xf32>)
        -> tensor<?x32x?x128xbf16>, tensor<?x32x?xf32>
    ```

    `sinks` holds a logit for each query head. It takes part in the softmax like a
    score, but has no value, so that a row may attend to nothing:

    ```
    lse    = log(exp(sinks[h]) + sum over attended j of exp(s[j]))
    ```

    A row with no attended key then still gives `out = 0`, and
    `lse = sinks[h]`. A sink of -inf is none.

    ```mlir
    attn.attention
        ins(%q, %k, %v : memref<?x32x?x128xbf16>, memref<?x8x?x128xbf16>,
            memref<?x8x?x128xbf16>)
        outs(%out : memref<?x32x?x128xbf16>)
        sinks(%sinks : memref<32xbf16>) mask(#attn.causal)
    ```

    `head_map` holds the key and value head of each query head, so that groups
    may differ in size or be empty. It replaces `h / gk` and `h / gv`. `Hk` and `Hv`
    are equal then, but need not divide `Hq`. It is read when the operation runs, on
    the device that runs it. Entries are between 0 and `Hk - 1`; the runtime reports
    others as an error, and the results of their heads are undefined then.

    ```mlir
    attn.attention
        ins(%q, %k, %v : memref<?x32x?x128xbf16>, memref<?x6x?x128xbf16>,
            memref<?x6x?x128xbf16>)
        outs(%out : memref<?x32x?x128xbf16>) heads(%map : memref<32xi32>)
    ```

    `identity` mixes the probabilities of each query head with the identity matrix
    (SoftPAG: Ahn et al. 2025), after the softmax and after dropout:

    ```
    p'[j]  = (1 - identity[h]) * p[j] + (identity[h] if j = i + Skv - Sq, else 0)
    out    = sum over j of p'[j] * value[b,h/gv,j,:]
    ```

    Like causal masks the identity is aligned to the bottom right corner. A row
    whose `j` is not a key has no identity term. Masks and dropout do not affect the
    term: a row with no attended key gives `out = identity[h] * value[b,h/gv,j,:]`.
    `lse` is still computed from the scores alone. The cost is a read of `value`
    where the output is written: `out = (1 - u) * out + u * value`. Without `lse`,
    heads whose entry is 1 do not compute scores.

    ```mlir
    attn.attention
        ins(%q, %k, %v : memref<?x32x?x128xbf16>, memref<?x8x?x128xbf16>,
            memref<?x8x?x128xbf16>)
        outs(%out : memref<?x32x?x128xbf16>) identity(%u : memref<32xf32>)
    ```

    `sequences` gives the lengths of sequences that differ in length. They are
    read when the operation runs, on the device that runs it.

    | layout | `query_sequences`, `key_sequences` | sequence `s` of the queries is |
    |---|---|---|
    | `packed` | `N + 1` boundaries each; `B` is 1 | rows `[bounds[s], bounds[s+1])` of the one batch entry |
    | `padded` | `B` lengths each | the first `lengths[s]` rows of batch entry `s` |
    | `packed_queries` | `N + 1` boundaries, `N` lengths | as `packed`; keys are in a KV cache, see below |

    Then `b` is the number of the sequence, positions count from the beginning
    of the sequence, and masks see its lengths. Boundaries are sorted and
    between 0 and the size of the sequence dimension, lengths are between 0 and
    that size; the runtime reports others as an error, and nothing is computed
    then. Rows of `out` and `lse` that belong to no sequence keep their
    contents. Rows of `key` and `value` outside of a sequence have no influence on
    it, even if they are not finite.

    ```mlir
    attn.attention
        ins(%q, %k, %v : memref<1x32x?x128xbf16>, memref<1x8x?x128xbf16>,
            memref<1x8x?x128xbf16>)
        outs(%out : memref<1x32x?x128xbf16>)
        sequences packed(%cu_q, %cu_k : memref<?xi32>, memref<?xi32>)
        mask(#attn.causal)
    ```

    `key_lengths` gives the number of keys of each batch entry of a KV cache,
    `[B]`. `Skv` in the formulas and in masks is then `key_lengths[b]`, and keys and
    values from there on have no influence, even if they are not finite. With
    `page_table`, the cache is paged (PagedAttention, Kwon et al. 2023):

    | operand | shape | element type |
    |---|---|---|
    | `key` | `[pages, Hk, page, Dqk]` | as `query` |
    | `value` | `[pages, Hv, page, Dv]` | as `query` |
    | `key_lengths` | `[B]` | i32 |
    | `page_table` | `[B, max_pages]` | i32 |

    Key `j` of batch entry `b` is row `j % page` of page `page_table[b, j / page]`.
    The page size is static, a power of two from 16 to 256. Lengths and tables are
    read when the operation runs, on the device that runs it. Table entries behind
    the last key are not read. Lengths are between 0 and the number of keys that an
    entry has room for, `max_pages * page`; pages that are read are between 0 and
    `pages - 1`. The runtime reports others as an error, nothing outside of the
    tensors is read, and the results of their batch entries are undefined then.
    Neither can be used with `identity`, `block_mask`, `dropout_mask`, or a `query`
    region, and there is no gradient. `key_lengths` cannot be used with `sequences`,
    and `page_table` only with `packed_queries`. Dropout counts keys from the first
    one of the batch entry, wherever they are stored.

    ```mlir
    attn.attention
        ins(%q, %k, %v : memref<?x32x1x128xbf16>, memref<?x8x64x128xbf16>,
            memref<?x8x64x128xbf16>)
        outs(%out : memref<?x32x1x128xbf16>)
        key_lengths(%lengths : memref<?xi32>)
        page_table(%table : memref<?x?xi32>) mask(#attn.causal)
    ```

    `sequences packed_queries` is for sequences with different numbers of queries,
    such as a chunk of a prompt or one new token each, and their keys in a KV cache.
    Queries are as in `packed`, with `N + 1` boundaries. `key_sequences` has `N`
    lengths, and the keys are as with `key_lengths`: sequence `s` has the first
    `key_sequences[s]` rows of batch entry `s`, or with `page_table` of the pages of
    its row `s`. All else is as for packed sequences, without `dropout_mask`,
    `identity` and a gradient.

    ```mlir
    attn.attention
        ins(%q, %k, %v : memref<1x32x?x128xbf16>, memref<?x8x64x128xbf16>,
            memref<?x8x64x128xbf16>)
        outs(%out : memref<1x32x?x128xbf16>)
        sequences packed_queries(%cu_q, %lengths : memref<?xi32>, memref<?xi32>)
        page_table(%table : memref<?x?xi32>) mask(#attn.causal)
    ```

    `positions` makes the operation a shard of a larger attention: it has some of
    the batch entries, query heads, queries and keys, and the larger attention is
    the merge of its shards (`attn.merge`). The operand has six entries:

    | entry | value |
    |---|---|
    | 0, 1 | the global positions of the first query and the first key |
    | 2, 3 | the global numbers of the first batch entry and the first query head |
    | 4, 5 | the global numbers of queries and keys |

    Masks, `score_mod` and `mask_mod` regions and generated random numbers see
    global coordinates: `positions[2] + b`, `positions[3] + h`, `positions[0] + i`
    and `positions[1] + j`. Masks see the global lengths, to whose bottom right
    corner they are aligned. So each shard attends to the pairs that the larger
    attention does, and drops the same ones. Tensors that regions read belong to
    the larger attention, unless the region subtracts the offsets. Operands, such as
    a `dropout_mask`, `sinks` and `head_map`, belong to the shard, and so do the
    positions that the `query` and `epilogue` regions get.

    Entries are read when the operation runs, on the device that runs it. They are
    from 0 to 2^28 - 1; the shard ends within the global lengths. With `dropout`, the
    first query and the first key are multiples of 16: the runtime reports others as
    an error, and results are undefined then. `positions` cannot be used with
    `identity`, `sequences`, `key_lengths`, `reads` or `block_mask`.

    ```mlir
    %out = attn.attention
        ins(%q, %k, %v : tensor<1x32x4096x128xbf16>, tensor<1x8x2048x128xbf16>,
            tensor<1x8x2048x128xbf16>)
        outs(%init : tensor<1x32x4096x128xbf16>)
        positions(%positions : tensor<6xi32>) mask(#attn.causal)
        -> tensor<1x32x4096x128xbf16>
    ```

    With `dropout_only`, `positions` are for the random numbers alone: masks and
    regions see the positions of the shard. `attn-expand-positions` makes this form.
    With `sequences` it is the only one: entries 0 and 1 are added to positions within
    each sequence, entry 2 to the numbers of sequences, and entry 3 to heads.

    `dropout` drops attention probabilities: `p[j]` becomes 0 for dropped pairs and
    is divided by one minus the effective p for kept ones, after `lse` has been
    computed. The attribute, `seed`, `offset` and the positions `b, h, i, j` alone
    decide which pairs are dropped. Seed and offset are `i64` values, or 0-D tensors
    or memrefs that are read when the operation runs, on the device that runs it.

    ```mlir
    %out = attn.attention
        ins(%q, %k, %v : tensor<?x32x?x128xbf16>, tensor<?x8x?x128xbf16>,
            tensor<?x8x?x128xbf16>)
        outs(%init : tensor<?x32x?x128xbf16>)
        dropout(#attn.dropout<p = 0.125, rng = #attn.philox<rounds = 7>>,
            %seed, %offset : tensor<i64>, tensor<i64>)
        -> tensor<?x32x?x128xbf16>
    ```

    Instead of generating random numbers, the operation can read a keep mask,
    `dropout_mask`, packed in the given layout. `attn.dropout_mask` defines the
    layouts and generates such masks; a user may supply one as well. Dropped pairs
    have a bit of zero; the probabilities of kept pairs are divided by one minus `p`.
    With packed `sequences`, the first dimension of the mask counts sequences; a
    sequence uses the beginning of the last two, which are large enough for the
    longest one.

    ```mlir
    %out = attn.attention
        ins(%q, %k, %v : tensor<1x32x4096x128xbf16>, tensor<1x8x4096x128xbf16>,
            tensor<1x8x4096x128xbf16>)
        outs(%init : tensor<1x32x4096x128xbf16>)
        dropout_mask rows(%bits : tensor<1x32x2048x256xi32>) p(0.125)
        -> tensor<1x32x4096x128xbf16>
    ```

    The `query` region maps each element of the `query` operand to the element
    that the scores use. Its arguments are element `(b, h, i, d)`, an `f32`, the mean
    of the squares of its row, and its position; its result, an `f32`, is rounded to
    the element type of the keys. The region may read other elements of the tensor,
    as RoPE does. The `epilogue` region computes an element of `out` from the sum
    over `j`, before it is rounded. Neither can be used with `sequences`. `attn-fuse`
    creates them; see `attn.map_heads`.

    ```mlir
    %out = attn.attention
        ins(%q, %k, %v : tensor<1x8x512x64xbf16>, tensor<1x8x512x64xbf16>,
            tensor<1x8x512x64xbf16>)
        outs(%init : tensor<1x8x512x64xbf16>)
        query {
        ^bb0(%x: f32, %square: f32, %b: index, %h: index, %i: index, %d: index):
          %r = math.rsqrt %square : f32
          %y = arith.mulf %x, %r : f32
          attn.yield %y : f32
        }
        epilogue {
        ^bb0(%x: f32, %b: index, %h: index, %i: index, %d: index):
          %g = tensor.extract %gate[%b, %h, %i, %d] : tensor<1x8x512x64xf32>
          %y = arith.mulf %x, %g : f32
          attn.yield %y : f32
        } -> tensor<1x8x512x64xbf16>
    ```

    `schedule` says how the operation is compiled: an attribute of
    `ScheduleAttrInterface`, or a choice among some by length. It does not change
    the meaning.

    The operation is in destination style: on tensors it returns the new
    contents of its `outs`, on memrefs it writes them.

    ```mlir
    %out = attn.attention
        ins(%q, %k, %v : tensor<?x32x?x128xbf16>, tensor<?x8x?x128xbf16>,
            tensor<?x8x?x128xbf16>)
        outs(%init : tensor<?x32x?x128xbf16>)
        mask(#attn.causal)
        score_mod {
        ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
          %t = math.tanh %s : f32
          attn.yield %t : f32
        } -> tensor<?x32x?x128xbf16>
    ```

    Method: online softmax (Milakov and Gimelshein 2018), tiled as in
    FlashAttention (Dao et al. 2022).
  }];
  let arguments = (ins Attn_MultiplicandTensor:$query,
                       Attn_MultiplicandTensor:$key,
                       Attn_MultiplicandTensor:$value, Attn_MultiplicandTensor:$out,
                       Optional<Attn_RowTensor>:$lse,
                       Optional<Attn_HeadTensor>:$state_out,
                       Optional<Attn_RowTensor>:$state_lse,
                       Optional<Attn_HeadScalarTensor>:$sinks,
                       Optional<Attn_HeadMapTensor>:$head_map,
                       Optional<Attn_HeadScalarTensor>:$identity,
                       Optional<Attn_SequenceTensor>:$query_sequences,
                       Optional<Attn_SequenceTensor>:$key_sequences,
                       Optional<Attn_SequenceTensor>:$key_lengths,
                       Optional<Attn_PageTable>:$page_table,
                       Optional<Attn_PositionsTensor>:$positions,
                       Variadic<Attn_MaskRead>:$mask_reads,
                       Optional<Attn_RngState>:$seed,
                       Optional<Attn_RngState>:$offset,
                       Optional<Attn_WordTensor>:$dropout_mask,
                       Optional<Attn_WordTensor>:$block_mask,
                       OptionalAttr<Attn_SequenceLayoutAttr>:$sequence_layout,
                       OptionalAttr<F32Attr>:$scale,
                       OptionalAttr<Attn_MaskAttrInterface>:$mask,
                       OptionalAttr<Attn_DropoutAttr>:$dropout,
                       OptionalAttr<Attn_MaskLayoutAttr>:$mask_layout,
                       OptionalAttr<F32Attr>:$drop_probability,
                       UnitAttr:$dropout_only,
                       OptionalAttr<Attn_MatmulPrecisionAttr>:$precision,
                       OptionalAttr<Attn_AnyScheduleAttr>:$schedule);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let regions = (region MaxSizedRegion<1>:$score_mod,
                        MaxSizedRegion<1>:$mask_mod,
                        MaxSizedRegion<1>:$query_region,
                        MaxSizedRegion<1>:$epilogue);
  let assemblyFormat = [{
    `ins` `(` $query `,` $key `,` $value `:` type($query) `,` type($key) `,` type($value) `)`
    `outs` `(` $out (`,` $lse^)? `:` type($out) (`,` type($lse)^)? `)`
    (`state` `(` $state_out^ `,` $state_lse `:` type($state_out) `,` type($state_lse) `)`)?
    (`sinks` `(` $sinks^ `:` type($sinks) `)`)?
    (`heads` `(` $head_map^ `:` type($head_map) `)`)?
    (`identity` `(` $identity^ `:` type($identity) `)`)?
    (`sequences` $sequence_layout `(` $query_sequences^ `,` $key_sequences
        `:` type($query_sequences) `,` type($key_sequences) `)`)?
    (`key_lengths` `(` $key_lengths^ `:` type($key_lengths) `)`)?
    (`page_table` `(` $page_table^ `:` type($page_table) `)`)?
    (`positions` `(` $positions^ `:` type($positions) `)`)? (`dropout_only` $dropout_only^)?
    (`scale` `(` $scale^ `)`)? (`mask` `(` $mask^ `)`)?
    (`reads` `(` $mask_reads^ `:` type($mask_reads) `)`)?
    (`block_mask` `(` $block_mask^ `:` type($block_mask) `)`)?
    (`dropout` `(` $dropout^ `,` $seed `,` $offset `:` type($seed) `,` type($offset) `)`)?
    (`dropout_mask` $mask_layout `(` $dropout_mask^ `:` type($dropout_mask) `)`
        `p` `(` $drop_probability `)`)?
    (`precision` `(` custom<Precision>($precision)^ `)`)? (`schedule` `(` $schedule^ `)`)?
    attr-dict-with-keyword
    (`score_mod` custom<ClosedRegion>($score_mod)^)?
    (`mask_mod` custom<ClosedRegion>($mask_mod)^)?
    (`query` custom<ClosedRegion>($query_region)^)?
    (`epilogue` custom<ClosedRegion>($epilogue)^)? (`->` type($results)^)?
  }];
  let builders = [
    OpBuilder<(ins "::mlir::Value":$query, "::mlir::Value":$key,
                   "::mlir::Value":$value, "::mlir::Value":$out,
                   CArg<"::mlir::FloatAttr", "{}">:$scale,
                   CArg<"::mlir::attn::MaskAttrInterface", "{}">:$mask), [{
      $_state.addOperands({query, key, value, out});
      Properties &properties = $_state.getOrAddProperties<Properties>();
      std::fill_n(properties.operandSegmentSizes.begin(), 4, 1);
      properties.scale = scale;
      properties.setMask(mask);
      for (unsigned i = 0; i < 4; ++i)
        $_state.addRegion();
      if (::llvm::isa<::mlir::RankedTensorType>(out.getType()))
        $_state.addTypes(out.getType());
    }]>,
  ];
  let hasCanonicalizer = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// DestinationStyleOpInterface: `out` and `lse`.
    ::mlir::MutableOperandRange getDpsInitsMutable();
  }];
}

def Attn_AttentionGradOp : Attn_Op<"attention_grad", [
    SingleBlock, AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<Attn_AttentionOpInterface, [
        "statesScoreGrad", "getShapedOperands", "getHeadOperands",
        "getRegionDestinations", "getFlopsPerPair"]>,
    DeclareOpInterfaceMethods<DescribableOpInterface, ["getStagedOperands"]>,
    DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>,
    DeclareOpInterfaceMethods<ConditionallySpeculatable>,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "gradient of scaled dot-product attention";
  let description = [{
    The gradient of `attn.attention` with the same `query`, `key`, `value`, `scale`,
    `mask`, and `score_mod` and `mask_mod` regions. `out` and `lse` are the results of
    that attention, `dout` and `dlse` their gradients. For each batch `b`, query head
    `h`, query position `i` and key position `j` that attends:

    ```
    x[i,j]  = scale * dot(query[b,h,i,:], key[b,h/gk,j,:])
    p[i,j]  = exp(score_mod(x[i,j], b, h, i, j) - lse[b,h,i])
    dp[i,j] = dot(dout[b,h,i,:], value[b,h/gv,j,:])
    ds[i,j] = p[i,j] * (dp[i,j] - dot(dout[b,h,i,:], out[b,h,i,:]) + dlse[b,h,i])
    dx[i,j] = score_grad(x[i,j], ds[i,j], b, h, i, j)

    dquery[b,h,i,:]    = scale * sum over j of dx[i,j] * key[b,h/gk,j,:]
    dkey[b,h/gk,j,:]   = scale * sum over i, and h of the key head, of dx[i,j] * query[b,h,i,:]
    dvalue[b,h/gv,j,:] = sum over i, and h of the value head, of p[i,j] * dout[b,h,i,:]
    ```

    | operand | shape | element type |
    |---|---|---|
    | `query`, `key`, `value`, `out`, `lse` | as in `attn.attention` | as in `attn.attention` |
    | `dout` | `[B, Hq, Sq, Dv]` | as `out`; also f8E4M3FN or f8E5M2 if `key` has 8 bits |
    | `dlse` (optional: 0) | `[B, Hq, Sq]` | f32 |
    | `dquery` | `[B, Hq, Sq, Dqk]` | as `query`, or as `out` if it has 8 bits; or f32 |
    | `dkey` | `[B, Hk, Skv, Dqk]` | as `dquery` may have |
    | `dvalue` | `[B, Hv, Skv, Dv]` | as `dquery` may have |
    | `dcaptures` | any | f32 |

    Pairs that the mask or the `mask_mod` region masks out and pairs whose score is
    -inf have `p = 0` and `dx = 0`: a row with no attended key contributes nothing,
    and its `dquery` is 0. All arithmetic and accumulation is f32.

    The `score_mod_grad` region computes the gradient of the score before the
    `score_mod` region, an `f32`, from that score and the gradient of the modified
    score. If it is absent, the gradient is the derivative of the `score_mod` region,
    which `attn-derive-score-grad` writes; without a `score_mod` region it is the
    identity.

    `dcaptures` are the gradients of tensors that the `score_mod` region reads. They
    are added to the contents of these destinations. The `score_mod_grad` region has
    one more block argument for each of them, of the same type, and adds to their
    elements with `attn.accumulate`. So an element that is read for many pairs, such
    as one of a broadcast bias, gets the sum over these pairs. The region takes
    effect once for each pair that attends.

    `deterministic` demands results that are bitwise equal whenever the operation
    is run with the same operands on the same device; without it the order of
    additions may change from run to run.

    `dropout` and `dropout_mask` are as in `attn.attention`. Dropped pairs have
    `dp[i,j] = 0` and contribute nothing to `dvalue`; for kept pairs both are divided
    by one minus the effective p.

    `identity` is as in `attn.attention` and at most 1. With it, `out` is the mixed
    output that `attn.attention` gave. For `u = identity[h]`

    ```
    ds[i,j]  = p[i,j] * ((1 - u) * dp[i,j] + u * dot(dout[b,h,i,:], value[b,h/gv,i+Skv-Sq,:])
                         - dot(dout[b,h,i,:], out[b,h,i,:]) + dlse[b,h,i])
    ```

    and `dvalue[b,h/gv,j,:]` is the sum of `(1 - u) * p[i,j] * dout[b,h,i,:]`, plus
    `u * dout[b,h,j-Skv+Sq,:]` where that query exists.

    `positions` is as in `attn.attention`. If `out` and `lse` are results of the larger
    attention, the merge of its shards, then the gradient of a query is the total of
    its `dquery` of all shards, and likewise for keys and values.

    `sequences` is as in `attn.attention`. Rows of `dquery`, `dkey` and `dvalue`
    that belong to no sequence keep their contents; such rows of the inputs have
    no influence.

    With operands of 8 bits, gradients are derivatives with respect to the numbers
    that the elements are, without scales. Where an element stands for its number times
    a scale, the gradient of the value that it stands for is the result divided by
    that scale. Scales of `query` and `key` are factors in `score_mod`. Attention
    may multiply its output by a scale `a` of `value`, and elements of `dout` may stand
    for their numbers times a scale `c`. Then the operands are `out / a`, `dlse`, and
    `a * c` times the numbers of `dout`, in a wider type. Where `a` and `c` are one
    number for all, `dout` may keep its 8 bits: the operands are `out / a` and
    `dlse / (a * c)`, and the results times `a * c` are the gradients. On GPUs elements
    of 8 bits become bf16 (f16 where `out` is f16), or as wider queries are, on hosts f32:
    both represent all of them (`attn-widen-float8-gradients`).

    ```mlir
    %dq, %dk, %dv = attn.attention_grad
        ins(%q, %k, %v, %out, %lse, %dout : tensor<?x8x?x64xf8E4M3FN>,
            tensor<?x2x?x64xf8E4M3FN>, tensor<?x2x?x64xf8E4M3FN>,
            tensor<?x8x?x64xbf16>, tensor<?x8x?xf32>, tensor<?x8x?x64xf8E5M2>)
        outs(%dq0, %dk0, %dv0 : tensor<?x8x?x64xf32>, tensor<?x2x?x64xf32>,
             tensor<?x2x?x64xf32>)
        -> tensor<?x8x?x64xf32>, tensor<?x2x?x64xf32>, tensor<?x2x?x64xf32>
    ```

    The operation is in destination style: on tensors it returns the new
    contents of its `outs`, on memrefs it writes them. Its regions obey the same
    rules as the regions of `attn.attention`.

    ```mlir
    %dq, %dk, %dv, %dbias = attn.attention_grad
        ins(%q, %k, %v, %out, %lse, %dout : tensor<?x32x?x128xbf16>,
            tensor<?x8x?x128xbf16>, tensor<?x8x?x128xbf16>,
            tensor<?x32x?x128xbf16>, tensor<?x32x?xf32>, tensor<?x32x?x128xbf16>)
        outs(%dq0, %dk0, %dv0, %zero : tensor<?x32x?x128xbf16>,
             tensor<?x8x?x128xbf16>, tensor<?x8x?x128xbf16>, tensor<32x?xf32>)
        mask(#attn.causal) deterministic
        score_mod {
        ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
          %x = tensor.extract %bias[%h, %j] : tensor<32x?xf32>
          %t = arith.addf %s, %x : f32
          attn.yield %t : f32
        } score_mod_grad {
        ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index,
             %db: tensor<32x?xf32>):
          attn.accumulate %ds into %db[%h, %j] : tensor<32x?xf32>
          attn.yield %ds : f32
        } -> tensor<?x32x?x128xbf16>, tensor<?x8x?x128xbf16>,
             tensor<?x8x?x128xbf16>, tensor<32x?xf32>
    ```

    Method: recomputation of the probabilities from the log-sum-exp, as in
    FlashAttention (Dao et al. 2022).
  }];
  let arguments = (ins Attn_MultiplicandTensor:$query,
                       Attn_MultiplicandTensor:$key,
                       Attn_MultiplicandTensor:$value, Attn_HeadTensor:$out,
                       Attn_RowTensor:$lse, Attn_MultiplicandTensor:$dout,
                       Optional<Attn_RowTensor>:$dlse,
                       Attn_HeadTensor:$dquery, Attn_HeadTensor:$dkey,
                       Attn_HeadTensor:$dvalue,
                       Variadic<Attn_GradTensor>:$dcaptures,
                       Optional<Attn_HeadScalarTensor>:$identity,
                       Optional<Attn_SequenceTensor>:$query_sequences,
                       Optional<Attn_SequenceTensor>:$key_sequences,
                       Optional<Attn_PositionsTensor>:$positions,
                       Variadic<Attn_MaskRead>:$mask_reads,
                       Optional<Attn_RngState>:$seed,
                       Optional<Attn_RngState>:$offset,
                       Optional<Attn_WordTensor>:$dropout_mask,
                       OptionalAttr<Attn_SequenceLayoutAttr>:$sequence_layout,
                       OptionalAttr<F32Attr>:$scale,
                       OptionalAttr<Attn_MaskAttrInterface>:$mask,
                       OptionalAttr<Attn_DropoutAttr>:$dropout,
                       OptionalAttr<Attn_MaskLayoutAttr>:$mask_layout,
                       OptionalAttr<F32Attr>:$drop_probability,
                       UnitAttr:$dropout_only,
                       OptionalAttr<Attn_MatmulPrecisionAttr>:$precision,
                       OptionalAttr<Attn_AnyScheduleAttr>:$schedule,
                       UnitAttr:$deterministic);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let regions = (region MaxSizedRegion<1>:$score_mod,
                        MaxSizedRegion<1>:$mask_mod,
                        MaxSizedRegion<1>:$score_mod_grad);
  let assemblyFormat = [{
    `ins` `(` $query `,` $key `,` $value `,` $out `,` $lse `,` $dout (`,` $dlse^)?
      `:` type($query) `,` type($key) `,` type($value) `,` type($out) `,`
          type($lse) `,` type($dout) (`,` type($dlse)^)? `)`
    `outs` `(` $dquery `,` $dkey `,` $dvalue (`,` $dcaptures^)?
      `:` type($dquery) `,` type($dkey) `,` type($dvalue)
          (`,` type($dcaptures)^)? `)`
    (`identity` `(` $identity^ `:` type($identity) `)`)?
    (`sequences` $sequence_layout `(` $query_sequences^ `,` $key_sequences
        `:` type($query_sequences) `,` type($key_sequences) `)`)?
    (`positions` `(` $positions^ `:` type($positions) `)`)? (`dropout_only` $dropout_only^)?
    (`scale` `(` $scale^ `)`)? (`mask` `(` $mask^ `)`)?
    (`reads` `(` $mask_reads^ `:` type($mask_reads) `)`)?
    (`dropout` `(` $dropout^ `,` $seed `,` $offset `:` type($seed) `,` type($offset) `)`)?
    (`dropout_mask` $mask_layout `(` $dropout_mask^ `:` type($dropout_mask) `)`
        `p` `(` $drop_probability `)`)?
    (`precision` `(` custom<Precision>($precision)^ `)`)? (`schedule` `(` $schedule^ `)`)?
    (`deterministic` $deterministic^)?
    attr-dict-with-keyword
    (`score_mod` custom<ClosedRegion>($score_mod)^)?
    (`mask_mod` custom<ClosedRegion>($mask_mod)^)?
    (`score_mod_grad` custom<ClosedRegion>($score_mod_grad)^)? (`->` type($results)^)?
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let hasCanonicalizer = 1;
  let extraClassDeclaration = [{
    /// DestinationStyleOpInterface: the gradients.
    ::mlir::MutableOperandRange getDpsInitsMutable();

    /// Whether dQ can be accumulated in a fixed order: there is no mask or
    /// `#attn.causal` alone, no two query heads share both a key and a value
    /// head, and there are neither sequences nor gradients of captured tensors.
    bool canOrderDq();
  }];
}

def Attn_DropoutMaskOp : Attn_Op<"dropout_mask", [
    DestinationStyleOpInterface,
    DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>,
    DeclareOpInterfaceMethods<ConditionallySpeculatable>]> {
  let summary = "dropout keep mask, one bit for each pair";
  let description = [{
    Generates the keep mask that `attn.attention` with the same dropout, seed and
    offset would generate itself, so that attention can read it instead.

    The bits are packed into words of 32 bits as docs/rng.md defines: word `(u, w)`
    covers queries `i = u / 8 * 16 + u mod 8` and `i + 8`, and keys
    `16 w .. 16 w + 15`. A bit is 1 where the attention probability is kept.

    | layout | shape of `out` | preferred by |
    |---|---|---|
    | `rows` | `[B, Hq, U, W]` | `attn.attention`: words of the same queries are contiguous |
    | `columns` | `[B, Hq, W, U]` | `attn.attention_grad`: words of the same keys are contiguous |

    Both operations can read both layouts. For `Sq` queries and `Skv` keys,
    `U = 32 * ceil(Sq / 64)` and `W = 4 * ceil(Skv / 64)`: whole blocks of 64 by
    64 pairs, in which rows of words begin at multiples of 16 bytes. With
    `from_head`, `out` holds some of the heads, starting at that head. With
    `positions`, it is the keep mask of a shard, as in `attn.attention`; entries 4
    and 5, the global lengths, do not matter.

    ```mlir
    %bits = attn.dropout_mask rows
        by(#attn.dropout<p = 0.125, rng = #attn.arx>, %seed, %offset : i64, i64)
        outs(%init : tensor<1x32x2048x256xi32>)
        -> tensor<1x32x2048x256xi32>
    ```
  }];
  let arguments = (ins Attn_RngState:$seed, Attn_RngState:$offset,
                       Attn_WordTensor:$out,
                       Optional<Attn_PositionsTensor>:$positions,
                       Attn_DropoutAttr:$dropout, Attn_MaskLayoutAttr:$layout,
                       DefaultValuedAttr<ConfinedAttr<I64Attr, [IntNonNegative]>, "0">:$first_head,
                       OptionalAttr<Attn_ScheduleAttrInterface>:$schedule);
  let results = (outs Optional<AnyRankedTensor>:$result);
  let assemblyFormat = [{
    $layout `by` `(` $dropout `,` $seed `,` $offset `:` type($seed) `,` type($offset) `)`
    `outs` `(` $out `:` type($out) `)` (`from_head` `(` $first_head^ `)`)?
    (`positions` `(` $positions^ `:` type($positions) `)`)?
    (`schedule` `(` $schedule^ `)`)? attr-dict (`->` type($result)^)?
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Queries and keys of one block of the mask.
    static constexpr int64_t blockSize = 64;
    /// Words along the query dimension for `queries` queries (`U`), and along the
    /// key dimension for `keys` keys (`W`).
    static int64_t countQueryWords(int64_t queries);
    static int64_t countKeyWords(int64_t keys);

    /// DestinationStyleOpInterface: `out`.
    ::mlir::MutableOperandRange getDpsInitsMutable() { return getOutMutable(); }
  }];
}

def Attn_CreateBlockMaskOp : Attn_Op<"create_block_mask", [
    SingleBlock, RecursiveMemoryEffects,
    DestinationStyleOpInterface,
    DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>,
    DeclareOpInterfaceMethods<ConditionallySpeculatable>,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "block mask of a mask that reads tensors";
  let description = [{
    Classifies the score tiles of a mask, as FlexAttention's `create_block_mask` does:
    a tile is empty if none of its pairs attends, masked if some attend, and full if
    all attend. All attentions with this mask, these lengths and this schedule can
    read the result; without it, `attn.attention` classifies tiles each time it runs.
    `mask` and `mask_mod` are as in `attn.attention`, but `mask` reads no operands (see
    `attn-expand-masks`). `attn-create-block-masks` creates the operation.

    For the schedule's tiles of `M` queries and `N` keys, `out` is of `i32` and of
    shape `[B, H, ceil(queries / M), ceil(keys / N) + 4]`, where `H` is the number of
    query heads, or 1 if the mask does not depend on the head. For a choice of
    schedules, `M` and `N` are the smallest tile sizes; larger tiles use the
    beginning of the last two dimensions.

    | entry of `out[b, h, r]` | contents |
    |---|---|
    | 0 | the row of tiles that work item `r` processes: rows with short lists come first |
    | 1 | the number of partial tiles of row `r` |
    | 2 | the number of masked and full tiles of row `r` |
    | 3, ... | the indices of its partial tiles |
    | ..., last | the indices of its full tiles, from the last entry backwards; 0 if there is none |

    ```mlir
    %block_mask = attn.create_block_mask sizes(%batch, %queries, %keys)
        outs(%init : tensor<?x1x?x?xi32>) mask(#attn.causal)
        schedule(#attn_tile.sequential<query_tile = 64, key_tile = 64>)
        mask_mod {
        ^bb0(%b: index, %h: index, %i: index, %j: index):
          %x = tensor.extract %ids[%b, %i] : tensor<?x?xi32>
          %y = tensor.extract %ids[%b, %j] : tensor<?x?xi32>
          %same = arith.cmpi eq, %x, %y : i32
          attn.yield %same : i1
        } -> tensor<?x1x?x?xi32>
    ```
  }];
  let arguments = (ins Index:$batch, Index:$queries, Index:$keys,
                       Attn_WordTensor:$out,
                       OptionalAttr<Attn_MaskAttrInterface>:$mask,
                       OptionalAttr<Attn_AnyScheduleAttr>:$schedule);
  let results = (outs Optional<AnyRankedTensor>:$result);
  let regions = (region SizedRegion<1>:$mask_mod);
  let assemblyFormat = [{
    `sizes` `(` $batch `,` $queries `,` $keys `)`
    `outs` `(` $out `:` type($out) `)` (`mask` `(` $mask^ `)`)?
    (`schedule` `(` $schedule^ `)`)? attr-dict-with-keyword
    `mask_mod` custom<ClosedRegion>($mask_mod) (`->` type($result)^)?
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// Entries of a row in addition to one for each tile.
    static constexpr int64_t extraEntries = 4;
    /// Queries and keys in a tile of a block mask for kernels with `schedule`.
    static std::pair<int64_t, int64_t> getTiles(::mlir::Attribute schedule);

    /// Whether the operands are memrefs.
    bool isBufferized() {
      return ::llvm::isa<::mlir::MemRefType>(getOut().getType());
    }

    /// DestinationStyleOpInterface.
    ::mlir::MutableOperandRange getDpsInitsMutable() { return getOutMutable(); }
  }];
}

def Attn_OverlapOp : Attn_Op<"overlap", [
    RecursiveMemoryEffects, RecursivelySpeculatable, NoRegionArguments]> {
  let summary = "computations that may run at the same time";
  let description = [{
    Runs each of its regions once, in any order or at the same time. The results
    are the yielded values of the first region, then of the second, and so on. No
    region writes memory that another one reads or writes.

    Overlap saves time where one region leaves units of the device idle that
    another one needs. `by` says how the regions are run (see `#attn.overlap_kind`)
    and does not change the meaning; without it they run one after another.

    ```mlir
    %product, %bits = attn.overlap by streams {
      %0 = linalg.matmul ins(%x, %w : tensor<8192x4096xbf16>, tensor<4096x6144xbf16>)
          outs(%y : tensor<8192x6144xbf16>) -> tensor<8192x6144xbf16>
      attn.overlap_yield %0 : tensor<8192x6144xbf16>
    } and {
      %1 = attn.dropout_mask rows by(#attn.dropout<p = 0.125, rng = #attn.arx>, %seed, %offset : i64, i64)
          outs(%init : tensor<1x32x4096x512xi32>) -> tensor<1x32x4096x512xi32>
      attn.overlap_yield %1 : tensor<1x32x4096x512xi32>
    } -> (tensor<8192x6144xbf16>, tensor<1x32x4096x512xi32>)
    ```
  }];
  let arguments = (ins OptionalAttr<Attn_OverlapKindAttr>:$kind);
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region VariadicRegion<SizedRegion<1>>:$bodies);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
  let hasCanonicalizer = 1;
  let extraClassDeclaration = [{
    /// The values that region `number` yields, and the index of the first
    /// result that they become.
    ::mlir::OperandRange getYielded(unsigned number);
    unsigned getFirstResult(unsigned number);
  }];
}

def Attn_OverlapYieldOp : Attn_Op<"overlap_yield", [
    Pure, ReturnLike, Terminator, HasParent<"OverlapOp">]> {
  let summary = "results of a region of attn.overlap";
  let description = [{
    ```mlir
    attn.overlap_yield %product : tensor<8192x6144xbf16>
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let builders = [OpBuilder<(ins), [{ /* nothing */ }]>];
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

def Attn_AccumulateOp : Attn_Op<"accumulate", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>,
    TypesMatchWith<"value type matches element type of destination",
                   "destination", "value",
                   "::llvm::cast<::mlir::ShapedType>($_self).getElementType()">]> {
  let summary = "add to an element of a gradient";
  let description = [{
    Adds `value` to the element of `destination` at `indices`. The destination
    is a block argument of a `score_mod_grad` region, which stands for one of the
    `dcaptures` of `attn.attention_grad`, or the memref that it became. The values
    of several pairs are added in any order.

    ```mlir
    attn.accumulate %ds into %dbias[%h, %j] : tensor<32x?xf32>
    ```
  }];
  let arguments = (ins F32:$value, Attn_GradTensor:$destination,
                       Variadic<Index>:$indices);
  let assemblyFormat = [{
    $value `into` $destination `[` $indices `]` attr-dict `:` type($destination)
  }];
  let hasVerifier = 1;
}

def Attn_MatmulOp : Attn_Op<"matmul", [
    SingleBlock, RecursiveMemoryEffects,
    DestinationStyleOpInterface,
    DeclareOpInterfaceMethods<DescribableOpInterface, ["getStagedOperands"]>,
    DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>,
    DeclareOpInterfaceMethods<ConditionallySpeculatable>,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "matmul with an epilogue";
  let description = [{
    For each batch entry `b`, row `i` and column `j`:

    ```
    out[b,i,j] = epilogue(sum over k of lhs[b,i,k] * rhs[b,k,j], b, i, j)
    ```

    | operand | shape | element type |
    |---|---|---|
    | `lhs` | `[B, M, K]`, or `[B, K, M]` with `transpose_lhs` | bf16, f16, f32, f8E4M3FN or f8E5M2 |
    | `rhs` | `[B, K, N]`, or `[B, N, K]` with `transpose_rhs` | as `lhs`, or the other of 8 bits |
    | `out` | `[B, M, N]` | as `lhs`, or f32; bf16, f16 or f32 with inputs of 8 bits |

    `B` is absent from all three, or from an input that is the same for the whole
    batch. Multiplication and accumulation are f32; the result is rounded once,
    after the epilogue. `precision` says how GPUs multiply f32 values
    (`#attn.matmul_precision`, `highest` if absent). Scales of 8-bit inputs
    (`attn.quantize`) are factors in the epilogue. Kernels for 8-bit inputs exist for the
    host, and for sm_90a where both are contiguous along `K`.

    The `epilogue` region computes an element, an `f32`, from the sum and its
    position. It may read captured tensors, such as a bias, a factor or a residual,
    but not `out`, and has no other effect.

    The operation is in destination style: on tensors it returns the new contents
    of `out`, which it overwrites, on memrefs it writes them.
    `attn-raise-matmul` creates it from matmuls in linalg.

    ```mlir
    %c = attn.matmul ins(%x, %w : tensor<?x4096xbf16>, tensor<6144x4096xbf16>)
        outs(%init : tensor<?x6144xbf16>) transpose_rhs
        epilogue {
        ^bb0(%sum: f32, %b: index, %i: index, %j: index):
          %x = tensor.extract %bias[%j] : tensor<6144xf32>
          %y = arith.addf %sum, %x : f32
          attn.yield %y : f32
        } -> tensor<?x6144xbf16>
    ```
  }];
  let arguments = (ins Attn_MatrixMultiplicand:$lhs, Attn_MatrixMultiplicand:$rhs,
                       Attn_MatrixTensor:$out,
                       UnitAttr:$transpose_lhs, UnitAttr:$transpose_rhs,
                       OptionalAttr<Attn_MatmulPrecisionAttr>:$precision,
                       OptionalAttr<Attn_ScheduleAttrInterface>:$schedule);
  let results = (outs Optional<AnyRankedTensor>:$result);
  let regions = (region MaxSizedRegion<1>:$epilogue);
  let assemblyFormat = [{
    `ins` `(` $lhs `,` $rhs `:` type($lhs) `,` type($rhs) `)`
    `outs` `(` $out `:` type($out) `)`
    (`transpose_lhs` $transpose_lhs^)? (`transpose_rhs` $transpose_rhs^)?
    (`precision` `(` custom<Precision>($precision)^ `)`)? (`schedule` `(` $schedule^ `)`)?
    attr-dict-with-keyword
    (`epilogue` $epilogue^)? (`->` type($result)^)?
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// Whether the operands are memrefs.
    bool isBufferized() {
      return ::llvm::isa<::mlir::MemRefType>(getOut().getType());
    }
    /// Whether `operand` has an entry for each member of the batch.
    static bool isBatched(::mlir::Value operand) {
      return ::llvm::cast<::mlir::ShapedType>(operand.getType()).getRank() == 3;
    }
    /// The contracted dimension of each input, and the dimension of each input
    /// that the output has.
    int64_t getLhsDepthDim() { return isBatched(getLhs()) + !getTransposeLhs(); }
    int64_t getLhsRowDim() { return isBatched(getLhs()) + getTransposeLhs(); }
    int64_t getRhsDepthDim() { return isBatched(getRhs()) + getTransposeRhs(); }
    int64_t getRhsColumnDim() { return isBatched(getRhs()) + !getTransposeRhs(); }

    /// DestinationStyleOpInterface.
    ::mlir::MutableOperandRange getDpsInitsMutable() { return getOutMutable(); }
  }];
}

def Attn_PermuteOp : Attn_Op<"permute", [
    Pure,
    DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>]> {
  let summary = "a tensor with its dimensions in another order, as a view";
  let description = [{
    Dimension `i` of the result is dimension `permutation[i]` of `source`. Unlike
    `linalg.transpose` nothing is copied: the result bufferizes to a memref of
    other strides, and a write to it is a write to `source`. Attention reads and
    writes memrefs of any strides, except that the head dim must be contiguous.

    ```mlir
    %heads = attn.permute %x [0, 2, 1, 3]
        : tensor<?x?x32x128xbf16> -> tensor<?x32x?x128xbf16>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$source,
                       DenseI64ArrayAttr:$permutation);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $source $permutation attr-dict `:` type($source) `->` type($result)
  }];
  let builders = [
    OpBuilder<(ins "::mlir::Value":$source,
                   "::llvm::ArrayRef<int64_t>":$permutation)>,
  ];
  let hasFolder = 1;
  let hasVerifier = 1;
}

def Attn_YieldOp : Attn_Op<"yield", [
    Pure, ReturnLike, Terminator,
    ParentOneOf<["AttentionOp", "AttentionGradOp", "MapHeadsOp", "MatmulOp",
                 "CreateBlockMaskOp"]>]> {
  let summary = "result of a region";
  let description = [{
    Ends a region of `attn.attention`, `attn.attention_grad`, `attn.map_heads`,
    `attn.matmul` or `attn.create_block_mask` and yields its one scalar:

    | region | scalar |
    |---|---|
    | `score_mod` | the new score, an `f32` |
    | `mask_mod` | whether the pair attends, an `i1` |
    | `score_mod_grad` | the gradient of the score before the `score_mod` region, an `f32` |
    | others | the element, an `f32` |

    ```mlir
    attn.yield %t : f32
    ```
  }];
  let arguments = (ins AnyType:$value);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

#endif // ATTN_DIALECT_ATTN_IR_ATTNOPS_TD
