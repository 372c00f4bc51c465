func.func @attention(%q: tensor<1x2x32x16xf32>, %k: tensor<1x1x32x16xf32>, %v: tensor<1x1x32x16xf32>,
                     %sinks: tensor<2xf32>) -> (tensor<1x2x32x16xf32>, tensor<1x2x32xf32>) {
  %e = tensor.empty() : tensor<1x2x32x16xf32>
  %l = tensor.empty() : tensor<1x2x32xf32>
  %out, %lse = attn.attention ins(%q, %k, %v : tensor<1x2x32x16xf32>, tensor<1x1x32x16xf32>, tensor<1x1x32x16xf32>)
      outs(%e, %l : tensor<1x2x32x16xf32>, tensor<1x2x32xf32>) sinks(%sinks : tensor<2xf32>) mask(#attn.causal)
      -> tensor<1x2x32x16xf32>, tensor<1x2x32xf32>
  return %out, %lse : tensor<1x2x32x16xf32>, tensor<1x2x32xf32>
}
