// Packed queries and a paged KV cache, for chunks of prompts with single tokens.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host

!q = tensor<1x8x?x64xbf16>
!kv = tensor<?x2x64x64xbf16>
func.func @attention(%query: !q, %key: !kv, %value: !kv, %out: !q, %cu: tensor<?xi32>, %lengths: tensor<?xi32>,
                     %table: tensor<?x?xi32>) -> !q {
  %0 = attn.attention ins(%query, %key, %value : !q, !kv, !kv) outs(%out : !q)
      sequences packed_queries(%cu, %lengths : tensor<?xi32>, tensor<?xi32>)
      page_table(%table : tensor<?x?xi32>) mask(#attn.causal) -> !q
  return %0 : !q
}
