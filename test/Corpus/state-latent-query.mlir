// A partial result of one query of a latent, for tiles of the head dim and split-KV.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80

!q = tensor<?x16x1x576xbf16>
!k = tensor<?x1x?x576xbf16>
!v = tensor<?x1x?x512xbf16>
!o = tensor<?x16x1x512xbf16>
!l = tensor<?x16x1xf32>
func.func @attention(%query: !q, %key: !k, %value: !v, %state_out: !o, %state_lse: !l, %out: !o, %lse: !l) -> (!o, !l) {
  %0:2 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out, %lse : !o, !l)
      state(%state_out, %state_lse : !o, !l) -> !o, !l
  return %0#0, %0#1 : !o, !l
}
