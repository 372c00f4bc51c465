// RUN: attn-opt %s --convert-linalg-to-attn-tile --split-input-file --verify-diagnostics

func.func @tensor(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = arith.constant 0.0 : f32
  // expected-error @below {{'linalg.fill' op must be bufferised}}
  %r = linalg.fill ins(%zero : f32) outs(%x : tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @bits(%x: memref<4xi1>) {
  %no = arith.constant false
  // expected-error @below {{'linalg.fill' op cannot write elements of type 'i1' on a GPU}}
  linalg.fill ins(%no : i1) outs(%x : memref<4xi1>)
  return
}
