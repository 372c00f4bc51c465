// Queries of bf16, and keys and values of 8 bits.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host

!q = tensor<?x16x?x64xbf16>
!kv = tensor<?x4x?x64xf8E5M2>

func.func @attention(%query: !q, %key: !kv, %value: !kv, %out: !q) -> !q {
  %0 = attn.attention ins(%query, %key, %value : !q, !kv, !kv) outs(%out : !q) mask(#attn.causal) -> !q
  return %0 : !q
}
