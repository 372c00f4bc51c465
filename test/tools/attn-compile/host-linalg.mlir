// A module without an operation of Attn compiles for the host, which is
// described to it all the same.

// RUN: attn-compile %s --target=host --raise=false -o %t.ll
// RUN: FileCheck %s < %t.ll

// CHECK: define i32 @attn_call_matmul(
func.func @matmul(%a: tensor<4x8xf32>, %b: tensor<8x4xf32>,
                   %c: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = linalg.matmul ins(%a, %b : tensor<4x8xf32>, tensor<8x4xf32>)
                     outs(%c : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
