// Block-sparse attention with lists of blocks for each head.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-run: --values=offsets=1x8x3:0,2,5 --values=indices=1x8x5:1,3,0,1,2

!q = tensor<?x8x?x128xbf16>
!k = tensor<?x2x?x128xbf16>
!v = tensor<?x2x?x128xbf16>
!o = tensor<?x8x?x128xbf16>
!list = tensor<1x8x?xi32>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o, %offsets: !list, %indices: !list) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o)
      mask(#attn.block_sparse<rows = 128, columns = 64, offsets = 0, indices = 1>)
      reads(%offsets, %indices : !list, !list) -> !o
  return %0 : !o
}
