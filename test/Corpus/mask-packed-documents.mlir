// Document masking by cumulative lengths.
// attn-compile: --target=sm_90a
// attn-compile: --target=host
// attn-run: --shape=queries=203 --values=bounds=1x3:0,70,203

!q = tensor<?x8x?x64xbf16>
!k = tensor<?x2x?x64xbf16>
!v = tensor<?x2x?x64xbf16>
!o = tensor<?x8x?x64xbf16>
!bounds = tensor<1x?xi32>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o, %bounds: !bounds) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o)
      mask(#attn.packed_documents<queries = 0, keys = 0>) reads(%bounds : !bounds) -> !o
  return %0 : !o
}
