// Kimi delta attention with a given schedule, also for chunks that forget much.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-run: --fill=decay=uniform:-2:0

!q = tensor<?x2x?x64xf16>
!elements = tensor<?x2x?x64xf32>
!rows = tensor<?x2x?xf32>
func.func @attention(%query: !q, %key: !q, %value: !q, %decay: !elements, %beta: !rows, %out: !q) -> !q {
  %0 = attn.linear_attention ins(%query, %key, %value : !q, !q, !q) outs(%out : !q)
      log_decay(%decay : !elements) beta(%beta : !rows) causal
      schedule(#attn_tile.linear_pairs<
          pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 32, stages = 1, warps = 4, local_stages = 1, rows_ahead = true,
              split_work_items = 132>,
          levels = #attn_tile.linear_multistage<chunk = 64, value_tile = 32, stages = 2, warps = 4, local_stages = 1, rows_ahead = true,
              split_work_items = 132>,
          chunks = #attn_tile.linear_multistage<chunk = 64, value_tile = 32, stages = 2, warps = 4, local_stages = 2, rows_ahead = true>>) -> !q
  return %0 : !q
}
