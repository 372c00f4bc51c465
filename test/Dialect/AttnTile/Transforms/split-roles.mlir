// RUN: attn-opt %s -attn-tile-split-roles -split-input-file | FileCheck %s
// RUN: attn-opt %s -attn-tile-split-roles=consumers=1 -split-input-file | FileCheck %s --check-prefix=ONE
// RUN: attn-opt %s -attn-tile-split-roles -split-input-file \
// RUN:   --remarks-filter='attn-tile.*' --remark-format=emitRemark 2>&1 >/dev/null \
// RUN:   | FileCheck %s --check-prefix=REMARK

// The producer's loop carries the position of the stream only, and the loop
// that fills nothing is not in it. What both roles compute from the arguments
// stays outside.

// CHECK-LABEL: attn_tile.kernel @products
// CHECK-SAME:    %[[K:[a-z0-9]+]]: memref<?x16xf16>, %[[P:[a-z0-9]+]]: vector<128x16xf16>
// CHECK-SAME:    layout = #attn_tile.row_blocks<warps = 8>
// ONE:         attn_tile.kernel @products
// ONE-SAME:      layout = #attn_tile.row_blocks<warps = 4>
// ONE:           attn_tile.role producer warpgroups(1) registers(56)
// ONE:           attn_tile.role consumer warpgroups(1) registers(240)
attn_tile.kernel @products(%k: memref<?x16xf16>, %p: vector<128x16xf16>, %out: memref<?x16xf32>,
                           %n: index, %flag: i1) {
  // CHECK:      %[[PIPE:.*]] = attn_tile.create_pipe
  // CHECK:      %[[ROWS:.*]] = memref.dim %[[K]]
  // CHECK-NOT:  dense
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<16x16xf16, stages = 2>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %rows = memref.dim %k, %c0 : memref<?x16xf16>
  %acc0 = arith.constant dense<0.0> : vector<128x16xf32>

  // CHECK:      attn_tile.role producer warpgroups(1) registers(24) {
  // CHECK-NEXT:   scf.for %[[I:.*]] = %[[C0:.*]] to %[[ROWS]] step %[[C1:.*]] iter_args(%[[BASE:.*]] = %[[C0]]) -> (index) {
  // CHECK-NEXT:     scf.if
  // CHECK-NEXT:       %[[B:.*]] = attn_tile.acquire %[[PIPE]][%[[BASE]]]
  // CHECK-NEXT:       attn_tile.copy %[[K]][%[[I]], %[[C0]]] to %[[B]]
  // CHECK-NEXT:       attn_tile.commit %[[B]]
  // CHECK-NEXT:     }
  // CHECK:          %[[NEXT:.*]] = arith.addi %[[BASE]], %[[C1]]
  // CHECK-NEXT:     scf.yield %[[NEXT]] : index
  // CHECK-NEXT:   }
  // CHECK-NEXT: }

  // CHECK:      attn_tile.role consumer warpgroups(2) registers(240) {
  // CHECK-NEXT:   %[[ZERO:.*]] = arith.constant dense
  // CHECK-NEXT:   %[[DONE:.*]]:2 = scf.for %{{.*}} iter_args(%[[ACC:.*]] = %[[ZERO]], %[[BASE:.*]] = %[[C0]])
  // CHECK-NEXT:     scf.if
  // CHECK-NEXT:       %[[B:.*]] = attn_tile.wait %[[PIPE]][%[[BASE]]]
  // CHECK-NEXT:       %[[S:.*]] = attn_tile.mma_start %[[P]], %[[B]] acc %[[ACC]]
  // CHECK-NEXT:       attn_tile.mma_wait %[[S]]
  // CHECK-NEXT:       attn_tile.release %[[B]]
  // CHECK:          scf.for
  // CHECK-NOT:    attn_tile.copy
  // CHECK:        attn_tile.store %[[DONE]]#0
  // CHECK-NEXT: }
  // CHECK-NEXT: attn_tile.return
  %done:2 = scf.for %i = %c0 to %rows step %c1 iter_args(%acc = %acc0, %base = %c0)
      -> (vector<128x16xf32>, index) {
    %acc1 = scf.if %flag -> vector<128x16xf32> {
      %b = attn_tile.acquire %pipe[%base] : !attn_tile.pipe<16x16xf16, stages = 2>
      attn_tile.copy %k[%i, %c0] to %b : memref<?x16xf16> to !attn_tile.buffer<16x16xf16>
      attn_tile.commit %b : !attn_tile.buffer<16x16xf16>
      %f = attn_tile.wait %pipe[%base] : !attn_tile.pipe<16x16xf16, stages = 2>
      %s = attn_tile.mma_start %p, %f acc %acc : vector<128x16xf16>, !attn_tile.buffer<16x16xf16>
          -> !attn_tile.pending<vector<128x16xf32>>
      %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<128x16xf32>>
      attn_tile.release %f : !attn_tile.buffer<16x16xf16>
      scf.yield %r : vector<128x16xf32>
    } else {
      scf.yield %acc : vector<128x16xf32>
    }
    %acc2 = scf.for %j = %c0 to %n step %c1 iter_args(%x = %acc1) -> vector<128x16xf32> {
      %y = arith.negf %x : vector<128x16xf32>
      scf.yield %y : vector<128x16xf32>
    }
    %base1 = arith.addi %base, %c1 : index
    scf.yield %acc2, %base1 : vector<128x16xf32>, index
  }
  attn_tile.store %done#0, %out[%c0, %c0] : vector<128x16xf32>, memref<?x16xf32>
  attn_tile.return
}

// -----

// REMARK: Remark="there is no pipe to fill, or there are roles already"

// CHECK-LABEL: attn_tile.kernel @no_pipes
// CHECK-NOT:     attn_tile.role
attn_tile.kernel @no_pipes() {
  attn_tile.return
}
