// The gradient of the delta rule with a given schedule: splits, their starts, and a schedule for gradients.
// attn-compile: --target=sm_90a
// attn-run: --fill=decay=uniform:-2:0

!q = tensor<?x2x?x64xbf16>
!rows = tensor<?x2x?xf32>
func.func @attention(%query: !q, %key: !q, %value: !q, %dout: !q, %decay: !rows, %beta: !rows, %dquery: !q, %dkey: !q,
                     %dvalue: !q, %ddecay: !rows, %dbeta: !rows) -> (!q, !q, !q, !rows, !rows) {
  %0:5 = attn.linear_attention_grad ins(%query, %key, %value, %dout : !q, !q, !q, !q)
      outs(%dquery, %dkey, %dvalue : !q, !q, !q)
      log_decay(%decay : !rows) beta(%beta : !rows) dlog_decay(%ddecay : !rows) dbeta(%dbeta : !rows) causal
      schedule(#attn_tile.linear_pairs<
          pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 1, warps = 4, local_stages = 1, split_work_items = 132, refill = true>,
          chunks = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 32, stages = 1, split_work_items = 64>,
          starts = #attn_tile.linear_multistage<chunk = 64, value_tile = 32, stages = 1, warps = 4, local_stages = 1>,
          gradients = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 32, stages = 1, local_stages = 1, split_work_items = 132, ctas_per_sm = 2>>)
      -> !q, !q, !q, !rows, !rows
  return %0#0, %0#1, %0#2, %0#3, %0#4 : !q, !q, !q, !rows, !rows
}
