// The strategy of new keys and values for a contiguous cache.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-run: --shape=keys=2x2x203x64 --values=lengths=2:7,150

!kv = tensor<?x2x1x64xbf16>
!cache = tensor<?x2x?x64xbf16>
func.func @append(%key: !kv, %value: !kv, %lengths: tensor<?xi32>, %keys: !cache, %values: !cache) -> (!cache, !cache) {
  %0:2 = attn.cache_append ins(%key, %value : !kv, !kv) outs(%keys, %values : !cache, !cache)
      key_lengths(%lengths : tensor<?xi32>)
      schedule(#attn_tile.move_rows<chunks = 32, threads = 32, together = 1, aligned = true, loads_early = true>)
      -> !cache, !cache
  return %0#0, %0#1 : !cache, !cache
}
