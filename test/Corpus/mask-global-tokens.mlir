// Global tokens and a sliding window.
// attn-compile: --target=sm_90a
// attn-compile: --target=host

!q = tensor<?x8x?x64xbf16>
!k = tensor<?x2x?x64xbf16>
!v = tensor<?x2x?x64xbf16>
!o = tensor<?x8x?x64xbf16>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o)
      mask(#attn.or<#attn.global_tokens<count = 20>, #attn.sliding_window<left = 100, right = 30>>) -> !o
  return %0 : !o
}
