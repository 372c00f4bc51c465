// A layer with dropout, whose keep mask each alternative generates at another place.
// attn-compile: --target=sm_90a --dropout=best
// attn-compile: --target=sm_90a --dropout=in-kernel
// attn-compile: --target=sm_90a --dropout=sequential
// attn-compile: --target=sm_90a --dropout=streams
// attn-compile: --target=sm_90a --dropout=fused
// attn-compile: --target=host --dropout=fused
// attn-compile: --target=sm_90a --dropout=streams --mask-budget=1000000
// attn-run: --fill=w=normal:0.03 --tolerance=4e-2

#dropout = #attn.dropout<p = 0.1, rng = #attn.arx>
!x = tensor<2048x1024xbf16>
!w = tensor<1024x1536xbf16>
!y = tensor<2048x1536xbf16>
!s = tensor<2048x512xbf16>
!p = tensor<1x2048x8x64xbf16>
!q = tensor<1x8x2048x64xbf16>
!l = tensor<1x8x2048xf32>
!state = tensor<i64>
func.func @layer(%x: !x, %w: !w, %seed: !state, %offset: !state, %dout: !q) -> (!q, !q, !q, !q) {
  %e = tensor.empty() : !y
  %y = attn.matmul ins(%x, %w : !x, !w) outs(%e : !y) -> !y
  %qs = tensor.extract_slice %y[0, 0] [2048, 512] [1, 1] : !y to !s
  %ks = tensor.extract_slice %y[0, 512] [2048, 512] [1, 1] : !y to !s
  %vs = tensor.extract_slice %y[0, 1024] [2048, 512] [1, 1] : !y to !s
  %qp = tensor.expand_shape %qs [[0, 1], [2, 3]] output_shape [1, 2048, 8, 64] : !s into !p
  %kp = tensor.expand_shape %ks [[0, 1], [2, 3]] output_shape [1, 2048, 8, 64] : !s into !p
  %vp = tensor.expand_shape %vs [[0, 1], [2, 3]] output_shape [1, 2048, 8, 64] : !s into !p
  %q = attn.permute %qp [0, 2, 1, 3] : !p -> !q
  %k = attn.permute %kp [0, 2, 1, 3] : !p -> !q
  %v = attn.permute %vp [0, 2, 1, 3] : !p -> !q
  %o = tensor.empty() : !q
  %m = tensor.empty() : !l
  %out, %lse = attn.attention ins(%q, %k, %v : !q, !q, !q) outs(%o, %m : !q, !l)
      mask(#attn.causal) dropout(#dropout, %seed, %offset : !state, !state) -> !q, !l
  %dq, %dk, %dv = attn.attention_grad ins(%q, %k, %v, %out, %lse, %dout : !q, !q, !q, !q, !l, !q)
      outs(%o, %o, %o : !q, !q, !q) mask(#attn.causal) dropout(#dropout, %seed, %offset : !state, !state) -> !q, !q, !q
  return %out, %dq, %dk, %dv : !q, !q, !q, !q
}
