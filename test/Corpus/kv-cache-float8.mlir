// A paged KV cache of 8 bits, for decoding.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host
// attn-run: --shape=pages=9 --values=lengths=2:61,33 --values=table=2x4:8,2,5,0,3,1,4,7

!q = tensor<?x8x1x128xbf16>
!kv = tensor<?x2x16x128xf8E4M3FN>
func.func @attention(%query: !q, %key: !kv, %value: !kv, %out: !q, %lengths: tensor<?xi32>, %table: tensor<?x?xi32>) -> !q {
  %0 = attn.attention ins(%query, %key, %value : !q, !kv, !kv) outs(%out : !q)
      key_lengths(%lengths : tensor<?xi32>) page_table(%table : tensor<?x?xi32>) mask(#attn.causal) -> !q
  return %0 : !q
}
