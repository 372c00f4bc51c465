// Linear attention with a given schedule: chunks of 128 tokens, and work items that split the chunks of a head.
// attn-compile: --target=sm_80
// attn-run: --fill=decay=uniform:-2:0

!q = tensor<?x2x?x128xbf16>
func.func @attention(%query: !q, %key: !q, %value: !q, %decay: tensor<2xf32>, %out: !q) -> !q {
  %0 = attn.linear_attention ins(%query, %key, %value : !q, !q, !q) outs(%out : !q)
      log_decay(%decay : tensor<2xf32>) causal chunk(128)
      schedule(#attn_tile.linear_multistage<chunk = 128, value_tile = 64, stages = 1, warps = 8, split_work_items = 264>) -> !q
  return %0 : !q
}
