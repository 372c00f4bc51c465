// Head dimensions that are no multiple of an MMA tile.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host

!q = tensor<?x2x?x72xf16>
!k = tensor<?x2x?x72xf16>
!v = tensor<?x2x?x40xf16>
!o = tensor<?x2x?x40xf16>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o) -> !o
  return %0 : !o
}
