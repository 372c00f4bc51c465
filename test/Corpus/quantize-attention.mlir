// Attention to 8-bit tensors that the same function quantizes, with rotated queries and keys.
// attn-compile: --target=sm_90a
// attn-compile: --target=host
// attn-run: --tolerance=5e-2

!x = tensor<?x8x?x128xbf16>
!q = tensor<?x8x?x128xf8E4M3FN>
!s = tensor<?x8xf32>
func.func @layer(%query: !x, %key: !x, %value: !x, %signs: tensor<128xf32>) -> !x {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %b = tensor.dim %query, %c0 : !x
  %n = tensor.dim %query, %c2 : !x
  %m = tensor.dim %key, %c2 : !x
  %qi = tensor.empty(%b, %n) : !q
  %ki = tensor.empty(%b, %m) : !q
  %si = tensor.empty(%b) : !s
  %q:2 = attn.quantize ins(%query : !x) rotate(%signs : tensor<128xf32>) outs(%qi : !q) scale(%si : !s) saturate
      -> !q, !s
  %k:2 = attn.quantize ins(%key : !x) rotate(%signs : tensor<128xf32>) outs(%ki : !q) scale(%si : !s) saturate
      -> !q, !s
  %v:2 = attn.quantize ins(%value : !x) outs(%ki : !q) scale(%si : !s) saturate -> !q, !s
  %init = tensor.empty(%b, %n) : !x
  %o = attn.attention ins(%q#0, %k#0, %v#0 : !q, !q, !q) outs(%init : !x) mask(#attn.causal) score_mod {
  ^bb0(%s: f32, %bb: index, %h: index, %i: index, %j: index):
    %sq = tensor.extract %q#1[%bb, %h] : !s
    %sk = tensor.extract %k#1[%bb, %h] : !s
    %t = arith.mulf %s, %sq : f32
    %u = arith.mulf %t, %sk : f32
    attn.yield %u : f32
  } epilogue {
  ^bb0(%x: f32, %bb: index, %h: index, %i: index, %d: index):
    %sv = tensor.extract %v#1[%bb, %h] : !s
    %y = arith.mulf %x, %sv : f32
    attn.yield %y : f32
  } -> !x
  return %o : !x
}
