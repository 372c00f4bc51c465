// Causal attention with the heads of Llama 3 8B: 32 query heads in groups of
// four share 8 key-value heads, of 128 elements each. The batch and the lengths
// are sizes of the inputs.
//
//   attn-run docs/examples/llama3_attention.mlir --check --bench \
//     --shape=batch=1 --shape=queries=2048 --shape=keys=2048

func.func @attention(%query: tensor<?x32x?x128xbf16>,
                     %key: tensor<?x8x?x128xbf16>,
                     %value: tensor<?x8x?x128xbf16>)
    -> tensor<?x32x?x128xbf16> {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %batch = tensor.dim %query, %c0 : tensor<?x32x?x128xbf16>
  %length = tensor.dim %query, %c2 : tensor<?x32x?x128xbf16>
  %init = tensor.empty(%batch, %length) : tensor<?x32x?x128xbf16>
  %out = attn.attention
      ins(%query, %key, %value : tensor<?x32x?x128xbf16>,
          tensor<?x8x?x128xbf16>, tensor<?x8x?x128xbf16>)
      outs(%init : tensor<?x32x?x128xbf16>)
      mask(#attn.causal) -> tensor<?x32x?x128xbf16>
  return %out : tensor<?x32x?x128xbf16>
}
