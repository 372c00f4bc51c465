// A mask_mod that reads positions only.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host

!q = tensor<?x8x?x64xbf16>
!k = tensor<?x2x?x64xbf16>
!v = tensor<?x2x?x64xbf16>
!o = tensor<?x8x?x64xbf16>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o) mask_mod {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    %period = arith.constant 512 : index
    %length = arith.constant 200 : index
    %m = arith.remui %j, %period : index
    %near = arith.cmpi slt, %m, %length : index
    %before = arith.cmpi sle, %j, %i : index
    %r = arith.andi %near, %before : i1
    attn.yield %r : i1
  } -> !o
  return %0 : !o
}
