// Linear attention with a choice of schedules by the number of work items: 2 heads of 2 tiles in each batch entry.
// attn-compile: --target=sm_90a
// attn-run: --fill=decay=uniform:-2:0

!q = tensor<?x2x?x128xbf16>
!g = tensor<?x2x?xf32>
func.func @attention(%query: !q, %key: !q, %value: !q, %decay: !g, %out: !q) -> !q {
  %0 = attn.linear_attention ins(%query, %key, %value : !q, !q, !q) outs(%out : !q) log_decay(%decay : !g) causal
      schedule(#attn_tile.by_work_items<
          more_than = 4, at_most = 8,
          within = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2, rows_ahead = true,
              split_work_items = 132>,
          otherwise = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2, local_stages = 1,
              rows_ahead = true, split_work_items = 264, ctas_per_sm = 2>>) -> !q
  return %0 : !q
}
