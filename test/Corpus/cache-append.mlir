// New keys and values for a contiguous cache, one for each sequence; some elements of keys are rotated.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host
// attn-run: --shape=keys=2x8x203x128 --shape=positions=203 --values=lengths=2:7,150

!kv = tensor<?x8x1x128xf16>
!cache = tensor<?x8x?x128xf16>
!angles = tensor<?x32xf16>
func.func @append(%key: !kv, %value: !kv, %lengths: tensor<?xi32>, %cos: !angles, %sin: !angles,
                  %keys: !cache, %values: !cache) -> (!cache, !cache) {
  %0:2 = attn.cache_append ins(%key, %value : !kv, !kv) outs(%keys, %values : !cache, !cache)
      key_lengths(%lengths : tensor<?xi32>) rotary(%cos, %sin : !angles, !angles) interleaved -> !cache, !cache
  return %0#0, %0#1 : !cache, !cache
}
