// Gated linear attention, a decay of each key element, with shared key heads and states.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host
// attn-run: --fill=decay=uniform:-2:0

!q = tensor<?x4x?x64xbf16>
!k = tensor<?x2x?x64xbf16>
!v = tensor<?x4x?x128xbf16>
!elements = tensor<?x4x?x64xf32>
!state = tensor<?x4x64x128xf32>
func.func @attention(%query: !q, %key: !k, %value: !v, %decay: !elements, %before: !state, %out: !v,
                     %after: !state) -> (!v, !state) {
  %0:2 = attn.linear_attention ins(%query, %key, %value : !q, !k, !v) outs(%out, %after : !v, !state)
      log_decay(%decay : !elements) initial_state(%before : !state) causal -> !v, !state
  return %0#0, %0#1 : !v, !state
}
