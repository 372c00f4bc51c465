// RUN: attn-opt %s --attn-differentiate=mode=combined --verify-diagnostics

func.func @second(%q: tensor<1x2x9x16xf32>) -> tensor<1x2x9x16xf32> {
  // expected-error @below {{cannot differentiate 'attn.linear_attention_grad': second derivatives of linear attention are not supported}}
  %r:3 = attn.linear_attention_grad
      ins(%q, %q, %q, %q : tensor<1x2x9x16xf32>, tensor<1x2x9x16xf32>, tensor<1x2x9x16xf32>, tensor<1x2x9x16xf32>)
      outs(%q, %q, %q : tensor<1x2x9x16xf32>, tensor<1x2x9x16xf32>, tensor<1x2x9x16xf32>)
      causal -> tensor<1x2x9x16xf32>, tensor<1x2x9x16xf32>, tensor<1x2x9x16xf32>
  return %r#0 : tensor<1x2x9x16xf32>
}
