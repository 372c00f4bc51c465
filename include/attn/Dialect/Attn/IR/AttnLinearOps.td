//===- AttnLinearOps.td - Linear attention ----------------*- tablegen -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Attention without softmax, whose keys and values are summed up in a state of
// fixed size, and its gradient.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_ATTNLINEAROPS_TD
#define ATTN_DIALECT_ATTN_IR_ATTNLINEAROPS_TD

include "attn/Dialect/Attn/IR/AttnOps.td"

class Attn_F32TensorOfRank<string rank, string description>
    : Type<And<[Or<[AnyRankedTensor.predicate, AnyMemRef.predicate]>,
                CPred<"::llvm::is_contained({" # rank # "}, "
                      "::llvm::cast<::mlir::ShapedType>($_self).getRank())">,
                CPred<"::llvm::cast<::mlir::ShapedType>($_self).getElementType()"
                      ".isF32()">]>,
           description # " tensor or memref of f32 values">;

/// Head, batch or head, position, perhaps key head dim.
def Attn_DecayTensor : Attn_F32TensorOfRank<"1, 3, 4", "1-D, 3-D or 4-D">;
/// The gradient of log-decays; for one log-decay a head it has a part for each
/// batch entry.
def Attn_DecayGradTensor : Attn_F32TensorOfRank<"2, 3, 4", "2-D, 3-D or 4-D">;
/// Batch, head, key head dim, value head dim.
def Attn_StateTensor : Attn_F32TensorOfRank<"4", "4-D">;

class Attn_LinearOp<string mnemonic, list<Trait> traits = []> : Attn_Op<mnemonic, [
    AttrSizedOperandSegments, DestinationStyleOpInterface,
    DeclareOpInterfaceMethods<DescribableOpInterface, ["getStagedOperands"]>,
    DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>,
    DeclareOpInterfaceMethods<ConditionallySpeculatable>] # traits> {
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let hasVerifier = 1;
  code commonDeclaration = [{
    /// Whether the operands are memrefs.
    bool isBufferized() {
      return ::llvm::isa<::mlir::MemRefType>(getQuery().getType());
    }
    int64_t getNumHeads() { return ::mlir::attn::getDimSize(getQuery(), 1); }
    int64_t getKeyHeadDim() { return ::mlir::attn::getDimSize(getQuery(), 3); }
    int64_t getValueHeadDim() { return ::mlir::attn::getDimSize(getValue(), 3); }
    /// Whether each key element of a token has its own decay.
    bool hasElementDecay() {
      return getLogDecay() && ::llvm::cast<::mlir::ShapedType>(
                                  getLogDecay().getType()).getRank() == 4;
    }
    /// Whether kernels on GPUs need matrices of the pairs of tokens of chunks.
    bool needsPairMatrices() { return getBeta() || hasElementDecay(); }
    /// The schedule of the kernels; null if there is none, or a choice of several.
    ::mlir::attn::ScheduleAttrInterface getChosenSchedule() {
      return ::llvm::dyn_cast_if_present<::mlir::attn::ScheduleAttrInterface>(
          ::mlir::Attribute(getScheduleAttr()));
    }
    /// The factor of queries: `scale`, or one over the root of the head dim.
    double getScaleOrDefault();
    /// Tokens that a kernel computes at a time.
    int64_t getChunkOrDefault() { return getChunk().value_or(64); }
    /// Whether each of several packed sequences has its own states.
    bool hasSequenceStates();
    /// DestinationStyleOpInterface.
    ::mlir::MutableOperandRange getDpsInitsMutable();
  }];
  let extraClassDeclaration = commonDeclaration;
}

def Attn_LinearAttentionOp : Attn_LinearOp<"linear_attention", [
    SingleBlock, RecursiveMemoryEffects]> {
  let summary = "linear attention: attention without softmax, by a recurrent state";
  let description = [{
    Attention whose scores are not normalised by a softmax, so that keys and values
    become a sum, the state `S` of shape `[Dk, Dv]`. For each batch entry and head,
    from `S[-1] = initial_state` (0 without it), token `t` has

    ```
    D[t]   = exp(log_decay[t])                      1 without 'log_decay'
    R[t]   = D[t] * S[t-1]                          row d of the state times D[t, d]
    u[t]   = value[t]                               without 'beta'
    u[t]   = beta[t] * (value[t] - R[t]^T key[t])   with 'beta': the delta rule
    S[t]   = R[t] + key[t] u[t]^T
    out[t] = scale * S[t]^T query[t]                with 'causal'
    out[t] = scale * S[last]^T query[t]             without
    ```

    and `final_state` is the state after the last token. Head `h` of the queries uses
    head `h / (H / Hk)` of the keys and head `h / (H / Hv)` of the values.

    | operand | shape | element type |
    |---|---|---|
    | `query` | `[B, H, S, Dk]` | bf16, f16 or f32 |
    | `key` | `[B, Hk, S, Dk]` | as `query` |
    | `value` | `[B, Hv, S, Dv]` | as `query` |
    | `log_decay` (optional) | `[H]`, `[B, H, S]` or `[B, H, S, Dk]` | f32 |
    | `beta` (optional) | `[B, H, S]` | f32 |
    | `initial_state` (optional) | `[B, H, Dk, Dv]` | f32 |
    | `key_lengths` (optional) | `[B]` | i32 |
    | `sequences` (optional) | `[N + 1]` | i32 |
    | `out` | `[B, H, S, Dv]` | as `query` |
    | `final_state` (optional) | `[B, H, Dk, Dv]` | f32 |

    Batch and sequence dimensions may be dynamic; heads and head dims are static, and
    `Hk` and `Hv` divide `H`. `scale` is `1 / sqrt(Dk)` if absent. `log_decay` and
    `beta` need `causal`. Elements of `log_decay` are at most 0. Larger ones and NaN are
    reported by the runtime, and larger ones count as 0. Ones below -126 count as -126,
    the exponent of a decay below all normal f32.

    | name | `log_decay` | `beta` |
    |---|---|---|
    | linear attention (Katharopoulos et al. 2020, arXiv:2006.16236) | | |
    | RetNet, lightning attention (Qin et al. 2024, arXiv:2401.04658) | per head | |
    | Mamba-2 (Dao and Gu 2024, arXiv:2405.21060) | per token and head | |
    | gated linear attention (Yang et al. 2024, arXiv:2312.06635) | per token, head and key element | |
    | DeltaNet (Yang et al. 2024, arXiv:2406.06484) | | yes |
    | gated DeltaNet (Yang et al. 2025, arXiv:2412.06464) | per token and head | yes |
    | Kimi delta attention (Kimi Team 2025, arXiv:2510.26692) | per token, head and key element | yes |

    Kernels compute `chunk` tokens at a time, a power of two. If it is absent, it is 64,
    or on GPUs 64 or 128 as the model finds. They have
    matmuls of the chunk and the state before it, and a decay mask inside the chunk.
    With the delta rule, the `u` of a chunk are the solution of a triangular system
    (the WY form). No exponent is positive where decays are small, so decays of any
    size are safe. The state and all accumulators are f32. The work is linear in `S`.
    `precision` says how GPUs multiply f32 values (`#attn.matmul_precision`, `highest`
    if absent).

    For few tokens, as in decoding, GPUs have a kernel that computes one token after
    the other instead (`#attn_tile.linear_recurrent`), up to the number of tokens from
    which chunks are faster by the model. Where the number of tokens is
    dynamic, both kinds of kernels are compiled, and the host chooses. Packed sequences
    with states count with their mean number of tokens, and have at most 8 in this
    kernel: the longest sequence takes the time.

    The operation is in destination style: on tensors it returns the new contents
    of `out` and, if it has one, of `final_state`. On memrefs it writes them.
    `final_state` may be the same tensor or memref as `initial_state`: the state then is
    updated in place. Other operands must not overlap the ones that are written.

    ```mlir
    %out, %state = attn.linear_attention
        ins(%q, %k, %v : tensor<?x16x?x128xbf16>, tensor<?x16x?x128xbf16>,
                         tensor<?x16x?x128xbf16>)
        outs(%out_init, %state_init : tensor<?x16x?x128xbf16>, tensor<?x16x128x128xf32>)
        log_decay(%g : tensor<?x16x?xf32>) beta(%beta : tensor<?x16x?xf32>) causal
        -> tensor<?x16x?x128xbf16>, tensor<?x16x128x128xf32>
    %next, %updated = attn.linear_attention
        ins(%q, %k, %v : tensor<?x16x?x128xbf16>, tensor<?x16x?x128xbf16>,
                         tensor<?x16x?x128xbf16>)
        outs(%next_init, %state : tensor<?x16x?x128xbf16>, tensor<?x16x128x128xf32>)
        initial_state(%state : tensor<?x16x128x128xf32>) causal
        -> tensor<?x16x?x128xbf16>, tensor<?x16x128x128xf32>
    ```

    The `feature` region is a feature map `phi`, which is applied to `query` and to
    `key`: `phi(query[t])` and `phi(key[t])` take the place of `query[t]` and `key[t]`
    above. Its argument is the tensor `[?, ?, ?, Dk]` of all queries, or of all keys,
    and it yields a tensor of as many rows with the feature dim `Dk'`, of the same
    element type. It may use values defined outside, such as a projection, and has no
    side effects. States are `[B, H, Dk', Dv]` then, and a `log_decay` of key elements
    is `[B, H, S, Dk']`. `scale` is `1 / sqrt(Dk)` if absent, as without it. Examples:

    | feature map | `phi(x)` |
    |---|---|
    | Katharopoulos et al. 2020 | `elu(x) + 1` |
    | Performer (Choromanski et al. 2021, arXiv:2009.14794) | `exp(W x - dot(x, x) / 2) / sqrt(Dk')`, `W` random, perhaps from a seed (docs/rng.md) |
    | Shen et al. 2018 (arXiv:1812.01243) | a softmax over the elements of `x` |

    ```mlir
    %out = attn.linear_attention
        ins(%q, %k, %v : tensor<?x8x?x64xbf16>, tensor<?x2x?x64xbf16>, tensor<?x2x?x64xbf16>)
        outs(%init : tensor<?x8x?x64xbf16>) causal normalizer(eps = 1.0e-6)
        feature {
        ^bb0(%x: tensor<?x?x?x64xbf16>):
          %y = linalg.exp ins(%x : tensor<?x?x?x64xbf16>) outs(%x : tensor<?x?x?x64xbf16>)
              -> tensor<?x?x?x64xbf16>
          attn.linear_yield %y : tensor<?x?x?x64xbf16>
        } -> tensor<?x8x?x64xbf16>
    ```

    `normalizer` divides each output by the sum of its scores: `z` is a state as `S`
    is, with `value[t] = 1`, and

    ```
    out[t] = scale * S[t]^T query[t] / (scale * z[t]^T query[t] + eps)
    ```

    `initial_state` and `final_state` have `z` as a further column, the last one:
    `[B, H, Dk, Dv + 1]`. `beta` has no normalizer. Numerators and denominators are
    rounded to the element type of `query` before the division. Of f16, they must be at
    most 65504: a smaller `scale` makes both smaller.

    Masks say which tokens see each other:

    | mask | a token sees tokens | not with |
    |---|---|---|
    | `key_lengths` | before `key_lengths[b]` | `sequences` |
    | `local_blocks(N)` | of its block of `N` tokens; blocks begin at token 0 | `sequences`, states |
    | `sequences` | of its sequence, the tokens `[sequences[s], sequences[s + 1])`; needs `causal` | |

    Tokens from `key_lengths[b]` on neither add to the state nor decay it: the final
    state is the one after `key_lengths[b]` tokens. Negative lengths count as 0, and
    lengths above `S` as `S`. Keys, values, decays and `beta` of these tokens are not
    read, so they may be anything. Boundaries of `sequences` are sorted and between 0
    and `S`; the runtime reports others as an error, and results are undefined then. The
    tokens before the first and after the last sequence are sequences, too. `B` is 1
    with `sequences`. Without states, the first token of a sequence has a log-decay of
    -126: elements of earlier sequences must be finite.

    ```mlir
    %out = attn.linear_attention
        ins(%q, %k, %v : tensor<1x8x?x64xbf16>, tensor<1x8x?x64xbf16>, tensor<1x8x?x64xbf16>)
        outs(%init : tensor<1x8x?x64xbf16>) sequences(%boundaries : tensor<?xi32>) causal
        -> tensor<1x8x?x64xbf16>
    ```

    With `sequences`, states are `[N, H, Dk, Dv]`: each sequence has its own initial and
    final state, and a sequence without tokens leaves its initial state. Boundaries then
    go from 0 to `S`, and the runtime reports others as an error.

    ```mlir
    %out, %states = attn.linear_attention
        ins(%q, %k, %v : tensor<1x8x?x64xbf16>, tensor<1x8x?x64xbf16>, tensor<1x8x?x64xbf16>)
        outs(%init, %first : tensor<1x8x?x64xbf16>, tensor<?x8x64x64xf32>)
        initial_state(%first : tensor<?x8x64x64xf32>) sequences(%boundaries : tensor<?xi32>) causal
        -> tensor<1x8x?x64xbf16>, tensor<?x8x64x64xf32>
    ```

    Kernels of GPUs take any sequences. Kernels of hosts need `whole_chunks`: their
    boundaries are multiples of `chunk`. `attn-pad-sequences` copies the rows of
    others, and refuses `whole_chunks` in its input.

    `feature`, `normalizer`, masks, and `sequences` without states need tensors.
    `attn-decompose-linear-attention` writes them as other operations.
  }];
  let arguments = (ins Attn_HeadTensor:$query, Attn_HeadTensor:$key,
                       Attn_HeadTensor:$value,
                       Optional<Attn_DecayTensor>:$log_decay,
                       Optional<Attn_RowTensor>:$beta,
                       Optional<Attn_StateTensor>:$initial_state,
                       Optional<Attn_SequenceTensor>:$key_lengths,
                       Optional<Attn_SequenceTensor>:$sequences,
                       Attn_HeadTensor:$out,
                       Optional<Attn_StateTensor>:$final_state,
                       UnitAttr:$whole_chunks, UnitAttr:$causal,
                       OptionalAttr<F32Attr>:$scale,
                       OptionalAttr<I64Attr>:$local_block_size,
                       OptionalAttr<F32Attr>:$normalizer_eps,
                       OptionalAttr<I64Attr>:$chunk,
                       OptionalAttr<Attn_MatmulPrecisionAttr>:$precision,
                       OptionalAttr<Attn_AnyScheduleAttr>:$schedule);
  let regions = (region MaxSizedRegion<1>:$feature);
  let assemblyFormat = [{
    `ins` `(` $query `,` $key `,` $value `:` type($query) `,` type($key) `,` type($value) `)`
    `outs` `(` $out (`,` $final_state^)? `:` type($out) (`,` type($final_state)^)? `)`
    (`log_decay` `(` $log_decay^ `:` type($log_decay) `)`)?
    (`beta` `(` $beta^ `:` type($beta) `)`)?
    (`initial_state` `(` $initial_state^ `:` type($initial_state) `)`)?
    (`key_lengths` `(` $key_lengths^ `:` type($key_lengths) `)`)?
    (`sequences` `(` $sequences^ `:` type($sequences) `)`)? (`whole_chunks` $whole_chunks^)?
    (`causal` $causal^)? (`scale` `(` $scale^ `)`)?
    (`local_blocks` `(` $local_block_size^ `)`)?
    (`normalizer` `(` `eps` `=` $normalizer_eps^ `)`)? (`chunk` `(` $chunk^ `)`)?
    (`precision` `(` custom<Precision>($precision)^ `)`)? (`schedule` `(` $schedule^ `)`)?
    attr-dict (`feature` $feature^)?
    (`->` type($results)^)?
  }];
  let builders = [
    // Without a feature map, a normalizer and masks.
    OpBuilder<(ins "::mlir::TypeRange":$results, "::mlir::Value":$query,
                   "::mlir::Value":$key, "::mlir::Value":$value,
                   "::mlir::Value":$log_decay, "::mlir::Value":$beta,
                   "::mlir::Value":$initial_state, "::mlir::Value":$out,
                   "::mlir::Value":$final_state, "::mlir::UnitAttr":$causal,
                   "::mlir::FloatAttr":$scale, "::mlir::IntegerAttr":$chunk,
                   "::mlir::attn::MatmulPrecisionAttr":$precision,
                   "::mlir::attn::ScheduleAttrInterface":$schedule)>,
  ];
  let hasRegionVerifier = 1;
  let extraClassDeclaration = commonDeclaration # [{
    /// Whether the operation is the recurrence alone, perhaps of sequences with
    /// states: it has no feature map, no normalizer and no other masks.
    bool isPlain();
    /// The head dim of keys in the state.
    int64_t getFeatureDim();
  }];
}

def Attn_LinearAttentionGradOp : Attn_LinearOp<"linear_attention_grad"> {
  let summary = "gradient of linear attention";
  let description = [{
    The gradients of the operands of `attn.linear_attention` with the same operands and
    attributes, and without a feature map, a normalizer and masks, from the gradients
    `dout` of its output and `dfinal_state` of its final state (0 if absent). All
    operands have the same number of heads. With `sequences`, which have states, these
    and their gradients are `[N, H, Dk, Dv]`.

    | operand | shape | element type |
    |---|---|---|
    | inputs of `attn.linear_attention` | as there | as there |
    | `dout` | `[B, H, S, Dv]` | as `query` |
    | `dfinal_state` (optional) | `[B, H, Dk, Dv]` | f32 |
    | `dquery`, `dkey`, `dvalue` | as `query`, `key`, `value` | as `query`, or f32 |
    | `dlog_decay` (optional) | as `log_decay`; `[B, H]` if that is `[H]` | f32 |
    | `dbeta` (optional) | as `beta` | f32 |
    | `dinitial_state` (optional) | `[B, H, Dk, Dv]` | f32 |

    Kernels compute the states before each chunk again, then go through the chunks last
    to first. The host keeps the states, which takes `4 * Dk * Dv` bytes a chunk. With
    `beta` or a decay of each key element, GPUs keep states and their gradients in 16
    bits, as many bytes in all.

    The operation is in destination style: its results are the new contents of
    `dquery`, `dkey` and `dvalue`, then of the optional destinations that it has.

    ```mlir
    %dq, %dk, %dv = attn.linear_attention_grad
        ins(%q, %k, %v, %dout : tensor<?x16x?x64xf32>, tensor<?x16x?x64xf32>,
                                tensor<?x16x?x64xf32>, tensor<?x16x?x64xf32>)
        outs(%dq_init, %dk_init, %dv_init : tensor<?x16x?x64xf32>, tensor<?x16x?x64xf32>,
                                            tensor<?x16x?x64xf32>)
        causal -> tensor<?x16x?x64xf32>, tensor<?x16x?x64xf32>, tensor<?x16x?x64xf32>
    ```
  }];
  let arguments = (ins Attn_HeadTensor:$query, Attn_HeadTensor:$key,
                       Attn_HeadTensor:$value, Attn_HeadTensor:$dout,
                       Optional<Attn_DecayTensor>:$log_decay,
                       Optional<Attn_RowTensor>:$beta,
                       Optional<Attn_StateTensor>:$initial_state,
                       Optional<Attn_StateTensor>:$dfinal_state,
                       Optional<Attn_SequenceTensor>:$sequences,
                       Attn_HeadTensor:$dquery, Attn_HeadTensor:$dkey,
                       Attn_HeadTensor:$dvalue,
                       Optional<Attn_DecayGradTensor>:$dlog_decay,
                       Optional<Attn_RowTensor>:$dbeta,
                       Optional<Attn_StateTensor>:$dinitial_state,
                       UnitAttr:$whole_chunks, UnitAttr:$causal,
                       OptionalAttr<F32Attr>:$scale,
                       OptionalAttr<I64Attr>:$chunk,
                       OptionalAttr<Attn_MatmulPrecisionAttr>:$precision,
                       OptionalAttr<Attn_ScheduleAttrInterface>:$schedule);
  let assemblyFormat = [{
    `ins` `(` $query `,` $key `,` $value `,` $dout
        `:` type($query) `,` type($key) `,` type($value) `,` type($dout) `)`
    `outs` `(` $dquery `,` $dkey `,` $dvalue
        `:` type($dquery) `,` type($dkey) `,` type($dvalue) `)`
    (`log_decay` `(` $log_decay^ `:` type($log_decay) `)`)?
    (`beta` `(` $beta^ `:` type($beta) `)`)?
    (`initial_state` `(` $initial_state^ `:` type($initial_state) `)`)?
    (`dfinal_state` `(` $dfinal_state^ `:` type($dfinal_state) `)`)?
    (`sequences` `(` $sequences^ `:` type($sequences) `)`)? (`whole_chunks` $whole_chunks^)?
    (`dlog_decay` `(` $dlog_decay^ `:` type($dlog_decay) `)`)?
    (`dbeta` `(` $dbeta^ `:` type($dbeta) `)`)?
    (`dinitial_state` `(` $dinitial_state^ `:` type($dinitial_state) `)`)?
    (`causal` $causal^)? (`scale` `(` $scale^ `)`)? (`chunk` `(` $chunk^ `)`)?
    (`precision` `(` custom<Precision>($precision)^ `)`)? (`schedule` `(` $schedule^ `)`)?
    attr-dict (`->` type($results)^)?
  }];
}

def Attn_LinearYieldOp : Attn_Op<"linear_yield", [
    Pure, ReturnLike, Terminator, HasParent<"LinearAttentionOp">]> {
  let summary = "features of the region of attn.linear_attention";
  let description = [{
    Ends the `feature` region of `attn.linear_attention`, and yields the features of
    the rows that the region's argument has.

    ```mlir
    attn.linear_yield %y : tensor<?x?x?x128xbf16>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$features);
  let assemblyFormat = "$features attr-dict `:` type($features)";
}

#endif // ATTN_DIALECT_ATTN_IR_ATTNLINEAROPS_TD
