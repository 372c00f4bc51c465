// An attention sink for each head.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host

!q = tensor<?x8x?x64xbf16>
!k = tensor<?x2x?x64xbf16>
!v = tensor<?x2x?x64xbf16>
!o = tensor<?x8x?x64xbf16>
!l = tensor<?x8x?xf32>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o, %lse: !l, %sinks: tensor<8xbf16>) -> (!o, !l) {
  %0:2 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out, %lse : !o, !l)
      sinks(%sinks : tensor<8xbf16>) mask(#attn.causal) -> !o, !l
  return %0#0, %0#1 : !o, !l
}
