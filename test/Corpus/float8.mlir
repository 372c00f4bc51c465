// Queries, keys and values of 8 bits with scales. GPUs before Hopper have no such kernels.
// attn-compile: --target=sm_90a
// attn-compile: --target=host

!q = tensor<?x16x?x128xf8E4M3FN>
!kv = tensor<?x4x?x128xf8E4M3FN>
!scale = tensor<?x4xf32>
!out = tensor<?x16x?x128xbf16>
!lse = tensor<?x16x?xf32>

func.func @attention(%query: !q, %key: !kv, %value: !kv, %score_scale: !scale, %value_scale: !scale, %out: !out,
                     %lse: !lse) -> (!out, !lse) {
  %0:2 = attn.attention ins(%query, %key, %value : !q, !kv, !kv) outs(%out, %lse : !out, !lse) mask(#attn.causal)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %group = arith.constant 4 : index
        %key_head = arith.floordivsi %h, %group : index
        %scale = tensor.extract %score_scale[%b, %key_head] : !scale
        %scaled = arith.mulf %s, %scale : f32
        attn.yield %scaled : f32
      }
      epilogue {
      ^bb0(%x: f32, %b: index, %h: index, %i: index, %d: index):
        %group = arith.constant 4 : index
        %key_head = arith.floordivsi %h, %group : index
        %scale = tensor.extract %value_scale[%b, %key_head] : !scale
        %scaled = arith.mulf %x, %scale : f32
        attn.yield %scaled : f32
      } -> !out, !lse
  return %0#0, %0#1 : !out, !lse
}
