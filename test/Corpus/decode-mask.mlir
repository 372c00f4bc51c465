// Decoding one token with a sliding window.
// attn-compile: --target=sm_90a

!q = tensor<?x8x1x64xbf16>
!k = tensor<?x2x?x64xbf16>
!v = tensor<?x2x?x64xbf16>
!o = tensor<?x8x1x64xbf16>
!l = tensor<?x8x1xf32>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o, %lse: !l) -> (!o, !l) {
  %0:2 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out, %lse : !o, !l)
      mask(#attn.sliding_window<left = 1024, right = 0>) -> !o, !l
  return %0#0, %0#1 : !o, !l
}
