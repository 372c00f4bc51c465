// The multistage schedule with split-KV for one query.
// attn-compile: --target=sm_80

!q = tensor<?x8x1x128xbf16>
!k = tensor<?x2x?x128xbf16>
!v = tensor<?x2x?x128xbf16>
!o = tensor<?x8x1x128xbf16>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o)
      schedule(#attn_tile.multistage<query_tile = 16, key_tile = 64, stages = 3, warps = 1, split_kv_work_items = 200,
          pack_gqa = true>)
      -> !o
  return %0 : !o
}
