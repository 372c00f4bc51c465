//===- AttnHeadOps.td - Operations on heads ---------------*- tablegen -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Operations on queries and keys before attention: position embeddings, norms,
// and other elementwise functions.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_ATTNHEADOPS_TD
#define ATTN_DIALECT_ATTN_IR_ATTNHEADOPS_TD

include "attn/Dialect/Attn/IR/AttnOps.td"

/// bf16, f16 or f32, four dimensions: batch, head, position, head dim.
def Attn_HeadTensorValue
    : Type<And<[RankedTensorOf<[BF16, F16, F32]>.predicate,
                CPred<"::llvm::cast<::mlir::ShapedType>($_self).getRank() == 4">]>,
           "4-D tensor of bf16, f16 or f32 values",
           "::mlir::RankedTensorType">;

def Attn_RopeOp : Attn_Op<"rope", [
    Pure, AllTypesMatch<["source", "result"]>,
    DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>]> {
  let summary = "rotary position embedding";
  let description = [{
    Rotates pairs of elements of the head dim by an angle that depends on the
    position (Su et al. 2021). The first `R` elements of each row of `source` are
    rotated, the others are copied; `R` is twice the number of columns of the tables
    `cos` and `sin`. For position `i` and pair `c`,

    ```
    t           = i + offset
    result[..., i, first(c)]  = source[..., i, first(c)]  * cos[t, c] - source[..., i, second(c)] * sin[t, c]
    result[..., i, second(c)] = source[..., i, second(c)] * cos[t, c] + source[..., i, first(c)]  * sin[t, c]
    ```

    | | `first(c)` | `second(c)` | as in |
    |---|---|---|---|
    | by default | `c` | `c + R / 2` | Llama, GPT-NeoX |
    | `interleaved` | `2 c` | `2 c + 1` | GPT-J, RoFormer |

    Tables are `[positions, R / 2]`, or have a batch dimension before these.
    `offset` is 0 if absent. With `inverse` the angle is negated. All arithmetic is
    f32.

    `attn-fuse` fuses it into attention or replaces it by `attn.map_heads`.

    ```mlir
    %r = attn.rope %q, %cos, %sin at(%start)
        : tensor<?x32x?x128xbf16>, tensor<8192x64xf32>, tensor<8192x64xf32>
    ```
  }];
  let arguments = (ins Attn_HeadTensorValue:$source,
                       RankedTensorOf<[BF16, F16, F32]>:$cos,
                       RankedTensorOf<[BF16, F16, F32]>:$sin,
                       Optional<Index>:$offset,
                       UnitAttr:$interleaved, UnitAttr:$inverse);
  let results = (outs Attn_HeadTensorValue:$result);
  let assemblyFormat = [{
    $source `,` $cos `,` $sin (`at` `(` $offset^ `)`)?
    (`interleaved` $interleaved^)? (`inverse` $inverse^)? attr-dict
    `:` type($source) `,` type($cos) `,` type($sin)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// `R`: elements of a row that are rotated.
    int64_t getNumRotated() {
      return 2 * getCos().getType().getShape().back();
    }
  }];
}

def Attn_RmsNormOp : Attn_Op<"rms_norm", [
    Pure, AllTypesMatch<["source", "result"]>,
    DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>]> {
  let summary = "RMS norm along the head dim";
  let description = [{
    ```
    result[..., d] = source[..., d] / sqrt(mean over e of source[..., e]^2 + epsilon) * weight[d]
    ```

    `weight` is 1 if absent (Zhang and Sennrich 2019; of queries and keys: Henry
    et al. 2020). All arithmetic is f32. `attn-fuse` fuses it into attention or
    replaces it by `attn.map_heads`.

    ```mlir
    %n = attn.rms_norm %q weight(%w : tensor<128xf32>) epsilon(1.0e-06)
        : tensor<?x32x?x128xbf16>
    ```
  }];
  let arguments = (ins Attn_HeadTensorValue:$source,
                       Optional<RankedTensorOf<[BF16, F16, F32]>>:$weight,
                       F32Attr:$epsilon);
  let results = (outs Attn_HeadTensorValue:$result);
  let assemblyFormat = [{
    $source (`weight` `(` $weight^ `:` type($weight) `)`)?
    `epsilon` `(` $epsilon `)` attr-dict `:` type($source)
  }];
  let hasVerifier = 1;
}

def Attn_MapHeadsOp : Attn_Op<"map_heads", [
    SingleBlock, RecursiveMemoryEffects,
    DestinationStyleOpInterface,
    DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>,
    DeclareOpInterfaceMethods<ConditionallySpeculatable>,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "a scalar function of each element of heads";
  let description = [{
    For each batch entry `b`, head `h`, position `i` and index `d` in the head dim:

    ```
    out[b,h,i,d] = region(in[b,h,i,d], mean over e of in[b,h,i,e]^2, b, h, i, d)
    ```

    The region may read captured tensors, including other elements of `in`, but not
    `out`. It yields an `f32`, which is rounded to the element type of `out`.

    Functions of queries and keys that `attn-fuse` cannot fuse into attention become
    this operation: one kernel for any number of functions. On GPUs the head dim is
    a multiple of 8.

    The operation is in destination style: on tensors it returns the new contents
    of `out`, which it overwrites, on memrefs it writes them.

    ```mlir
    %y = attn.map_heads ins(%x : tensor<1x8x512x64xbf16>)
        outs(%init : tensor<1x8x512x64xbf16>) {
        ^bb0(%e: f32, %square: f32, %b: index, %h: index, %i: index, %d: index):
          %r = math.rsqrt %square : f32
          %n = arith.mulf %e, %r : f32
          attn.yield %n : f32
        } -> tensor<1x8x512x64xbf16>
    ```
  }];
  let arguments = (ins Attn_HeadTensor:$in, Attn_HeadTensor:$out,
                       OptionalAttr<Attn_ScheduleAttrInterface>:$schedule);
  let results = (outs Optional<AnyRankedTensor>:$result);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `ins` `(` $in `:` type($in) `)` `outs` `(` $out `:` type($out) `)`
    (`schedule` `(` $schedule^ `)`)? attr-dict-with-keyword
    custom<ClosedRegion>($body) (`->` type($result)^)?
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// Whether the operands are memrefs.
    bool isBufferized() {
      return ::llvm::isa<::mlir::MemRefType>(getOut().getType());
    }

    /// DestinationStyleOpInterface.
    ::mlir::MutableOperandRange getDpsInitsMutable() { return getOutMutable(); }
  }];
}

#endif // ATTN_DIALECT_ATTN_IR_ATTNHEADOPS_TD
