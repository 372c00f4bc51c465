// RUN: attn-opt %s -attn-tile-prefetch=refill=true -split-input-file | FileCheck %s
// RUN: attn-opt %s -attn-tile-prefetch -split-input-file | FileCheck %s --check-prefix=WITHOUT

// A single stage is filled for the next step where the step releases it.

// CHECK-LABEL: attn_tile.kernel @single_stage
// CHECK-SAME:    %[[K:[a-z0-9]+]]: memref<?x16xf16>, %{{[a-z0-9]+}}: vector<16x16xf16>, %[[COUNT:[a-z0-9]+]]: index
// WITHOUT-LABEL: attn_tile.kernel @single_stage
// WITHOUT-NOT:     scf.if
attn_tile.kernel @single_stage(%k: memref<?x16xf16>, %p: vector<16x16xf16>, %count: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %zero = arith.constant dense<0.0> : vector<16x16xf32>
  // CHECK:      %[[PIPE:.*]] = attn_tile.create_pipe
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<16x16xf16, stages = 1>
  // CHECK:      %[[ANY:.*]] = arith.cmpi slt, %[[C0:.*]], %[[COUNT]]
  // CHECK-NEXT: scf.if %[[ANY]] {
  // CHECK:        attn_tile.acquire %[[PIPE]][%[[C0]]]
  // CHECK:        attn_tile.copy
  // CHECK-NEXT:   attn_tile.commit
  // CHECK-NEXT: }
  // CHECK:      scf.for %[[T:.*]] = %[[C0]] to %[[COUNT]]
  // CHECK-NOT:    attn_tile.acquire
  // CHECK:        %[[STAGE:.*]] = attn_tile.wait %[[PIPE]][%[[T]]]
  // CHECK:        attn_tile.mma_wait
  // CHECK-NEXT:   attn_tile.release %[[STAGE]]
  // CHECK:        %[[NEXT:.*]] = arith.addi %[[T]]
  // CHECK:        %[[MORE:.*]] = arith.cmpi slt, %[[NEXT]], %[[COUNT]]
  // CHECK-NEXT:   scf.if %[[MORE]] {
  // CHECK-NEXT:     %[[TO:.*]] = attn_tile.acquire %[[PIPE]][%[[NEXT]]]
  // CHECK-NEXT:     %[[ROW:.*]] = arith.muli %[[NEXT]]
  // CHECK-NEXT:     attn_tile.copy %[[K]][%[[ROW]], %{{.*}}] to %[[TO]]
  // CHECK-NEXT:     attn_tile.commit %[[TO]]
  // CHECK-NEXT:   }
  // CHECK-NEXT:   scf.yield
  scf.for %t = %c0 to %count step %c1 iter_args(%acc = %zero) -> vector<16x16xf32> {
    %row = arith.muli %t, %c16 : index
    %b = attn_tile.acquire %pipe[%t] : !attn_tile.pipe<16x16xf16, stages = 1>
    attn_tile.copy %k[%row, %c0] to %b : memref<?x16xf16> to !attn_tile.buffer<16x16xf16>
    attn_tile.commit %b : !attn_tile.buffer<16x16xf16>
    %f = attn_tile.wait %pipe[%t] : !attn_tile.pipe<16x16xf16, stages = 1>
    %s = attn_tile.mma_start %p, %f acc %acc : vector<16x16xf16>, !attn_tile.buffer<16x16xf16>
        -> !attn_tile.pending<vector<16x16xf32>>
    %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<16x16xf32>>
    attn_tile.release %f : !attn_tile.buffer<16x16xf16>
    scf.yield %r : vector<16x16xf32>
  }
  attn_tile.return
}

// -----

// A stage that is released in two places is filled where it was.

// CHECK-LABEL: attn_tile.kernel @two_releases
// CHECK:         scf.for
// CHECK-NOT:       scf.if
// CHECK:           attn_tile.acquire
// CHECK:           attn_tile.wait
attn_tile.kernel @two_releases(%k: memref<?x16xf16>, %p: vector<16x16xf16>, %count: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %zero = arith.constant dense<0.0> : vector<16x16xf32>
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<16x16xf16, stages = 1>
  scf.for %t = %c0 to %count step %c1 iter_args(%acc = %zero) -> vector<16x16xf32> {
    %row = arith.muli %t, %c16 : index
    %b = attn_tile.acquire %pipe[%t] : !attn_tile.pipe<16x16xf16, stages = 1>
    attn_tile.copy %k[%row, %c0] to %b : memref<?x16xf16> to !attn_tile.buffer<16x16xf16>
    attn_tile.commit %b : !attn_tile.buffer<16x16xf16>
    %f = attn_tile.wait %pipe[%t] : !attn_tile.pipe<16x16xf16, stages = 1>
    %s = attn_tile.mma_start %p, %f acc %acc : vector<16x16xf16>, !attn_tile.buffer<16x16xf16>
        -> !attn_tile.pending<vector<16x16xf32>>
    %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<16x16xf32>>
    attn_tile.release %f : !attn_tile.buffer<16x16xf16>
    %g = attn_tile.wait %pipe[%t] : !attn_tile.pipe<16x16xf16, stages = 1>
    attn_tile.release %g : !attn_tile.buffer<16x16xf16>
    scf.yield %r : vector<16x16xf32>
  }
  attn_tile.return
}
