func.func @f(%q: tensor<1x8x?x64xf32>, %o: tensor<1x8x?x64xf32>) -> tensor<1x8x?x64xf32> {
  %0 = attn.attention ins(%q, %q, %q : tensor<1x8x?x64xf32>, tensor<1x8x?x64xf32>, tensor<1x8x?x64xf32>)
      outs(%o : tensor<1x8x?x64xf32>) mask(#attn.causl) -> tensor<1x8x?x64xf32>
  return %0 : tensor<1x8x?x64xf32>
}
