// RUN: attn-opt %s --convert-attn-tile-to-vector --split-input-file --verify-diagnostics

// expected-error @below {{pass 'convert-attn-tile-to-vector' expects a kernel in phase 'plain' (was 'staged')}}
attn_tile.kernel @pipe() {
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x128xbf16, stages = 2>
  attn_tile.return
}

// -----

attn_tile.kernel @nothing() {
  attn_tile.return
}

func.func @grid() {
  %c1 = arith.constant 1 : index
  // expected-error @below {{'attn_tile.launch' op must have no grid for the host}}
  attn_tile.launch @nothing grid(%c1, %c1, %c1) args()
  return
}

// -----

attn_tile.kernel @reduce_columns(%v: vector<8xf32>) {
  %c = arith.constant dense<0.0> : vector<8x8xf32>
  // expected-error @below {{'vector.multi_reduction' op must reduce along the rows of a tile for the host}}
  %r = vector.multi_reduction <add>, %c, %v [0] : vector<8x8xf32> to vector<8xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @map_with(%s: memref<8x8xf32>, %c: index) {
  %x = arith.constant dense<0.0> : vector<8x8xf32>
  // expected-error @below {{'attn_tile.map' op must map one tile alone for the host (also has 'vector<8x8xf32>')}}
  %0 = attn_tile.map %x at(%c, %c, %c, %c) lengths(%c, %c) with(%x : vector<8x8xf32>) : vector<8x8xf32> {
  ^bb0(%e: f32, %b: index, %h: index, %i: index, %j: index, %y: f32):
    attn_tile.yield %y : f32
  }
  attn_tile.return
}

// -----

attn_tile.kernel @turn(%m: memref<?x8xf32>, %c: memref<?xi32>, %i: index) {
  %v = arith.constant dense<0.0> : vector<8x8xf32>
  // expected-error @below {{'attn_tile.bulk_reduce_add' op has no form for the host}}
  attn_tile.bulk_reduce_add %v to %m[%i, %i] ordered(%i of %c[%i]) : vector<8x8xf32> to memref<?x8xf32>, memref<?xi32>
  attn_tile.return
}
