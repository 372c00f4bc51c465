// A GEMM kernel that also generates a dropout keep mask.
// attn-compile: --target=sm_90a
// attn-compile: --target=host
// attn-run: --shape=size2=96 --shape=size3=96

#dropout = #attn.dropout<p = 0.1, rng = #attn.philox<rounds = 7>>
!x = tensor<?x256xbf16>
!w = tensor<512x256xbf16>
!y = tensor<?x512xbf16>
!words = tensor<?x4x?x?xi32>
!state = tensor<i64>
func.func @layer(%x: !x, %w: !w, %bias: tensor<512xf32>, %out: !y, %seed: !state, %offset: !state, %bits: !words)
    -> (!y, !words) {
  %0:2 = attn.overlap by fused {
    %1 = attn.matmul ins(%x, %w : !x, !w) outs(%out : !y) transpose_rhs epilogue {
    ^bb0(%sum: f32, %b: index, %i: index, %j: index):
      %2 = tensor.extract %bias[%j] : tensor<512xf32>
      %3 = arith.addf %sum, %2 : f32
      attn.yield %3 : f32
    } -> !y
    attn.overlap_yield %1 : !y
  } and {
    %1 = attn.dropout_mask columns by(#dropout, %seed, %offset : !state, !state)
        outs(%bits : !words) -> !words
    attn.overlap_yield %1 : !words
  } -> (!y, !words)
  return %0#0, %0#1 : !y, !words
}
