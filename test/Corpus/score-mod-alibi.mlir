// ALiBi: a slope for each head.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80

!q = tensor<?x8x?x128xbf16>
!k = tensor<?x2x?x128xbf16>
!v = tensor<?x2x?x128xbf16>
!o = tensor<?x8x?x128xbf16>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o, %slopes: tensor<8xf32>) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o) mask(#attn.causal) score_mod {
  ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
    %slope = tensor.extract %slopes[%h] : tensor<8xf32>
    %d = arith.subi %j, %i : index
    %n = arith.index_cast %d : index to i32
    %f = arith.sitofp %n : i32 to f32
    %a = arith.mulf %f, %slope : f32
    %r = arith.addf %s, %a : f32
    attn.yield %r : f32
  } -> !o
  return %0 : !o
}
