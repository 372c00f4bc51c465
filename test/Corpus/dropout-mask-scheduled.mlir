// A dropout keep mask with a schedule.
// attn-compile: --target=sm_90a
// attn-run: --shape=size1=96 --shape=size2=96

!state = tensor<i64>
!words = tensor<?x8x?x?xi32>
func.func @rows(%seed: !state, %offset: !state, %out: !words) -> !words {
  %0 = attn.dropout_mask rows by(#attn.dropout<p = 0.125, rng = #attn.threefry>, %seed, %offset : !state, !state)
      outs(%out : !words) schedule(#attn_tile.scalar<warps = 4>) -> !words
  return %0 : !words
}
