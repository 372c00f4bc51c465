// Padded sequences.
// attn-compile: --target=sm_90a
// attn-run: --values=cu_query=2:150,97 --values=cu_key=2:203,120

!q = tensor<?x8x?x64xbf16>
!k = tensor<?x2x?x64xbf16>
!v = tensor<?x2x?x64xbf16>
!o = tensor<?x8x?x64xbf16>
!l = tensor<?x8x?xf32>
func.func @gradient(%query: !q, %key: !k, %value: !v, %out: !o, %lse: !l, %dout: !o, %cu_query: tensor<?xi32>,
    %cu_key: tensor<?xi32>, %dquery: !q, %dkey: !k, %dvalue: !v) -> (!q, !k, !v) {
  %0:3 = attn.attention_grad ins(%query, %key, %value, %out, %lse, %dout : !q, !k, !v, !o, !l, !o)
      outs(%dquery, %dkey, %dvalue : !q, !k, !v)
      sequences padded(%cu_query, %cu_key : tensor<?xi32>, tensor<?xi32>) -> !q, !k, !v
  return %0#0, %0#1, %0#2 : !q, !k, !v
}
