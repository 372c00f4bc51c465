// RUN: attn-opt %s --convert-attn-to-attn-tile --split-input-file --verify-diagnostics

func.func @by_head(%q: memref<1x2x?x16xf32>, %keeps: memref<2x?xi1>, %block_mask: memref<1x1x?x?xi32>) {
  // expected-error @+1 {{masks each head by itself, and its block mask is for all of them}}
  attn.attention ins(%q, %q, %q : memref<1x2x?x16xf32>, memref<1x2x?x16xf32>, memref<1x2x?x16xf32>)
      outs(%q : memref<1x2x?x16xf32>) block_mask(%block_mask : memref<1x1x?x?xi32>)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 32>)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %x = memref.load %keeps[%h, %j] : memref<2x?xi1>
        attn.yield %x : i1
      }
  return
}

// -----

func.func @no_schedule(%n: index, %block_mask: memref<1x1x?x?xi32>, %keeps: memref<?xi1>) {
  // expected-error @+1 {{needs a schedule}}
  attn.create_block_mask sizes(%n, %n, %n) outs(%block_mask : memref<1x1x?x?xi32>) mask_mod {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    %x = memref.load %keeps[%j] : memref<?xi1>
    attn.yield %x : i1
  }
  return
}

// -----

func.func @choice(%n: index, %block_mask: memref<1x1x?x?xi32>, %keeps: memref<?xi1>) {
  // expected-error @+1 {{has a choice of schedules, which attn-dispatch-schedules must resolve}}
  attn.create_block_mask sizes(%n, %n, %n) outs(%block_mask : memref<1x1x?x?xi32>)
      schedule(#attn.by_query_length<bound = 64, below = #attn_tile.sequential<query_tile = 16, key_tile = 64>,
                                     from = #attn_tile.sequential<query_tile = 32, key_tile = 32>>) mask_mod {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    %x = memref.load %keeps[%j] : memref<?xi1>
    attn.yield %x : i1
  }
  return
}

// -----

func.func @tensors(%n: index, %block_mask: tensor<1x1x?x?xi32>, %keeps: tensor<?xi1>) -> tensor<1x1x?x?xi32> {
  // expected-error @+1 {{must be bufferised}}
  %0 = attn.create_block_mask sizes(%n, %n, %n) outs(%block_mask : tensor<1x1x?x?xi32>) mask_mod {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    %x = tensor.extract %keeps[%j] : tensor<?xi1>
    attn.yield %x : i1
  } -> tensor<1x1x?x?xi32>
  return %0 : tensor<1x1x?x?xi32>
}
