// Block-sparse attention.
// attn-compile: --target=sm_90a
// attn-compile: --target=host
// attn-run: --values=offsets=1x1x3:0,2,5 --values=indices=1x1x5:1,3,0,1,2

!q = tensor<?x8x?x128xbf16>
!k = tensor<?x2x?x128xbf16>
!v = tensor<?x2x?x128xbf16>
!o = tensor<?x8x?x128xbf16>
!l = tensor<?x8x?xf32>
!list = tensor<1x1x?xi32>
func.func @gradient(%query: !q, %key: !k, %value: !v, %out: !o, %lse: !l, %dout: !o, %offsets: !list, %indices: !list,
    %dquery: !q, %dkey: !k, %dvalue: !v) -> (!q, !k, !v) {
  %0:3 = attn.attention_grad ins(%query, %key, %value, %out, %lse, %dout : !q, !k, !v, !o, !l, !o)
      outs(%dquery, %dkey, %dvalue : !q, !k, !v)
      mask(#attn.block_sparse<rows = 128, columns = 64, offsets = 0, indices = 1>)
      reads(%offsets, %indices : !list, !list) -> !q, !k, !v
  return %0#0, %0#1, %0#2 : !q, !k, !v
}
