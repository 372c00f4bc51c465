// Queries, keys and values of the 8-bit format with the larger range. GPUs before Hopper have no such kernels.
// attn-compile: --target=sm_90a
// attn-compile: --target=host

!q = tensor<?x8x?x128xf8E5M2>
!kv = tensor<?x8x?x128xf8E5M2>
!out = tensor<?x8x?x128xf16>
!lse = tensor<?x8x?xf32>

func.func @attention(%query: !q, %key: !kv, %value: !kv, %out: !out, %lse: !lse) -> (!out, !lse) {
  %0:2 = attn.attention ins(%query, %key, %value : !q, !kv, !kv) outs(%out, %lse : !out, !lse) -> !out, !lse
  return %0#0, %0#1 : !out, !lse
}
