// One query that goes on from a partial result, with an epilogue: the kernel that combines KV splits begins with it.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host

!q = tensor<?x8x1x128xbf16>
!k = tensor<?x2x?x128xbf16>
!s = tensor<?x8x1x128xf32>
!l = tensor<?x8x1xf32>
func.func @attention(%query: !q, %key: !k, %value: !k, %state_out: !s, %state_lse: !l, %out: !q, %lse: !l) -> (!q, !l) {
  %0:2 = attn.attention ins(%query, %key, %value : !q, !k, !k) outs(%out, %lse : !q, !l)
      state(%state_out, %state_lse : !s, !l)
      epilogue {
      ^bb0(%x: f32, %b: index, %h: index, %i: index, %d: index):
        %y = math.tanh %x : f32
        attn.yield %y : f32
      } -> !q, !l
  return %0#0, %0#1 : !q, !l
}
