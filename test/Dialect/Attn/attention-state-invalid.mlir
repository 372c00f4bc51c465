// RUN: attn-opt %s --split-input-file --verify-diagnostics

func.func @no_lse(%q: tensor<2x4x8x16xf32>, %s: tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32> {
  // expected-error @below {{'attn.attention' op needs both or none of 'state_out' and 'state_lse'}}
  %r = "attn.attention"(%q, %q, %q, %q, %s) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>}> ({
  }, {}, {}, {}) : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32>
  return %r : tensor<2x4x8x16xf32>
}

// -----

func.func @type_of_out(%q: tensor<2x4x8x16xf32>, %s: tensor<2x4x8x16xf64>, %l: tensor<2x4x8xf32>) {
  // expected-error @below {{'attn.attention' op operand #4 must be 4-D tensor or memref of bf16, f16 or f32 values, but got 'tensor<2x4x8x16xf64>'}}
  %r = attn.attention ins(%q, %q, %q : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>)
      outs(%q : tensor<2x4x8x16xf32>) state(%s, %l : tensor<2x4x8x16xf64>, tensor<2x4x8xf32>) -> tensor<2x4x8x16xf32>
  return
}

// -----

func.func @type_of_lse(%q: tensor<2x4x8x16xf32>, %l: tensor<2x4x8xbf16>) {
  // expected-error @below {{'attn.attention' op operand #5 must be 3-D tensor or memref of f32 values, but got 'tensor<2x4x8xbf16>'}}
  %r = attn.attention ins(%q, %q, %q : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>)
      outs(%q : tensor<2x4x8x16xf32>) state(%q, %l : tensor<2x4x8x16xf32>, tensor<2x4x8xbf16>) -> tensor<2x4x8x16xf32>
  return
}

// -----

func.func @container(%q: tensor<2x4x8x16xf32>, %s: memref<2x4x8x16xf32>, %l: tensor<2x4x8xf32>) {
  // expected-error @below {{operands must be all tensors or all memrefs, but 'query' is 'tensor<2x4x8x16xf32>' and 'state_out' is 'memref<2x4x8x16xf32>'}}
  %r = attn.attention ins(%q, %q, %q : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>)
      outs(%q : tensor<2x4x8x16xf32>) state(%s, %l : memref<2x4x8x16xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8x16xf32>
  return
}

// -----

func.func @heads(%q: tensor<2x4x8x16xf32>, %s: tensor<2x2x8x16xf32>, %l: tensor<2x4x8xf32>) {
  // expected-error @below {{'attn.attention' op dimension 1 of 'state_out' must match dimension 1 of 'query', 4 (was 2)}}
  %r = attn.attention ins(%q, %q, %q : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>)
      outs(%q : tensor<2x4x8x16xf32>) state(%s, %l : tensor<2x2x8x16xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8x16xf32>
  return
}

// -----

func.func @head_dim(%q: tensor<2x4x8x16xf32>, %s: tensor<2x4x8x32xf32>, %l: tensor<2x4x8xf32>) {
  // expected-error @below {{'attn.attention' op dimension 3 of 'state_out' must match dimension 3 of 'value', 16 (was 32)}}
  %r = attn.attention ins(%q, %q, %q : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>)
      outs(%q : tensor<2x4x8x16xf32>) state(%s, %l : tensor<2x4x8x32xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8x16xf32>
  return
}

// -----

func.func @queries(%q: tensor<2x4x8x16xf32>, %l: tensor<2x4x9xf32>) {
  // expected-error @below {{'attn.attention' op dimension 2 of 'state_lse' must match dimension 2 of 'query', 8 (was 9)}}
  %r = attn.attention ins(%q, %q, %q : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>)
      outs(%q : tensor<2x4x8x16xf32>) state(%q, %l : tensor<2x4x8x16xf32>, tensor<2x4x9xf32>) -> tensor<2x4x8x16xf32>
  return
}

// -----

func.func @identity(%q: tensor<2x4x8x16xf32>, %l: tensor<2x4x8xf32>, %u: tensor<4xf32>) {
  // expected-error @below {{'attn.attention' op 'state' must not be used together with 'identity'}}
  %r = attn.attention ins(%q, %q, %q : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>)
      outs(%q : tensor<2x4x8x16xf32>) state(%q, %l : tensor<2x4x8x16xf32>, tensor<2x4x8xf32>)
      identity(%u : tensor<4xf32>) -> tensor<2x4x8x16xf32>
  return
}

// -----

func.func @written_lse(%q: memref<1x2x8x16xf32>, %o: memref<1x2x8x16xf32>, %s: memref<1x2x8x16xf32>,
                       %l: memref<1x2x8xf32>) {
  // expected-error @below {{'attn.attention' op 'state_lse' must not be a memref that the operation writes}}
  attn.attention ins(%q, %q, %q : memref<1x2x8x16xf32>, memref<1x2x8x16xf32>, memref<1x2x8x16xf32>)
      outs(%o, %l : memref<1x2x8x16xf32>, memref<1x2x8xf32>) state(%s, %l : memref<1x2x8x16xf32>, memref<1x2x8xf32>)
  return
}

// -----

func.func @written_out(%q: memref<1x2x8x16xf32>, %o: memref<1x2x8x16xf32>, %l: memref<1x2x8xf32>) {
  // expected-error @below {{'attn.attention' op 'state_out' must not be a memref that the operation writes}}
  attn.attention ins(%q, %q, %q : memref<1x2x8x16xf32>, memref<1x2x8x16xf32>, memref<1x2x8x16xf32>)
      outs(%o : memref<1x2x8x16xf32>) state(%o, %l : memref<1x2x8x16xf32>, memref<1x2x8xf32>)
  return
}
