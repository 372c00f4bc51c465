// A small workspace for dQ.
// attn-compile: --target=sm_90a --dq-workspace-bytes=1000000

!q = tensor<1x8x4096x128xbf16>
!k = tensor<1x8x4096x128xbf16>
!v = tensor<1x8x4096x128xbf16>
!o = tensor<1x8x4096x128xbf16>
!l = tensor<1x8x4096xf32>
func.func @gradient(%query: !q, %key: !k, %value: !v, %out: !o, %lse: !l, %dout: !o, %dquery: !q, %dkey: !k, %dvalue: !v) -> (!q, !k, !v) {
  %0:3 = attn.attention_grad ins(%query, %key, %value, %out, %lse, %dout : !q, !k, !v, !o, !l, !o)
      outs(%dquery, %dkey, %dvalue : !q, !k, !v) -> !q, !k, !v
  return %0#0, %0#1, %0#2 : !q, !k, !v
}
