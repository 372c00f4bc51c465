// RUN: attn-opt %s --convert-attn-to-attn-tile --split-input-file --verify-diagnostics

func.func @tensors(%a: tensor<4x4xbf16>) -> tensor<4x4xbf16> {
  // expected-error @below {{'attn.matmul' op must be bufferised}}
  %r = attn.matmul ins(%a, %a : tensor<4x4xbf16>, tensor<4x4xbf16>) outs(%a : tensor<4x4xbf16>) -> tensor<4x4xbf16>
  return %r : tensor<4x4xbf16>
}

// -----

func.func @no_schedule(%a: memref<4x4xbf16>, %c: memref<4x4xbf16>) {
  // expected-error @below {{'attn.matmul' op needs a schedule}}
  attn.matmul ins(%a, %a : memref<4x4xbf16>, memref<4x4xbf16>) outs(%c : memref<4x4xbf16>)
  return
}

// -----

func.func @captures_tensor(%a: memref<4x4xbf16>, %c: memref<4x4xbf16>, %x: tensor<4xf32>) {
  // expected-error @below {{'attn.matmul' op captures 'tensor<4xf32>', which must be bufferised}}
  attn.matmul ins(%a, %a : memref<4x4xbf16>, memref<4x4xbf16>) outs(%c : memref<4x4xbf16>)
      schedule(#attn_tile.matmul_sequential<row_tile = 16, column_tile = 64, depth_tile = 64>) epilogue {
  ^bb0(%sum: f32, %b: index, %i: index, %j: index):
    %e = tensor.extract %x[%j] : tensor<4xf32>
    attn.yield %e : f32
  }
  return
}
