// The gradient of queries of f16, and keys and values of 8 bits.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host

!q = tensor<?x8x?x64xf16>
!kv = tensor<?x2x?x64xf8E5M2>
!l = tensor<?x8x?xf32>
!dkv = tensor<?x2x?x64xf32>

func.func @gradient(%query: !q, %key: !kv, %value: !kv, %out: !q, %lse: !l, %dout: !q, %dquery: !q, %dkey: !dkv,
    %dvalue: !dkv) -> (!q, !dkv, !dkv) {
  %0:3 = attn.attention_grad ins(%query, %key, %value, %out, %lse, %dout : !q, !kv, !kv, !q, !l, !q)
      outs(%dquery, %dkey, %dvalue : !q, !dkv, !dkv) mask(#attn.causal) -> !q, !dkv, !dkv
  return %0#0, %0#1, %0#2 : !q, !dkv, !dkv
}
