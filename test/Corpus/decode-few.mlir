// Several queries of grouped heads, and a sink for each head.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80

!q = tensor<?x8x5x128xbf16>
!k = tensor<?x2x?x128xbf16>
!o = tensor<?x8x5x128xbf16>
!l = tensor<?x8x5xf32>
func.func @attention(%query: !q, %key: !k, %value: !k, %out: !o, %lse: !l, %sinks: tensor<8xbf16>) -> (!o, !l) {
  %0:2 = attn.attention ins(%query, %key, %value : !q, !k, !k) outs(%out, %lse : !o, !l)
      sinks(%sinks : tensor<8xbf16>) mask(#attn.causal) -> !o, !l
  return %0#0, %0#1 : !o, !l
}
