// New keys and values for a paged cache, with rotated keys and queries.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host
// attn-run: --shape=new_keys=5 --shape=queries=5 --shape=positions=203 --shape=pages=9 --values=lengths=2:0,150
// attn-run: --values=table=2x4:8,2,5,0,3,1,4,7

!q = tensor<?x8x?x64xbf16>
!kv = tensor<?x2x?x64xbf16>
!pages = tensor<?x2x64x64xbf16>
!angles = tensor<?x32xf32>
func.func @append(%key: !kv, %value: !kv, %lengths: tensor<?xi32>, %table: tensor<?x?xi32>, %cos: !angles,
                  %sin: !angles, %query: !q, %keys: !pages, %values: !pages, %rotated: !q, %next: tensor<?xi32>)
    -> (!pages, !pages, !q, tensor<?xi32>) {
  %0:4 = attn.cache_append ins(%key, %value : !kv, !kv) outs(%keys, %values : !pages, !pages)
      key_lengths(%lengths : tensor<?xi32>) new_lengths(%next : tensor<?xi32>) page_table(%table : tensor<?x?xi32>)
      rotary(%cos, %sin : !angles, !angles) query(%query into %rotated : !q, !q)
      -> !pages, !pages, !q, tensor<?xi32>
  return %0#0, %0#1, %0#2, %0#3 : !pages, !pages, !q, tensor<?xi32>
}
