//===- Passes.td - Fusion ---------------------------------*- tablegen -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Passes that fuse operations with attention.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_FUSION_PASSES_TD
#define ATTN_FUSION_PASSES_TD

include "attn/Support/PassBase.td"

def AttnFusePass : Attn_Pass<"attn-fuse"> {
  let summary = "fuse producers and consumers into attention";
  let description = [{
    Operations that copy, convert or scale the operands or the result of
    `attn.attention`, and elementwise functions, are fused into it by
    `FusibleOpInterface`:

    | operation | on | becomes |
    |---|---|---|
    | multiplication by a constant | queries, keys | part of the scale |
    | conversion to f32 | queries, keys and values together | attention on the narrow type |
    | conversion from f32 | the result | attention that rounds its result |
    | transposition, with a following reshape | queries, keys, values | a view, `attn.permute` |
    | transposition, after a reshape | the result | a view of the destination |
    | elementwise functions: `attn.rope`, `attn.rms_norm`, elementwise `linalg` | queries | the query region |
    | elementwise functions | keys, values | one `attn.map_heads` |
    | elementwise functions, after layouts | the result | the epilogue |
    | `attn.quantize` with a given scale, `saturate` and no `amax` | the result | the epilogue, and an `out` of 8 bits |

    `emitElement` emits elementwise functions as scalar code, several operations at
    once, including slices, concatenations and broadcasts. Each work item reads its
    queries once, so that fusion into the query region saves a pass over memory. It
    costs arithmetic and registers, which may make kv tiles smaller; the model of the
    kernel's time decides. Keys and values are read by many work items, so their
    functions get a separate pass. A remark gives the number of work items and the
    time of the pass. `attn.rope` and `attn.rms_norm` elsewhere become `attn.map_heads`,
    too. With `elements=false`, only this last rewrite applies to elementwise functions.

    A transposed layout is read and written in place if the head dim is contiguous, in
    rows of a multiple of 16 bytes, and nothing else needs the transposed tensor.
    Remarks of the category `attn-fuse` report each fusion, with the time that
    `CostOpInterface` counts for the fused operations, and each missed fusion.

    ```mlir
    %qt = linalg.transpose ins(%q : tensor<2x512x8x64xf32>)
        outs(%e : tensor<2x8x512x64xf32>) permutation = [0, 2, 1, 3]
    %a = attn.attention ins(%qt, %k, %v : ...) outs(%init : tensor<2x8x512x64xf32>)
    %o = linalg.transpose ins(%a : tensor<2x8x512x64xf32>)
        outs(%f : tensor<2x512x8x64xf32>) permutation = [0, 2, 1, 3]
    ```

    becomes

    ```mlir
    %qt = attn.permute %q [0, 2, 1, 3] : ...
    %f = tensor.empty() : tensor<2x512x8x64xf32>
    %init = attn.permute %f [0, 2, 1, 3] : ...
    %a = attn.attention ins(%qt, %k, %v : ...) outs(%init : tensor<2x8x512x64xf32>)
    %o = attn.permute %a [0, 2, 1, 3] : ...
    ```
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"\"host\"",
           "Registered target whose rates are used, such as sm_90a">,
    Option<"elements", "elements", "bool", /*default=*/"true",
           "Whether elementwise functions become regions and attn.map_heads">,
  ];
  let statistics = [Statistic<"numFused", "num-fused",
                              "Number of fusions">];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::attn::AttnDialect",
                           "::mlir::attn_tile::AttnTileDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::tensor::TensorDialect"];
}

def AttnReassociatePass : Attn_Pass<"attn-reassociate"> {
  let summary = "multiply queries and results instead of keys and values";
  let description = [{
    Where values are the result of a matmul `X W`, attention returns `P (X W)`, which
    equals `(P X) W`. The second form attends to `X`, and its matmul has as many rows
    as there are queries instead of keys. It pays where queries are few and `X` is not
    much wider than `X W`: in decoding with a latent of keys and values, and with
    learned queries that summarise a sequence. The times of both forms are estimated
    by `CostOpInterface` and the roofline of the target, and the faster form is kept.
    Remarks of the category `attn-reassociate` give the times.

    The values must be an `attn.matmul` without an epilogue, of one matrix or a batch of
    matrices, whose first dimension is batch and heads. If the weight `W` is batched,
    query heads must not share values. Rounding moves from the values to the output of
    attention.

    ```mlir
    %xw = attn.matmul ins(%x, %w : tensor<8x4096x64xbf16>, tensor<64x64xbf16>)
        outs(%e : tensor<8x4096x64xbf16>) -> tensor<8x4096x64xbf16>
    %v = tensor.expand_shape %xw [[0, 1], [2], [3]] output_shape [1, 8, 4096, 64] : ...
    %o = attn.attention ins(%q, %k, %v : ...) outs(%init : tensor<1x8x16x64xbf16>)
    ```

    becomes

    ```mlir
    %v = tensor.expand_shape %x [[0, 1], [2], [3]] output_shape [1, 8, 4096, 64] : ...
    %a = attn.attention ins(%q, %k, %v : ...) outs(%init : tensor<1x8x16x64xbf16>)
    %b = tensor.collapse_shape %a [[0, 1], [2], [3]] : ...
    %c = attn.matmul ins(%b, %w : tensor<8x16x64xbf16>, tensor<64x64xbf16>) outs(%f : tensor<8x16x64xbf16>)
    %o = tensor.expand_shape %c [[0, 1], [2], [3]] output_shape [1, 8, 16, 64] : ...
    ```

    The second case is multi-head latent attention (MLA, DeepSeek-AI 2024) in decoding.
    Keys and values are matmuls of a latent `C`, which all heads share, and a weight
    `W` of each head. Scores are `Q (C W)^T`, which equals `(Q W^T) C^T`. Then the queries
    and the output of attention are multiplied instead, and all query heads attend to
    one key head, the latent. The matmuls are `[B, S, r]` or `[B * S, r]` times
    `[r, H * d]`, split into heads and transposed, or, for one batch entry, `[S, r]`
    times `[H, r, d]`. Keys and values may have different latents, or be slices of one
    matmul. Each query head has its own key head.

    Keys may also have a part of the head dim that all heads share (RoPE in MLA), which
    is concatenated to or inserted into the result of the matmul. This part is then
    concatenated to the latent. Where both are adjacent in one tensor, keys become a
    slice of it.

    ```mlir
    %0 = attn.matmul ins(%c, %wk : tensor<4x8192x128xbf16>, tensor<2048x128xbf16>)
        outs(%e : tensor<4x8192x2048xbf16>) transpose_rhs -> tensor<4x8192x2048xbf16>
    %1 = tensor.expand_shape %0 [[0], [1], [2, 3]] output_shape [4, 8192, 16, 128] : ...
    %n = linalg.transpose ins(%1 : ...) outs(%f : ...) permutation = [0, 2, 1, 3]
    %k = tensor.concat dim(3) %n, %shared
        : (tensor<4x16x8192x128xbf16>, tensor<4x16x8192x64xbf16>) -> tensor<4x16x8192x192xbf16>
    ```

    If all heads share all of the keys, the queries stay, and the output alone is
    multiplied. So attentive probing, whose learned queries attend to rows `X` that are
    keys of one head, or of all heads by a broadcast, with the heads of `X W` as values,
    attends to `X` as keys and values of one head. On GPUs `X` may be as wide as the
    widest head dim.

    ```mlir
    %0 = attn.matmul ins(%x, %w : tensor<256x196x384xbf16>, tensor<384x384xbf16>)
        outs(%e : tensor<256x196x384xbf16>) -> tensor<256x196x384xbf16>
    %1 = tensor.expand_shape %0 [[0], [1], [2, 3]] output_shape [256, 196, 32, 12] : ...
    %v = linalg.transpose ins(%1 : ...) outs(%f : ...) permutation = [0, 2, 1, 3]
    %k = tensor.expand_shape %x [[0, 1], [2], [3]] output_shape [256, 1, 196, 384] : ...
    %o = attn.attention ins(%q, %k, %v : tensor<256x32x1x384xbf16>, tensor<256x1x196x384xbf16>, ...)
    ```
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"\"host\"",
           "Registered target whose rates are used, such as sm_90a">,
  ];
  let statistics = [Statistic<"numReassociated", "num-reassociated",
                              "Number of reassociated matmuls">];
  let dependentDialects = ["::mlir::attn::AttnDialect",
                           "::mlir::attn_tile::AttnTileDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect"];
}

#endif // ATTN_FUSION_PASSES_TD
