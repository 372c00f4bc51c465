// Linear attention with a decay for each token and head, and states, whose queries share key heads.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host
// attn-run: --fill=decay=uniform:-2:0

!q = tensor<?x4x?x64xbf16>
!k = tensor<?x2x?x64xbf16>
!v = tensor<?x2x?x128xbf16>
!o = tensor<?x4x?x128xbf16>
!rows = tensor<?x4x?xf32>
!state = tensor<?x4x64x128xf32>
func.func @attention(%query: !q, %key: !k, %value: !v, %decay: !rows, %before: !state, %out: !o,
                     %after: !state) -> (!o, !state) {
  %0:2 = attn.linear_attention ins(%query, %key, %value : !q, !k, !v) outs(%out, %after : !o, !state)
      log_decay(%decay : !rows) initial_state(%before : !state) causal -> !o, !state
  return %0#0, %0#1 : !o, !state
}
