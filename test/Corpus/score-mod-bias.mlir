// An f32 bias for each head and pair.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host
// attn-run: --shape=bias=8x150x203

!q = tensor<?x8x?x64xbf16>
!k = tensor<?x2x?x64xbf16>
!v = tensor<?x2x?x64xbf16>
!o = tensor<?x8x?x64xbf16>
!bias = tensor<8x?x?xf32>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o, %bias: !bias) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o) score_mod {
  ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
    %x = tensor.extract %bias[%h, %i, %j] : !bias
    %r = arith.addf %s, %x : f32
    attn.yield %r : f32
  } -> !o
  return %0 : !o
}
