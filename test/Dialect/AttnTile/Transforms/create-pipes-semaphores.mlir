// RUN: attn-opt %s -attn-tile-create-pipes -split-input-file | FileCheck %s

// Counts are of additions that go through pipes, by the position of what stays
// for a whole work item: its number.

#rows = affine_map<(m, n, k) -> (m, k)>
#values = affine_map<(m, n, k) -> (k, n)>
#result = affine_map<(m, n, k) -> (m, n)>

// CHECK-LABEL: attn_tile.kernel @items(
// CHECK-SAME:    %[[C:[a-z0-9]+]]: memref<?xi32>
// CHECK:         %[[SUMS:.*]] = attn_tile.create_pipe : <64x64xf32, stages = 1>
// CHECK:         scf.for %[[WORK_ITEM:.*]] = %{{.*}} to
// CHECK:           attn_tile.wait %{{.*}}[%[[WORK_ITEM]]] :
// CHECK:           scf.for
// CHECK:             attn_tile.bulk_reduce_add
// CHECK:           attn_tile.semaphore_add %[[C]][%[[WORK_ITEM]]] of additions after(%[[SUMS]][%[[WORK_ITEM]]]) :
attn_tile.kernel @items(%c: memref<?xi32>, %k: memref<?x16xf16>, %v: memref<?x64xf16>, %sums: memref<?x64xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : vector<64x64xf32>
  scf.for %i = %c0 to %n step %c1 {
    %p = attn_tile.load %k[%i, %c0] stream(%i of %c1) : memref<?x16xf16> -> vector<64x16xf16>
    scf.for %t = %c0 to %n step %c1 {
      %u = attn_tile.load %v[%t, %c0] stream(%t of %n) : memref<?x64xf16> -> vector<16x64xf16>
      %o = vector.contract {indexing_maps = [#rows, #values, #result],
          iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
          %p, %u, %zero : vector<64x16xf16>, vector<16x64xf16> into vector<64x64xf32>
      attn_tile.bulk_reduce_add %o to %sums[%t, %c0] : vector<64x64xf32> to memref<?x64xf32>
    }
    attn_tile.semaphore_add %c[%i] of additions : memref<?xi32>
  }
  attn_tile.return
}

// -----

// Other counts are of all that has been done, and those where nothing is loaded
// once for each work item stay with the consumers.

#rows = affine_map<(m, n, k) -> (m, k)>
#values = affine_map<(m, n, k) -> (k, n)>
#result = affine_map<(m, n, k) -> (m, n)>

// CHECK-LABEL: attn_tile.kernel @others(
// CHECK-SAME:    %[[C:[a-z0-9]+]]: memref<?xi32>
// CHECK:         attn_tile.semaphore_add %[[C]][%{{.*}}] : memref<?xi32>
// CHECK:         attn_tile.semaphore_add %[[C]][%{{.*}}] of additions : memref<?xi32>
attn_tile.kernel @others(%c: memref<?xi32>, %p: vector<64x16xf16>, %v: memref<?x64xf16>, %sums: memref<?x64xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : vector<64x64xf32>
  scf.for %t = %c0 to %n step %c1 {
    %u = attn_tile.load %v[%t, %c0] stream(%t of %n) : memref<?x64xf16> -> vector<16x64xf16>
    %o = vector.contract {indexing_maps = [#rows, #values, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %p, %u, %zero : vector<64x16xf16>, vector<16x64xf16> into vector<64x64xf32>
    attn_tile.bulk_reduce_add %o to %sums[%t, %c0] : vector<64x64xf32> to memref<?x64xf32>
    attn_tile.semaphore_add %c[%t] : memref<?xi32>
  }
  attn_tile.semaphore_add %c[%c0] of additions : memref<?xi32>
  attn_tile.return
}
