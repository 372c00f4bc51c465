// A mask bitmap that a kernel computes before attention.
// attn-compile: --target=sm_90a

!q = tensor<?x8x?x128xbf16>
!k = tensor<?x2x?x128xbf16>
!v = tensor<?x2x?x128xbf16>
!o = tensor<?x8x?x128xbf16>
!ids = tensor<?x?xi32>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o, %ids: !ids) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o)
      schedule(#attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2,
          ping_pong = true, mask_bits = true>) mask_mod {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    %x = tensor.extract %ids[%b, %i] : !ids
    %y = tensor.extract %ids[%b, %j] : !ids
    %same = arith.cmpi eq, %x, %y : i32
    attn.yield %same : i1
  } -> !o
  return %0 : !o
}
