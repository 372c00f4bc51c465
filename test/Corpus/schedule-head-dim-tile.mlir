// Tiles of the value head dim on sm_90a.
// attn-compile: --target=sm_90a

!t = tensor<?x8x?x128xbf16>
!l = tensor<?x8x?xf32>
func.func @attention(%query: !t, %key: !t, %value: !t, %out: !t, %lse: !l, %seed: tensor<i64>, %offset: tensor<i64>) -> (!t, !l) {
  %0:2 = attn.attention ins(%query, %key, %value : !t, !t, !t) outs(%out, %lse : !t, !l)
      mask(#attn.sliding_window<left = 100, right = 0>)
      dropout(#attn.dropout<p = 0.125, rng = #attn.arx<rounds = 6>>, %seed, %offset : tensor<i64>, tensor<i64>)
      schedule(#attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2,
          head_dim_tile = 64>)
      -> !t, !l
  return %0#0, %0#1 : !t, !l
}
