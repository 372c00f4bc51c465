// A grid of work items, one consumer warpgroup, two CTAs for each SM.
// attn-compile: --target=sm_90a

!q = tensor<?x8x?x64xbf16>
!k = tensor<?x2x?x64xbf16>
!v = tensor<?x2x?x64xbf16>
!o = tensor<?x8x?x64xbf16>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o)
      schedule(#attn_tile.warp_specialized<query_tile = 64, key_tile = 128, stages = 2, consumers = 1,
          traversal = grid, ctas_per_sm = 2>)
      -> !o
  return %0 : !o
}
