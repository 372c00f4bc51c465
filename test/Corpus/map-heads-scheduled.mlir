// An elementwise function of heads, with a schedule.
// attn-compile: --target=host

!q = tensor<?x4x?x40xf32>
func.func @map(%x: !q, %out: !q) -> !q {
  %0 = attn.map_heads ins(%x : !q) outs(%out : !q) schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64>) {
  ^bb0(%e: f32, %square: f32, %b: index, %h: index, %i: index, %d: index):
    %r = arith.addf %e, %square : f32
    attn.yield %r : f32
  } -> !q
  return %0 : !q
}
