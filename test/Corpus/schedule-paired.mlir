// Work items in pairs of a long and a short tile, with conditional rescaling.
// attn-compile: --target=sm_90a

!q = tensor<?x8x?x128xbf16>
!k = tensor<?x2x?x128xbf16>
!v = tensor<?x2x?x128xbf16>
!o = tensor<?x8x?x128xbf16>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o) mask(#attn.causal)
      schedule(#attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2,
          ping_pong = true, traversal = paired, conditional_rescale = true>)
      -> !o
  return %0 : !o
}
