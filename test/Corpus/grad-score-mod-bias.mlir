// A bias and its gradient.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host
// attn-run: --shape=bias=8x150x203 --shape=dcapture=8x150x203 --no-check

!q = tensor<?x8x?x128xbf16>
!k = tensor<?x2x?x128xbf16>
!v = tensor<?x2x?x128xbf16>
!o = tensor<?x8x?x128xbf16>
!l = tensor<?x8x?xf32>
!c = tensor<8x?x?xf32>
func.func @gradient(%query: !q, %key: !k, %value: !v, %out: !o, %lse: !l, %dout: !o, %bias: !c, %dquery: !q, %dkey: !k,
    %dvalue: !v, %dcapture: !c) -> (!q, !k, !v, !c) {
  %0:4 = attn.attention_grad ins(%query, %key, %value, %out, %lse, %dout : !q, !k, !v, !o, !l, !o)
      outs(%dquery, %dkey, %dvalue, %dcapture : !q, !k, !v, !c) score_mod {
  ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
    %x = tensor.extract %bias[%h, %i, %j] : !c
    %r = arith.addf %s, %x : f32
    attn.yield %r : f32
  } score_mod_grad {
  ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index, %sum: !c):
    attn.accumulate %ds into %sum[%h, %i, %j] : !c
    attn.yield %ds : f32
  } -> !q, !k, !v, !c
  return %0#0, %0#1, %0#2, %0#3 : !q, !k, !v, !c
}
