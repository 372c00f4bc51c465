// A partial result, and queries, keys and values of 8 bits. GPUs before Hopper have no such kernels.
// attn-compile: --target=sm_90a
// attn-compile: --target=host

!q = tensor<?x8x?x64xf8E4M3FN>
!o = tensor<?x8x?x64xbf16>
!l = tensor<?x8x?xf32>
func.func @attention(%query: !q, %key: !q, %value: !q, %state_out: !o, %state_lse: !l, %out: !o, %lse: !l) -> (!o, !l) {
  %0:2 = attn.attention ins(%query, %key, %value : !q, !q, !q) outs(%out, %lse : !o, !l)
      state(%state_out, %state_lse : !o, !l) mask(#attn.causal) -> !o, !l
  return %0#0, %0#1 : !o, !l
}
