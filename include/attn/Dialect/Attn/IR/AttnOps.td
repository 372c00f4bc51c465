//===- AttnOps.td - Operations of the attn dialect ---------*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Attention and its region terminator.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_ATTNOPS_TD
#define ATTN_DIALECT_ATTN_IR_ATTNOPS_TD

include "attn/Dialect/Attn/IR/AttnAttrs.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/DestinationStyleOpInterface.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

/// bf16, f16 or f32, four dimensions: batch, head, position, channel.
def Attn_HeadTensor
    : Type<And<[Or<[AnyRankedTensor.predicate, AnyMemRef.predicate]>,
                CPred<"::llvm::cast<::mlir::ShapedType>($_self).getRank() == 4">,
                CPred<"::llvm::isa<::mlir::BFloat16Type, ::mlir::Float16Type, "
                      "::mlir::Float32Type>(::llvm::cast<::mlir::ShapedType>($_self)"
                      ".getElementType())">]>,
           "4-D tensor or memref of bf16, f16 or f32 values">;

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

def Attn_AttentionOp : Attn_Op<"attention", [
    AttrSizedOperandSegments, SingleBlock, RecursiveMemoryEffects,
    DestinationStyleOpInterface,
    DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>,
    DeclareOpInterfaceMethods<ConditionallySpeculatable>,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "scaled dot-product attention";
  let description = [{
    For each batch `b`, query head `h` and query position `i`:

    ```
    s[j]   = score(scale * dot(query[b,h,i,:], key[b,h/g,j,:]), b, h, i, j)
    p[j]   = exp(s[j] - lse[b,h,i])        where mask(b, h, i, j), else 0
    lse    = log(sum over attended j of exp(s[j]))
    out    = sum over j of p[j] * value[b,h/g,j,:]
    ```

    | operand | shape | element type |
    |---|---|---|
    | `query` | `[B, Hq, Sq, Dqk]` | bf16, f16 or f32 |
    | `key` | `[B, Hkv, Skv, Dqk]` | that of `query` |
    | `value` | `[B, Hkv, Skv, Dv]` | that of `query` |
    | `out` | `[B, Hq, Sq, Dv]` | that of `query`, or f32 |
    | `lse` | `[B, Hq, Sq]` | f32 |

    Batch and sequence dimensions may be dynamic; heads and head dimensions are
    static. `Hkv` divides `Hq`; query head `h` uses key and value head
    `h / g` with `g = Hq / Hkv` (grouped-query attention, Ainslie et al. 2023).

    The softmax statistics, the accumulation and the log-sum-exp are f32. A row
    with no attended key gives `out = 0` and `lse = -inf`.

    `scale` defaults to `1 / sqrt(Dqk)`; it may be applied at any point of the
    computation of the product. The mask is the conjunction of the `mask`
    attribute and the `keep` region, each of which may be absent. Both regions
    may use values defined outside of the operation, such as tensors read with
    `tensor.extract`. They may read memory but have no other effect, and do not
    read the buffers that the operation writes. Index arithmetic in them is done
    with at least 32 bits, and positions are less than 2^31.

    `sequences` gives the lengths of sequences that differ in length. They are
    read when the operation runs, on the device that runs it.

    | layout | `query_sequences`, `key_sequences` | sequence `s` of the queries is |
    |---|---|---|
    | `packed` | `N + 1` boundaries each; `B` is 1 | rows `[bounds[s], bounds[s+1])` of the one batch entry |
    | `padded` | `B` lengths each | the first `lengths[s]` rows of batch entry `s` |

    Then `b` is the number of the sequence, positions count from the beginning
    of the sequence, and masks see its lengths. Boundaries are sorted and
    between 0 and the size of the sequence dimension, lengths are between 0 and
    that size; the runtime reports others as an error, and nothing is computed
    then. Rows of `out` and `lse` that belong to no sequence keep their
    contents. What other rows of `key` and `value` hold has no influence on a
    sequence, even if it is not finite.

    ```mlir
    attn.attention
        ins(%q, %k, %v : memref<1x32x?x128xbf16>, memref<1x8x?x128xbf16>,
            memref<1x8x?x128xbf16>)
        outs(%out : memref<1x32x?x128xbf16>)
        sequences packed(%cu_q, %cu_k : memref<?xi32>, memref<?xi32>)
        mask(#attn.causal)
    ```

    The operation is in destination style: on tensors it returns the new
    contents of its `outs`, on memrefs it writes them.

    ```mlir
    %out = attn.attention
        ins(%q, %k, %v : tensor<?x32x?x128xbf16>, tensor<?x8x?x128xbf16>,
            tensor<?x8x?x128xbf16>)
        outs(%init : tensor<?x32x?x128xbf16>)
        mask(#attn.causal)
        score {
        ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
          %t = math.tanh %s : f32
          attn.yield %t : f32
        } -> tensor<?x32x?x128xbf16>
    ```

    Method: online softmax (Milakov and Gimelshein 2018), tiled as in
    FlashAttention (Dao et al. 2022).
  }];
  let arguments = (ins Attn_HeadTensor:$query, Attn_HeadTensor:$key,
                       Attn_HeadTensor:$value, Attn_HeadTensor:$out,
                       Optional<Attn_RowTensor>:$lse,
                       Optional<Attn_SequenceTensor>:$query_sequences,
                       Optional<Attn_SequenceTensor>:$key_sequences,
                       OptionalAttr<Attn_SequenceLayoutAttr>:$sequence_layout,
                       OptionalAttr<F32Attr>:$scale,
                       OptionalAttr<Attn_MaskAttrInterface>:$mask,
                       OptionalAttr<Attn_ScheduleAttrInterface>:$schedule);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let regions = (region MaxSizedRegion<1>:$score_region,
                        MaxSizedRegion<1>:$keep_region);
  let assemblyFormat = [{
    `ins` `(` $query `,` $key `,` $value `:` type($query) `,` type($key) `,` type($value) `)`
    `outs` `(` $out (`,` $lse^)? `:` type($out) (`,` type($lse)^)? `)`
    (`sequences` $sequence_layout `(` $query_sequences^ `,` $key_sequences
        `:` type($query_sequences) `,` type($key_sequences) `)`)?
    (`scale` `(` $scale^ `)`)? (`mask` `(` $mask^ `)`)? (`schedule` `(` $schedule^ `)`)?
    attr-dict-with-keyword
    (`score` $score_region^)? (`keep` $keep_region^)? (`->` type($results)^)?
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let hasCanonicalizer = 1;
  let extraClassDeclaration = [{
    /// The scale given, or 1 / sqrt(Dqk).
    float getScaleOrDefault();

    /// Static sizes: number of query and key/value heads, and head dimensions.
    int64_t getNumQueryHeads();
    int64_t getNumKeyHeads();
    int64_t getQueryHeadDim();
    int64_t getValueHeadDim();
    /// Query heads that share one key and value head.
    int64_t getGroupSize() { return getNumQueryHeads() / getNumKeyHeads(); }

    /// Whether the lengths of sequences are given.
    bool hasSequences() { return getSequenceLayout().has_value(); }

    /// Whether the operands are memrefs.
    bool isBufferized();

    /// DestinationStyleOpInterface: `out` and `lse`.
    ::mlir::MutableOperandRange getDpsInitsMutable();
  }];
}

def Attn_YieldOp : Attn_Op<"yield", [
    Pure, ReturnLike, Terminator, HasParent<"AttentionOp">]> {
  let summary = "result of a score or mask region";
  let description = [{
    Ends a region of `attn.attention` and yields its one scalar: the new score,
    an `f32`, from the score region; whether the pair attends, an `i1`, from the
    keep region.

    ```mlir
    attn.yield %t : f32
    ```
  }];
  let arguments = (ins AnyType:$value);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

#endif // ATTN_DIALECT_ATTN_IR_ATTNOPS_TD
