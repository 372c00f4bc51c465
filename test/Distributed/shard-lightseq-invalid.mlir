// RUN: attn-opt %s --attn-shard-attention="method=lightseq ranks=4" --verify-diagnostics

!t = tensor<1x2x64x16xf32>
!l = tensor<1x2x64xf32>
!b = tensor<2x64xf32>
func.func @captures_of_gradient(%q: !t, %k: !t, %v: !t, %out: !t, %lse: !l, %bias: !b, %zero: !b) -> (!t, !t, !t, !b) {
  // expected-error @below {{'attn.attention_grad' op with 'dcaptures' cannot be distributed over ranks by 'lightseq', but by 'ring', 'zigzag', 'striped', 'allgather', 'ulysses' or 'usp'}}
  %0:4 = attn.attention_grad ins(%q, %k, %v, %out, %lse, %out : !t, !t, !t, !t, !l, !t)
      outs(%q, %k, %v, %zero : !t, !t, !t, !b)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %x = tensor.extract %bias[%h, %j] : !b
        %r = arith.addf %s, %x : f32
        attn.yield %r : f32
      } score_mod_grad {
      ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index, %db: !b):
        attn.accumulate %ds into %db[%h, %j] : !b
        attn.yield %ds : f32
      } -> !t, !t, !t, !b
  return %0#0, %0#1, %0#2, %0#3 : !t, !t, !t, !b
}
