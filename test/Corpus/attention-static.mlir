// Static sizes.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host

!q = tensor<2x4x512x128xbf16>
!k = tensor<2x4x512x128xbf16>
!v = tensor<2x4x512x128xbf16>
!o = tensor<2x4x512x128xbf16>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o) -> !o
  return %0 : !o
}
