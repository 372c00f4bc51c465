//===- AttnMergeOps.td - Partial results of attention -----*- tablegen -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The merge of partial results of attention, and its gradient.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_ATTNMERGEOPS_TD
#define ATTN_DIALECT_ATTN_IR_ATTNMERGEOPS_TD

include "attn/Dialect/Attn/IR/AttnOps.td"

class Attn_MergeBaseOp<string mnemonic> : Attn_Op<mnemonic, [
    AttrSizedOperandSegments, DestinationStyleOpInterface,
    DeclareOpInterfaceMethods<DescribableOpInterface, ["getStagedOperands"]>,
    DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>,
    DeclareOpInterfaceMethods<ConditionallySpeculatable>]> {
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let hasVerifier = 1;
  code commonDeclaration = [{
    /// Whether the operands are memrefs.
    bool isBufferized() {
      return ::llvm::isa<::mlir::MemRefType>((*this)->getOperand(0).getType());
    }
    int64_t getHeadDim() {
      return ::mlir::attn::getDimSize(getPartialOuts().front(), 3);
    }
    /// The number of neighbours that a thread accesses at a time: at most 16
    /// bytes of the smallest elements, and a divisor of the head dim.
    int64_t getAccessWidth();
    /// DestinationStyleOpInterface.
    ::mlir::MutableOperandRange getDpsInitsMutable();
  }];
  let extraClassDeclaration = commonDeclaration;
}

def Attn_MergeOp : Attn_MergeBaseOp<"merge"> {
  let summary = "attention to all keys, from partial results for some of them";
  let description = [{
    Merges the results of attention to `n` sets of keys into the results of attention
    to all of these keys: partial result `j` has the output `partial_outs[j]` and the log-sum-exp
    `partial_lses[j]`. For each batch entry `b`, head `h` and query `i`:

    ```
    lse[b,h,i]   = log(sum over j of exp(partial_lses[j][b,h,i]))
    w[j]         = exp(partial_lses[j][b,h,i] - lse[b,h,i])
    out[b,h,i,:] = sum over j of w[j] * partial_outs[j][b,h,i,:]
    ```

    | operand | shape | element type |
    |---|---|---|
    | `partial_outs` | `[B, H, S, D]` each | bf16, f16 or f32 |
    | `partial_lses` | `[B, H, S]` each | f32 |
    | `out` | `[B, H, S, D]` | bf16, f16 or f32 |
    | `lse` (optional) | `[B, H, S]` | f32 |

    Batch and sequence dimensions may be dynamic; heads and head dims are static. A
    partial result without keys has `partial_outs = 0` and `partial_lses = -inf`, as
    `attn.attention` gives it; it does not count. Where no partial result has keys,
    `out = 0` and `lse = -inf`. Other log-sum-exps are finite.

    The arithmetic is f32: factors are relative to the largest log-sum-exp, so that no
    log-sum-exp is too large or too small, and each element is rounded once. No sum
    exceeds the largest element of `partial_outs`. The operation is associative and
    commutative up to rounding. A merge whose partial result is another merge becomes
    one merge, and the merge of one partial result is that result.

    The operation is in destination style: on tensors it returns the new contents of
    `out` and, if it has one, of `lse`. On memrefs it writes them.

    ```mlir
    %out, %lse = attn.merge
        ins(%out0, %out1 : tensor<?x32x?x128xbf16>, tensor<?x32x?x128xbf16>)
        lses(%lse0, %lse1 : tensor<?x32x?xf32>, tensor<?x32x?xf32>)
        outs(%out_init, %lse_init : tensor<?x32x?x128xbf16>, tensor<?x32x?xf32>)
        -> tensor<?x32x?x128xbf16>, tensor<?x32x?xf32>
    ```
  }];
  let arguments = (ins Variadic<Attn_HeadTensor>:$partial_outs,
                       Variadic<Attn_RowTensor>:$partial_lses,
                       Attn_HeadTensor:$out, Optional<Attn_RowTensor>:$lse,
                       OptionalAttr<Attn_ScheduleAttrInterface>:$schedule);
  let assemblyFormat = [{
    `ins` `(` $partial_outs `:` type($partial_outs) `)`
    `lses` `(` $partial_lses `:` type($partial_lses) `)`
    `outs` `(` $out (`,` $lse^)? `:` type($out) (`,` type($lse)^)? `)`
    (`schedule` `(` $schedule^ `)`)? attr-dict (`->` type($results)^)?
  }];
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def Attn_MergeGradOp : Attn_MergeBaseOp<"merge_grad"> {
  let summary = "gradient of a merge of partial results of attention";
  let description = [{
    The gradients of the operands of `attn.merge`, from the gradients `dout` of its
    output and `dlse` of its log-sum-exp (0 if absent). With `w[j]` as in `attn.merge`:

    ```
    g[j]                    = dot(dout[b,h,i,:], partial_outs[j][b,h,i,:])
    g                       = sum over j of w[j] * g[j]
    dpartial_outs[j][b,h,i] = w[j] * dout[b,h,i,:]
    dpartial_lses[j][b,h,i] = w[j] * (g[j] - g + dlse[b,h,i])
    ```

    A partial result without keys has gradients of 0.

    | operand | shape | element type |
    |---|---|---|
    | inputs of `attn.merge` | as there | as there |
    | `dout` | `[B, H, S, D]` | bf16, f16 or f32 |
    | `dlse` (optional) | `[B, H, S]` | f32 |
    | `dpartial_outs` | `[B, H, S, D]` each | bf16, f16 or f32 |
    | `dpartial_lses` | `[B, H, S]` each | f32 |

    The operation is in destination style: its results are the new contents of all
    `dpartial_outs`, then of all `dpartial_lses`.

    ```mlir
    %dout0, %dlse0 = attn.merge_grad ins(%out0 : tensor<?x32x?x128xbf16>)
        lses(%lse0 : tensor<?x32x?xf32>) dout(%dout : tensor<?x32x?x128xbf16>)
        dlse(%dlse : tensor<?x32x?xf32>) outs(%dout_init : tensor<?x32x?x128xbf16>)
        dlses(%dlse_init : tensor<?x32x?xf32>)
        -> tensor<?x32x?x128xbf16>, tensor<?x32x?xf32>
    ```
  }];
  let arguments = (ins Variadic<Attn_HeadTensor>:$partial_outs,
                       Variadic<Attn_RowTensor>:$partial_lses,
                       Attn_HeadTensor:$dout, Optional<Attn_RowTensor>:$dlse,
                       Variadic<Attn_HeadTensor>:$dpartial_outs,
                       Variadic<Attn_RowTensor>:$dpartial_lses,
                       OptionalAttr<Attn_ScheduleAttrInterface>:$schedule);
  let assemblyFormat = [{
    `ins` `(` $partial_outs `:` type($partial_outs) `)`
    `lses` `(` $partial_lses `:` type($partial_lses) `)`
    `dout` `(` $dout `:` type($dout) `)` (`dlse` `(` $dlse^ `:` type($dlse) `)`)?
    `outs` `(` $dpartial_outs `:` type($dpartial_outs) `)`
    `dlses` `(` $dpartial_lses `:` type($dpartial_lses) `)`
    (`schedule` `(` $schedule^ `)`)? attr-dict (`->` type($results)^)?
  }];
}

#endif // ATTN_DIALECT_ATTN_IR_ATTNMERGEOPS_TD
