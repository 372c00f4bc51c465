// The gradient of attention that goes on from a partial result.
// attn-opt: --attn-differentiate="function=attention mode=combined arguments=0,1,2,3,4"
// attn-opt: --symbol-privatize=exclude=attention_grad
// attn-opt: --symbol-dce
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host

!q = tensor<?x8x?x64xbf16>
!k = tensor<?x2x?x64xbf16>
!l = tensor<?x8x?xf32>
func.func @attention(%query: !q, %key: !k, %value: !k, %state_out: !q, %state_lse: !l, %out: !q, %lse: !l) -> (!q, !l) {
  %0:2 = attn.attention ins(%query, %key, %value : !q, !k, !k) outs(%out, %lse : !q, !l)
      state(%state_out, %state_lse : !q, !l) mask(#attn.causal) -> !q, !l
  return %0#0, %0#1 : !q, !l
}
