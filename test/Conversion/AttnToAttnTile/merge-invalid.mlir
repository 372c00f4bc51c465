// RUN: attn-opt %s --convert-attn-to-attn-tile=target=sm_90a --split-input-file --verify-diagnostics

func.func @tensors(%o: tensor<1x1x9x8xf32>, %l: tensor<1x1x9xf32>) -> tensor<1x1x9x8xf32> {
  // expected-error @below {{'attn.merge' op must be bufferised}}
  %r = attn.merge ins(%o : tensor<1x1x9x8xf32>) lses(%l : tensor<1x1x9xf32>) outs(%o : tensor<1x1x9x8xf32>)
      -> tensor<1x1x9x8xf32>
  return %r : tensor<1x1x9x8xf32>
}

// -----

func.func @schedule(%o: memref<1x1x9x8xf32>, %l: memref<1x1x9xf32>) {
  // expected-error @below {{'attn.merge_grad' op needs a schedule}}
  attn.merge_grad ins(%o : memref<1x1x9x8xf32>) lses(%l : memref<1x1x9xf32>) dout(%o : memref<1x1x9x8xf32>)
      outs(%o : memref<1x1x9x8xf32>) dlses(%l : memref<1x1x9xf32>)
  return
}
