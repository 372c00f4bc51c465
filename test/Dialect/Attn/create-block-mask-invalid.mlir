// RUN: attn-opt %s --split-input-file --verify-diagnostics

func.func @reads(%n: index, %init: tensor<1x1x?x?xi32>) {
  // expected-error @+1 {{mask must not read operands; attn-expand-masks makes regions of such masks}}
  %0 = attn.create_block_mask sizes(%n, %n, %n) outs(%init : tensor<1x1x?x?xi32>) mask(#attn.tree<parents = 0>) mask_mod {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    %t = arith.constant true
    attn.yield %t : i1
  } -> tensor<1x1x?x?xi32>
  return
}

// -----

func.func @heads(%n: index, %init: tensor<1x?x?x?xi32>) {
  // expected-error @+1 {{dimension 1 of the block mask must be static, the number of heads or 1}}
  %0 = attn.create_block_mask sizes(%n, %n, %n) outs(%init : tensor<1x?x?x?xi32>) mask_mod {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    %t = arith.constant true
    attn.yield %t : i1
  } -> tensor<1x?x?x?xi32>
  return
}

// -----

func.func @no_result(%n: index, %init: tensor<1x1x?x?xi32>) {
  // expected-error @+1 {{must have one result}}
  attn.create_block_mask sizes(%n, %n, %n) outs(%init : tensor<1x1x?x?xi32>) mask_mod {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    %t = arith.constant true
    attn.yield %t : i1
  }
  return
}

// -----

func.func @yield(%n: index, %init: memref<1x1x?x?xi32>) {
  // expected-error @+1 {{mask_mod region must yield 'i1' (was 'index')}}
  attn.create_block_mask sizes(%n, %n, %n) outs(%init : memref<1x1x?x?xi32>) mask_mod {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    attn.yield %i : index
  }
  return
}

// -----

func.func @batch(%n: index, %init: memref<1x1x?x?xi32>) {
  %two = arith.constant 2 : index
  // expected-error @+1 {{dimension 0 of the block mask must be at least 2, the batch (was 1)}}
  attn.create_block_mask sizes(%two, %n, %n) outs(%init : memref<1x1x?x?xi32>) mask_mod {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    %t = arith.constant true
    attn.yield %t : i1
  }
  return
}

// -----

func.func @rows(%init: memref<1x1x6x12xi32>) {
  %one = arith.constant 1 : index
  %n = arith.constant 100 : index
  // expected-error @+1 {{dimension 2 of the block mask must be at least 7, for 100 queries in tiles of 16 (was 6)}}
  attn.create_block_mask sizes(%one, %n, %n) outs(%init : memref<1x1x6x12xi32>)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 32>) mask_mod {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    %t = arith.constant true
    attn.yield %t : i1
  }
  return
}

// -----

// Of a choice, the smallest tiles count.

func.func @columns(%init: memref<1x1x7x7xi32>) {
  %one = arith.constant 1 : index
  %n = arith.constant 100 : index
  // expected-error @+1 {{dimension 3 of the block mask must be at least 8, for 100 keys in tiles of 32 (was 7)}}
  attn.create_block_mask sizes(%one, %n, %n) outs(%init : memref<1x1x7x7xi32>)
      schedule(#attn.by_query_length<bound = 64,
          below = #attn_tile.sequential<query_tile = 16, key_tile = 64>,
          from = #attn_tile.sequential<query_tile = 32, key_tile = 32>>) mask_mod {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    %t = arith.constant true
    attn.yield %t : i1
  }
  return
}

// -----

func.func @sequences(%q: memref<1x2x?x16xf32>, %cu: memref<?xi32>, %block_mask: memref<1x1x?x?xi32>) {
  // expected-error @+1 {{'block_mask' must not be used together with 'sequences'}}
  attn.attention ins(%q, %q, %q : memref<1x2x?x16xf32>, memref<1x2x?x16xf32>, memref<1x2x?x16xf32>)
      outs(%q : memref<1x2x?x16xf32>) sequences packed(%cu, %cu : memref<?xi32>, memref<?xi32>)
      block_mask(%block_mask : memref<1x1x?x?xi32>)
  return
}

// -----

func.func @container(%q: memref<1x2x?x16xf32>, %block_mask: tensor<1x1x?x?xi32>) {
  // expected-error @+1 {{operands must be all tensors or all memrefs, but 'query' is 'memref<1x2x?x16xf32>' and 'block_mask' is 'tensor<1x1x?x?xi32>'}}
  attn.attention ins(%q, %q, %q : memref<1x2x?x16xf32>, memref<1x2x?x16xf32>, memref<1x2x?x16xf32>)
      outs(%q : memref<1x2x?x16xf32>) block_mask(%block_mask : tensor<1x1x?x?xi32>)
  return
}

// -----

func.func @dynamic_heads(%q: memref<1x2x?x16xf32>, %block_mask: memref<1x?x?x?xi32>) {
  // expected-error @+1 {{dimension 1 of 'block_mask' must be static}}
  attn.attention ins(%q, %q, %q : memref<1x2x?x16xf32>, memref<1x2x?x16xf32>, memref<1x2x?x16xf32>)
      outs(%q : memref<1x2x?x16xf32>) block_mask(%block_mask : memref<1x?x?x?xi32>)
  return
}

// -----

func.func @batch(%q: memref<3x2x?x16xf32>, %block_mask: memref<2x1x?x?xi32>) {
  // expected-error @+1 {{dimension 0 of 'block_mask' must match dimension 0 of 'query', 3 (was 2)}}
  attn.attention ins(%q, %q, %q : memref<3x2x?x16xf32>, memref<3x2x?x16xf32>, memref<3x2x?x16xf32>)
      outs(%q : memref<3x2x?x16xf32>) block_mask(%block_mask : memref<2x1x?x?xi32>)
  return
}

// -----

func.func @other_heads(%q: memref<1x4x?x16xf32>, %block_mask: memref<1x2x?x?xi32>) {
  // expected-error @+1 {{dimension 1 of 'block_mask' must match dimension 1 of 'query', 4 (was 2)}}
  attn.attention ins(%q, %q, %q : memref<1x4x?x16xf32>, memref<1x4x?x16xf32>, memref<1x4x?x16xf32>)
      outs(%q : memref<1x4x?x16xf32>) block_mask(%block_mask : memref<1x2x?x?xi32>)
  return
}

// -----

func.func @tiles(%q: memref<1x2x64x16xf32>, %block_mask: memref<1x1x4x5xi32>) {
  // expected-error @+1 {{dimension 3 of the block mask must be at least 6, for 64 keys in tiles of 32 (was 5)}}
  attn.attention ins(%q, %q, %q : memref<1x2x64x16xf32>, memref<1x2x64x16xf32>, memref<1x2x64x16xf32>)
      outs(%q : memref<1x2x64x16xf32>) block_mask(%block_mask : memref<1x1x4x5xi32>)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 32>)
  return
}

// -----

func.func @schedule(%q: tensor<1x2x?x16xf32>, %n: index, %init: tensor<1x1x?x?xi32>) -> tensor<1x2x?x16xf32> {
  // expected-note @+1 {{it is for #attn_tile.sequential<query_tile = 16, key_tile = 64>}}
  %block_mask = attn.create_block_mask sizes(%n, %n, %n) outs(%init : tensor<1x1x?x?xi32>)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64>) mask_mod {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    %t = arith.constant true
    attn.yield %t : i1
  } -> tensor<1x1x?x?xi32>
  // expected-error @+1 {{block mask must be created for the same schedule}}
  %0 = attn.attention ins(%q, %q, %q : tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>)
      outs(%q : tensor<1x2x?x16xf32>) block_mask(%block_mask : tensor<1x1x?x?xi32>)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 32>) -> tensor<1x2x?x16xf32>
  return %0 : tensor<1x2x?x16xf32>
}
