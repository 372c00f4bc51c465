// A partial result in f32, with sinks and dropout, which are of the keys that are added.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host

!q = tensor<?x4x?x64xf16>
!s = tensor<?x4x?x64xf32>
!l = tensor<?x4x?xf32>
func.func @attention(%query: !q, %key: !q, %value: !q, %state_out: !s, %state_lse: !l, %sinks: tensor<4xf32>,
    %seed: tensor<i64>, %offset: tensor<i64>, %out: !q, %lse: !l) -> (!q, !l) {
  %0:2 = attn.attention ins(%query, %key, %value : !q, !q, !q) outs(%out, %lse : !q, !l)
      state(%state_out, %state_lse : !s, !l) sinks(%sinks : tensor<4xf32>)
      mask(#attn.sliding_window<left = 100, right = 0>)
      dropout(#attn.dropout<p = 0.125, rng = #attn.arx>, %seed, %offset : tensor<i64>, tensor<i64>) -> !q, !l
  return %0#0, %0#1 : !q, !l
}
