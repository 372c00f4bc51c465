// One query, with other numbers of value heads than of key heads: the rows of a tile are query heads that share both.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host

!q = tensor<?x12x1x128xbf16>
!k = tensor<?x2x?x128xbf16>
!v = tensor<?x4x?x128xbf16>
!o = tensor<?x12x1x128xbf16>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o) -> !o
  return %0 : !o
}
