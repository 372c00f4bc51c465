// Multistage kernels: all warps copy and compute.
// attn-compile: --target=sm_80

!q = tensor<?x8x?x128xbf16>
!k = tensor<?x2x?x128xbf16>
!v = tensor<?x2x?x128xbf16>
!o = tensor<?x8x?x128xbf16>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o) mask(#attn.causal)
      schedule(#attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 4>) -> !o
  return %0 : !o
}
