// Two stages of keys, and the next work item prefetched.
// attn-compile: --target=sm_90a

!q = tensor<?x4x?x64xbf16>
!k = tensor<?x4x?x64xbf16>
!v = tensor<?x4x?x64xbf16>
!o = tensor<?x4x?x64xbf16>
!l = tensor<?x4x?xf32>
func.func @gradient(%query: !q, %key: !k, %value: !v, %out: !o, %lse: !l, %dout: !o, %dquery: !q, %dkey: !k, %dvalue: !v) -> (!q, !k, !v) {
  %0:3 = attn.attention_grad ins(%query, %key, %value, %out, %lse, %dout : !q, !k, !v, !o, !l, !o)
      outs(%dquery, %dkey, %dvalue : !q, !k, !v) mask(#attn.causal) schedule(#attn_tile.gradient<
          preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
          dkdv = #attn_tile.key_stationary<query_tile = 128, key_tile = 128, stages = 4, consumers = 2,
              traversal = paired, pipelined = true, query_parts = 2, lhs_registers = true, key_stages = 2, prefetch_work_item = true>>)
      -> !q, !k, !v
  return %0#0, %0#1, %0#2 : !q, !k, !v
}
