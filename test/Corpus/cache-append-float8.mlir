// An append to a paged KV cache of 8 bits with scales.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host
// attn-run: --shape=pages=9 --values=lengths=2:61,33 --values=table=2x5:8,2,5,0,3,1,4,7,6,0

!new = tensor<?x2x1x128xbf16>
!cache = tensor<?x2x16x128xf8E4M3FN>
!scales = tensor<?x2xf32>
func.func @append(%key: !new, %value: !new, %key_cache: !cache, %value_cache: !cache, %lengths: tensor<?xi32>,
                  %table: tensor<?x?xi32>, %of_keys: !scales, %of_values: !scales) -> (!cache, !cache) {
  %0:2 = attn.cache_append ins(%key, %value : !new, !new) outs(%key_cache, %value_cache : !cache, !cache)
      key_lengths(%lengths : tensor<?xi32>) page_table(%table : tensor<?x?xi32>)
      scales(%of_keys, %of_values : !scales, !scales) -> !cache, !cache
  return %0#0, %0#1 : !cache, !cache
}
