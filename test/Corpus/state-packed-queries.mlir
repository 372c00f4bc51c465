// A partial result of packed queries, whose KV splits are listed: tiles with one split begin with it in the kernel, other
// ones where splits are combined.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host
// attn-run: --shape=pages=12 --values=cu=4:0,1,90,150 --values=lengths=3:77,200,256
// attn-run: --values=table=3x4:11,3,7,1,0,2,4,9,8,5,10,6

!q = tensor<1x8x?x64xbf16>
!kv = tensor<?x2x64x64xbf16>
!l = tensor<1x8x?xf32>
func.func @attention(%query: !q, %key: !kv, %value: !kv, %state_out: !q, %state_lse: !l, %out: !q, %lse: !l,
    %cu: tensor<?xi32>, %lengths: tensor<?xi32>, %table: tensor<?x?xi32>) -> (!q, !l) {
  %0:2 = attn.attention ins(%query, %key, %value : !q, !kv, !kv) outs(%out, %lse : !q, !l)
      state(%state_out, %state_lse : !q, !l)
      sequences packed_queries(%cu, %lengths : tensor<?xi32>, tensor<?xi32>)
      page_table(%table : tensor<?x?xi32>) mask(#attn.causal) -> !q, !l
  return %0#0, %0#1 : !q, !l
}
