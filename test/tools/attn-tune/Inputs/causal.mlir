func.func @causal(%query: tensor<?x2x?x16xf32>, %key: tensor<?x2x?x16xf32>, %value: tensor<?x2x?x16xf32>,
                  %out: tensor<?x2x?x16xf32>) -> tensor<?x2x?x16xf32> {
  %0 = attn.attention ins(%query, %key, %value : tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>)
      outs(%out : tensor<?x2x?x16xf32>) mask(#attn.causal) -> tensor<?x2x?x16xf32>
  return %0 : tensor<?x2x?x16xf32>
}
