// Idle warps, and warps without queries, convert keys and values of 8 bits.
// attn-compile: --target=sm_90a
// attn-run: --shape=batch=2 --shape=keys=1000

!q = tensor<?x8x1x128xbf16>
!kv = tensor<?x2x?x128xf8E4M3FN>
func.func @attention(%query: !q, %key: !kv, %value: !kv, %out: !q) -> !q {
  %0 = attn.attention ins(%query, %key, %value : !q, !kv, !kv) outs(%out : !q)
      schedule(#attn_tile.warp_specialized<query_tile = 64, key_tile = 96, stages = 2, consumers = 1, traversal = grid,
          split_kv_work_items = 264, pack_gqa = true, l2_promotion = 128, ctas_per_sm = 2, idle_warps_convert = true,
          skip_empty_rows = true>) -> !q
  return %0 : !q
}
