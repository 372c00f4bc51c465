// The gradient of the gated delta rule with states, whose queries share key heads.
// attn-opt: --attn-differentiate="function=attention mode=combined"
// attn-opt: --symbol-privatize=exclude=attention_grad
// attn-opt: --symbol-dce
// attn-compile: --target=host
// attn-run: --fill=arg3=uniform:-2:0

!q = tensor<?x4x?x64xbf16>
!k = tensor<?x2x?x64xbf16>
!rows = tensor<?x4x?xf32>
!state = tensor<?x4x64x64xf32>
func.func @attention(%query: !q, %key: !k, %value: !k, %decay: !rows, %beta: !rows, %before: !state, %out: !q,
                     %after: !state) -> (!q, !state) {
  %0:2 = attn.linear_attention ins(%query, %key, %value : !q, !k, !k) outs(%out, %after : !q, !state)
      log_decay(%decay : !rows) beta(%beta : !rows) initial_state(%before : !state) causal chunk(32) -> !q, !state
  return %0#0, %0#1 : !q, !state
}
