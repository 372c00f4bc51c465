// A contiguous KV cache.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host
// attn-run: --values=lengths=2:203,77

!q = tensor<?x8x1x128xbf16>
!kv = tensor<?x2x?x128xbf16>
func.func @attention(%query: !q, %key: !kv, %value: !kv, %out: !q, %lengths: tensor<?xi32>) -> !q {
  %0 = attn.attention ins(%query, %key, %value : !q, !kv, !kv) outs(%out : !q)
      key_lengths(%lengths : tensor<?xi32>) mask(#attn.causal) -> !q
  return %0 : !q
}
