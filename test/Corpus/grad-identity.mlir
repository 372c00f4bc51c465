// Probabilities mixed with the identity.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-run: --fill=identity=uniform:0:1

!q = tensor<?x8x?x128xbf16>
!k = tensor<?x2x?x128xbf16>
!v = tensor<?x2x?x128xbf16>
!o = tensor<?x8x?x128xbf16>
!l = tensor<?x8x?xf32>
func.func @gradient(%query: !q, %key: !k, %value: !v, %out: !o, %lse: !l, %dout: !o, %identity: tensor<8xf32>,
    %dquery: !q, %dkey: !k, %dvalue: !v) -> (!q, !k, !v) {
  %0:3 = attn.attention_grad ins(%query, %key, %value, %out, %lse, %dout : !q, !k, !v, !o, !l, !o)
      outs(%dquery, %dkey, %dvalue : !q, !k, !v) identity(%identity : tensor<8xf32>) -> !q, !k, !v
  return %0#0, %0#1, %0#2 : !q, !k, !v
}
