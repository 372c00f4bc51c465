// A sliding window without a left bound, from the top left corner.
// attn-compile: --target=sm_90a

!q = tensor<?x8x?x64xbf16>
!k = tensor<?x2x?x64xbf16>
!v = tensor<?x2x?x64xbf16>
!o = tensor<?x8x?x64xbf16>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o)
      mask(#attn.sliding_window<right = 70, alignment = top_left>) -> !o
  return %0 : !o
}
