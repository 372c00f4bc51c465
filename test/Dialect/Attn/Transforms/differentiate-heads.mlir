// RUN: attn-opt %s --attn-differentiate="function=f mode=combined arguments=0" --canonicalize | FileCheck %s

// The gradient of a rotation is rotated back.

// CHECK-LABEL: func.func @f_grad(
// CHECK-SAME:    %[[Q:[a-z0-9]+]]: tensor<1x2x8x16xf32>, %[[T:[a-z0-9]+]]: tensor<8x4xf32>, %[[DOUT:[a-z0-9]+]]: tensor<1x2x8x16xf32>)
// CHECK:         %[[R:.*]] = attn.rope %[[Q]], %[[T]], %[[T]] interleaved :
// CHECK:         %[[A:.*]]:2 = attn.attention ins(%[[R]], %[[R]], %[[R]] :
// CHECK:         %[[G:.*]]:3 = attn.attention_grad
// CHECK:         attn.rope %{{.*}}, %[[T]], %[[T]] interleaved inverse :
func.func @f(%q: tensor<1x2x8x16xf32>, %t: tensor<8x4xf32>) -> tensor<1x2x8x16xf32> {
  %r = attn.rope %q, %t, %t interleaved : tensor<1x2x8x16xf32>, tensor<8x4xf32>, tensor<8x4xf32>
  %0 = attn.attention ins(%r, %r, %r : tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>)
      outs(%q : tensor<1x2x8x16xf32>) -> tensor<1x2x8x16xf32>
  return %0 : tensor<1x2x8x16xf32>
}
