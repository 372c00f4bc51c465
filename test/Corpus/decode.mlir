// Decoding one token: split-KV, with the query heads of a group in one tile.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host

!q = tensor<?x8x1x128xbf16>
!k = tensor<?x1x?x128xbf16>
!v = tensor<?x1x?x128xbf16>
!o = tensor<?x8x1x128xbf16>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o) -> !o
  return %0 : !o
}
