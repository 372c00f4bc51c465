// The gradient of 8-bit queries, keys and values with scales, and with a gradient of the output in 8 bits.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host

!q = tensor<?x8x?x64xf8E4M3FN>
!kv = tensor<?x2x?x64xf8E4M3FN>
!o = tensor<?x8x?x64xbf16>
!do = tensor<?x8x?x64xf8E5M2>
!l = tensor<?x8x?xf32>
!dq = tensor<?x8x?x64xf32>
!dkv = tensor<?x2x?x64xf32>
!scale = tensor<?x2xf32>

func.func @gradient(%query: !q, %key: !kv, %value: !kv, %score_scale: !scale, %out: !o, %lse: !l, %dout: !do,
    %dquery: !dq, %dkey: !dkv, %dvalue: !dkv) -> (!dq, !dkv, !dkv) {
  %0:3 = attn.attention_grad ins(%query, %key, %value, %out, %lse, %dout : !q, !kv, !kv, !o, !l, !do)
      outs(%dquery, %dkey, %dvalue : !dq, !dkv, !dkv) mask(#attn.causal)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %group = arith.constant 4 : index
        %key_head = arith.floordivsi %h, %group : index
        %scale = tensor.extract %score_scale[%b, %key_head] : !scale
        %scaled = arith.mulf %s, %scale : f32
        attn.yield %scaled : f32
      } score_mod_grad {
      ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index):
        %group = arith.constant 4 : index
        %key_head = arith.floordivsi %h, %group : index
        %scale = tensor.extract %score_scale[%b, %key_head] : !scale
        %scaled = arith.mulf %ds, %scale : f32
        attn.yield %scaled : f32
      } -> !dq, !dkv, !dkv
  return %0#0, %0#1, %0#2 : !dq, !dkv, !dkv
}
