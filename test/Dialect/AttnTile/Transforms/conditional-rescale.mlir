// RUN: attn-opt %s -pass-pipeline='builtin.module(attn_tile.kernel(attn-tile-conditional-rescale))' | FileCheck %s

// The accumulator that a loop carries is rescaled; the result at the end is
// multiplied as before.
// CHECK-LABEL: attn_tile.kernel @accumulate
attn_tile.kernel @accumulate(%n: index, %factors: vector<64xf32>, %p: vector<64x16xbf16>, %out: memref<64x128xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : vector<64x128xf32>
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<16x128xbf16, stages = 2>
  %column = vector.shape_cast %factors : vector<64xf32> to vector<64x1xf32>
  %factor = vector.broadcast %column : vector<64x1xf32> to vector<64x128xf32>
  // CHECK: scf.for
  %acc = scf.for %t = %c0 to %n step %c1 iter_args(%a = %zero) -> vector<64x128xf32> {
    %v = attn_tile.wait %pipe[%t] : !attn_tile.pipe<16x128xbf16, stages = 2>
    %o = attn_tile.mma_start %p, %v acc %a : vector<64x16xbf16>, !attn_tile.buffer<16x128xbf16> -> !attn_tile.pending<vector<64x128xf32>>
    // CHECK: %[[O:.*]] = attn_tile.mma_wait
    %o1 = attn_tile.mma_wait %o : !attn_tile.pending<vector<64x128xf32>>
    attn_tile.release %v : !attn_tile.buffer<16x128xbf16>
    // CHECK: %[[R:.*]] = attn_tile.rescale %[[O]] by %{{.*}} : vector<64x128xf32>, vector<64xf32>
    %r = arith.mulf %o1, %factor : vector<64x128xf32>
    // CHECK: scf.yield %[[R]]
    scf.yield %r : vector<64x128xf32>
  }
  // CHECK: arith.mulf
  %scaled = arith.mulf %acc, %factor : vector<64x128xf32>
  attn_tile.store %scaled, %out[%c0, %c0] : vector<64x128xf32>, memref<64x128xf32>
  attn_tile.return
}

// The same where the loop carries the result of the MMA, and the next one adds
// to it. A factor for a value that is no MMA stays.
// CHECK-LABEL: attn_tile.kernel @delayed
attn_tile.kernel @delayed(%n: index, %factors: vector<64xf32>, %p: vector<64x16xbf16>, %out: memref<64x128xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : vector<64x128xf32>
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<16x128xbf16, stages = 2>
  %column = vector.shape_cast %factors : vector<64xf32> to vector<64x1xf32>
  %factor = vector.broadcast %column : vector<64x1xf32> to vector<64x128xf32>
  // CHECK: scf.for %{{.*}} iter_args(%[[A:.*]] = %{{.*}}, %[[X:.*]] = %{{.*}})
  %acc:2 = scf.for %t = %c0 to %n step %c1 iter_args(%a = %zero, %x = %zero) -> (vector<64x128xf32>, vector<64x128xf32>) {
    %v = attn_tile.wait %pipe[%t] : !attn_tile.pipe<16x128xbf16, stages = 2>
    // CHECK: %[[R:.*]] = attn_tile.rescale %[[A]] by %{{.*}} : vector<64x128xf32>, vector<64xf32>
    %r = arith.mulf %factor, %a : vector<64x128xf32>
    // CHECK: attn_tile.mma_start %{{.*}}, %{{.*}} acc %[[R]]
    %o = attn_tile.mma_start %p, %v acc %r : vector<64x16xbf16>, !attn_tile.buffer<16x128xbf16> -> !attn_tile.pending<vector<64x128xf32>>
    // CHECK: arith.mulf %[[X]]
    %y = arith.mulf %x, %factor : vector<64x128xf32>
    %o1 = attn_tile.mma_wait %o : !attn_tile.pending<vector<64x128xf32>>
    attn_tile.release %v : !attn_tile.buffer<16x128xbf16>
    scf.yield %o1, %y : vector<64x128xf32>, vector<64x128xf32>
  }
  attn_tile.store %acc#0, %out[%c0, %c0] : vector<64x128xf32>, memref<64x128xf32>
  attn_tile.store %acc#1, %out[%c0, %c0] : vector<64x128xf32>, memref<64x128xf32>
  attn_tile.return
}
