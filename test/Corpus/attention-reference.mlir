// Attention with its f64 reference.
// attn-compile: --target=sm_90a --with-reference
// attn-compile: --target=host --with-reference

!q = tensor<?x2x?x64xbf16>
!k = tensor<?x2x?x64xbf16>
!v = tensor<?x2x?x64xbf16>
!o = tensor<?x2x?x64xbf16>
!l = tensor<?x2x?xf32>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o, %lse: !l) -> (!o, !l) {
  %0:2 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out, %lse : !o, !l) mask(#attn.causal)
      -> !o, !l
  return %0#0, %0#1 : !o, !l
}
