// RUN: attn-opt %s --convert-attn-to-attn-tile --split-input-file --verify-diagnostics

func.func @tensors(%q: tensor<1x1x?x64xf32>, %o: tensor<1x1x?x64xf32>) -> tensor<1x1x?x64xf32> {
  // expected-error @below {{'attn.attention' op must be bufferised}}
  %r = attn.attention
      ins(%q, %q, %q : tensor<1x1x?x64xf32>, tensor<1x1x?x64xf32>, tensor<1x1x?x64xf32>)
      outs(%o : tensor<1x1x?x64xf32>)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64>)
      -> tensor<1x1x?x64xf32>
  return %r : tensor<1x1x?x64xf32>
}

// -----

func.func @no_schedule(%q: memref<1x1x?x64xf32>, %o: memref<1x1x?x64xf32>) {
  // expected-error @below {{'attn.attention' op needs a schedule}}
  attn.attention
      ins(%q, %q, %q : memref<1x1x?x64xf32>, memref<1x1x?x64xf32>, memref<1x1x?x64xf32>)
      outs(%o : memref<1x1x?x64xf32>)
  return
}

// -----

func.func @captured_tensor(%q: memref<1x1x?x64xf32>, %o: memref<1x1x?x64xf32>,
                           %slopes: tensor<1xf32>) {
  // expected-error @below {{'attn.attention' op captures 'tensor<1xf32>', which must be bufferised}}
  attn.attention
      ins(%q, %q, %q : memref<1x1x?x64xf32>, memref<1x1x?x64xf32>, memref<1x1x?x64xf32>)
      outs(%o : memref<1x1x?x64xf32>)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %x = tensor.extract %slopes[%h] : tensor<1xf32>
        %y = arith.addf %s, %x : f32
        attn.yield %y : f32
      }
  return
}

// -----

#small = #attn_tile.sequential<query_tile = 16, key_tile = 64>
func.func @choice(%q: memref<1x1x?x64xf32>, %o: memref<1x1x?x64xf32>) {
  // expected-error @below {{'attn.attention' op has a choice of schedules, which attn-dispatch-schedules must resolve}}
  attn.attention ins(%q, %q, %q : memref<1x1x?x64xf32>, memref<1x1x?x64xf32>, memref<1x1x?x64xf32>)
      outs(%o : memref<1x1x?x64xf32>) schedule(#attn.by_query_length<bound = 9, below = #small, from = #small>)
  return
}

// -----

func.func @dropout_tiles(%q: memref<1x1x?x64xf32>, %o: memref<1x1x?x64xf32>, %seed: i64) {
  // expected-error @below {{'attn.attention' op with dropout needs tiles of multiples of 16 queries and keys (has 16 and 40)}}
  attn.attention ins(%q, %q, %q : memref<1x1x?x64xf32>, memref<1x1x?x64xf32>, memref<1x1x?x64xf32>)
      outs(%o : memref<1x1x?x64xf32>)
      dropout(#attn.dropout<p = 0.5, rng = #attn.arx>, %seed, %seed : i64, i64)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 40>)
  return
}

// -----

func.func @mask_that_reads(%q: memref<1x1x?x64xf32>, %x: memref<1x?xi32>) {
  // expected-error @below {{'attn.attention' op has a mask that reads operands, which attn-expand-masks must expand}}
  attn.attention ins(%q, %q, %q : memref<1x1x?x64xf32>, memref<1x1x?x64xf32>, memref<1x1x?x64xf32>)
      outs(%q : memref<1x1x?x64xf32>) mask(#attn.tree<parents = 0>) reads(%x : memref<1x?xi32>)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64>)
  return
}

// -----

func.func @shard(%q: memref<1x1x?x64xf32>, %p: memref<6xi32>) {
  // expected-error @below {{'attn.attention' op has the positions of a shard, which attn-expand-positions must expand}}
  attn.attention ins(%q, %q, %q : memref<1x1x?x64xf32>, memref<1x1x?x64xf32>, memref<1x1x?x64xf32>)
      outs(%q : memref<1x1x?x64xf32>) positions(%p : memref<6xi32>)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64>)
  return
}

// -----

func.func @table_on_tensors(%x: tensor<1x?xi32>, %t: tensor<1x?xi32>) -> tensor<1x?xi32> {
  // expected-error @below {{'attn.sequence_ids' op must be bufferised}}
  %0 = attn.sequence_ids ins(%x : tensor<1x?xi32>) outs(%t : tensor<1x?xi32>) otherwise(-1)
      schedule(#attn_tile.scalar) -> tensor<1x?xi32>
  return %0 : tensor<1x?xi32>
}

// -----

func.func @table_without_schedule(%x: memref<1x?xi32>, %t: memref<1x?xi32>) {
  // expected-error @below {{'attn.sequence_ids' op needs a schedule}}
  attn.sequence_ids ins(%x : memref<1x?xi32>) outs(%t : memref<1x?xi32>) otherwise(-1)
  return
}

// -----

func.func @clusters_of_lists(%q: memref<1x1x?x64xbf16>, %o: memref<1x1x?x64xbf16>, %docs: memref<?xi32>) {
  // expected-error @below {{cannot iterate over keys in clusters: kernels classify the tiles of its mask, so that each tile of queries has a list of key tiles of its own}}
  attn.attention
      ins(%q, %q, %q : memref<1x1x?x64xbf16>, memref<1x1x?x64xbf16>, memref<1x1x?x64xbf16>)
      outs(%o : memref<1x1x?x64xbf16>)
      schedule(#attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2, cluster = 2>)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %x = memref.load %docs[%i] : memref<?xi32>
        %y = memref.load %docs[%j] : memref<?xi32>
        %same = arith.cmpi eq, %x, %y : i32
        attn.yield %same : i1
      }
  return
}

// -----

// What idle warps make, of tensors.

#tiles = #attn_tile.matmul_warp_specialized<row_tile = 128, column_tile = 256, depth_tile = 64, stages = 4, consumers = 2>
#dropout = #attn.dropout<p = 0.125, rng = #attn.arx>
func.func @mask_of_tensors(%x: memref<64x64xbf16>, %y: memref<64x64xbf16>, %m: tensor<1x1x32x4xi32>, %seed: i64) -> tensor<1x1x32x4xi32> {
  %0 = attn.overlap by fused {
    attn.matmul ins(%x, %x : memref<64x64xbf16>, memref<64x64xbf16>) outs(%y : memref<64x64xbf16>) schedule(#tiles)
    attn.overlap_yield
  } and {
    // expected-error @below {{'attn.dropout_mask' op must be bufferised}}
    %1 = attn.dropout_mask rows by(#dropout, %seed, %seed : i64, i64) outs(%m : tensor<1x1x32x4xi32>)
        schedule(#attn_tile.scalar) -> tensor<1x1x32x4xi32>
    attn.overlap_yield %1 : tensor<1x1x32x4xi32>
  } -> tensor<1x1x32x4xi32>
  return %0 : tensor<1x1x32x4xi32>
}
