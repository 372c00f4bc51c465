// Consumers with the same rows and different columns of the output.
// attn-compile: --target=sm_90a

!q = tensor<?x8x?x128xbf16>
!k = tensor<?x2x?x128xbf16>
func.func @attention(%query: !q, %key: !k, %value: !k, %out: !q) -> !q {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !k) outs(%out : !q) mask(#attn.causal)
      schedule(#attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 2, ping_pong = true,
          head_dim_tile = 64, consumer_columns = true>)
      -> !q
  return %0 : !q
}
