// f32. GPUs split each factor into two tf32 values, or round it to tf32.
// attn-compile: --target=host
// attn-compile: --target=sm_80
// attn-compile: --target=sm_90a
// attn-run: --tolerance=2e-3

!q = tensor<?x2x?x32xf32>
!k = tensor<?x2x?x32xf32>
!v = tensor<?x2x?x32xf32>
!o = tensor<?x2x?x32xf32>
!l = tensor<?x2x?xf32>
func.func @gradient(%query: !q, %key: !k, %value: !v, %out: !o, %lse: !l, %dout: !o, %dquery: !q, %dkey: !k, %dvalue: !v) -> (!q, !k, !v) {
  %0:3 = attn.attention_grad ins(%query, %key, %value, %out, %lse, %dout : !q, !k, !v, !o, !l, !o)
      outs(%dquery, %dkey, %dvalue : !q, !k, !v) -> !q, !k, !v
  return %0#0, %0#1, %0#2 : !q, !k, !v
}
func.func @gradient_high(%query: !q, %key: !k, %value: !v, %out: !o, %lse: !l, %dout: !o, %dquery: !q, %dkey: !k, %dvalue: !v) -> (!q, !k, !v) {
  %0:3 = attn.attention_grad ins(%query, %key, %value, %out, %lse, %dout : !q, !k, !v, !o, !l, !o)
      outs(%dquery, %dkey, %dvalue : !q, !k, !v) precision(high) -> !q, !k, !v
  return %0#0, %0#1, %0#2 : !q, !k, !v
}
