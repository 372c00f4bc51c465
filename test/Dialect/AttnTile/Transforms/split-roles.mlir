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

// REMARK: Remark="there is no pipe to fill"

// CHECK-LABEL: attn_tile.kernel @no_pipes
// CHECK-NOT:     attn_tile.role
attn_tile.kernel @no_pipes() {
  attn_tile.return
}

// -----

// The producer waits for counts, before it fills what comes after; consumers count.

// CHECK-LABEL: attn_tile.kernel @counters
// CHECK:         attn_tile.role producer warpgroups(1) registers(40) {
// CHECK:           attn_tile.semaphore_wait
// CHECK-NEXT:      attn_tile.acquire
// CHECK-NOT:       attn_tile.semaphore_add
// CHECK:         attn_tile.role consumer warpgroups(2) registers(232) {
// CHECK-NOT:       attn_tile.semaphore_wait
// CHECK:           attn_tile.mma_wait
// CHECK:           attn_tile.semaphore_add
attn_tile.kernel @counters(%k: memref<?x16xf16>, %p: vector<128x16xf16>, %n: index, %c: memref<?xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<16x16xf16, stages = 2>
  attn_tile.auxiliary_warps registers(40) {
  }
  scf.for %i = %c0 to %n step %c1 {
    attn_tile.semaphore_wait %c[%i] to(%n) : memref<?xi32>
    %b = attn_tile.acquire %pipe[%i] : !attn_tile.pipe<16x16xf16, stages = 2>
    attn_tile.copy %k[%i, %c0] to %b : memref<?x16xf16> to !attn_tile.buffer<16x16xf16>
    attn_tile.commit %b : !attn_tile.buffer<16x16xf16>
    %f = attn_tile.wait %pipe[%i] : !attn_tile.pipe<16x16xf16, stages = 2>
    %s = attn_tile.mma_start %p, %f : vector<128x16xf16>, !attn_tile.buffer<16x16xf16>
        -> !attn_tile.pending<vector<128x16xf32>>
    %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<128x16xf32>>
    attn_tile.release %f : !attn_tile.buffer<16x16xf16>
    attn_tile.semaphore_add %c[%i] : memref<?xi32>
  }
  attn_tile.return
}

// -----

// A producer that fills more than four stages in a step needs more registers.

// CHECK-LABEL: attn_tile.kernel @many_pipes
// CHECK:         attn_tile.role producer warpgroups(1) registers(40)
// CHECK-COUNT-5:   attn_tile.copy
// CHECK:         attn_tile.role consumer warpgroups(2) registers(232)
// CHECK-LABEL: attn_tile.kernel @few_pipes
// CHECK:         attn_tile.role producer warpgroups(1) registers(24)
// CHECK-COUNT-4:   attn_tile.copy
// CHECK:         attn_tile.role consumer warpgroups(2) registers(240)
attn_tile.kernel @many_pipes(%k: memref<?x16xf16>, %p: vector<128x16xf16>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<16x16xf16, stages = 10>
  %o1 = arith.constant 1 : index
  %o2 = arith.constant 2 : index
  %o3 = arith.constant 3 : index
  %o4 = arith.constant 4 : index
  scf.for %i = %c0 to %n step %c1 {
    %i0 = arith.addi %i, %c0 : index
    %a0 = attn_tile.acquire %pipe[%i0] : !attn_tile.pipe<16x16xf16, stages = 10>
    attn_tile.copy %k[%i0, %c0] to %a0 : memref<?x16xf16> to !attn_tile.buffer<16x16xf16>
    attn_tile.commit %a0 : !attn_tile.buffer<16x16xf16>
    %b0 = attn_tile.wait %pipe[%i0] : !attn_tile.pipe<16x16xf16, stages = 10>
    %s0 = attn_tile.mma_start %p, %b0 : vector<128x16xf16>, !attn_tile.buffer<16x16xf16>
        -> !attn_tile.pending<vector<128x16xf32>>
    %r0 = attn_tile.mma_wait %s0 : !attn_tile.pending<vector<128x16xf32>>
    attn_tile.release %b0 : !attn_tile.buffer<16x16xf16>
    %i1 = arith.addi %i, %o1 : index
    %a1 = attn_tile.acquire %pipe[%i1] : !attn_tile.pipe<16x16xf16, stages = 10>
    attn_tile.copy %k[%i1, %c0] to %a1 : memref<?x16xf16> to !attn_tile.buffer<16x16xf16>
    attn_tile.commit %a1 : !attn_tile.buffer<16x16xf16>
    %b1 = attn_tile.wait %pipe[%i1] : !attn_tile.pipe<16x16xf16, stages = 10>
    %s1 = attn_tile.mma_start %p, %b1 : vector<128x16xf16>, !attn_tile.buffer<16x16xf16>
        -> !attn_tile.pending<vector<128x16xf32>>
    %r1 = attn_tile.mma_wait %s1 : !attn_tile.pending<vector<128x16xf32>>
    attn_tile.release %b1 : !attn_tile.buffer<16x16xf16>
    %i2 = arith.addi %i, %o2 : index
    %a2 = attn_tile.acquire %pipe[%i2] : !attn_tile.pipe<16x16xf16, stages = 10>
    attn_tile.copy %k[%i2, %c0] to %a2 : memref<?x16xf16> to !attn_tile.buffer<16x16xf16>
    attn_tile.commit %a2 : !attn_tile.buffer<16x16xf16>
    %b2 = attn_tile.wait %pipe[%i2] : !attn_tile.pipe<16x16xf16, stages = 10>
    %s2 = attn_tile.mma_start %p, %b2 : vector<128x16xf16>, !attn_tile.buffer<16x16xf16>
        -> !attn_tile.pending<vector<128x16xf32>>
    %r2 = attn_tile.mma_wait %s2 : !attn_tile.pending<vector<128x16xf32>>
    attn_tile.release %b2 : !attn_tile.buffer<16x16xf16>
    %i3 = arith.addi %i, %o3 : index
    %a3 = attn_tile.acquire %pipe[%i3] : !attn_tile.pipe<16x16xf16, stages = 10>
    attn_tile.copy %k[%i3, %c0] to %a3 : memref<?x16xf16> to !attn_tile.buffer<16x16xf16>
    attn_tile.commit %a3 : !attn_tile.buffer<16x16xf16>
    %b3 = attn_tile.wait %pipe[%i3] : !attn_tile.pipe<16x16xf16, stages = 10>
    %s3 = attn_tile.mma_start %p, %b3 : vector<128x16xf16>, !attn_tile.buffer<16x16xf16>
        -> !attn_tile.pending<vector<128x16xf32>>
    %r3 = attn_tile.mma_wait %s3 : !attn_tile.pending<vector<128x16xf32>>
    attn_tile.release %b3 : !attn_tile.buffer<16x16xf16>
    %i4 = arith.addi %i, %o4 : index
    %a4 = attn_tile.acquire %pipe[%i4] : !attn_tile.pipe<16x16xf16, stages = 10>
    attn_tile.copy %k[%i4, %c0] to %a4 : memref<?x16xf16> to !attn_tile.buffer<16x16xf16>
    attn_tile.commit %a4 : !attn_tile.buffer<16x16xf16>
    %b4 = attn_tile.wait %pipe[%i4] : !attn_tile.pipe<16x16xf16, stages = 10>
    %s4 = attn_tile.mma_start %p, %b4 : vector<128x16xf16>, !attn_tile.buffer<16x16xf16>
        -> !attn_tile.pending<vector<128x16xf32>>
    %r4 = attn_tile.mma_wait %s4 : !attn_tile.pending<vector<128x16xf32>>
    attn_tile.release %b4 : !attn_tile.buffer<16x16xf16>
  }
  attn_tile.return
}

attn_tile.kernel @few_pipes(%k: memref<?x16xf16>, %p: vector<128x16xf16>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<16x16xf16, stages = 8>
  %o1 = arith.constant 1 : index
  %o2 = arith.constant 2 : index
  %o3 = arith.constant 3 : index
  scf.for %i = %c0 to %n step %c1 {
    %i0 = arith.addi %i, %c0 : index
    %a0 = attn_tile.acquire %pipe[%i0] : !attn_tile.pipe<16x16xf16, stages = 8>
    attn_tile.copy %k[%i0, %c0] to %a0 : memref<?x16xf16> to !attn_tile.buffer<16x16xf16>
    attn_tile.commit %a0 : !attn_tile.buffer<16x16xf16>
    %b0 = attn_tile.wait %pipe[%i0] : !attn_tile.pipe<16x16xf16, stages = 8>
    %s0 = attn_tile.mma_start %p, %b0 : vector<128x16xf16>, !attn_tile.buffer<16x16xf16>
        -> !attn_tile.pending<vector<128x16xf32>>
    %r0 = attn_tile.mma_wait %s0 : !attn_tile.pending<vector<128x16xf32>>
    attn_tile.release %b0 : !attn_tile.buffer<16x16xf16>
    %i1 = arith.addi %i, %o1 : index
    %a1 = attn_tile.acquire %pipe[%i1] : !attn_tile.pipe<16x16xf16, stages = 8>
    attn_tile.copy %k[%i1, %c0] to %a1 : memref<?x16xf16> to !attn_tile.buffer<16x16xf16>
    attn_tile.commit %a1 : !attn_tile.buffer<16x16xf16>
    %b1 = attn_tile.wait %pipe[%i1] : !attn_tile.pipe<16x16xf16, stages = 8>
    %s1 = attn_tile.mma_start %p, %b1 : vector<128x16xf16>, !attn_tile.buffer<16x16xf16>
        -> !attn_tile.pending<vector<128x16xf32>>
    %r1 = attn_tile.mma_wait %s1 : !attn_tile.pending<vector<128x16xf32>>
    attn_tile.release %b1 : !attn_tile.buffer<16x16xf16>
    %i2 = arith.addi %i, %o2 : index
    %a2 = attn_tile.acquire %pipe[%i2] : !attn_tile.pipe<16x16xf16, stages = 8>
    attn_tile.copy %k[%i2, %c0] to %a2 : memref<?x16xf16> to !attn_tile.buffer<16x16xf16>
    attn_tile.commit %a2 : !attn_tile.buffer<16x16xf16>
    %b2 = attn_tile.wait %pipe[%i2] : !attn_tile.pipe<16x16xf16, stages = 8>
    %s2 = attn_tile.mma_start %p, %b2 : vector<128x16xf16>, !attn_tile.buffer<16x16xf16>
        -> !attn_tile.pending<vector<128x16xf32>>
    %r2 = attn_tile.mma_wait %s2 : !attn_tile.pending<vector<128x16xf32>>
    attn_tile.release %b2 : !attn_tile.buffer<16x16xf16>
    %i3 = arith.addi %i, %o3 : index
    %a3 = attn_tile.acquire %pipe[%i3] : !attn_tile.pipe<16x16xf16, stages = 8>
    attn_tile.copy %k[%i3, %c0] to %a3 : memref<?x16xf16> to !attn_tile.buffer<16x16xf16>
    attn_tile.commit %a3 : !attn_tile.buffer<16x16xf16>
    %b3 = attn_tile.wait %pipe[%i3] : !attn_tile.pipe<16x16xf16, stages = 8>
    %s3 = attn_tile.mma_start %p, %b3 : vector<128x16xf16>, !attn_tile.buffer<16x16xf16>
        -> !attn_tile.pending<vector<128x16xf32>>
    %r3 = attn_tile.mma_wait %s3 : !attn_tile.pending<vector<128x16xf32>>
    attn_tile.release %b3 : !attn_tile.buffer<16x16xf16>
  }
  attn_tile.return
}

// -----

// The producer of a CTA of a cluster needs more registers.

// CHECK-LABEL: attn_tile.kernel @cluster
// CHECK:         attn_tile.role producer warpgroups(1) registers(40)
// CHECK:         attn_tile.role consumer warpgroups(2) registers(232)
// ONE-LABEL:   attn_tile.kernel @cluster
// ONE:           attn_tile.role producer warpgroups(1) registers(56)
attn_tile.kernel @cluster(%k: memref<?x16xf16>, %p: vector<128x16xf16>, %n: index) attributes {cluster = 2 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<16x16xf16, stages = 2, cluster = 2>
  scf.for %i = %c0 to %n step %c1 {
    %a = attn_tile.acquire %pipe[%i] : !attn_tile.pipe<16x16xf16, stages = 2, cluster = 2>
    attn_tile.copy %k[%i, %c0] to %a : memref<?x16xf16> to !attn_tile.buffer<16x16xf16, cluster = 2>
    attn_tile.commit %a : !attn_tile.buffer<16x16xf16, cluster = 2>
    %b = attn_tile.wait %pipe[%i] : !attn_tile.pipe<16x16xf16, stages = 2, cluster = 2>
    %s = attn_tile.mma_start %p, %b : vector<128x16xf16>, !attn_tile.buffer<16x16xf16, cluster = 2>
        -> !attn_tile.pending<vector<128x16xf32>>
    %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<128x16xf32>>
    attn_tile.release %b : !attn_tile.buffer<16x16xf16, cluster = 2>
  }
  attn_tile.return
}

// -----

// Idle warps run the loops and conditionals around ordered additions, with
// all that tells where they go and whose turn it is; consumers publish instead.

// CHECK-LABEL: attn_tile.kernel @turns(
// CHECK-SAME:    %[[K:[a-z0-9]+]]: memref<?x16xf16>, %[[P:[a-z0-9]+]]: vector<128x16xf16>, %[[SUMS:[a-z0-9]+]]: memref<?x16xf32>,
// CHECK-SAME:    %[[ORDERED:[a-z0-9]+]]: memref<?xi32>, %[[N:[a-z0-9]+]]: index)
// CHECK:         %[[PIPE:.*]] = attn_tile.create_pipe : <16x16xf16, stages = 2>
// CHECK:         %[[PACKED:.*]] = attn_tile.create_pipe : <128x16xf32, stages = 1>
// CHECK:         attn_tile.auxiliary_warps registers(24) {
// CHECK-NEXT:      scf.for %[[I:.*]] = %{{.*}} to %[[N]]
// CHECK-NEXT:        %[[IS:.*]] = arith.cmpi ult, %[[I]], %[[N]] : index
// CHECK-NEXT:        scf.if %[[IS]] {
// CHECK-NEXT:          %[[NUMBER:.*]] = arith.addi %[[I]], %{{.*}} : index
// CHECK-NEXT:          attn_tile.ordered_reduce_add %[[PACKED]][%[[I]]] to %[[SUMS]][%[[I]], %{{.*}}] ordered(%[[NUMBER]] of %[[ORDERED]][%[[I]]])
// CHECK-SAME:              {{^}} : <128x16xf32, stages = 1> to memref<?x16xf32>, memref<?xi32>
// CHECK-NEXT:        }
// CHECK-NEXT:      }
// CHECK-NEXT:    }
// CHECK:         attn_tile.role producer
// CHECK-NOT:       attn_tile.stage_fragments
// CHECK:         attn_tile.role consumer
// CHECK:           scf.for %[[I:.*]] = %{{.*}} to %[[N]]
// CHECK:             %[[R:.*]] = attn_tile.mma_wait
// CHECK:             scf.if
// CHECK:               %[[B:.*]] = attn_tile.stage_fragments %[[R]] in %[[PACKED]][%[[I]]]
// CHECK-NEXT:          attn_tile.commit_fragments %[[B]] in %[[PACKED]][%[[I]]] : <128x16xf32, stages = 1>
// CHECK-NEXT:        }
// CHECK-NOT:     attn_tile.bulk_reduce_add
attn_tile.kernel @turns(%k: memref<?x16xf16>, %p: vector<128x16xf16>, %sums: memref<?x16xf32>, %semaphores: memref<?xi32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<16x16xf16, stages = 2>
  %packed = attn_tile.create_pipe : !attn_tile.pipe<128x16xf32, stages = 1>
  scf.for %i = %c0 to %n step %c1 {
    %b = attn_tile.acquire %pipe[%i] : !attn_tile.pipe<16x16xf16, stages = 2>
    attn_tile.copy %k[%i, %c0] to %b : memref<?x16xf16> to !attn_tile.buffer<16x16xf16>
    attn_tile.commit %b : !attn_tile.buffer<16x16xf16>
    %f = attn_tile.wait %pipe[%i] : !attn_tile.pipe<16x16xf16, stages = 2>
    %s = attn_tile.mma_start %p, %f : vector<128x16xf16>, !attn_tile.buffer<16x16xf16>
        -> !attn_tile.pending<vector<128x16xf32>>
    %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<128x16xf32>>
    attn_tile.release %f : !attn_tile.buffer<16x16xf16>
    %is = arith.cmpi ult, %i, %n : index
    scf.if %is {
      %number = arith.addi %i, %c1 : index
      %t = attn_tile.stage_fragments %r in %packed[%i] : vector<128x16xf32>, !attn_tile.pipe<128x16xf32, stages = 1>
      attn_tile.bulk_reduce_add %t to %sums[%i, %c0] ordered(%number of %semaphores[%i])
          : !attn_tile.buffer<128x16xf32> to memref<?x16xf32>, memref<?xi32>
    }
  }
  attn_tile.return
}

// -----

// Counts after additions are left to an idle warp, which goes through the same
// work items; consumers say that they have added.

// CHECK-LABEL: attn_tile.kernel @semaphores_of_auxiliary_warps
// CHECK-SAME:    %[[C:[a-z0-9]+]]: memref<?xi32>
// CHECK:         %[[SUMS:.*]] = attn_tile.create_pipe : <128x16xf32, stages = 1>
// CHECK:         attn_tile.auxiliary_warps registers(40) {
// CHECK-NEXT:    }
// CHECK:         attn_tile.auxiliary_warps warps(1) registers(40) {
// CHECK-NEXT:      scf.for %[[I:.*]] = %{{.*}} to
// CHECK-NEXT:        attn_tile.semaphore_add %[[C]][%[[I]]] of additions after(%[[SUMS]][%[[I]]])
// CHECK-NEXT:      }
// CHECK-NEXT:    }
// CHECK:         attn_tile.role producer
// CHECK-NOT:       attn_tile.semaphore_add
// CHECK:         attn_tile.role consumer
// CHECK:           attn_tile.bulk_reduce_add
// CHECK-NEXT:      attn_tile.semaphore_release %[[SUMS]] : <128x16xf32, stages = 1>
// CHECK-NOT:       attn_tile.semaphore_add
// CHECK:         attn_tile.return
attn_tile.kernel @semaphores_of_auxiliary_warps(%c: memref<?xi32>, %k: memref<?x16xf16>, %p: vector<128x16xf16>, %sums: memref<?x16xf32>,
                                %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<16x16xf16, stages = 2>
  %packed = attn_tile.create_pipe : !attn_tile.pipe<128x16xf32, stages = 1>
  attn_tile.auxiliary_warps registers(40) {
  }
  scf.for %i = %c0 to %n step %c1 {
    %b = attn_tile.acquire %pipe[%i] : !attn_tile.pipe<16x16xf16, stages = 2>
    attn_tile.copy %k[%i, %c0] to %b : memref<?x16xf16> to !attn_tile.buffer<16x16xf16>
    attn_tile.commit %b : !attn_tile.buffer<16x16xf16>
    %f = attn_tile.wait %pipe[%i] : !attn_tile.pipe<16x16xf16, stages = 2>
    %s = attn_tile.mma_start %p, %f : vector<128x16xf16>, !attn_tile.buffer<16x16xf16>
        -> !attn_tile.pending<vector<128x16xf32>>
    %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<128x16xf32>>
    attn_tile.release %f : !attn_tile.buffer<16x16xf16>
    %t = attn_tile.stage_fragments %r in %packed : vector<128x16xf32>, !attn_tile.pipe<128x16xf32, stages = 1>
    attn_tile.bulk_reduce_add %t to %sums[%i, %c0] : !attn_tile.buffer<128x16xf32> to memref<?x16xf32>
    attn_tile.semaphore_add %c[%i] of additions after(%packed[%i]) : memref<?xi32>, !attn_tile.pipe<128x16xf32, stages = 1>
  }
  attn_tile.return
}
