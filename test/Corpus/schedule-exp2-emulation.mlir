// Exponentials that are partly emulated with polynomials.
// attn-compile: --target=sm_90a

!q = tensor<?x8x?x128xf16>
!k = tensor<?x2x?x128xf16>
!v = tensor<?x2x?x128xf16>
!o = tensor<?x8x?x128xf16>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o)
      schedule(#attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2,
          ping_pong = true, exp2_emulation = 4>)
      -> !o
  return %0 : !o
}
