// RUN: attn-opt %s -pass-pipeline='builtin.module(attn_tile.kernel(attn-tile-software-pipeline-kv-loop{deferred-rescale}))' \
// RUN:   -split-input-file | FileCheck %s
// RUN: attn-opt %s -pass-pipeline='builtin.module(attn_tile.kernel(attn-tile-software-pipeline-kv-loop))' \
// RUN:   -split-input-file | FileCheck %s --check-prefix=EARLY
// RUN: attn-opt %s -pass-pipeline='builtin.module(attn_tile.kernel(attn-tile-software-pipeline-kv-loop{deferred-rescale}))' \
// RUN:   -split-input-file --remarks-filter='attn-tile.*' --remark-format=emitRemark 2>&1 >/dev/null \
// RUN:   | FileCheck %s --check-prefix=REMARK

#lhs = affine_map<(m, n, k) -> (m, k)>
#keys = affine_map<(m, n, k) -> (n, k)>
#values = affine_map<(m, n, k) -> (k, n)>
#result = affine_map<(m, n, k) -> (m, n)>

// The accumulator is rescaled in the step after, between the two MMAs: the
// loop carries it as the last MMA gave it, and the factors of its rows.

// REMARK: Remark="software-pipelined a chain of loops"

// CHECK-LABEL: attn_tile.kernel @online
// CHECK-SAME:    %[[K:.*]]: memref<?x16xf16>, %[[V:.*]]: memref<?x16xf16>, %{{.*}}: vector<16x16xf16>
// EARLY-LABEL: attn_tile.kernel @online
attn_tile.kernel @online(%k: memref<?x16xf16>, %v: memref<?x16xf16>, %q: vector<16x16xf16>,
                         %out: memref<?x16xf32>, %count: index, %start: vector<16xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %zero = arith.constant dense<0.0> : vector<16x8xf32>
  %acc0 = arith.constant dense<0.0> : vector<16x16xf32>
  // CHECK-DAG:  %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : vector<16x16xf32>
  // Step 0.
  // CHECK:      vector.contract
  // CHECK:      %[[MAX0:.*]] = vector.multi_reduction
  // CHECK:      %[[FACTORS0:.*]] = math.exp2 %{{.*}} : vector<16xf32>
  // CHECK:      %[[P0:.*]] = arith.truncf
  // CHECK-NOT:  arith.mulf
  // CHECK:      %[[LOOP:.*]]:4 = scf.for
  // CHECK-SAME:     iter_args(%[[MAX:.*]] = %[[MAX0]], %[[ACC:.*]] = %[[ZERO]], %[[P:.*]] = %[[P0]], %[[FACTORS:.*]] = %[[FACTORS0]])
  // EARLY:      scf.for {{.*}} iter_args({{.*}}) -> (vector<16xf32>, vector<16x16xf32>, vector<16x8xf16>) {
  %0:2 = scf.for %t = %c0 to %count step %c1 iter_args(%max = %start, %acc = %acc0) -> (vector<16xf32>, vector<16x16xf32>) {
    // CHECK:        attn_tile.load %[[K]]
    // CHECK-NEXT:   vector.contract
    // CHECK:        attn_tile.load %[[V]]
    // CHECK-NEXT:   %[[COLUMN:.*]] = vector.shape_cast %[[FACTORS]] : vector<16xf32> to vector<16x1xf32>
    // CHECK-NEXT:   %[[TILE:.*]] = vector.broadcast %[[COLUMN]] : vector<16x1xf32> to vector<16x16xf32>
    // CHECK-NEXT:   %[[SCALED:.*]] = arith.mulf %[[ACC]], %[[TILE]]
    // CHECK-NEXT:   %[[O:.*]] = vector.contract {{.*}} %[[P]], %{{.*}}, %[[SCALED]]
    // CHECK-NEXT:   %[[M:.*]] = vector.multi_reduction
    // CHECK:        %[[NEXT:.*]] = math.exp2 %{{.*}} : vector<16xf32>
    // CHECK:        %[[PB:.*]] = arith.truncf
    // CHECK-NOT:    arith.mulf
    // CHECK:        scf.yield %[[M]], %[[O]], %[[PB]], %[[NEXT]]
    // EARLY:        %[[O:.*]] = vector.contract {{.*}} into vector<16x16xf32>
    // EARLY:        %[[SCALED:.*]] = arith.mulf %[[O]]
    // EARLY:        scf.yield %{{.*}}, %[[SCALED]], %{{.*}} : vector<16xf32>, vector<16x16xf32>, vector<16x8xf16>
    %row = arith.muli %t, %c8 : index
    %kt = attn_tile.load %k[%row, %c0] stream(%t of %count) : memref<?x16xf16> -> vector<8x16xf16>
    %s = vector.contract {indexing_maps = [#lhs, #keys, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %q, %kt, %zero : vector<16x16xf16>, vector<8x16xf16> into vector<16x8xf32>
    %new = vector.multi_reduction <maxnumf>, %s, %max [1] : vector<16x8xf32> to vector<16xf32>
    %grown = arith.subf %max, %new : vector<16xf32>
    %factors = math.exp2 %grown : vector<16xf32>
    %column = vector.shape_cast %factors : vector<16xf32> to vector<16x1xf32>
    %factor = vector.broadcast %column : vector<16x1xf32> to vector<16x16xf32>
    %scaled = arith.mulf %acc, %factor : vector<16x16xf32>
    %e = math.exp2 %s : vector<16x8xf32>
    %vt = attn_tile.load %v[%row, %c0] stream(%t of %count) : memref<?x16xf16> -> vector<8x16xf16>
    %p = arith.truncf %e : vector<16x8xf32> to vector<16x8xf16>
    %o = vector.contract {indexing_maps = [#lhs, #values, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %p, %vt, %scaled : vector<16x8xf16>, vector<8x16xf16> into vector<16x16xf32>
    scf.yield %new, %o : vector<16xf32>, vector<16x16xf32>
  }
  // CHECK:      vector.broadcast
  // CHECK:      %[[LAST:.*]] = math.fma %[[LOOP]]#1
  // CHECK-NEXT: %[[RESULT:.*]] = vector.contract {{.*}} %[[LOOP]]#2, %{{.*}}, %[[LAST]]
  // CHECK-NEXT: attn_tile.store %[[RESULT]]
  attn_tile.store %0#1, %out[%c0, %c0] : vector<16x16xf32>, memref<?x16xf32>
  attn_tile.return
}

// -----

#lhs = affine_map<(m, n, k) -> (m, k)>
#keys = affine_map<(m, n, k) -> (n, k)>
#values = affine_map<(m, n, k) -> (k, n)>
#result = affine_map<(m, n, k) -> (m, n)>

// Factors that differ within a row stay where they are: carrying them takes as
// many registers as the accumulator.

// REMARK: Remark="software-pipelined a chain of loops"

// CHECK-LABEL: attn_tile.kernel @not_of_rows
// CHECK:         scf.for
// CHECK:           %[[O:.*]] = vector.contract {{.*}} into vector<16x16xf32>
// CHECK:           %[[SCALED:.*]] = arith.mulf %[[O]], %{{.*}} : vector<16x16xf32>
// CHECK-NEXT:      scf.yield %[[SCALED]], %{{.*}} : vector<16x16xf32>, vector<16x8xf16>
attn_tile.kernel @not_of_rows(%k: memref<?x16xf16>, %v: memref<?x16xf16>, %q: vector<16x16xf16>,
                              %out: memref<?x16xf32>, %count: index, %f: vector<16x16xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : vector<16x8xf32>
  %acc0 = arith.constant dense<0.0> : vector<16x16xf32>
  %0 = scf.for %t = %c0 to %count step %c1 iter_args(%acc = %acc0) -> vector<16x16xf32> {
    %kt = attn_tile.load %k[%t, %c0] stream(%t of %count) : memref<?x16xf16> -> vector<8x16xf16>
    %s = vector.contract {indexing_maps = [#lhs, #keys, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %q, %kt, %zero : vector<16x16xf16>, vector<8x16xf16> into vector<16x8xf32>
    %scaled = arith.mulf %acc, %f : vector<16x16xf32>
    %vt = attn_tile.load %v[%t, %c0] stream(%t of %count) : memref<?x16xf16> -> vector<8x16xf16>
    %p = arith.truncf %s : vector<16x8xf32> to vector<16x8xf16>
    %o = vector.contract {indexing_maps = [#lhs, #values, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %p, %vt, %scaled : vector<16x8xf16>, vector<8x16xf16> into vector<16x16xf32>
    scf.yield %o : vector<16x16xf32>
  }
  attn_tile.store %0, %out[%c0, %c0] : vector<16x16xf32>, memref<?x16xf32>
  attn_tile.return
}

// -----

#lhs = affine_map<(m, n, k) -> (m, k)>
#keys = affine_map<(m, n, k) -> (n, k)>
#values = affine_map<(m, n, k) -> (k, n)>
#result = affine_map<(m, n, k) -> (m, n)>

// Left alone: one loop of the chain could hand over factors, the other one not.

// REMARK: Remark="the steps of consecutive loops differ"

// CHECK-LABEL: attn_tile.kernel @one_of_two
// CHECK-NOT:     vector.contract
// CHECK:         scf.for
// EARLY-LABEL: attn_tile.kernel @one_of_two
// EARLY:         vector.contract
// EARLY:         scf.for
attn_tile.kernel @one_of_two(%k: memref<?x16xf16>, %v: memref<?x16xf16>, %q: vector<16x16xf16>,
                             %out: memref<?x16xf32>, %lead: index, %count: index, %factors: vector<16xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : vector<16x8xf32>
  %acc0 = arith.constant dense<0.0> : vector<16x16xf32>
  %column = vector.shape_cast %factors : vector<16xf32> to vector<16x1xf32>
  %factor = vector.broadcast %column : vector<16x1xf32> to vector<16x16xf32>
  %0 = scf.for %t = %c0 to %lead step %c1 iter_args(%acc = %acc0) -> vector<16x16xf32> {
    %kt = attn_tile.load %k[%t, %c0] stream(%t of %count) : memref<?x16xf16> -> vector<8x16xf16>
    %s = vector.contract {indexing_maps = [#lhs, #keys, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %q, %kt, %zero : vector<16x16xf16>, vector<8x16xf16> into vector<16x8xf32>
    %scaled = arith.mulf %factor, %acc : vector<16x16xf32>
    %vt = attn_tile.load %v[%t, %c0] stream(%t of %count) : memref<?x16xf16> -> vector<8x16xf16>
    %p = arith.truncf %s : vector<16x8xf32> to vector<16x8xf16>
    %o = vector.contract {indexing_maps = [#lhs, #values, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %p, %vt, %scaled : vector<16x8xf16>, vector<8x16xf16> into vector<16x16xf32>
    scf.yield %o : vector<16x16xf32>
  }
  %1 = scf.for %t = %lead to %count step %c1 iter_args(%acc = %0) -> vector<16x16xf32> {
    %kt = attn_tile.load %k[%t, %c0] stream(%t of %count) : memref<?x16xf16> -> vector<8x16xf16>
    %s = vector.contract {indexing_maps = [#lhs, #keys, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %q, %kt, %zero : vector<16x16xf16>, vector<8x16xf16> into vector<16x8xf32>
    %vt = attn_tile.load %v[%t, %c0] stream(%t of %count) : memref<?x16xf16> -> vector<8x16xf16>
    %p = arith.truncf %s : vector<16x8xf32> to vector<16x8xf16>
    %o = vector.contract {indexing_maps = [#lhs, #values, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %p, %vt, %acc : vector<16x8xf16>, vector<8x16xf16> into vector<16x16xf32>
    scf.yield %o : vector<16x16xf32>
  }
  attn_tile.store %1, %out[%c0, %c0] : vector<16x16xf32>, memref<?x16xf32>
  attn_tile.return
}
