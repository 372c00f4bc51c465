// The schedule of the host with balanced splits of a contiguous KV cache.
// attn-compile: --target=host
// attn-run: --shape=keys=256 --values=lengths=2:256,17

!q = tensor<?x4x1x64xf32>
!kv = tensor<?x2x?x64xf32>
func.func @attention(%query: !q, %key: !kv, %value: !kv, %out: !q, %lengths: tensor<?xi32>) -> !q {
  %0 = attn.attention ins(%query, %key, %value : !q, !kv, !kv) outs(%out : !q) key_lengths(%lengths : tensor<?xi32>)
      schedule(#attn_tile.sequential<query_tile = 8, key_tile = 32, split_kv_work_items = 16, pack_gqa = true,
          balance_splits = true>)
      -> !q
  return %0 : !q
}
