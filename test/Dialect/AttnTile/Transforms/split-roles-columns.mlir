// RUN: attn-opt %s -attn-tile-split-roles=consumer-columns | FileCheck %s

// Consumers hold all rows of tiles. What depends on the consumer stays in its
// role, even though it is computed from nothing.

// CHECK-LABEL: attn_tile.kernel @columns
// CHECK-SAME:    layout = #attn_tile.row_blocks<warps = 4>
// CHECK-NOT:     attn_tile.consumer_id
// CHECK:         attn_tile.role producer warpgroups(1) registers(24) {
// CHECK-NOT:     attn_tile.consumer_id
// CHECK:         attn_tile.role consumer warpgroups(2) registers(240) {
// CHECK:           %[[CONSUMER:.*]] = attn_tile.consumer_id
// CHECK:           %[[COLUMN:.*]] = arith.muli %[[CONSUMER]], %{{.*}} : index
// CHECK:           attn_tile.mma_start %{{.*}}, %{{.*}} consumer_columns
// CHECK:           attn_tile.store %{{.*}}, %{{.*}}[%{{.*}}, %[[COLUMN]]]
attn_tile.kernel @columns(%k: memref<?x128xf16>, %p: vector<64x16xf16>, %out: memref<64x128xf32>, %n: index) {
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<16x128xf16, stages = 2>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %consumer = attn_tile.consumer_id
  %column = arith.muli %consumer, %c64 : index
  %zero = arith.constant dense<0.0> : vector<64x64xf32>
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (vector<64x64xf32>) {
    %b = attn_tile.acquire %pipe[%i] : !attn_tile.pipe<16x128xf16, stages = 2>
    attn_tile.copy %k[%i, %c0] to %b : memref<?x128xf16> to !attn_tile.buffer<16x128xf16>
    attn_tile.commit %b : !attn_tile.buffer<16x128xf16>
    %f = attn_tile.wait %pipe[%i] : !attn_tile.pipe<16x128xf16, stages = 2>
    %s = attn_tile.mma_start %p, %f consumer_columns acc %acc : vector<64x16xf16>, !attn_tile.buffer<16x128xf16>
        -> !attn_tile.pending<vector<64x64xf32>>
    %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<64x64xf32>>
    attn_tile.release %f : !attn_tile.buffer<16x128xf16>
    scf.yield %r : vector<64x64xf32>
  }
  attn_tile.store %sum, %out[%c0, %column] : vector<64x64xf32>, memref<64x128xf32>
  attn_tile.return
}
