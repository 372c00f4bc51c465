// The multistage schedule with balanced splits of a contiguous KV cache.
// attn-compile: --target=sm_80
// attn-run: --shape=keys=256 --values=lengths=2:256,17

!q = tensor<?x8x1x128xbf16>
!kv = tensor<?x2x?x128xbf16>
func.func @attention(%query: !q, %key: !kv, %value: !kv, %out: !q, %lengths: tensor<?xi32>) -> !q {
  %0 = attn.attention ins(%query, %key, %value : !q, !kv, !kv) outs(%out : !q) key_lengths(%lengths : tensor<?xi32>)
      schedule(#attn_tile.multistage<query_tile = 16, key_tile = 64, stages = 3, warps = 1, split_kv_work_items = 108,
          pack_gqa = true, balance_splits = true>)
      -> !q
  return %0 : !q
}
