// Attention on memrefs, a schedule by query length, and a device with its own clock.
// attn-compile: --target=sm_90a

#short = #attn_tile.warp_specialized<query_tile = 64, key_tile = 128, stages = 2, consumers = 1>
#long = #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2, ping_pong = true>
!q = memref<?x4x?x128xbf16>
module attributes {attn.device = #attn.device<"h200", clock_mhz = 1500>} {
  func.func @attention(%query: !q, %key: !q, %value: !q, %out: !q) {
    attn.attention ins(%query, %key, %value : !q, !q, !q) outs(%out : !q)
        schedule(#attn.by_query_length<bound = 1024, below = #short, from = #long>)
    return
  }
}
