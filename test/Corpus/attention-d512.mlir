// Head dimension 512: work items multiply a part of the value head dim.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80

!q = tensor<?x8x?x512xbf16>
!k = tensor<?x2x?x512xbf16>
!v = tensor<?x2x?x512xbf16>
!o = tensor<?x8x?x512xbf16>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o) mask(#attn.causal) -> !o
  return %0 : !o
}
