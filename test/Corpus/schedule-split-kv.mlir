// Split-KV with 132 work items.
// attn-compile: --target=sm_90a

!q = tensor<?x8x?x128xbf16>
!k = tensor<?x2x?x128xbf16>
!v = tensor<?x2x?x128xbf16>
!o = tensor<?x8x?x128xbf16>
!l = tensor<?x8x?xf32>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o, %lse: !l) -> (!o, !l) {
  %0:2 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out, %lse : !o, !l) mask(#attn.causal)
      schedule(#attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1,
          traversal = grid, split_kv_work_items = 132>)
      -> !o, !l
  return %0#0, %0#1 : !o, !l
}
