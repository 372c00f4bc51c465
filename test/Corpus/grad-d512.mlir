// Head dimension 512: a kernel for each tile of the columns of a gradient.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80

!q = tensor<?x4x?x512xbf16>
!k = tensor<?x2x?x512xbf16>
!v = tensor<?x2x?x512xbf16>
!o = tensor<?x4x?x512xbf16>
!l = tensor<?x4x?xf32>
func.func @gradient(%query: !q, %key: !k, %value: !v, %out: !o, %lse: !l, %dout: !o, %dquery: !q, %dkey: !k, %dvalue: !v) -> (!q, !k, !v) {
  %0:3 = attn.attention_grad ins(%query, %key, %value, %out, %lse, %dout : !q, !k, !v, !o, !l, !o)
      outs(%dquery, %dkey, %dvalue : !q, !k, !v) mask(#attn.causal) -> !q, !k, !v
  return %0#0, %0#1, %0#2 : !q, !k, !v
}
