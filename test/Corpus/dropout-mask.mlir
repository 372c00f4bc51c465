// Kernels that generate dropout keep masks, for all heads and for some.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host
// attn-run: --shape=size1=96 --shape=size2=96

!words = tensor<?x8x?x?xi32>
!some = tensor<?x2x?x?xi32>
!state = tensor<i64>
func.func @rows(%seed: !state, %offset: !state, %out: !words) -> !words {
  %0 = attn.dropout_mask rows by(#attn.dropout<p = 0.125, rng = #attn.philox>, %seed, %offset : !state, !state)
      outs(%out : !words) -> !words
  return %0 : !words
}
func.func @columns(%seed: !state, %offset: !state, %out: !some) -> !some {
  %0 = attn.dropout_mask columns by(#attn.dropout<p = 0.1, rng = #attn.arx>, %seed, %offset : !state, !state)
      outs(%out : !some) from_head(3) -> !some
  return %0 : !some
}
