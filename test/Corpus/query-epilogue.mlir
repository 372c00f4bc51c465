// An elementwise prologue of queries and an epilogue of the output.
// attn-compile: --target=sm_90a
// attn-compile: --target=host
// attn-run: --shape=gate=2x8x150x64

!q = tensor<?x8x?x64xbf16>
!k = tensor<?x2x?x64xbf16>
!v = tensor<?x2x?x64xbf16>
!o = tensor<?x8x?x64xbf16>
!gate = tensor<?x8x?x64xf32>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o, %gate: !gate) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o) query {
  ^bb0(%x: f32, %square: f32, %b: index, %h: index, %i: index, %d: index):
    %r = math.rsqrt %square : f32
    %y = arith.mulf %x, %r : f32
    attn.yield %y : f32
  } epilogue {
  ^bb0(%x: f32, %b: index, %h: index, %i: index, %d: index):
    %g = tensor.extract %gate[%b, %h, %i, %d] : !gate
    %y = arith.mulf %x, %g : f32
    attn.yield %y : f32
  } -> !o
  return %0 : !o
}
