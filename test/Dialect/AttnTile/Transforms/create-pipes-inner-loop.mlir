// RUN: attn-opt %s -attn-tile-create-pipes='read-operands local-stages=1' | FileCheck %s

#rows = affine_map<(m, n, k) -> (m, k)>
#columns = affine_map<(m, n, k) -> (k, m)>
#values = affine_map<(m, n, k) -> (k, n)>
#result = affine_map<(m, n, k) -> (m, n)>

// A matmul of an inner loop stores both of its computed operands, at the position of the tile around the loop. The pipe
// of what is computed before the loop is not theirs.

// CHECK-LABEL: attn_tile.kernel @inner
// CHECK: %[[RHS:.*]] = attn_tile.create_pipe : <16x16xf16, stages = 1>
// CHECK: %[[LHS:.*]] = attn_tile.create_pipe : <16x16xf16, stages = 1>
// CHECK: %[[OUTER:.*]] = attn_tile.create_pipe : <16x16xf16, stages = 1>
// CHECK: %[[STREAM:.*]] = attn_tile.create_pipe : <16x16xf16, stages = 2>
// CHECK: scf.for %[[I:.*]] = %c0 to
// CHECK: %[[X:.*]] = attn_tile.wait %[[STREAM]][%[[I]]]
// CHECK: %[[Y:.*]] = attn_tile.local_store %{{.*}} in %[[OUTER]][%[[I]]]
// CHECK: attn_tile.mma_start %[[X]], %[[Y]]
// CHECK: scf.for
// CHECK: %[[A:.*]] = attn_tile.local_store %{{.*}} in %[[LHS]][%[[I]]]
// CHECK: %[[B:.*]] = attn_tile.local_store %{{.*}} in %[[RHS]][%[[I]]]
// CHECK: attn_tile.mma_start %[[A]], %[[B]] transpose_lhs
attn_tile.kernel @inner(%q: memref<?x16xf16>, %acc: vector<16x16xf32>, %out: memref<?x16xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  scf.for %i = %c0 to %n step %c1 {
    %x = attn_tile.load %q[%i, %c0] stream(%i of %n) : memref<?x16xf16> -> vector<16x16xf16>
    %wide = arith.extf %x : vector<16x16xf16> to vector<16x16xf32>
    %square = arith.mulf %wide, %wide : vector<16x16xf32>
    %y = arith.truncf %square : vector<16x16xf32> to vector<16x16xf16>
    %before = vector.contract {indexing_maps = [#rows, #values, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %x, %y, %acc : vector<16x16xf16>, vector<16x16xf16> into vector<16x16xf32>
    %sum = scf.for %level = %c0 to %c4 step %c1 iter_args(%carried = %before) -> vector<16x16xf32> {
      %cubes = arith.mulf %carried, %square : vector<16x16xf32>
      %a = arith.truncf %cubes : vector<16x16xf32> to vector<16x16xf16>
      %sums = arith.addf %carried, %square : vector<16x16xf32>
      %b = arith.truncf %sums : vector<16x16xf32> to vector<16x16xf16>
      %next = vector.contract {indexing_maps = [#columns, #values, #result],
          iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
          %a, %b, %carried : vector<16x16xf16>, vector<16x16xf16> into vector<16x16xf32>
      scf.yield %next : vector<16x16xf32>
    }
    attn_tile.store %sum, %out[%i, %c0] : vector<16x16xf32>, memref<?x16xf32>
  }
  attn_tile.return
}
