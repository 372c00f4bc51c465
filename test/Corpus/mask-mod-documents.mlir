// A mask_mod that reads a tensor and is the same for all heads.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host

!q = tensor<?x8x?x128xbf16>
!k = tensor<?x2x?x128xbf16>
!v = tensor<?x2x?x128xbf16>
!o = tensor<?x8x?x128xbf16>
!ids = tensor<?x?xi32>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o, %ids: !ids) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o) mask(#attn.causal) mask_mod {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    %x = tensor.extract %ids[%b, %i] : !ids
    %y = tensor.extract %ids[%b, %j] : !ids
    %same = arith.cmpi eq, %x, %y : i32
    attn.yield %same : i1
  } -> !o
  return %0 : !o
}
