// Other numbers of value heads than of key heads: gradients of GQA groups are added up.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host

!q = tensor<?x12x?x128xbf16>
!k = tensor<?x3x?x128xbf16>
!v = tensor<?x6x?x128xbf16>
!o = tensor<?x12x?x128xbf16>
!l = tensor<?x12x?xf32>
func.func @gradient(%query: !q, %key: !k, %value: !v, %out: !o, %lse: !l, %dout: !o, %dquery: !q, %dkey: !k, %dvalue: !v) -> (!q, !k, !v) {
  %0:3 = attn.attention_grad ins(%query, %key, %value, %out, %lse, %dout : !q, !k, !v, !o, !l, !o)
      outs(%dquery, %dkey, %dvalue : !q, !k, !v) mask(#attn.causal) -> !q, !k, !v
  return %0#0, %0#1, %0#2 : !q, !k, !v
}
