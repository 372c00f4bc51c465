// f32 in the precision that rounds it to tf32.
// attn-compile: --target=sm_80
// attn-compile: --target=sm_90a
// attn-run: --tolerance=2e-3

!q = tensor<?x2x?x128xf32>
!k = tensor<?x2x?x128xf32>
!l = tensor<?x2x?xf32>
func.func @attention(%query: !q, %key: !k, %value: !k, %out: !q, %lse: !l) -> (!q, !l) {
  %0:2 = attn.attention ins(%query, %key, %value : !q, !k, !k) outs(%out, %lse : !q, !l)
      mask(#attn.causal) precision(high) -> !q, !l
  return %0#0, %0#1 : !q, !l
}
