// Tree attention: each node attends to its ancestors.
// attn-compile: --target=sm_90a
// attn-compile: --target=host
// attn-run: --fill=parents=const:-1

!q = tensor<?x8x?x128xbf16>
!k = tensor<?x2x?x128xbf16>
!v = tensor<?x2x?x128xbf16>
!o = tensor<?x8x?x128xbf16>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o, %parents: tensor<?x?xi32>) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o) mask(#attn.tree<parents = 0>)
      reads(%parents : tensor<?x?xi32>) -> !o
  return %0 : !o
}
