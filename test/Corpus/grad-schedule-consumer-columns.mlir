// Consumers with the same rows and different columns of each gradient.
// attn-compile: --target=sm_90a

!q = tensor<?x8x?x128xbf16>
!k = tensor<?x2x?x128xbf16>
!v = tensor<?x2x?x128xbf16>
!o = tensor<?x8x?x128xbf16>
!l = tensor<?x8x?xf32>
func.func @gradient(%query: !q, %key: !k, %value: !v, %out: !o, %lse: !l, %dout: !o, %dquery: !q, %dkey: !k, %dvalue: !v) -> (!q, !k, !v) {
  %0:3 = attn.attention_grad ins(%query, %key, %value, %out, %lse, %dout : !q, !k, !v, !o, !l, !o)
      outs(%dquery, %dkey, %dvalue : !q, !k, !v) schedule(#attn_tile.gradient<
          preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
          dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 64, stages = 2, consumers = 2, head_dim_tile = 64,
              consumer_columns = true>,
          dq = #attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 2, head_dim_tile = 64,
              consumer_columns = true>,
          dv = #attn_tile.key_stationary<query_tile = 64, key_tile = 64, stages = 2, consumers = 2, head_dim_tile = 64,
              consumer_columns = true>>)
      -> !q, !k, !v
  return %0#0, %0#1, %0#2 : !q, !k, !v
}
