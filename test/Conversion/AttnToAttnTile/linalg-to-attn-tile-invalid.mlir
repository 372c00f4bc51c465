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

// -----

func.func @running_sums(%x: memref<3x4xf32>, %y: memref<3x4xf32>, %sums: memref<3xf32>) {
  // expected-error @below {{'linalg.generic' op has no kernel, as its output #0 has elements for single steps of a reduction}}
  linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
      iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<3x4xf32>) outs(%y, %sums : memref<3x4xf32>, memref<3xf32>) {
  ^bb0(%v: f32, %o: f32, %p: f32):
    %s = arith.addf %p, %v : f32
    linalg.yield %s, %s : f32, f32
  }
  return
}
