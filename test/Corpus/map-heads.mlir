// An elementwise function of heads.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host

!q = tensor<?x4x?x64xbf16>
func.func @map(%x: !q, %out: !q) -> !q {
  %0 = attn.map_heads ins(%x : !q) outs(%out : !q) {
  ^bb0(%e: f32, %square: f32, %b: index, %h: index, %i: index, %d: index):
    %r = math.rsqrt %square : f32
    %n = arith.mulf %e, %r : f32
    attn.yield %n : f32
  } -> !q
  return %0 : !q
}
