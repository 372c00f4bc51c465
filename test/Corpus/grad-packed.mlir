// Packed sequences.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host
// attn-run: --values=cu_query=4:0,70,70,150 --values=cu_key=4:0,100,140,203

!q = tensor<1x8x?x128xbf16>
!k = tensor<1x2x?x128xbf16>
!v = tensor<1x2x?x128xbf16>
!o = tensor<1x8x?x128xbf16>
!l = tensor<1x8x?xf32>
func.func @gradient(%query: !q, %key: !k, %value: !v, %out: !o, %lse: !l, %dout: !o, %cu_query: tensor<?xi32>,
    %cu_key: tensor<?xi32>, %dquery: !q, %dkey: !k, %dvalue: !v) -> (!q, !k, !v) {
  %0:3 = attn.attention_grad ins(%query, %key, %value, %out, %lse, %dout : !q, !k, !v, !o, !l, !o)
      outs(%dquery, %dkey, %dvalue : !q, !k, !v)
      sequences packed(%cu_query, %cu_key : tensor<?xi32>, tensor<?xi32>) mask(#attn.causal) -> !q, !k, !v
  return %0#0, %0#1, %0#2 : !q, !k, !v
}
