// A draft of a tree of eight nodes behind the cached keys, in pages.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host
// attn-run: --shape=pages=9 --values=lengths=2:256,170 --values=table=2x4:8,2,5,0,3,1,4,7 --fill=parents=const:-1

!q = tensor<?x8x8x64xbf16>
!kv = tensor<?x2x64x64xbf16>
func.func @attention(%query: !q, %key: !kv, %value: !kv, %out: !q, %lengths: tensor<?xi32>, %table: tensor<?x?xi32>,
                     %parents: tensor<?x8xi32>) -> !q {
  %0 = attn.attention ins(%query, %key, %value : !q, !kv, !kv) outs(%out : !q)
      key_lengths(%lengths : tensor<?xi32>) page_table(%table : tensor<?x?xi32>)
      mask(#attn.tree<parents = 0>) reads(%parents : tensor<?x8xi32>) -> !q
  return %0 : !q
}
