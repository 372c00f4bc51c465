// RUN: attn-opt %s -attn-tile-prefetch -split-input-file | FileCheck %s
// RUN: attn-opt %s -attn-tile-prefetch -split-input-file \
// RUN:   --remarks-filter='attn-tile.*' --remark-format=emitRemark 2>&1 >/dev/null \
// RUN:   | FileCheck %s --check-prefix=REMARK

// Three stages: two positions are filled before the loops, each step fills the
// one two ahead, until the end of the last loop.

// CHECK-LABEL: attn_tile.kernel @chain
// CHECK-SAME:    %[[K:[a-z0-9]+]]: memref<?x16xf16>, %[[P:[a-z0-9]+]]: vector<16x16xf16>
// CHECK-SAME:    %[[LEAD:[a-z0-9]+]]: index, %[[COUNT:[a-z0-9]+]]: index
attn_tile.kernel @chain(%k: memref<?x16xf16>, %p: vector<16x16xf16>, %lead: index, %count: index,
                        %out: memref<?x16xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %zero = arith.constant dense<0.0> : vector<16x16xf32>
  // CHECK:      %[[PIPE:.*]] = attn_tile.create_pipe
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<16x16xf16, stages = 3>
  // CHECK:      %[[ANY:.*]] = arith.cmpi slt, %[[C0:.*]], %[[COUNT]]
  // CHECK-NEXT: scf.if %[[ANY]] {
  // CHECK:        attn_tile.acquire %[[PIPE]][%[[C0]]]
  // CHECK:        attn_tile.copy
  // CHECK-NEXT:   attn_tile.commit
  // CHECK-NEXT: }
  // CHECK:      %[[TWO:.*]] = arith.cmpi slt, %[[C1:.*]], %[[COUNT]]
  // CHECK-NEXT: scf.if %[[TWO]] {
  // CHECK:        attn_tile.acquire %[[PIPE]][%[[C1]]]
  // CHECK:      scf.for %[[T:.*]] = %{{.*}} to %[[LEAD]]
  // CHECK-NEXT:   %[[C2:.*]] = arith.constant 2
  // CHECK-NEXT:   %[[AHEAD:.*]] = arith.addi %[[T]], %[[C2]]
  // CHECK-NEXT:   %[[MORE:.*]] = arith.cmpi slt, %[[AHEAD]], %[[COUNT]]
  // CHECK-NEXT:   scf.if %[[MORE]] {
  // CHECK-NEXT:     %[[TO:.*]] = attn_tile.acquire %[[PIPE]][%[[AHEAD]]]
  // CHECK-NEXT:     %[[ROW:.*]] = arith.muli %[[AHEAD]]
  // CHECK-NEXT:     attn_tile.copy %[[K]][%[[ROW]], %{{.*}}] to %[[TO]]
  // CHECK-NEXT:     attn_tile.commit %[[TO]]
  // CHECK-NEXT:   }
  // CHECK-NEXT:   attn_tile.wait %[[PIPE]][%[[T]]]
  // CHECK-NOT:    attn_tile.copy
  // CHECK:      scf.for %[[T:.*]] = %[[LEAD]] to %[[COUNT]]
  // CHECK:        %[[AHEAD:.*]] = arith.addi %[[T]]
  // CHECK:        %[[MORE:.*]] = arith.cmpi slt, %[[AHEAD]], %[[COUNT]]
  // CHECK:        scf.if %[[MORE]] {
  // CHECK:        attn_tile.wait %[[PIPE]][%[[T]]]
  %0 = scf.for %t = %c0 to %lead step %c1 iter_args(%acc = %zero) -> vector<16x16xf32> {
    %row = arith.muli %t, %c16 : index
    %b = attn_tile.acquire %pipe[%t] : !attn_tile.pipe<16x16xf16, stages = 3>
    attn_tile.copy %k[%row, %c0] to %b : memref<?x16xf16> to !attn_tile.buffer<16x16xf16>
    attn_tile.commit %b : !attn_tile.buffer<16x16xf16>
    %f = attn_tile.wait %pipe[%t] : !attn_tile.pipe<16x16xf16, stages = 3>
    %s = attn_tile.mma_start %p, %f acc %acc : vector<16x16xf16>, !attn_tile.buffer<16x16xf16>
        -> !attn_tile.pending<vector<16x16xf32>>
    %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<16x16xf32>>
    attn_tile.release %f : !attn_tile.buffer<16x16xf16>
    scf.yield %r : vector<16x16xf32>
  }
  %1 = scf.for %t = %lead to %count step %c1 iter_args(%acc = %0) -> vector<16x16xf32> {
    %row = arith.muli %t, %c16 : index
    %b = attn_tile.acquire %pipe[%t] : !attn_tile.pipe<16x16xf16, stages = 3>
    attn_tile.copy %k[%row, %c0] to %b : memref<?x16xf16> to !attn_tile.buffer<16x16xf16>
    attn_tile.commit %b : !attn_tile.buffer<16x16xf16>
    %f = attn_tile.wait %pipe[%t] : !attn_tile.pipe<16x16xf16, stages = 3>
    %s = attn_tile.mma_start %p, %f acc %acc : vector<16x16xf16>, !attn_tile.buffer<16x16xf16>
        -> !attn_tile.pending<vector<16x16xf32>>
    %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<16x16xf32>>
    attn_tile.release %f : !attn_tile.buffer<16x16xf16>
    scf.yield %r : vector<16x16xf32>
  }
  attn_tile.store %1, %out[%c0, %c0] : vector<16x16xf32>, memref<?x16xf32>
  attn_tile.return
}

// -----

// REMARK: Function=single_stage | Remark="the pipes have no spare stage"

// CHECK-LABEL: attn_tile.kernel @single_stage
// CHECK-NOT:     scf.if
attn_tile.kernel @single_stage(%k: memref<?x16xf16>, %count: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<16x16xf16, stages = 1>
  scf.for %t = %c0 to %count step %c1 {
    %b = attn_tile.acquire %pipe[%t] : !attn_tile.pipe<16x16xf16, stages = 1>
    attn_tile.copy %k[%t, %c0] to %b : memref<?x16xf16> to !attn_tile.buffer<16x16xf16>
    attn_tile.commit %b : !attn_tile.buffer<16x16xf16>
  }
  attn_tile.return
}

// -----

// REMARK: Function=carried | Remark="what fills a stage depends on the steps before"

// CHECK-LABEL: attn_tile.kernel @carried
// CHECK-NOT:     scf.if
attn_tile.kernel @carried(%k: memref<?x16xf16>, %count: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<16x16xf16, stages = 2>
  %end = scf.for %t = %c0 to %count step %c1 iter_args(%row = %c0) -> index {
    %b = attn_tile.acquire %pipe[%t] : !attn_tile.pipe<16x16xf16, stages = 2>
    attn_tile.copy %k[%row, %c0] to %b : memref<?x16xf16> to !attn_tile.buffer<16x16xf16>
    attn_tile.commit %b : !attn_tile.buffer<16x16xf16>
    %next = arith.addi %row, %t : index
    scf.yield %next : index
  }
  attn_tile.return
}

// -----

// What steers copies may be read, unless the kernel writes it.

// CHECK-LABEL: attn_tile.kernel @loaded
// CHECK:         scf.if
// CHECK:           memref.load
// CHECK:           attn_tile.acquire
attn_tile.kernel @loaded(%k: memref<?x16xf16>, %rows: memref<?xindex>, %count: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<16x16xf16, stages = 2>
  scf.for %t = %c0 to %count step %c1 {
    %row = memref.load %rows[%t] : memref<?xindex>
    %b = attn_tile.acquire %pipe[%t] : !attn_tile.pipe<16x16xf16, stages = 2>
    attn_tile.copy %k[%row, %c0] to %b : memref<?x16xf16> to !attn_tile.buffer<16x16xf16>
    attn_tile.commit %b : !attn_tile.buffer<16x16xf16>
  }
  attn_tile.return
}

// -----

// REMARK: Function=stored | Remark="what fills a stage depends on memory"

// CHECK-LABEL: attn_tile.kernel @stored
// CHECK-NOT:     scf.if
attn_tile.kernel @stored(%k: memref<?x16xf16>, %rows: memref<?xindex>, %count: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<16x16xf16, stages = 2>
  scf.for %t = %c0 to %count step %c1 {
    %row = memref.load %rows[%t] : memref<?xindex>
    %b = attn_tile.acquire %pipe[%t] : !attn_tile.pipe<16x16xf16, stages = 2>
    attn_tile.copy %k[%row, %c0] to %b : memref<?x16xf16> to !attn_tile.buffer<16x16xf16>
    attn_tile.commit %b : !attn_tile.buffer<16x16xf16>
  }
  memref.store %count, %rows[%c0] : memref<?xindex>
  attn_tile.return
}

// -----

// The second loop finds its rows by other means: a step of the first one that
// fills a stage for it does so, too.

// CHECK-LABEL: attn_tile.kernel @different
// CHECK-SAME:    %[[K:[a-z0-9]+]]: memref<?x16xf16>
// CHECK-SAME:    %[[LEAD:[a-z0-9]+]]: index, %[[COUNT:[a-z0-9]+]]: index
attn_tile.kernel @different(%k: memref<?x16xf16>, %p: vector<16x16xf16>, %lead: index, %count: index,
                            %out: memref<?x16xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %zero = arith.constant dense<0.0> : vector<16x16xf32>
  // CHECK:      %[[PIPE:.*]] = attn_tile.create_pipe
  // CHECK:      %[[FIRST:.*]] = arith.cmpi slt, %[[C0:.*]], %[[LEAD]]
  // CHECK-NEXT: scf.if %[[FIRST]] {
  // CHECK-NEXT:   attn_tile.acquire %[[PIPE]][%[[C0]]]
  // CHECK-NEXT:   arith.muli %[[C0]]
  // CHECK:      } else {
  // CHECK-NEXT:   %[[ANY:.*]] = arith.cmpi slt, %[[C0]], %[[COUNT]]
  // CHECK-NEXT:   scf.if %[[ANY]] {
  // CHECK-NEXT:     attn_tile.acquire %[[PIPE]][%[[C0]]]
  // CHECK-NEXT:     arith.subi %[[COUNT]], %[[C0]]
  // CHECK:      scf.for %[[T:.*]] = %{{.*}} to %[[LEAD]]
  // CHECK:        %[[AHEAD:.*]] = arith.addi %[[T]]
  // CHECK-NEXT:   %[[MORE:.*]] = arith.cmpi slt, %[[AHEAD]], %[[LEAD]]
  // CHECK-NEXT:   scf.if %[[MORE]] {
  // CHECK:          arith.muli %[[AHEAD]]
  // CHECK:        } else {
  // CHECK-NEXT:     %[[OTHER:.*]] = arith.cmpi slt, %[[AHEAD]], %[[COUNT]]
  // CHECK-NEXT:     scf.if %[[OTHER]] {
  // CHECK:            arith.subi %[[COUNT]], %[[AHEAD]]
  // CHECK:        attn_tile.wait %[[PIPE]][%[[T]]]
  // CHECK:      scf.for %[[T:.*]] = %[[LEAD]] to %[[COUNT]]
  // CHECK:        %[[AHEAD:.*]] = arith.addi %[[T]]
  // CHECK-NEXT:   %[[MORE:.*]] = arith.cmpi slt, %[[AHEAD]], %[[COUNT]]
  // CHECK-NEXT:   scf.if %[[MORE]] {
  // CHECK:          arith.subi %[[COUNT]], %[[AHEAD]]
  // CHECK-NOT:    else
  // CHECK:        attn_tile.wait %[[PIPE]][%[[T]]]
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<16x16xf16, stages = 2>
  %0 = scf.for %t = %c0 to %lead step %c1 iter_args(%acc = %zero) -> vector<16x16xf32> {
    %b = attn_tile.acquire %pipe[%t] : !attn_tile.pipe<16x16xf16, stages = 2>
    %row = arith.muli %t, %c16 : index
    attn_tile.copy %k[%row, %c0] to %b : memref<?x16xf16> to !attn_tile.buffer<16x16xf16>
    attn_tile.commit %b : !attn_tile.buffer<16x16xf16>
    %f = attn_tile.wait %pipe[%t] : !attn_tile.pipe<16x16xf16, stages = 2>
    %s = attn_tile.mma_start %p, %f acc %acc : vector<16x16xf16>, !attn_tile.buffer<16x16xf16>
        -> !attn_tile.pending<vector<16x16xf32>>
    %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<16x16xf32>>
    attn_tile.release %f : !attn_tile.buffer<16x16xf16>
    scf.yield %r : vector<16x16xf32>
  }
  %1 = scf.for %t = %lead to %count step %c1 iter_args(%acc = %0) -> vector<16x16xf32> {
    %b = attn_tile.acquire %pipe[%t] : !attn_tile.pipe<16x16xf16, stages = 2>
    %row = arith.subi %count, %t : index
    attn_tile.copy %k[%row, %c0] to %b : memref<?x16xf16> to !attn_tile.buffer<16x16xf16>
    attn_tile.commit %b : !attn_tile.buffer<16x16xf16>
    %f = attn_tile.wait %pipe[%t] : !attn_tile.pipe<16x16xf16, stages = 2>
    %s = attn_tile.mma_start %p, %f acc %acc : vector<16x16xf16>, !attn_tile.buffer<16x16xf16>
        -> !attn_tile.pending<vector<16x16xf32>>
    %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<16x16xf32>>
    attn_tile.release %f : !attn_tile.buffer<16x16xf16>
    scf.yield %r : vector<16x16xf32>
  }
  attn_tile.store %1, %out[%c0, %c0] : vector<16x16xf32>, memref<?x16xf32>
  attn_tile.return
}
