// Linear attention without a mask.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host

!q = tensor<?x2x?x128xf16>
func.func @attention(%query: !q, %key: !q, %value: !q, %out: !q) -> !q {
  %0 = attn.linear_attention ins(%query, %key, %value : !q, !q, !q) outs(%out : !q) -> !q
  return %0 : !q
}
