// Persistent CTAs, three consumer warpgroups, two query stages.
// attn-compile: --target=sm_90a

!q = tensor<?x8x?x64xf16>
!k = tensor<?x2x?x64xf16>
!v = tensor<?x2x?x64xf16>
!o = tensor<?x8x?x64xf16>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o)
      schedule(#attn_tile.warp_specialized<query_tile = 192, key_tile = 128, stages = 2, consumers = 3,
          ping_pong = true, traversal = persistent, interleave = 2, query_stages = 2>)
      -> !o
  return %0 : !o
}
