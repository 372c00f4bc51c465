// A paged KV cache of 8 bits with scales of keys and values: the kernel that combines KV splits applies the latter.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host
// attn-run: --shape=pages=9 --values=lengths=2:61,33 --values=table=2x4:8,2,5,0,3,1,4,7

!q = tensor<?x8x1x128xbf16>
!kv = tensor<?x2x16x128xf8E4M3FN>
!scales = tensor<?x2xf32>
func.func @attention(%query: !q, %key: !kv, %value: !kv, %out: !q, %lengths: tensor<?xi32>, %table: tensor<?x?xi32>,
                     %of_keys: !scales, %of_values: !scales) -> !q {
  %group = arith.constant 4 : index
  %0 = attn.attention ins(%query, %key, %value : !q, !kv, !kv) outs(%out : !q)
      key_lengths(%lengths : tensor<?xi32>) page_table(%table : tensor<?x?xi32>) mask(#attn.causal)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %head = arith.floordivsi %h, %group : index
        %scale = tensor.extract %of_keys[%b, %head] : !scales
        %scaled = arith.mulf %s, %scale : f32
        attn.yield %scaled : f32
      } epilogue {
      ^bb0(%x: f32, %b: index, %h: index, %i: index, %d: index):
        %head = arith.floordivsi %h, %group : index
        %scale = tensor.extract %of_values[%b, %head] : !scales
        %scaled = arith.mulf %x, %scale : f32
        attn.yield %scaled : f32
      } -> !q
  return %0 : !q
}
