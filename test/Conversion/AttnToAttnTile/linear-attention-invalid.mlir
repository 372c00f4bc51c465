// RUN: attn-opt %s --split-input-file --verify-diagnostics --convert-attn-to-attn-tile=target=host

func.func @no_schedule(%q: memref<1x2x?x16xf32>, %o: memref<1x2x?x16xf32>) {
  // expected-error @below {{'attn.linear_attention' op needs a schedule}}
  attn.linear_attention ins(%q, %q, %q : memref<1x2x?x16xf32>, memref<1x2x?x16xf32>, memref<1x2x?x16xf32>)
      outs(%o : memref<1x2x?x16xf32>)
  return
}

// -----

func.func @tensors(%q: tensor<1x2x?x16xf32>) -> tensor<1x2x?x16xf32> {
  // expected-error @below {{'attn.linear_attention' op must be bufferised}}
  %r = attn.linear_attention ins(%q, %q, %q : tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>)
      outs(%q : tensor<1x2x?x16xf32>) schedule(#attn_tile.scalar) -> tensor<1x2x?x16xf32>
  return %r : tensor<1x2x?x16xf32>
}

// -----

func.func @gradient(%q: memref<1x2x?x16xf32>, %o: memref<1x2x?x16xf32>) {
  // expected-error @below {{'attn.linear_attention_grad' op needs a schedule}}
  attn.linear_attention_grad ins(%q, %q, %q, %q : memref<1x2x?x16xf32>, memref<1x2x?x16xf32>, memref<1x2x?x16xf32>, memref<1x2x?x16xf32>)
      outs(%o, %o, %o : memref<1x2x?x16xf32>, memref<1x2x?x16xf32>, memref<1x2x?x16xf32>)
  return
}
