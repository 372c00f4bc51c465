// RUN: attn-opt %s --convert-attn-to-attn-tile=target=sm_90a --split-input-file --verify-diagnostics

func.func @tensors(%k: tensor<1x1x1x8xf32>, %kc: tensor<1x1x9x8xf32>, %n: tensor<1xi32>) -> tensor<1x1x9x8xf32> {
  // expected-error @below {{'attn.cache_append' op must be bufferised}}
  %r:2 = attn.cache_append ins(%k, %k : tensor<1x1x1x8xf32>, tensor<1x1x1x8xf32>)
      outs(%kc, %kc : tensor<1x1x9x8xf32>, tensor<1x1x9x8xf32>) key_lengths(%n : tensor<1xi32>)
      -> tensor<1x1x9x8xf32>, tensor<1x1x9x8xf32>
  return %r#0 : tensor<1x1x9x8xf32>
}

// -----

func.func @schedule(%k: memref<1x1x1x8xf32>, %kc: memref<1x1x9x8xf32>, %n: memref<1xi32>) {
  // expected-error @below {{'attn.cache_append' op needs a schedule}}
  attn.cache_append ins(%k, %k : memref<1x1x1x8xf32>, memref<1x1x1x8xf32>)
      outs(%kc, %kc : memref<1x1x9x8xf32>, memref<1x1x9x8xf32>) key_lengths(%n : memref<1xi32>)
  return
}
