// The keep mask of a shard.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host
// attn-run: --shape=bits=2x8x96x96 --values=positions=6:64,128,1,8,300,400

!m = tensor<?x8x?x?xi32>
!p = tensor<6xi32>
func.func @mask(%bits: !m, %positions: !p, %seed: tensor<i64>, %offset: tensor<i64>) -> !m {
  %0 = attn.dropout_mask rows
      by(#attn.dropout<p = 0.125, rng = #attn.philox<rounds = 7>>, %seed, %offset : tensor<i64>, tensor<i64>)
      outs(%bits : !m) positions(%positions : !p) -> !m
  return %0 : !m
}
