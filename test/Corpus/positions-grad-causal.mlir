// The gradient of a shard of causal attention.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host
// attn-run: --values=positions=6:64,128,1,8,300,400

!q = tensor<?x8x?x128xbf16>
!k = tensor<?x2x?x128xbf16>
!v = tensor<?x2x?x128xbf16>
!o = tensor<?x8x?x128xbf16>
!l = tensor<?x8x?xf32>
!p = tensor<6xi32>
func.func @gradient(%query: !q, %key: !k, %value: !v, %out: !o, %lse: !l, %dout: !o, %dquery: !q, %dkey: !k,
                    %dvalue: !v, %positions: !p) -> (!q, !k, !v) {
  %0:3 = attn.attention_grad ins(%query, %key, %value, %out, %lse, %dout : !q, !k, !v, !o, !l, !o)
      outs(%dquery, %dkey, %dvalue : !q, !k, !v) positions(%positions : !p)
      mask(#attn.causal) -> !q, !k, !v
  return %0#0, %0#1, %0#2 : !q, !k, !v
}
