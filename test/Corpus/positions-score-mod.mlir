// A shard of attention with a sliding window and linear biases by head.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host
// attn-run: --values=positions=6:64,128,1,8,300,400

!q = tensor<?x8x?x64xbf16>
!k = tensor<?x2x?x64xbf16>
!v = tensor<?x2x?x64xbf16>
!o = tensor<?x8x?x64xbf16>
!l = tensor<?x8x?xf32>
!p = tensor<6xi32>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o, %lse: !l, %positions: !p) -> (!o, !l) {
  %0:2 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out, %lse : !o, !l)
      positions(%positions : !p) mask(#attn.sliding_window<left = 100, right = 0>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %factor = arith.constant 1.0e-3 : f32
        %distance = arith.subi %j, %i : index
        %by_head = arith.muli %distance, %h : index
        %int = arith.index_cast %by_head : index to i32
        %float = arith.sitofp %int : i32 to f32
        %x = arith.mulf %float, %factor : f32
        %r = arith.addf %s, %x : f32
        attn.yield %r : f32
      } -> !o, !l
  return %0#0, %0#1 : !o, !l
}
