// f16, head dimension 64, multi-head attention.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host

!q = tensor<?x4x?x64xf16>
!k = tensor<?x4x?x64xf16>
!v = tensor<?x4x?x64xf16>
!o = tensor<?x4x?x64xf16>
!l = tensor<?x4x?xf32>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o, %lse: !l) -> (!o, !l) {
  %0:2 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out, %lse : !o, !l) -> !o, !l
  return %0#0, %0#1 : !o, !l
}
