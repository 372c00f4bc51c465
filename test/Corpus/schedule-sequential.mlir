// The schedule of the host.
// attn-compile: --target=host

!q = tensor<?x4x?x64xf32>
!k = tensor<?x2x?x64xf32>
!v = tensor<?x2x?x64xf32>
!o = tensor<?x4x?x64xf32>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o)
      schedule(#attn_tile.sequential<query_tile = 8, key_tile = 32>) -> !o
  return %0 : !o
}
