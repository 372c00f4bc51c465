// Dropout whose keep mask is read from memory.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host
// attn-run: --shape=bits=2x8x96x16 --fill=bits=uniform:-2147483648:2147483647

!q = tensor<?x8x?x128xbf16>
!k = tensor<?x2x?x128xbf16>
!v = tensor<?x2x?x128xbf16>
!o = tensor<?x8x?x128xbf16>
!bits = tensor<?x8x?x?xi32>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o, %bits: !bits) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o) mask(#attn.causal)
      dropout_mask rows(%bits : !bits) p(1.25e-01) -> !o
  return %0 : !o
}
