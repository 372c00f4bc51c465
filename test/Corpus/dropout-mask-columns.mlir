// Dropout whose keep mask is read from memory, in the layout of the gradient.
// attn-compile: --target=sm_90a
// attn-run: --shape=bits=2x8x16x96 --fill=bits=uniform:-2147483648:2147483647

!q = tensor<?x8x?x64xf16>
!k = tensor<?x2x?x64xf16>
!v = tensor<?x2x?x64xf16>
!o = tensor<?x8x?x64xf16>
!bits = tensor<?x8x?x?xi32>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o, %bits: !bits) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o)
      dropout_mask columns(%bits : !bits) p(1.25e-01) -> !o
  return %0 : !o
}
