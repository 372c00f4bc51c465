func.func @mask(%seed: tensor<i64>, %offset: tensor<i64>, %words: tensor<1x4x32x4xi32>,
                %q: tensor<1x4x32x64xf32>) -> (tensor<1x4x32x4xi32>, tensor<1x4x32x64xf32>) {
  %m = attn.dropout_mask rows by(#attn.dropout<p = 0.5, rng = #attn.arx>, %seed, %offset : tensor<i64>, tensor<i64>)
      outs(%words : tensor<1x4x32x4xi32>) -> tensor<1x4x32x4xi32>
  %e = tensor.empty() : tensor<1x4x32x64xf32>
  %a = attn.attention
      ins(%q, %q, %q : tensor<1x4x32x64xf32>, tensor<1x4x32x64xf32>, tensor<1x4x32x64xf32>)
      outs(%e : tensor<1x4x32x64xf32>) -> tensor<1x4x32x64xf32>
  return %m, %a : tensor<1x4x32x4xi32>, tensor<1x4x32x64xf32>
}
