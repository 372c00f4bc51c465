// Tiles of the value head dim in the multistage schedule.
// attn-compile: --target=sm_80

!t = tensor<?x8x?x128xbf16>
!l = tensor<?x8x?xf32>
func.func @attention(%query: !t, %key: !t, %value: !t, %out: !t, %lse: !l, %seed: tensor<i64>, %offset: tensor<i64>) -> (!t, !l) {
  %0:2 = attn.attention ins(%query, %key, %value : !t, !t, !t) outs(%out, %lse : !t, !l)
      mask(#attn.sliding_window<left = 100, right = 0>)
      dropout(#attn.dropout<p = 0.125, rng = #attn.arx<rounds = 6>>, %seed, %offset : tensor<i64>, tensor<i64>)
      schedule(#attn_tile.multistage<query_tile = 64, key_tile = 64, stages = 2, warps = 4, head_dim_tile = 64>)
      -> !t, !l
  return %0#0, %0#1 : !t, !l
}
