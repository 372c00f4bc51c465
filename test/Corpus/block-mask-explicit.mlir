// A block mask that the module creates, and attention that reads it.
// attn-compile: --target=sm_90a
// attn-run: --shape=block_mask=2x1x2x6

#schedule = #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2, ping_pong = true>
!q = tensor<?x4x?x64xbf16>
!ids = tensor<?x?xi32>
!plan = tensor<?x1x?x?xi32>
func.func @attention(%query: !q, %key: !q, %value: !q, %out: !q, %ids: !ids, %block_mask: !plan) -> !q {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %batch = tensor.dim %query, %c0 : !q
  %queries = tensor.dim %query, %c2 : !q
  %keys = tensor.dim %key, %c2 : !q
  %found = attn.create_block_mask sizes(%batch, %queries, %keys) outs(%block_mask : !plan) mask(#attn.causal) schedule(#schedule) mask_mod {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    %x = tensor.extract %ids[%b, %i] : !ids
    %y = tensor.extract %ids[%b, %j] : !ids
    %same = arith.cmpi eq, %x, %y : i32
    attn.yield %same : i1
  } -> !plan
  %0 = attn.attention ins(%query, %key, %value : !q, !q, !q) outs(%out : !q) mask(#attn.causal)
      block_mask(%found : !plan) schedule(#schedule) mask_mod {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    %x = tensor.extract %ids[%b, %i] : !ids
    %y = tensor.extract %ids[%b, %j] : !ids
    %same = arith.cmpi eq, %x, %y : i32
    attn.yield %same : i1
  } -> !q
  return %0 : !q
}
