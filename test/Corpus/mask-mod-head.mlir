// A mask_mod that depends on the head.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80

!q = tensor<?x8x?x64xf16>
!k = tensor<?x2x?x64xf16>
!v = tensor<?x2x?x64xf16>
!o = tensor<?x8x?x64xf16>
!reach = tensor<8xi32>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o, %reach: !reach) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o) mask_mod {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    %r = tensor.extract %reach[%h] : !reach
    %n = arith.index_cast %r : i32 to index
    %d = arith.subi %i, %j : index
    %near = arith.cmpi sle, %d, %n : index
    attn.yield %near : i1
  } -> !o
  return %0 : !o
}
