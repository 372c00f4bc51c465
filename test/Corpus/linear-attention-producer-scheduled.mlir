// Gradients of linear attention with a producer and a given schedule, that of log-decays among them.
// attn-compile: --target=sm_90a
// attn-run: --fill=decay=uniform:-2:0

!q = tensor<?x2x?x64xbf16>
!g = tensor<?x2x?xf32>
func.func @attention(%query: !q, %key: !q, %value: !q, %dout: !q, %decay: !g, %dquery: !q, %dkey: !q, %dvalue: !q, %ddecay: !g) -> (!q, !q, !q, !g) {
  %0:4 = attn.linear_attention_grad ins(%query, %key, %value, %dout : !q, !q, !q, !q) outs(%dquery, %dkey, %dvalue : !q, !q, !q)
      log_decay(%decay : !g) dlog_decay(%ddecay : !g) causal
      schedule(#attn_tile.linear_warp_specialized<chunk = 64, value_tile = 32, stages = 2, local_stages = 1, rows_ahead = true, split_work_items = 132>)
      -> !q, !q, !q, !g
  return %0#0, %0#1, %0#2, %0#3 : !q, !q, !q, !g
}
