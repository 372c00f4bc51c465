// The gradient of the gated delta rule of f32 with states, on GPUs.
// attn-opt: --attn-differentiate="function=attention mode=combined"
// attn-opt: --symbol-privatize=exclude=attention_grad
// attn-opt: --symbol-dce
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-run: --fill=arg3=uniform:-2:0

!q = tensor<?x4x?x128xf32>
!rows = tensor<?x4x?xf32>
!state = tensor<?x4x128x128xf32>
func.func @attention(%query: !q, %key: !q, %value: !q, %decay: !rows, %beta: !rows, %before: !state, %out: !q,
                     %after: !state) -> (!q, !state) {
  %0:2 = attn.linear_attention ins(%query, %key, %value : !q, !q, !q) outs(%out, %after : !q, !state)
      log_decay(%decay : !rows) beta(%beta : !rows) initial_state(%before : !state) causal -> !q, !state
  return %0#0, %0#1 : !q, !state
}
