// Values that are the first elements of keys, as in multi-head latent attention.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host

!q = tensor<?x16x1x576xbf16>
!k = tensor<?x1x?x576xbf16>
!v = tensor<?x1x?x512xbf16>
!o = tensor<?x16x1x512xbf16>
func.func @decode(%query: !q, %key: !k, %out: !o) -> !o {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %batch = tensor.dim %key, %c0 : !k
  %keys = tensor.dim %key, %c2 : !k
  %value = tensor.extract_slice %key[0, 0, 0, 0] [%batch, 1, %keys, 512] [1, 1, 1, 1] : !k to !v
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o) -> !o
  return %0 : !o
}

!p = tensor<?x1x64x576xbf16>
!w = tensor<?x1x64x512xbf16>
func.func @decode_pages(%query: !q, %key: !p, %lengths: tensor<?xi32>, %table: tensor<?x?xi32>, %out: !o) -> !o {
  %c0 = arith.constant 0 : index
  %pages = tensor.dim %key, %c0 : !p
  %value = tensor.extract_slice %key[0, 0, 0, 0] [%pages, 1, 64, 512] [1, 1, 1, 1] : !p to !w
  %0 = attn.attention ins(%query, %key, %value : !q, !p, !w) outs(%out : !o) key_lengths(%lengths : tensor<?xi32>)
      page_table(%table : tensor<?x?xi32>) -> !o
  return %0 : !o
}

!qs = tensor<?x4x?x576xbf16>
!os = tensor<?x4x?x512xbf16>
func.func @prefill(%query: !qs, %key: !k, %out: !os) -> !os {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %batch = tensor.dim %key, %c0 : !k
  %keys = tensor.dim %key, %c2 : !k
  %value = tensor.extract_slice %key[0, 0, 0, 0] [%batch, 1, %keys, 512] [1, 1, 1, 1] : !k to !v
  %0 = attn.attention ins(%query, %key, %value : !qs, !k, !v) outs(%out : !os) mask(#attn.causal) -> !os
  return %0 : !os
}
