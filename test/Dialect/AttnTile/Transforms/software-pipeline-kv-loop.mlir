// RUN: attn-opt %s -attn-tile-software-pipeline-kv-loop -split-input-file | FileCheck %s
// RUN: attn-opt %s -attn-tile-software-pipeline-kv-loop -split-input-file \
// RUN:   --remarks-filter='attn-tile.*' --remark-format=emitRemark 2>&1 >/dev/null \
// RUN:   | FileCheck %s --check-prefix=REMARK

#lhs = affine_map<(m, n, k) -> (m, k)>
#keys = affine_map<(m, n, k) -> (n, k)>
#values = affine_map<(m, n, k) -> (k, n)>
#result = affine_map<(m, n, k) -> (m, n)>

// Two consecutive loops: step 0 is taken out, the last MMA of the last
// step comes after the loops.

// REMARK: remark: [Passed] SoftwarePipelineKVLoop | Category:attn-tile-software-pipeline-kv-loop | Function=chain | Remark="software-pipelined a chain of
// REMARK-SAME:     loops"

// CHECK-LABEL: attn_tile.kernel @chain
// CHECK-SAME:    %[[K:.*]]: memref<?x16xf16>, %[[V:.*]]: memref<?x16xf16>, %[[Q:.*]]: vector<16x16xf16>
// CHECK-SAME:    %[[LEAD:[a-z0-9]+]]: index, %[[COUNT:[a-z0-9]+]]: index
attn_tile.kernel @chain(%k: memref<?x16xf16>, %v: memref<?x16xf16>, %q: vector<16x16xf16>,
                        %out: memref<?x16xf32>, %lead: index, %count: index, %f: vector<16x16xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %zero = arith.constant dense<0.0> : vector<16x8xf32>
  %acc0 = arith.constant dense<0.0> : vector<16x16xf32>
  // Step 0.
  // CHECK-DAG:  %[[C0:.*]] = arith.constant 0 : index
  // CHECK-DAG:  %[[C1:.*]] = arith.constant 1 : index
  // CHECK-DAG:  %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : vector<16x16xf32>
  // CHECK:      %[[K0:.*]] = attn_tile.load %[[K]]{{.*}} stream(%[[C0]] of %[[COUNT]])
  // CHECK:      %[[S0:.*]] = vector.contract {{.*}} %[[Q]], %[[K0]]
  // CHECK-NEXT: %[[N0:.*]] = arith.negf %[[S0]]
  // CHECK-NEXT: %[[E0:.*]] = math.exp2 %[[N0]]
  // CHECK-NEXT: %[[P0:.*]] = arith.truncf %[[E0]]
  // CHECK-NOT:  attn_tile.load
  // CHECK:      %[[LB:.*]] = arith.addi %[[C0]], %[[C1]]
  // CHECK:      %[[LEADING:.*]]:2 = scf.for %[[T:.*]] = %[[LB]] to %[[LEAD]] step %[[C1]]
  // CHECK-SAME:     iter_args(%[[ACC:.*]] = %[[ZERO]], %[[P:.*]] = %[[P0]])
  %0 = scf.for %t = %c0 to %lead step %c1 iter_args(%acc = %acc0) -> vector<16x16xf32> {
    // Both MMAs first, the second one for the step before.
    // CHECK:      %[[KT:.*]] = attn_tile.load %[[K]]{{.*}} stream(%[[T]] of %[[COUNT]])
    // CHECK-NEXT: %[[S:.*]] = vector.contract {{.*}} %[[Q]], %[[KT]]
    // CHECK-NEXT: %[[PREVIOUS:.*]] = arith.subi %[[T]], %[[C1]]
    // CHECK-NEXT: %[[ROW:.*]] = arith.muli %[[PREVIOUS]]
    // CHECK-NEXT: %[[VT:.*]] = attn_tile.load %[[V]][%[[ROW]], {{.*}} stream(%[[PREVIOUS]] of %[[COUNT]])
    // CHECK-NEXT: %[[O:.*]] = vector.contract {{.*}} %[[P]], %[[VT]], %[[ACC]]
    // CHECK-NEXT: arith.negf
    // CHECK-NEXT: %[[E:.*]] = math.exp2
    // CHECK-NEXT: %[[PB:.*]] = arith.truncf %[[E]]
    // CHECK-NEXT: %[[SCALED:.*]] = arith.mulf %[[O]]
    // CHECK-NEXT: scf.yield %[[SCALED]], %[[PB]]
    %row = arith.muli %t, %c8 : index
    %kt = attn_tile.load %k[%row, %c0] stream(%t of %count) : memref<?x16xf16> -> vector<8x16xf16>
    %s = vector.contract {indexing_maps = [#lhs, #keys, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %q, %kt, %zero : vector<16x16xf16>, vector<8x16xf16> into vector<16x8xf32>
    %scaled = arith.mulf %acc, %f : vector<16x16xf32>
    %masked = arith.negf %s : vector<16x8xf32>
    %e = math.exp2 %masked : vector<16x8xf32>
    %vt = attn_tile.load %v[%row, %c0] stream(%t of %count) : memref<?x16xf16> -> vector<8x16xf16>
    %p = arith.truncf %e : vector<16x8xf32> to vector<16x8xf16>
    %o = vector.contract {indexing_maps = [#lhs, #values, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %p, %vt, %scaled : vector<16x8xf16>, vector<8x16xf16> into vector<16x16xf32>
    scf.yield %o : vector<16x16xf32>
  }
  // CHECK:      %[[DONE:.*]]:2 = scf.for %{{.*}} = %[[LEAD]] to %[[COUNT]] step %[[C1]]
  // CHECK-SAME:     iter_args(%{{.*}} = %[[LEADING]]#0, %{{.*}} = %[[LEADING]]#1)
  // CHECK:        attn_tile.load %[[K]]
  // CHECK-NEXT:   vector.contract
  // CHECK:        attn_tile.load %[[V]]
  // CHECK-NEXT:   vector.contract
  // CHECK-NEXT:   math.exp2
  // CHECK:      }
  // CHECK:      %[[END:.*]] = arith.subi %[[COUNT]], %[[C1]]
  // CHECK-NEXT: %[[LASTROW:.*]] = arith.muli %[[END]]
  // CHECK-NEXT: %[[LASTV:.*]] = attn_tile.load %[[V]][%[[LASTROW]], {{.*}} stream(%[[END]] of %[[COUNT]])
  // CHECK-NEXT: %[[RESULT:.*]] = vector.contract {{.*}} %[[DONE]]#1, %[[LASTV]], %[[DONE]]#0
  // CHECK-NEXT: attn_tile.store %[[RESULT]]
  %1 = scf.for %t = %lead to %count step %c1 iter_args(%acc = %0) -> vector<16x16xf32> {
    %row = arith.muli %t, %c8 : index
    %kt = attn_tile.load %k[%row, %c0] stream(%t of %count) : memref<?x16xf16> -> vector<8x16xf16>
    %s = vector.contract {indexing_maps = [#lhs, #keys, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %q, %kt, %zero : vector<16x16xf16>, vector<8x16xf16> into vector<16x8xf32>
    %scaled = arith.mulf %acc, %f : vector<16x16xf32>
    %e = math.exp2 %s : vector<16x8xf32>
    %vt = attn_tile.load %v[%row, %c0] stream(%t of %count) : memref<?x16xf16> -> vector<8x16xf16>
    %p = arith.truncf %e : vector<16x8xf32> to vector<16x8xf16>
    %o = vector.contract {indexing_maps = [#lhs, #values, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %p, %vt, %scaled : vector<16x8xf16>, vector<8x16xf16> into vector<16x16xf32>
    scf.yield %o : vector<16x16xf32>
  }
  attn_tile.store %1, %out[%c0, %c0] : vector<16x16xf32>, memref<?x16xf32>
  attn_tile.return
}

// -----

#lhs = affine_map<(m, n, k) -> (m, k)>
#values = affine_map<(m, n, k) -> (k, n)>
#result = affine_map<(m, n, k) -> (m, n)>

// Left alone: there is no MMA to overlap with.

// REMARK: Remark="a step has fewer than two MMAs"

// CHECK-LABEL: attn_tile.kernel @one_mma
// CHECK:         scf.for %{{.*}} = %{{.*}} to %{{.*}} step %{{.*}} iter_args(%[[ACC:.*]] = %{{.*}}) -> (vector<16x16xf32>) {
// CHECK-NEXT:      %[[LOAD:.*]] = attn_tile.load
// CHECK-NEXT:      %[[O:.*]] = vector.contract {{.*}} %{{.*}}, %[[LOAD]], %[[ACC]]
// CHECK-NEXT:      scf.yield %[[O]]
attn_tile.kernel @one_mma(%v: memref<?x16xf16>, %p: vector<16x8xf16>,
                              %out: memref<?x16xf32>, %count: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %acc0 = arith.constant dense<0.0> : vector<16x16xf32>
  %0 = scf.for %t = %c0 to %count step %c1 iter_args(%acc = %acc0) -> vector<16x16xf32> {
    %vt = attn_tile.load %v[%t, %c0] stream(%t of %count) : memref<?x16xf16> -> vector<8x16xf16>
    %o = vector.contract {indexing_maps = [#lhs, #values, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %p, %vt, %acc : vector<16x8xf16>, vector<8x16xf16> into vector<16x16xf32>
    scf.yield %o : vector<16x16xf32>
  }
  attn_tile.store %0, %out[%c0, %c0] : vector<16x16xf32>, memref<?x16xf32>
  attn_tile.return
}

// -----

#lhs = affine_map<(m, n, k) -> (m, k)>
#values = affine_map<(m, n, k) -> (k, n)>
#result = affine_map<(m, n, k) -> (m, n)>

// Left alone: the MMAs depend on one another within a step.

// REMARK: Remark="the first MMA of a step depends on the last one"

// CHECK-LABEL: attn_tile.kernel @dependent
// CHECK:         scf.for
// CHECK-COUNT-2:   vector.contract
// CHECK-NOT:     vector.contract
attn_tile.kernel @dependent(%v: memref<?x16xf16>, %p: vector<16x8xf16>,
                            %out: memref<?x16xf32>, %count: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %acc0 = arith.constant dense<0.0> : vector<16x16xf32>
  %0 = scf.for %t = %c0 to %count step %c1 iter_args(%acc = %acc0) -> vector<16x16xf32> {
    %vt = attn_tile.load %v[%t, %c0] stream(%t of %count) : memref<?x16xf16> -> vector<8x16xf16>
    %o = vector.contract {indexing_maps = [#lhs, #values, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %p, %vt, %acc : vector<16x8xf16>, vector<8x16xf16> into vector<16x16xf32>
    %o1 = vector.contract {indexing_maps = [#lhs, #values, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %p, %vt, %o : vector<16x8xf16>, vector<8x16xf16> into vector<16x16xf32>
    scf.yield %o1 : vector<16x16xf32>
  }
  attn_tile.store %0, %out[%c0, %c0] : vector<16x16xf32>, memref<?x16xf32>
  attn_tile.return
}

// -----

#lhs = affine_map<(m, n, k) -> (m, k)>
#values = affine_map<(m, n, k) -> (k, n)>
#result = affine_map<(m, n, k) -> (m, n)>

// Left alone: a store cannot be moved over loads of later steps.

// REMARK: Remark="a step writes memory"

// CHECK-LABEL: attn_tile.kernel @store
// CHECK:         scf.for
// CHECK-NEXT:      vector.contract
attn_tile.kernel @store(%v: vector<8x16xf16>, %p: vector<16x8xf16>,
                        %out: memref<?x16xf32>, %count: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %acc0 = arith.constant dense<0.0> : vector<16x16xf32>
  %0 = scf.for %t = %c0 to %count step %c1 iter_args(%acc = %acc0) -> vector<16x16xf32> {
    %o = vector.contract {indexing_maps = [#lhs, #values, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %p, %v, %acc : vector<16x8xf16>, vector<8x16xf16> into vector<16x16xf32>
    attn_tile.store %acc, %out[%c0, %c0] : vector<16x16xf32>, memref<?x16xf32>
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

// Left alone: a tile is loaded once, but would be read in two steps.

// REMARK: Remark="the right-hand side of the last MMA is used before it"

// CHECK-LABEL: attn_tile.kernel @one_tile
// CHECK:         scf.for
// CHECK-NEXT:      attn_tile.load
// CHECK-NEXT:      vector.contract
// CHECK-NEXT:      arith.truncf
// CHECK-NEXT:      vector.contract
// CHECK-NEXT:      scf.yield
attn_tile.kernel @one_tile(%k: memref<?x16xf16>, %q: vector<16x16xf16>,
                           %out: memref<?x16xf32>, %count: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %acc0 = arith.constant dense<0.0> : vector<16x16xf32>
  %zero = arith.constant dense<0.0> : vector<16x8xf32>
  %0 = scf.for %t = %c0 to %count step %c1 iter_args(%acc = %acc0) -> vector<16x16xf32> {
    %kt = attn_tile.load %k[%t, %c0] stream(%t of %count) : memref<?x16xf16> -> vector<8x16xf16>
    %s = vector.contract {indexing_maps = [#lhs, #keys, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %q, %kt, %zero : vector<16x16xf16>, vector<8x16xf16> into vector<16x8xf32>
    %p = arith.truncf %s : vector<16x8xf32> to vector<16x8xf16>
    %o = vector.contract {indexing_maps = [#lhs, #values, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %p, %kt, %acc : vector<16x8xf16>, vector<8x16xf16> into vector<16x16xf32>
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

// Weights are cleared in the step after, by keep masks that were read in
// theirs, before anything else is done in it.

// REMARK: Remark="software-pipelined a chain of loops"

// CHECK-LABEL: attn_tile.kernel @dropout
// CHECK:         %[[D0:.*]] = attn_tile.load_keep_mask
// CHECK:         %[[P0:.*]] = arith.truncf
// CHECK:         %[[R:.*]]:3 = scf.for {{.*}} iter_args(%[[ACC:.*]] = %{{.*}}, %[[P:.*]] = %[[P0]], %[[D:.*]] = %[[D0]])
// CHECK:           vector.contract
// CHECK:           attn_tile.load
// CHECK-NEXT:      %[[KEPT:.*]] = attn_tile.dropout %[[P]] by %[[D]] below_two
// CHECK-NEXT:      vector.contract {{.*}} %[[KEPT]]
// CHECK-NEXT:      %[[D1:.*]] = attn_tile.load_keep_mask
// CHECK-NEXT:      %[[P1:.*]] = arith.truncf
// CHECK-NEXT:      scf.yield %{{.*}}, %[[P1]], %[[D1]]
// CHECK:         %[[LAST:.*]] = attn_tile.dropout %[[R]]#1 by %[[R]]#2 below_two
// CHECK-NEXT:    vector.contract {{.*}} %[[LAST]]
attn_tile.kernel @dropout(%k: memref<?x16xf16>, %v: memref<?x16xf16>, %q: vector<16x16xf16>,
                          %mask: memref<?x4x?x?xi32>, %out: memref<?x16xf32>, %count: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %zero = arith.constant dense<0.0> : vector<16x16xf32>
  %0 = scf.for %t = %c0 to %count step %c1 iter_args(%acc = %zero) -> vector<16x16xf32> {
    %row = arith.muli %t, %c16 : index
    %kt = attn_tile.load %k[%row, %c0] stream(%t of %count) : memref<?x16xf16> -> vector<16x16xf16>
    %s = vector.contract {indexing_maps = [#lhs, #keys, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %q, %kt, %zero : vector<16x16xf16>, vector<16x16xf16> into vector<16x16xf32>
    %p = arith.truncf %s : vector<16x16xf32> to vector<16x16xf16>
    %d = attn_tile.load_keep_mask %mask[%c0, %c0] rows at(%c0, %row)
        : memref<?x4x?x?xi32> -> !attn_tile.keep_mask<16x16>
    %kept = attn_tile.dropout %p by %d below_two : vector<16x16xf16>, !attn_tile.keep_mask<16x16>
    %vt = attn_tile.load %v[%row, %c0] stream(%t of %count) : memref<?x16xf16> -> vector<16x16xf16>
    %o = vector.contract {indexing_maps = [#lhs, #values, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %kept, %vt, %acc : vector<16x16xf16>, vector<16x16xf16> into vector<16x16xf32>
    scf.yield %o : vector<16x16xf32>
  }
  attn_tile.store %0, %out[%c0, %c0] : vector<16x16xf32>, memref<?x16xf32>
  attn_tile.return
}
