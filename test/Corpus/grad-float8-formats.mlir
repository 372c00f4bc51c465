// The gradient of queries, keys and values of both 8-bit formats, packed, with results of bf16.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host
// attn-run: --shape=batch=1 --values=cu_query=3:0,70,150 --values=cu_key=3:0,110,203

!q = tensor<1x4x?x128xf8E5M2>
!k = tensor<1x4x?x128xf8E4M3FN>
!v = tensor<1x4x?x128xf8E5M2>
!o = tensor<1x4x?x128xbf16>
!l = tensor<1x4x?xf32>

func.func @gradient(%query: !q, %key: !k, %value: !v, %out: !o, %lse: !l, %dout: !o, %cu_query: tensor<?xi32>,
    %cu_key: tensor<?xi32>, %dquery: !o, %dkey: !o, %dvalue: !o) -> (!o, !o, !o) {
  %0:3 = attn.attention_grad ins(%query, %key, %value, %out, %lse, %dout : !q, !k, !v, !o, !l, !o)
      outs(%dquery, %dkey, %dvalue : !o, !o, !o)
      sequences packed(%cu_query, %cu_key : tensor<?xi32>, tensor<?xi32>) -> !o, !o, !o
  return %0#0, %0#1, %0#2 : !o, !o, !o
}
