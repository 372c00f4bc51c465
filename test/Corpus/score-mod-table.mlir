// A relative position bias from a table of distances.
// attn-compile: --target=sm_90a
// attn-compile: --target=host

!q = tensor<?x8x?x128xbf16>
!k = tensor<?x2x?x128xbf16>
!v = tensor<?x2x?x128xbf16>
!o = tensor<?x8x?x128xbf16>
!table = tensor<8x401xf32>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o, %table: !table) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o) score_mod {
  ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
    %low = arith.constant -200 : index
    %high = arith.constant 200 : index
    %d = arith.subi %j, %i : index
    %a = arith.maxsi %d, %low : index
    %c = arith.minsi %a, %high : index
    %p = arith.addi %c, %high : index
    %x = tensor.extract %table[%h, %p] : !table
    %r = arith.addf %s, %x : f32
    attn.yield %r : f32
  } -> !o
  return %0 : !o
}
