// One query, with the query heads of a group in one tile.
// attn-compile: --target=sm_90a

!q = tensor<?x8x1x128xbf16>
!k = tensor<?x2x?x128xbf16>
!v = tensor<?x2x?x128xbf16>
!o = tensor<?x8x1x128xbf16>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o)
      schedule(#attn_tile.warp_specialized<query_tile = 64, key_tile = 128, stages = 3, consumers = 1,
          traversal = grid, split_kv_work_items = 132, pack_gqa = true, l2_promotion = 128>)
      -> !o
  return %0 : !o
}
