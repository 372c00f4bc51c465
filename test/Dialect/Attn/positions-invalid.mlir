// RUN: attn-opt %s --split-input-file --verify-diagnostics

func.func @sequences(%q: memref<2x4x?x64xf16>, %o: memref<2x4x?x64xf16>, %p: memref<6xi32>, %n: memref<2xi32>) {
  // expected-error @below {{'attn.attention' op 'positions' must not be used together with 'sequences'}}
  attn.attention ins(%q, %q, %q : memref<2x4x?x64xf16>, memref<2x4x?x64xf16>, memref<2x4x?x64xf16>) outs(%o : memref<2x4x?x64xf16>)
      sequences padded(%n, %n : memref<2xi32>, memref<2xi32>) positions(%p : memref<6xi32>)
  return
}

// -----

func.func @key_lengths(%q: memref<2x4x?x64xf16>, %o: memref<2x4x?x64xf16>, %p: memref<6xi32>, %n: memref<2xi32>) {
  // expected-error @below {{'attn.attention' op 'positions' must not be used together with 'key_lengths'}}
  attn.attention ins(%q, %q, %q : memref<2x4x?x64xf16>, memref<2x4x?x64xf16>, memref<2x4x?x64xf16>) outs(%o : memref<2x4x?x64xf16>)
      key_lengths(%n : memref<2xi32>) positions(%p : memref<6xi32>)
  return
}

// -----

func.func @identity(%q: memref<2x4x?x64xf16>, %o: memref<2x4x?x64xf16>, %p: memref<6xi32>, %u: memref<4xf32>) {
  // expected-error @below {{'attn.attention' op 'positions' must not be used together with 'identity'}}
  attn.attention ins(%q, %q, %q : memref<2x4x?x64xf16>, memref<2x4x?x64xf16>, memref<2x4x?x64xf16>) outs(%o : memref<2x4x?x64xf16>)
      identity(%u : memref<4xf32>) positions(%p : memref<6xi32>)
  return
}

// -----

func.func @documents(%q: memref<2x4x?x64xf16>, %o: memref<2x4x?x64xf16>, %p: memref<6xi32>, %d: memref<2x?xi32>) {
  // expected-error @below {{'attn.attention' op 'positions' must not be used together with 'reads'}}
  attn.attention ins(%q, %q, %q : memref<2x4x?x64xf16>, memref<2x4x?x64xf16>, memref<2x4x?x64xf16>) outs(%o : memref<2x4x?x64xf16>)
      positions(%p : memref<6xi32>) mask(#attn.documents<queries = 0, keys = 0>) reads(%d : memref<2x?xi32>)
  return
}

// -----

func.func @block_mask(%q: memref<2x4x?x64xf16>, %o: memref<2x4x?x64xf16>, %p: memref<6xi32>, %m: memref<2x1x?x?xi32>) {
  // expected-error @below {{'attn.attention' op 'positions' must not be used together with 'block_mask'}}
  attn.attention ins(%q, %q, %q : memref<2x4x?x64xf16>, memref<2x4x?x64xf16>, memref<2x4x?x64xf16>) outs(%o : memref<2x4x?x64xf16>)
      positions(%p : memref<6xi32>) mask(#attn.causal) block_mask(%m : memref<2x1x?x?xi32>)
  return
}

// -----

func.func @container(%q: memref<2x4x?x64xf16>, %o: memref<2x4x?x64xf16>, %p: memref<6xi32>, %t: tensor<6xi32>) {
  // expected-error @below {{'attn.attention' op operands must be all tensors or all memrefs, but 'query' is 'memref<2x4x?x64xf16>' and 'positions' is 'tensor<6xi32>'}}
  attn.attention ins(%q, %q, %q : memref<2x4x?x64xf16>, memref<2x4x?x64xf16>, memref<2x4x?x64xf16>) outs(%o : memref<2x4x?x64xf16>)
      positions(%t : tensor<6xi32>)
  return
}

// -----

func.func @five(%q: memref<2x4x?x64xf16>, %o: memref<2x4x?x64xf16>, %p: memref<6xi32>, %t: memref<5xi32>) {
  // expected-error @below {{'attn.attention' op operand #4 must be 1-D tensor or memref of 6 i32 values, but got 'memref<5xi32>'}}
  attn.attention ins(%q, %q, %q : memref<2x4x?x64xf16>, memref<2x4x?x64xf16>, memref<2x4x?x64xf16>) outs(%o : memref<2x4x?x64xf16>)
      positions(%t : memref<5xi32>)
  return
}

// -----

func.func @dropout_only_without_dropout(%q: memref<2x4x?x64xf16>, %o: memref<2x4x?x64xf16>, %p: memref<6xi32>) {
  // expected-error @below {{'attn.attention' op 'dropout_only' needs 'positions' and 'dropout'}}
  attn.attention ins(%q, %q, %q : memref<2x4x?x64xf16>, memref<2x4x?x64xf16>, memref<2x4x?x64xf16>) outs(%o : memref<2x4x?x64xf16>)
      positions(%p : memref<6xi32>) dropout_only
  return
}

// -----

func.func @dropout_only_without_positions(%q: memref<2x4x?x64xf16>, %o: memref<2x4x?x64xf16>, %p: memref<6xi32>, %s: i64) {
  // expected-error @below {{'attn.attention' op 'dropout_only' needs 'positions' and 'dropout'}}
  attn.attention ins(%q, %q, %q : memref<2x4x?x64xf16>, memref<2x4x?x64xf16>, memref<2x4x?x64xf16>) outs(%o : memref<2x4x?x64xf16>)
      dropout_only dropout(#attn.dropout<p = 0.125, rng = #attn.philox>, %s, %s : i64, i64)
  return
}

// -----

func.func @dropout_of_sequences(%q: memref<2x4x?x64xf16>, %o: memref<2x4x?x64xf16>, %p: memref<6xi32>, %s: i64, %n: memref<2xi32>) {
  // expected-error @below {{'attn.attention' op 'positions' must not be used together with 'sequences'}}
  attn.attention ins(%q, %q, %q : memref<2x4x?x64xf16>, memref<2x4x?x64xf16>, memref<2x4x?x64xf16>) outs(%o : memref<2x4x?x64xf16>)
      sequences padded(%n, %n : memref<2xi32>, memref<2xi32>) positions(%p : memref<6xi32>)
          dropout(#attn.dropout<p = 0.125, rng = #attn.philox>, %s, %s : i64, i64)
  return
}

// -----

func.func @identity_of_gradient(%q: memref<2x4x?x64xf16>, %l: memref<2x4x?xf32>, %p: memref<6xi32>, %u: memref<4xf32>) {
  // expected-error @below {{'attn.attention_grad' op 'positions' must not be used together with 'identity'}}
  attn.attention_grad ins(%q, %q, %q, %q, %l, %q : memref<2x4x?x64xf16>, memref<2x4x?x64xf16>, memref<2x4x?x64xf16>,
      memref<2x4x?x64xf16>, memref<2x4x?xf32>, memref<2x4x?x64xf16>)
      outs(%q, %q, %q : memref<2x4x?x64xf16>, memref<2x4x?x64xf16>, memref<2x4x?x64xf16>) identity(%u : memref<4xf32>) positions(%p : memref<6xi32>)
  return
}

// -----

func.func @keep_mask_container(%s: i64, %p: tensor<6xi32>, %o: memref<1x8x64x16xi32>) {
  // expected-error @below {{'attn.dropout_mask' op operands must be all tensors or all memrefs, but 'out' is 'memref<1x8x64x16xi32>' and 'positions' is 'tensor<6xi32>'}}
  attn.dropout_mask rows by(#attn.dropout<p = 0.125, rng = #attn.arx>, %s, %s : i64, i64)
      outs(%o : memref<1x8x64x16xi32>) positions(%p : tensor<6xi32>)
  return
}
