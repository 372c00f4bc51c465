// Two attentions that share a block mask, which the function or its caller makes.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_90a --explicit-block-masks
// attn-compile: --target=host
// attn-run: --values=offsets=1x1x3:0,1,3 --values=indices=1x1x3:1,0,1 --shape=block_mask=2x1x2x6
// attn-run: --shape=block_mask1=2x1x2x6 --shape=key=2x2x203x128 --shape=value=2x2x203x128 --shape=a=2x8x150x128
// attn-run: --shape=b=2x8x150x128

!q = tensor<?x8x?x128xbf16>
!k = tensor<?x2x?x128xbf16>
!list = tensor<1x1x?xi32>
func.func @layers(%query: !q, %key: !k, %value: !k, %offsets: !list, %indices: !list, %a: !q, %b: !q) -> (!q, !q) {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !k) outs(%a : !q)
      mask(#attn.block_sparse<rows = 128, columns = 128, offsets = 0, indices = 1>) reads(%offsets, %indices : !list, !list)
      -> !q
  %1 = attn.attention ins(%0, %key, %value : !q, !k, !k) outs(%b : !q)
      mask(#attn.block_sparse<rows = 128, columns = 128, offsets = 0, indices = 1>) reads(%offsets, %indices : !list, !list)
      -> !q
  return %0, %1 : !q, !q
}
