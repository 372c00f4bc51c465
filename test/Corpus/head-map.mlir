// Grouped-query attention whose groups differ in size.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host

!q = tensor<?x8x?x128xbf16>
!k = tensor<?x3x?x128xbf16>
!v = tensor<?x3x?x128xbf16>
!o = tensor<?x8x?x128xbf16>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o, %map: tensor<8xi32>) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o) heads(%map : tensor<8xi32>)
      mask(#attn.causal) -> !o
  return %0 : !o
}
