// Other numbers of value heads than of key heads.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host

!q = tensor<?x12x?x128xbf16>
!k = tensor<?x3x?x128xbf16>
!v = tensor<?x6x?x128xbf16>
!o = tensor<?x12x?x128xbf16>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o) mask(#attn.causal) -> !o
  return %0 : !o
}
