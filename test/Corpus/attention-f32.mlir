// f32, which only the host supports.
// attn-compile: --target=host

!q = tensor<?x2x?x64xf32>
!k = tensor<?x2x?x64xf32>
!v = tensor<?x2x?x64xf32>
!o = tensor<?x2x?x64xf32>
!l = tensor<?x2x?xf32>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o, %lse: !l) -> (!o, !l) {
  %0:2 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out, %lse : !o, !l) -> !o, !l
  return %0#0, %0#1 : !o, !l
}
