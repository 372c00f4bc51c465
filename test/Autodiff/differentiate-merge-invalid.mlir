// RUN: attn-opt %s --attn-differentiate=mode=combined --verify-diagnostics

func.func @second(%o: tensor<1x2x9x16xf32>, %l: tensor<1x2x9xf32>) -> tensor<1x2x9x16xf32> {
  // expected-error @below {{cannot differentiate 'attn.merge_grad': second derivatives of merges are not supported}}
  %r:2 = attn.merge_grad ins(%o : tensor<1x2x9x16xf32>) lses(%l : tensor<1x2x9xf32>) dout(%o : tensor<1x2x9x16xf32>)
      outs(%o : tensor<1x2x9x16xf32>) dlses(%l : tensor<1x2x9xf32>) -> tensor<1x2x9x16xf32>, tensor<1x2x9xf32>
  return %r#0 : tensor<1x2x9x16xf32>
}
