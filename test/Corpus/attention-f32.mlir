// f32. GPUs split each factor into two tf32 values, since no precision is given.
// attn-compile: --target=host
// attn-compile: --target=sm_80
// attn-compile: --target=sm_90a

!q = tensor<?x2x?x64xf32>
!k = tensor<?x2x?x64xf32>
!v = tensor<?x2x?x64xf32>
!o = tensor<?x2x?x64xf32>
!l = tensor<?x2x?xf32>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o, %lse: !l) -> (!o, !l) {
  %0:2 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out, %lse : !o, !l) -> !o, !l
  return %0#0, %0#1 : !o, !l
}
