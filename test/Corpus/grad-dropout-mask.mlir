// Dropout whose keep mask is read from memory.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-run: --shape=bits=2x8x16x96 --fill=bits=uniform:-2147483648:2147483647

!q = tensor<?x8x?x64xbf16>
!k = tensor<?x2x?x64xbf16>
!v = tensor<?x2x?x64xbf16>
!o = tensor<?x8x?x64xbf16>
!l = tensor<?x8x?xf32>
!bits = tensor<?x8x?x?xi32>
func.func @gradient(%query: !q, %key: !k, %value: !v, %out: !o, %lse: !l, %dout: !o, %bits: !bits, %dquery: !q,
    %dkey: !k, %dvalue: !v) -> (!q, !k, !v) {
  %0:3 = attn.attention_grad ins(%query, %key, %value, %out, %lse, %dout : !q, !k, !v, !o, !l, !o)
      outs(%dquery, %dkey, %dvalue : !q, !k, !v) mask(#attn.causal)
      dropout_mask columns(%bits : !bits) p(1.25e-01) -> !q, !k, !v
  return %0#0, %0#1, %0#2 : !q, !k, !v
}
