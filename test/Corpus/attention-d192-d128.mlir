// Values with a head dimension of their own.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80

!q = tensor<?x8x?x192xbf16>
!k = tensor<?x2x?x192xbf16>
!v = tensor<?x2x?x128xbf16>
!o = tensor<?x8x?x128xbf16>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o) mask(#attn.causal) -> !o
  return %0 : !o
}
