// RUN: attn-opt %s --convert-attn-to-attn-tile --split-input-file | FileCheck %s
// RUN: attn-opt %s --convert-attn-to-attn-tile --split-input-file --remarks-filter=convert-attn-to-attn-tile \
// RUN:   --remark-format=emitRemark 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

// The keep mask is a program of its own, concurrent with the matmul.

#tiles = #attn_tile.matmul_warp_specialized<row_tile = 128, column_tile = 256, depth_tile = 64, stages = 4, consumers = 2>
#dropout = #attn.dropout<p = 0.125, rng = #attn.arx>

// REMARK:      remark: {{.*}}idle warps of a GEMM generate keep masks
// CHECK-LABEL: attn_tile.kernel @layer_matmul_and_mask_kernel(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: memref<?x512xbf16>, %[[W:[a-z0-9]+]]: memref<96x512xbf16>, %[[Y:[a-z0-9]+]]: memref<?x96xbf16>,
// CHECK-SAME:    %[[BIAS:[a-z0-9]+]]: memref<96xf32>, %[[MASK:[a-z0-9]+]]: memref<1x4x?x?xi32{{.*}}>, %[[SEED:[a-z0-9]+]]: memref<i64>)
// CHECK-SAME:    schedule = #attn_tile.matmul_warp_specialized
// CHECK-NEXT:    attn_tile.auxiliary_warps registers(72) joined {
// CHECK:           %[[DEPTH:.*]] = memref.dim %[[X]]
// CHECK:           %[[STEPS:.*]] = arith.ceildivui %[[DEPTH]]
// CHECK:           %[[PART:.*]] = arith.muli %[[STEPS]]
// CHECK:           %[[WORDS:.*]] = memref.dim %[[MASK]]
// CHECK:           %[[WHOLE:.*]] = arith.muli %{{.*}}, %[[WORDS]]
// CHECK:           attn_tile.throughput_hint %[[PART]] of %[[WHOLE]]
// CHECK:           memref.load %[[SEED]][]
// CHECK:           scf.forall (%[[B:.*]], %[[H:.*]], %{{.*}}) in
// CHECK:             attn_tile.thread_for
// CHECK:               memref.store %{{.*}}, %[[MASK]][%[[B]], %[[H]], %{{.*}}, %{{.*}}]
// CHECK:         scf.forall (%{{.*}}, %{{.*}}) in
// CHECK:           attn_tile.load %[[X]]
// CHECK:           attn_tile.load %[[W]]
// CHECK:           attn_tile.map
// CHECK:             memref.load %[[BIAS]]
// CHECK:           attn_tile.store %{{.*}}, %[[Y]]
// CHECK-LABEL: func.func @layer(
// CHECK:         %[[PART:.*]] = memref.subview %arg4
// CHECK:         attn_tile.launch @layer_matmul_and_mask_kernel args(%{{.*}}, %[[PART]], %{{.*}} :
// CHECK-NOT:     attn.
// CHECK:         return %arg2, %[[PART]]
func.func @layer(%x: memref<?x512xbf16>, %w: memref<96x512xbf16>, %y: memref<?x96xbf16>, %bias: memref<96xf32>,
                 %m: memref<1x8x?x?xi32>, %u: index, %k: index, %seed: memref<i64>)
    -> (memref<?x96xbf16>, memref<1x4x?x?xi32, strided<[?, ?, ?, 1]>>) {
  %offset = arith.constant 4 : i64
  %0:2 = attn.overlap by fused {
    attn.matmul ins(%x, %w : memref<?x512xbf16>, memref<96x512xbf16>) outs(%y : memref<?x96xbf16>) transpose_rhs
        schedule(#tiles) epilogue {
    ^bb0(%sum: f32, %b: index, %i: index, %j: index):
      %e = memref.load %bias[%j] : memref<96xf32>
      %r = arith.addf %sum, %e : f32
      attn.yield %r : f32
    }
    attn.overlap_yield %y : memref<?x96xbf16>
  } and {
    %part = memref.subview %m[0, 0, 0, 0] [1, 4, %u, %k] [1, 1, 1, 1]
        : memref<1x8x?x?xi32> to memref<1x4x?x?xi32, strided<[?, ?, ?, 1]>>
    attn.dropout_mask rows by(#dropout, %seed, %offset : memref<i64>, i64)
        outs(%part : memref<1x4x?x?xi32, strided<[?, ?, ?, 1]>>) schedule(#attn_tile.scalar)
    attn.overlap_yield %part : memref<1x4x?x?xi32, strided<[?, ?, ?, 1]>>
  } -> (memref<?x96xbf16>, memref<1x4x?x?xi32, strided<[?, ?, ?, 1]>>)
  return %0#0, %0#1 : memref<?x96xbf16>, memref<1x4x?x?xi32, strided<[?, ?, ?, 1]>>
}

// -----

// What cannot be one kernel stays, with a kernel for each region.

#tiles = #attn_tile.matmul_warp_specialized<row_tile = 128, column_tile = 256, depth_tile = 64, stages = 4, consumers = 2>
#dropout = #attn.dropout<p = 0.125, rng = #attn.arx>

// REMARK:      remark: {{.*}}no fused kernel for the regions: all warps have work in kernels of #attn_tile.matmul_sequential<row_tile = 16, column_tile = 64,
// REMARK-SAME:     {{^}} depth_tile = 32>
// REMARK:      remark: {{.*}}no fused kernel for the regions: there is more than one matmul
// REMARK:      remark: {{.*}}no fused kernel for the regions: there is no keep mask
// REMARK:      remark: {{.*}}no fused kernel for the regions: there is no matmul
// REMARK:      remark: {{.*}}no fused kernel for the regions: there is more than one keep mask
// REMARK:      remark: {{.*}}no fused kernel for the regions: 'memref.store' is neither a matmul nor a keep mask
// REMARK:      remark: {{.*}}no fused kernel for the regions: matmul and keep mask are in one region, and may depend on each other
// CHECK-NOT:   attn_tile.auxiliary_warps
// CHECK-LABEL: func.func @host(
// CHECK-NEXT:    attn.overlap by fused {
// CHECK-NEXT:      attn_tile.launch @host_matmul_kernel
// CHECK-NEXT:      attn.overlap_yield
// CHECK-NEXT:    } and {
// CHECK-NEXT:      attn_tile.launch @host_dropout_mask
func.func @host(%x: memref<64x64xbf16>, %y: memref<64x64xbf16>, %m: memref<1x1x32x4xi32>, %seed: i64) {
  attn.overlap by fused {
    attn.matmul ins(%x, %x : memref<64x64xbf16>, memref<64x64xbf16>) outs(%y : memref<64x64xbf16>)
        schedule(#attn_tile.matmul_sequential<row_tile = 16, column_tile = 64, depth_tile = 32>)
    attn.overlap_yield
  } and {
    attn.dropout_mask rows by(#dropout, %seed, %seed : i64, i64) outs(%m : memref<1x1x32x4xi32>)
        schedule(#attn_tile.scalar)
    attn.overlap_yield
  }
  return
}

// CHECK-LABEL: func.func @others(
// CHECK-COUNT-6: attn.overlap by fused
func.func @others(%x: memref<64x64xbf16>, %y: memref<64x64xbf16>, %z: memref<64x64xbf16>,
                  %m: memref<1x1x32x4xi32>, %n: memref<1x1x32x4xi32>, %seed: i64, %count: memref<i64>) {
  attn.overlap by fused {
    attn.matmul ins(%x, %x : memref<64x64xbf16>, memref<64x64xbf16>) outs(%y : memref<64x64xbf16>) schedule(#tiles)
    attn.overlap_yield
  } and {
    attn.matmul ins(%x, %x : memref<64x64xbf16>, memref<64x64xbf16>) outs(%z : memref<64x64xbf16>) schedule(#tiles)
    attn.overlap_yield
  }
  attn.overlap by fused {
    attn.matmul ins(%x, %x : memref<64x64xbf16>, memref<64x64xbf16>) outs(%y : memref<64x64xbf16>) schedule(#tiles)
    attn.overlap_yield
  } and {
    attn.overlap_yield
  }
  attn.overlap by fused {
    attn.dropout_mask rows by(#dropout, %seed, %seed : i64, i64) outs(%m : memref<1x1x32x4xi32>) schedule(#attn_tile.scalar)
    attn.overlap_yield
  } and {
    attn.overlap_yield
  }
  attn.overlap by fused {
    attn.matmul ins(%x, %x : memref<64x64xbf16>, memref<64x64xbf16>) outs(%y : memref<64x64xbf16>) schedule(#tiles)
    attn.overlap_yield
  } and {
    attn.dropout_mask rows by(#dropout, %seed, %seed : i64, i64) outs(%m : memref<1x1x32x4xi32>) schedule(#attn_tile.scalar)
    attn.dropout_mask rows by(#dropout, %seed, %seed : i64, i64) outs(%n : memref<1x1x32x4xi32>) schedule(#attn_tile.scalar)
    attn.overlap_yield
  }
  attn.overlap by fused {
    attn.matmul ins(%x, %x : memref<64x64xbf16>, memref<64x64xbf16>) outs(%y : memref<64x64xbf16>) schedule(#tiles)
    attn.overlap_yield
  } and {
    memref.store %seed, %count[] : memref<i64>
    attn.dropout_mask rows by(#dropout, %seed, %seed : i64, i64) outs(%m : memref<1x1x32x4xi32>) schedule(#attn_tile.scalar)
    attn.overlap_yield
  }
  attn.overlap by fused {
    attn.matmul ins(%x, %x : memref<64x64xbf16>, memref<64x64xbf16>) outs(%y : memref<64x64xbf16>) schedule(#tiles)
    attn.dropout_mask rows by(#dropout, %seed, %seed : i64, i64) outs(%m : memref<1x1x32x4xi32>) schedule(#attn_tile.scalar)
    attn.overlap_yield
  } and {
    attn.overlap_yield
  }
  return
}
