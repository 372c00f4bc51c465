// Padded sequences.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host
// attn-run: --values=n_query=2:150,97 --values=n_key=2:203,120

!q = tensor<?x8x?x64xbf16>
!k = tensor<?x2x?x64xbf16>
!v = tensor<?x2x?x64xbf16>
!o = tensor<?x8x?x64xbf16>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o, %n_query: tensor<?xi32>, %n_key: tensor<?xi32>) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o)
      sequences padded(%n_query, %n_key : tensor<?xi32>, tensor<?xi32>) -> !o
  return %0 : !o
}
