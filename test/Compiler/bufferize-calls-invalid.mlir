// RUN: not attn-compile %s --target=host -o %t.o 2>&1 | FileCheck %s

// CHECK: error: 'func.func' op returns a tensor that it computes, so that its calls must be inlined
// CHECK: note: calls are not inlined if a function is recursive or marked no_inline, or if it has several blocks and is called in a region of one
func.func private @exp(%x: tensor<4xf32>) -> tensor<4xf32> attributes {no_inline} {
  %e = tensor.empty() : tensor<4xf32>
  %r = linalg.exp ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = func.call @exp(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = func.call @exp(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}
