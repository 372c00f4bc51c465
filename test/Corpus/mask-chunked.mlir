// Chunked causal attention.
// attn-compile: --target=sm_90a

!q = tensor<?x8x?x128xbf16>
!k = tensor<?x2x?x128xbf16>
!v = tensor<?x2x?x128xbf16>
!o = tensor<?x8x?x128xbf16>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o)
      mask(#attn.and<#attn.causal, #attn.local_blocks<size = 128, before = 0, after = 0>>) -> !o
  return %0 : !o
}
