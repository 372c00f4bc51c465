// A decode step of the gated delta rule with a given schedule, with the state in place.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-run: --fill=decay=uniform:-2:0

!q = tensor<?x2x1x64xbf16>
!rows = tensor<?x2x1xf32>
!state = tensor<?x2x64x64xf32>
func.func @attention(%query: !q, %key: !q, %value: !q, %decay: !rows, %beta: !rows, %state: !state, %out: !q) -> (!q, !state) {
  %0:2 = attn.linear_attention ins(%query, %key, %value : !q, !q, !q) outs(%out, %state : !q, !state)
      log_decay(%decay : !rows) beta(%beta : !rows) initial_state(%state : !state) causal
      schedule(#attn_tile.linear_recurrent<value_tile = 8>) -> !q, !state
  return %0#0, %0#1 : !q, !state
}
