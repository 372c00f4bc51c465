// RUN: attn-opt %s --pass-pipeline='builtin.module(attn_tile.kernel(attn-tile-hoist-loads{keep-mask=true}))' --split-input-file | FileCheck %s

// Words are loaded behind the start of the last MMA. A loop without steps
// loads none, as there may be none, and the last step loads its own once more.

// CHECK-LABEL: attn_tile.kernel @ahead(
// CHECK-SAME:    %[[MASK:.*]]: memref<1x2x?x?xi32>, {{.*}}%[[N:[^ ]+]]: index)
// CHECK-NOT:     attn_tile.load_keep_mask
// CHECK:         %[[ANY:.*]] = arith.cmpi slt, %[[C0:.*]], %[[N]] : index
// CHECK-NEXT:    scf.if %[[ANY]] -> (vector<64x64xf32>) {
// CHECK:           %[[HEAD0:.*]] = arith.divui %[[C0]], %[[C8:.*]] : index
// CHECK:           %[[ROW0:.*]] = arith.muli %[[C0]], %[[C64:.*]] : index
// CHECK:           %[[FIRST:.*]] = attn_tile.load_keep_mask %[[MASK]][%[[C0]], %[[HEAD0]]] rows at(%[[ROW0]], %[[C0]])
// CHECK-NEXT:      %[[LOOP:.*]]:2 = scf.for %[[T:.*]] = %[[C0]] to %[[N]] step %[[C1:.*]] iter_args(%{{.*}} = %{{.*}}, %[[D:.*]] = %[[FIRST]])
// CHECK-NOT:         attn_tile.load_keep_mask
// CHECK:             attn_tile.dropout %{{.*}} by %[[D]] below_two
// CHECK:             %[[START:.*]] = attn_tile.mma_start
// CHECK-NEXT:        %[[T1:.*]] = arith.addi %[[T]], %[[C1]] : index
// CHECK-NEXT:        %[[IS_STEP:.*]] = arith.cmpi slt, %[[T1]], %[[N]] : index
// CHECK-NEXT:        %[[NEXT:.*]] = arith.select %[[IS_STEP]], %[[T1]], %[[T]] : index
// CHECK-DAG:         %[[HEAD1:.*]] = arith.divui %[[NEXT]], %[[C8]] : index
// CHECK-DAG:         %[[ROW1:.*]] = arith.muli %[[NEXT]], %[[C64]] : index
// CHECK:             %[[D1:.*]] = attn_tile.load_keep_mask %[[MASK]][%[[C0]], %[[HEAD1]]] rows at(%[[ROW1]], %[[C0]])
// CHECK-NEXT:        %[[R:.*]] = attn_tile.mma_wait %[[START]]
// CHECK-NEXT:        scf.yield %[[R]], %[[D1]]
// CHECK:           scf.yield %[[LOOP]]#0 : vector<64x64xf32>
// CHECK:         } else {
// CHECK-NEXT:      scf.yield %{{.*}} : vector<64x64xf32>
attn_tile.kernel @ahead(%mask: memref<1x2x?x?xi32>, %b: !attn_tile.buffer<64x64xbf16>,
                        %p: vector<64x64xbf16>, %zero: vector<64x64xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c64 = arith.constant 64 : index
  %r = scf.for %t = %c0 to %n step %c1 iter_args(%acc = %zero) -> vector<64x64xf32> {
    %head = arith.divui %t, %c8 : index
    %row = arith.muli %t, %c64 : index
    %d = attn_tile.load_keep_mask %mask[%c0, %head] rows at(%row, %c0)
        : memref<1x2x?x?xi32> -> !attn_tile.keep_mask<64x64>
    %kept = attn_tile.dropout %p by %d below_two : vector<64x64xbf16>, !attn_tile.keep_mask<64x64>
    %start = attn_tile.mma_start %kept, %b acc %acc
        : vector<64x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<64x64xf32>>
    %next = attn_tile.mma_wait %start : !attn_tile.pending<vector<64x64xf32>>
    scf.yield %next : vector<64x64xf32>
  }
  attn_tile.return
}

// -----

// A position that a step computes is not known in the step before, and without
// an MMA there is nothing to overlap loads with. Other loads are left alone.

// CHECK-LABEL: attn_tile.kernel @others(
// CHECK-NOT:     scf.if
// CHECK-NOT:     attn_tile.load
// CHECK:         scf.for
// CHECK:           attn_tile.load_keep_mask
// CHECK:           attn_tile.mma_start
// CHECK:         scf.for
// CHECK:           attn_tile.load_keep_mask
// CHECK:         scf.for
// CHECK:           attn_tile.load %
attn_tile.kernel @others(%mask: memref<1x2x?x?xi32>, %b: !attn_tile.buffer<64x64xbf16>, %bias: memref<?x?xf32>,
                         %p: vector<64x64xbf16>, %zero: vector<64x64xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %r:2 = scf.for %t = %c0 to %n step %c1 iter_args(%acc = %zero, %row = %c0) -> (vector<64x64xf32>, index) {
    %d = attn_tile.load_keep_mask %mask[%c0, %c0] rows at(%row, %c0)
        : memref<1x2x?x?xi32> -> !attn_tile.keep_mask<64x64>
    %kept = attn_tile.dropout %p by %d below_two : vector<64x64xbf16>, !attn_tile.keep_mask<64x64>
    %start = attn_tile.mma_start %kept, %b acc %acc
        : vector<64x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<64x64xf32>>
    %next = attn_tile.mma_wait %start : !attn_tile.pending<vector<64x64xf32>>
    %other = arith.addi %row, %c64 : index
    scf.yield %next, %other : vector<64x64xf32>, index
  }
  %s = scf.for %t = %c0 to %n step %c64 iter_args(%w = %p) -> vector<64x64xbf16> {
    %d = attn_tile.load_keep_mask %mask[%c0, %c0] rows at(%t, %c0)
        : memref<1x2x?x?xi32> -> !attn_tile.keep_mask<64x64>
    %kept = attn_tile.dropout %w by %d below_two : vector<64x64xbf16>, !attn_tile.keep_mask<64x64>
    scf.yield %kept : vector<64x64xbf16>
  }
  %u = scf.for %t = %c0 to %n step %c64 iter_args(%m = %zero) -> vector<64x64xf32> {
    %tile = attn_tile.load %bias[%c0, %t] : memref<?x?xf32> -> vector<64x64xf32>
    %sum = arith.addf %m, %tile : vector<64x64xf32>
    scf.yield %sum : vector<64x64xf32>
  }
  attn_tile.return
}
