// Queries, keys and values of both 8-bit formats. GPUs before Hopper have no such kernels.
// attn-compile: --target=sm_90a
// attn-compile: --target=host

!q = tensor<?x8x?x64xf8E5M2>
!k = tensor<?x2x?x64xf8E4M3FN>
!v = tensor<?x2x?x64xf8E5M2>
!out = tensor<?x8x?x64xbf16>

func.func @attention(%query: !q, %key: !k, %value: !v, %out: !out) -> !out {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !out) mask(#attn.causal) -> !out
  return %0 : !out
}
