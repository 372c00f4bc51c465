// A window that leaves one key tile, as the compiler knows, and a score_mod with a constant of 0.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host

!q = tensor<?x3x8x32xf16>
!k = tensor<?x1x?x32xf16>
!v = tensor<?x1x?x64xf16>
!o = tensor<?x3x8x64xf16>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o)
      mask(#attn.sliding_window<right = 15, alignment = top_left>) score_mod {
  ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
    %zero = arith.constant 0.0 : f32
    %quotient = arith.divf %zero, %s : f32
    %floor = math.floor %quotient : f32
    attn.yield %floor : f32
  } -> !o
  return %0 : !o
}
