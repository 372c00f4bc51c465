func.func @dropout(%query: tensor<?x2x?x32xf32>, %key: tensor<?x1x?x32xf32>, %value: tensor<?x1x?x32xf32>, %seed: tensor<i64>, %offset: tensor<i64>)
    -> (tensor<?x2x?x32xf32>, tensor<?x2x?xf32>) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %b = tensor.dim %query, %c0 : tensor<?x2x?x32xf32>
  %n = tensor.dim %query, %c2 : tensor<?x2x?x32xf32>
  %o = tensor.empty(%b, %n) : tensor<?x2x?x32xf32>
  %l = tensor.empty(%b, %n) : tensor<?x2x?xf32>
  %r:2 = attn.attention
      ins(%query, %key, %value : tensor<?x2x?x32xf32>, tensor<?x1x?x32xf32>, tensor<?x1x?x32xf32>)
      outs(%o, %l : tensor<?x2x?x32xf32>, tensor<?x2x?xf32>)
      mask(#attn.causal)
      dropout(#attn.dropout<p = 0.125, rng = #attn.arx, bits = 8>, %seed, %offset : tensor<i64>, tensor<i64>)
      -> tensor<?x2x?x32xf32>, tensor<?x2x?xf32>
  return %r#0, %r#1 : tensor<?x2x?x32xf32>, tensor<?x2x?xf32>
}
