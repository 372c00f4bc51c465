// RUN: attn-opt %s --split-input-file --verify-diagnostics

func.func @rope_tables(%q: tensor<1x2x8x16xf32>, %cos: tensor<8x8xf32>, %sin: tensor<8x4xf32>) {
  // expected-error @below {{'attn.rope' op 'sin' must have the type of 'cos', 'tensor<8x8xf32>' (was 'tensor<8x4xf32>')}}
  %0 = attn.rope %q, %cos, %sin : tensor<1x2x8x16xf32>, tensor<8x8xf32>, tensor<8x4xf32>
  return
}

// -----

func.func @rope_rank(%q: tensor<1x2x8x16xf32>, %t: tensor<8xf32>) {
  // expected-error @below {{'attn.rope' op tables must have 2 or 3 dimensions (have 1)}}
  %0 = attn.rope %q, %t, %t : tensor<1x2x8x16xf32>, tensor<8xf32>, tensor<8xf32>
  return
}

// -----

func.func @rope_heads(%q: tensor<1x?x8x16xf32>, %t: tensor<8x8xf32>) {
  // expected-error @below {{'attn.rope' op number of heads and head dim of 'source' must be static (was 'tensor<1x?x8x16xf32>')}}
  %0 = attn.rope %q, %t, %t : tensor<1x?x8x16xf32>, tensor<8x8xf32>, tensor<8x8xf32>
  return
}

// -----

func.func @rope_columns(%q: tensor<1x2x8x16xf32>, %t: tensor<8x?xf32>) {
  // expected-error @below {{'attn.rope' op columns of tables must be static (was 'tensor<8x?xf32>')}}
  %0 = attn.rope %q, %t, %t : tensor<1x2x8x16xf32>, tensor<8x?xf32>, tensor<8x?xf32>
  return
}

// -----

func.func @rope_channels(%q: tensor<1x2x8x16xf32>, %t: tensor<8x16xf32>) {
  // expected-error @below {{'attn.rope' op tables must have at least 1 column and at most half the head dim of 'source', 8 (have 16)}}
  %0 = attn.rope %q, %t, %t : tensor<1x2x8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>
  return
}

// -----

func.func @rope_batch(%q: tensor<1x2x8x16xf32>, %t: tensor<3x8x8xf32>) {
  // expected-error @below {{'attn.rope' op tables must have the batch size of 'source', 1 (have 3)}}
  %0 = attn.rope %q, %t, %t : tensor<1x2x8x16xf32>, tensor<3x8x8xf32>, tensor<3x8x8xf32>
  return
}

// -----

func.func @norm_epsilon(%q: tensor<1x2x8x16xf32>) {
  // expected-error @below {{'attn.rms_norm' op 'epsilon' must not be negative (was -1.000000e+00)}}
  %0 = attn.rms_norm %q epsilon(-1.0) : tensor<1x2x8x16xf32>
  return
}

// -----

func.func @norm_heads(%q: tensor<1x2x8x?xf32>) {
  // expected-error @below {{'attn.rms_norm' op number of heads and head dim of 'source' must be static (was 'tensor<1x2x8x?xf32>')}}
  %0 = attn.rms_norm %q epsilon(0.0) : tensor<1x2x8x?xf32>
  return
}

// -----

func.func @norm_weight(%q: tensor<1x2x8x16xf32>, %w: tensor<8xf32>) {
  // expected-error @below {{'attn.rms_norm' op 'weight' must have one dimension, the head dim of 'source', 16 (was 'tensor<8xf32>')}}
  %0 = attn.rms_norm %q weight(%w : tensor<8xf32>) epsilon(0.0) : tensor<1x2x8x16xf32>
  return
}

// -----

func.func @map_container(%x: tensor<1x2x8x16xf32>, %y: memref<1x2x8x16xf32>) {
  // expected-error @below {{operands must be both tensors or both memrefs, but 'out' is 'memref<1x2x8x16xf32>' and 'in' is 'tensor<1x2x8x16xf32>'}}
  attn.map_heads ins(%x : tensor<1x2x8x16xf32>) outs(%y : memref<1x2x8x16xf32>) {
  ^bb0(%e: f32, %s: f32, %b: index, %h: index, %i: index, %d: index):
    attn.yield %e : f32
  }
  return
}

// -----

func.func @map_result(%x: tensor<1x2x8x16xf32>) {
  // expected-error @below {{'attn.map_heads' op must have one result}}
  attn.map_heads ins(%x : tensor<1x2x8x16xf32>) outs(%x : tensor<1x2x8x16xf32>) {
  ^bb0(%e: f32, %s: f32, %b: index, %h: index, %i: index, %d: index):
    attn.yield %e : f32
  }
  return
}

// -----

func.func @map_shape(%x: memref<1x2x8x16xf32>, %y: memref<1x2x9x16xf32>) {
  // expected-error @below {{'attn.map_heads' op 'out' must have the shape of 'in', 'memref<1x2x8x16xf32>' (was 'memref<1x2x9x16xf32>')}}
  attn.map_heads ins(%x : memref<1x2x8x16xf32>) outs(%y : memref<1x2x9x16xf32>) {
  ^bb0(%e: f32, %s: f32, %b: index, %h: index, %i: index, %d: index):
    attn.yield %e : f32
  }
  return
}

// -----

func.func @map_static(%x: memref<1x?x8x16xf32>) {
  // expected-error @below {{'attn.map_heads' op number of heads and head dim of 'in' must be static (was 'memref<1x?x8x16xf32>')}}
  attn.map_heads ins(%x : memref<1x?x8x16xf32>) outs(%x : memref<1x?x8x16xf32>) {
  ^bb0(%e: f32, %s: f32, %b: index, %h: index, %i: index, %d: index):
    attn.yield %e : f32
  }
  return
}

// -----

func.func @map_arguments(%x: memref<1x2x8x16xf32>) {
  // expected-error @below {{'attn.map_heads' op body region must have arguments 'f32', 'f32', 'index', 'index', 'index', 'index' (was 'f32')}}
  attn.map_heads ins(%x : memref<1x2x8x16xf32>) outs(%x : memref<1x2x8x16xf32>) {
  ^bb0(%e: f32):
    attn.yield %e : f32
  }
  return
}

// -----

func.func @query_arguments(%q: memref<1x8x16x64xf32>) {
  // expected-error @below {{'attn.attention' op query region must have arguments 'f32', 'f32', 'index', 'index', 'index', 'index' (was 'f32')}}
  attn.attention ins(%q, %q, %q : memref<1x8x16x64xf32>, memref<1x8x16x64xf32>, memref<1x8x16x64xf32>) outs(%q : memref<1x8x16x64xf32>)
      query {
      ^bb0(%x: f32):
        attn.yield %x : f32
      }
  return
}

// -----

func.func @epilogue_sequences(%q: memref<1x8x16x64xf32>, %o: memref<1x8x16x64xf32>, %s: memref<3xi32>) {
  // expected-error @below {{'attn.attention' op epilogue region must not be used together with 'sequences'}}
  attn.attention ins(%q, %q, %q : memref<1x8x16x64xf32>, memref<1x8x16x64xf32>, memref<1x8x16x64xf32>) outs(%o : memref<1x8x16x64xf32>)
      sequences packed(%s, %s : memref<3xi32>, memref<3xi32>)
      epilogue {
      ^bb0(%x: f32, %b: index, %h: index, %i: index, %d: index):
        attn.yield %x : f32
      }
  return
}
