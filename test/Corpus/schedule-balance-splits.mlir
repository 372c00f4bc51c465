// The schedule of sm_90a with balanced splits of a paged KV cache.
// attn-compile: --target=sm_90a
// attn-run: --shape=pages=9 --values=lengths=2:256,17 --values=table=2x4:8,2,5,0,3,1,4,7

!q = tensor<?x8x1x128xbf16>
!kv = tensor<?x2x64x128xbf16>
func.func @attention(%query: !q, %key: !kv, %value: !kv, %out: !q, %lengths: tensor<?xi32>, %table: tensor<?x?xi32>) -> !q {
  %0 = attn.attention ins(%query, %key, %value : !q, !kv, !kv) outs(%out : !q)
      key_lengths(%lengths : tensor<?xi32>) page_table(%table : tensor<?x?xi32>)
      schedule(#attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, traversal = grid,
          split_kv_work_items = 132, pack_gqa = true, balance_splits = true>)
      -> !q
  return %0 : !q
}
