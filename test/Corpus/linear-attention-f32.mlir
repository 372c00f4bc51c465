// Linear attention of f32 with a decay of each token and states, by tf32 MMAs.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host
// attn-run: --fill=decay=uniform:-2:0

!q = tensor<?x4x?x64xf32>
!k = tensor<?x2x?x64xf32>
!v = tensor<?x4x?x128xf32>
!rows = tensor<?x4x?xf32>
!state = tensor<?x4x64x128xf32>
func.func @attention(%query: !q, %key: !k, %value: !v, %decay: !rows, %before: !state, %out: !v, %after: !state)
    -> (!v, !state) {
  %0:2 = attn.linear_attention ins(%query, %key, %value : !q, !k, !v) outs(%out, %after : !v, !state)
      log_decay(%decay : !rows) initial_state(%before : !state) causal -> !v, !state
  return %0#0, %0#1 : !v, !state
}
