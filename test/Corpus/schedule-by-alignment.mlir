// A bias that bulk copies load when it is aligned.
// attn-compile: --target=sm_90a
// attn-run: --shape=bias=8x150x203

!q = tensor<?x8x?x128xbf16>
!k = tensor<?x2x?x128xbf16>
!v = tensor<?x2x?x128xbf16>
!o = tensor<?x8x?x128xbf16>
!bias = tensor<8x?x?xbf16>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o, %bias: !bias) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o)
      schedule(#attn_tile.by_alignment<
          aligned = #attn_tile.warp_specialized<query_tile = 128, key_tile = 96, stages = 2, consumers = 2, score_stages = 2>,
          otherwise = #attn_tile.warp_specialized<query_tile = 128, key_tile = 112, stages = 2, consumers = 2>>) score_mod {
  ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
    %x = tensor.extract %bias[%h, %i, %j] : !bias
    %y = arith.extf %x : bf16 to f32
    %r = arith.addf %s, %y : f32
    attn.yield %r : f32
  } -> !o
  return %0 : !o
}
