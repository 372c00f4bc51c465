// A partial result, and queries, keys and values in f32, for a wide head dim.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host

!q = tensor<?x2x?x256xf32>
!l = tensor<?x2x?xf32>
func.func @attention(%query: !q, %key: !q, %value: !q, %state_out: !q, %state_lse: !l, %out: !q) -> !q {
  %0 = attn.attention ins(%query, %key, %value : !q, !q, !q) outs(%out : !q) state(%state_out, %state_lse : !q, !l) -> !q
  return %0 : !q
}
