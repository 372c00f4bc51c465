// A temperature for each head and its gradient.
// attn-compile: --target=sm_90a
// attn-run: --no-check

!q = tensor<?x8x?x64xbf16>
!k = tensor<?x2x?x64xbf16>
!v = tensor<?x2x?x64xbf16>
!o = tensor<?x8x?x64xbf16>
!l = tensor<?x8x?xf32>
!c = tensor<8xf32>
func.func @gradient(%query: !q, %key: !k, %value: !v, %out: !o, %lse: !l, %dout: !o, %factor: !c, %dquery: !q, %dkey: !k,
    %dvalue: !v, %dcapture: !c) -> (!q, !k, !v, !c) {
  %0:4 = attn.attention_grad ins(%query, %key, %value, %out, %lse, %dout : !q, !k, !v, !o, !l, !o)
      outs(%dquery, %dkey, %dvalue, %dcapture : !q, !k, !v, !c) score_mod {
  ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
    %x = tensor.extract %factor[%h] : !c
    %r = arith.mulf %s, %x : f32
    attn.yield %r : f32
  } score_mod_grad {
  ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index, %sum: !c):
    %x = tensor.extract %factor[%h] : !c
    %g = arith.mulf %ds, %s : f32
    attn.accumulate %g into %sum[%h] : !c
    %r = arith.mulf %ds, %x : f32
    attn.yield %r : f32
  } -> !q, !k, !v, !c
  return %0#0, %0#1, %0#2, %0#3 : !q, !k, !v, !c
}
