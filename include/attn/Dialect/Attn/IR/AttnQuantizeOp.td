//===- AttnQuantizeOp.td - Tensors of 8 bits --------------*- tablegen -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The quantization of tensors to 8 bits, with scales.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_ATTNQUANTIZEOP_TD
#define ATTN_DIALECT_ATTN_IR_ATTNQUANTIZEOP_TD

include "attn/Dialect/Attn/IR/AttnOps.td"

/// bf16, f16 or f32, two to four dimensions.
def Attn_QuantizeSource
    : Type<And<[Or<[AnyRankedTensor.predicate, AnyMemRef.predicate]>,
                CPred<"::llvm::is_contained({2, 3, 4}, "
                      "::llvm::cast<::mlir::ShapedType>($_self).getRank())">,
                CPred<"::llvm::isa<::mlir::BFloat16Type, ::mlir::Float16Type, "
                      "::mlir::Float32Type>(::llvm::cast<::mlir::ShapedType>($_self)"
                      ".getElementType())">]>,
           "2-D, 3-D or 4-D tensor or memref of bf16, f16 or f32 values">;

/// E4M3 or E5M2, any number of dimensions.
def Attn_Float8Tensor
    : Type<And<[Or<[AnyRankedTensor.predicate, AnyMemRef.predicate]>,
                CPred<"::mlir::attn::isFloat8(::llvm::cast<::mlir::ShapedType>($_self)"
                      ".getElementType())">]>,
           "ranked tensor or memref of f8E4M3FN or f8E5M2 values">;

def Attn_QuantizeOp : Attn_Op<"quantize", [
    AttrSizedOperandSegments, DestinationStyleOpInterface,
    DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>,
    DeclareOpInterfaceMethods<ConditionallySpeculatable>]> {
  let summary = "a tensor of 8 bits, with scales";
  let description = [{
    Rounds the quotients of the elements of `in` and a scale to 8 bits:

    ```
    out[i...] = round(x[i...] / scale[s(i...)])
    ```

    `x` is `in`, or its rotation (below). A number of `out`, times its scale, is the
    number that it stands for ("descale" in FlashAttention-3). Scales have f32 and one
    of three granularities, which their number of dimensions states:

    | scales | one for each | of `in` |
    |---|---|---|
    | `[]` | tensor | any |
    | `[B, H]` | batch entry and head | `[B, H, S, D]` |
    | `[B, H, blocks]` | block of `block_size` rows, 64 or 128 | `[B, H, S, D]` |

    There are `ceil(S / block_size)` blocks; the last one may have fewer rows. If there
    are fewer scales than blocks, the last one is for all further rows.

    A scale divides: it is `descale` in FlashAttention, and `scale_inv` in Transformer
    Engine, whose `scale` multiplies.

    | operand | shape | element type |
    |---|---|---|
    | `in` | two to four dimensions | bf16, f16 or f32 |
    | `given_scale` (optional) | as scales | f32 |
    | `signs` (optional) | `[D]` | f32 |
    | `out` | as `in` | f8E4M3FN or f8E5M2 |
    | `scale` (without `given_scale`) | as scales | f32 |
    | `amax` (optional) | as scales | f32 |

    `amax` is the largest absolute value of the finite elements of `x` that share a
    scale, or 0 if there are none. Without `given_scale` the scale follows from it: 1
    if `amax` is 0, and otherwise `amax / largest`, but at least 2^-126, the smallest
    normal number of f32. `largest` is the largest number of the type of `out`, 448 in
    f8E4M3FN and 57344 in f8E5M2. With `given_scale`, such as one from the `amax` of
    earlier steps (delayed scaling), the rounding does not wait for a pass over `in`:
    `amax` is for later steps, and takes a pass of its own if it is wanted.

    Quotients are f32, rounded once to nearest even. Beyond the largest number, as the
    OCP 8-bit specification says of both its modes:

    | quotient | default | `saturate` |
    |---|---|---|
    | rounds to more than `largest` | infinity in f8E5M2, NaN in f8E4M3FN | `largest` |
    | infinite | infinity in f8E5M2, NaN in f8E4M3FN | `largest` |
    | NaN | NaN | NaN |

    Signs are kept. A given scale of zero, or one that is not finite, gives the
    quotients of IEEE 754.

    With `signs`, `x` is `in` times an orthogonal matrix, along the last dimension,
    whose size `D` is a power of two from 16 to 1024:

    ```
    x[..., i] = sum over j of in[..., j] * signs[j] * H[j, i] / sqrt(D)
    H[j, i]   = 1 if (j & i) has an even number of one bits, else -1
    ```

    `signs` are 1 or -1. `H` is a Hadamard matrix, which spreads large elements over
    their row (incoherent processing in Shah et al. 2024, FlashAttention-3). Queries and keys that are rotated
    by the same signs have the same scores. Accumulation is f32. In a row with an element
    that is not finite, no element of `x` is finite.

    `attn-decompose-quantize` writes it as operations of linalg, and the rotation as
    `attn.matmul`. The operation is in destination style: on tensors it returns the new
    contents of `out`, then of `scale` and `amax` if it has them. On memrefs it writes
    them, and they must be different memrefs, other than the inputs.

    ```mlir
    %q, %s = attn.quantize ins(%x : tensor<?x32x?x128xbf16>)
        outs(%out : tensor<?x32x?x128xf8E4M3FN>) scale(%scale : tensor<?x32xf32>) saturate
        -> tensor<?x32x?x128xf8E4M3FN>, tensor<?x32xf32>
    %k, %m = attn.quantize ins(%x : tensor<?x32x?x128xbf16>) given_scale(%s : tensor<?x32xf32>)
        rotate(%signs : tensor<128xf32>)
        outs(%out : tensor<?x32x?x128xf8E4M3FN>) amax(%amax : tensor<?x32xf32>)
        -> tensor<?x32x?x128xf8E4M3FN>, tensor<?x32xf32>
    ```
  }];
  let arguments = (ins Attn_QuantizeSource:$in, Optional<Attn_GradTensor>:$given_scale,
                       Optional<Attn_GradTensor>:$signs, Attn_Float8Tensor:$out,
                       Optional<Attn_GradTensor>:$scale, Optional<Attn_GradTensor>:$amax,
                       OptionalAttr<I64Attr>:$block_size, UnitAttr:$saturate);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    `ins` `(` $in `:` type($in) `)`
    (`given_scale` `(` $given_scale^ `:` type($given_scale) `)`)?
    (`rotate` `(` $signs^ `:` type($signs) `)`)?
    `outs` `(` $out `:` type($out) `)` (`scale` `(` $scale^ `:` type($scale) `)`)?
    (`amax` `(` $amax^ `:` type($amax) `)`)? (`block_size` `(` $block_size^ `)`)?
    (`saturate` $saturate^)? attr-dict (`->` type($results)^)?
  }];
  let hasVerifier = 1;
  let hasCanonicalizer = 1;
  let extraClassDeclaration = [{
    /// Whether the operands are memrefs.
    bool isBufferized() { return ::llvm::isa<::mlir::MemRefType>(getIn().getType()); }
    /// The scale, given or computed.
    ::mlir::Value getAnyScale() { return getGivenScale() ? getGivenScale() : getScale(); }

    /// DestinationStyleOpInterface: the 8-bit tensor, the scale and the largest
    /// absolute value.
    ::mlir::MutableOperandRange getDpsInitsMutable();
  }];
}

#endif // ATTN_DIALECT_ATTN_IR_ATTNQUANTIZEOP_TD
