// A temperature for each head, with a mask_mod and sinks.
// attn-compile: --target=sm_90a

!q = tensor<?x8x?x128xbf16>
!k = tensor<?x2x?x128xbf16>
!v = tensor<?x2x?x128xbf16>
!o = tensor<?x8x?x128xbf16>
!ids = tensor<?x?xi32>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o, %factor: tensor<8xf32>, %ids: !ids,
    %sinks: tensor<8xbf16>) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o) sinks(%sinks : tensor<8xbf16>)
      score_mod {
  ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
    %x = tensor.extract %factor[%h] : tensor<8xf32>
    %r = arith.mulf %s, %x : f32
    attn.yield %r : f32
  } mask_mod {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    %x = tensor.extract %ids[%b, %i] : !ids
    %y = tensor.extract %ids[%b, %j] : !ids
    %same = arith.cmpi eq, %x, %y : i32
    attn.yield %same : i1
  } -> !o
  return %0 : !o
}
