func.func @documents(%query: tensor<?x2x?x32xf32>, %key: tensor<?x1x?x32xf32>, %value: tensor<?x1x?x32xf32>, %ids: tensor<?x?xi32>, %key_ids: tensor<1x?xi32>)
    -> tensor<?x2x?x32xf32> {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %b = tensor.dim %query, %c0 : tensor<?x2x?x32xf32>
  %n = tensor.dim %query, %c2 : tensor<?x2x?x32xf32>
  %o = tensor.empty(%b, %n) : tensor<?x2x?x32xf32>
  %r = attn.attention
      ins(%query, %key, %value : tensor<?x2x?x32xf32>, tensor<?x1x?x32xf32>, tensor<?x1x?x32xf32>)
      outs(%o : tensor<?x2x?x32xf32>) mask(#attn.documents<queries = 0, keys = 1>)
      reads(%ids, %key_ids : tensor<?x?xi32>, tensor<1x?xi32>) -> tensor<?x2x?x32xf32>
  return %r : tensor<?x2x?x32xf32>
}
