// Document masking by an id for each token, causal.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host

!q = tensor<?x8x?x128xbf16>
!k = tensor<?x2x?x128xbf16>
!v = tensor<?x2x?x128xbf16>
!o = tensor<?x8x?x128xbf16>
!ids = tensor<?x?xi32>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o, %ids: !ids) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o)
      mask(#attn.and<#attn.causal, #attn.documents<queries = 0, keys = 0>>) reads(%ids : !ids) -> !o
  return %0 : !o
}
