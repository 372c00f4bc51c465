// A shard of causal attention, with the log-sum-exp.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host
// attn-run: --values=positions=6:64,128,1,8,300,400

!q = tensor<?x8x?x128xbf16>
!k = tensor<?x2x?x128xbf16>
!v = tensor<?x2x?x128xbf16>
!o = tensor<?x8x?x128xbf16>
!l = tensor<?x8x?xf32>
!p = tensor<6xi32>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o, %lse: !l, %positions: !p) -> (!o, !l) {
  %0:2 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out, %lse : !o, !l)
      positions(%positions : !p) mask(#attn.causal) -> !o, !l
  return %0#0, %0#1 : !o, !l
}
