// RUN: attn-opt %s -attn-tile-create-pipes -split-input-file | FileCheck %s

// Tiles of ordered accumulation are staged at the position of the streams next to them.

#rows = affine_map<(m, n, k) -> (m, k)>
#values = affine_map<(m, n, k) -> (k, n)>
#result = affine_map<(m, n, k) -> (m, n)>

// CHECK-LABEL: attn_tile.kernel @whole(
// CHECK-SAME:    %[[SUMS:[a-z0-9]+]]: memref<?x64xf32>, %[[ORDERED:[a-z0-9]+]]: memref<?xi32>
// CHECK:         %[[PIPE:.*]] = attn_tile.create_pipe : <64x64xf32, stages = 1>
// CHECK:         scf.for
// CHECK:           attn_tile.wait %{{.*}}[%[[POSITION:.*]]] :
// CHECK:           %[[T:.*]] = attn_tile.stage_fragments %{{.*}} in %[[PIPE]][%[[POSITION]]] :
// CHECK-NEXT:      attn_tile.bulk_reduce_add %[[T]] to %[[SUMS]][%{{.*}}] ordered(%{{.*}} of %[[ORDERED]][%{{.*}}]) : !attn_tile.buffer<64x64xf32>
attn_tile.kernel @whole(%p: vector<64x16xf16>, %v: memref<?x64xf16>, %sums: memref<?x64xf32>, %semaphores: memref<?xi32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : vector<64x64xf32>
  scf.for %t = %c0 to %n step %c1 {
    %u = attn_tile.load %v[%t, %c0] stream(%t of %n) : memref<?x64xf16> -> vector<16x64xf16>
    %o = vector.contract {indexing_maps = [#rows, #values, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %p, %u, %zero : vector<64x16xf16>, vector<16x64xf16> into vector<64x64xf32>
    attn_tile.bulk_reduce_add %o to %sums[%t, %c0] ordered(%t of %semaphores[%t]) : vector<64x64xf32> to memref<?x64xf32>, memref<?xi32>
  }
  attn_tile.return
}

// -----

// Where a step has parts, so many positions of the streams are one tile.

#rows = affine_map<(m, n, k) -> (m, k)>
#values = affine_map<(m, n, k) -> (k, n)>
#result = affine_map<(m, n, k) -> (m, n)>

// CHECK-LABEL: attn_tile.kernel @parts(
// CHECK:         %[[PIPE:.*]] = attn_tile.create_pipe : <64x64xf32, stages = 1>
// CHECK:         scf.for
// CHECK:           attn_tile.wait %{{.*}}[%[[POSITION:.*]]] :
// CHECK:           %[[TWO:.*]] = arith.constant 2 : index
// CHECK:           %[[TILE:.*]] = arith.divui %[[POSITION]], %[[TWO]] : index
// CHECK:           attn_tile.stage_fragments %{{.*}} in %[[PIPE]][%[[TILE]]] :
attn_tile.kernel @parts(%p: vector<64x16xf16>, %v: memref<?x64xf16>, %sums: memref<?x64xf32>, %semaphores: memref<?xi32>, %n: index)
    attributes {schedule = #attn_tile.key_stationary<query_tile = 128, key_tile = 128, stages = 4, consumers = 2, query_parts = 2>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : vector<64x64xf32>
  scf.for %t = %c0 to %n step %c1 {
    %u = attn_tile.load %v[%t, %c0] stream(%t of %n) : memref<?x64xf16> -> vector<16x64xf16>
    %o = vector.contract {indexing_maps = [#rows, #values, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %p, %u, %zero : vector<64x16xf16>, vector<16x64xf16> into vector<64x64xf32>
    attn_tile.bulk_reduce_add %o to %sums[%t, %c0] ordered(%t of %semaphores[%t]) : vector<64x64xf32> to memref<?x64xf32>, memref<?xi32>
  }
  attn_tile.return
}
