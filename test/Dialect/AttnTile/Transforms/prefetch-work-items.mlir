// RUN: attn-opt %s -attn-tile-prefetch-work-items -split-input-file | FileCheck %s

// The next work item is computed behind the steps of the one before, and before
// the loop for the first one, where no divisor may be zero. Values that follow at once
// from carried ones are computed again.

// CHECK-LABEL: attn_tile.kernel @items
// CHECK:         attn_tile.role producer
// CHECK-NEXT:      scf.for %{{.*}} = %{{.*}} to %{{.*}} step %{{.*}} {
// CHECK-NEXT:        arith.divui
// CHECK:         attn_tile.role consumer
// CHECK-NEXT:      %[[ONE0:.*]] = arith.constant 1 : index
// CHECK-NEXT:      %[[D0:.*]] = arith.maxui %[[TILES:.*]], %[[ONE0]]
// CHECK-NEXT:      %[[H0:.*]] = arith.divui %c0, %[[D0]]
// CHECK:           %[[D1:.*]] = arith.maxui %[[TILES]]
// CHECK-NEXT:      %[[T0:.*]] = arith.remui %c0, %[[D1]]
// CHECK:           scf.for %[[WORK_ITEM:.*]] = %c0 to %{{.*}} step %c1 iter_args(%[[AT:.*]] = %c0, %[[H:.*]] = %[[H0]], %[[T:.*]] = %[[T0]]) ->
// CHECK:             %[[ROW:.*]] = arith.muli %[[T]], %c64
// CHECK:             %[[ANY:.*]] = arith.cmpi sgt, %[[T]]
// CHECK:             scf.if %[[ANY]]
// CHECK:               attn_tile.wait %{{.*}}[%[[T]]]
// CHECK:             } else {
// CHECK:             }
// CHECK-NEXT:        %[[NEXT:.*]] = arith.addi %[[WORK_ITEM]], %c1
// CHECK-NEXT:        %[[H1:.*]] = arith.divui %[[NEXT]], %[[TILES]]
// CHECK-NEXT:        %[[T1:.*]] = arith.remui %[[NEXT]], %[[TILES]]
// CHECK:             attn_tile.store %{{.*}}, %{{.*}}[%[[H]], %[[ROW]], %c0]
// CHECK:             scf.yield %{{.*}}, %[[H1]], %[[T1]] : index, index, index
attn_tile.kernel @items(%n: index, %tiles: index, %init: vector<64x64xf32>, %out: memref<?x?x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %qs = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 2>
  attn_tile.role producer warpgroups(1) registers(24) {
    scf.for %item = %c0 to %n step %c1 {
      %h = arith.divui %item, %tiles : index
      %q = attn_tile.acquire %qs[%h] : !attn_tile.pipe<64x64xbf16, stages = 2>
      attn_tile.commit %q : !attn_tile.buffer<64x64xbf16>
    }
  }
  attn_tile.role consumer warpgroups(1) registers(240) {
    %end = scf.for %item = %c0 to %n step %c1 iter_args(%at = %c0) -> index {
      %h = arith.divui %item, %tiles : index
      %t = arith.remui %item, %tiles : index
      %row = arith.muli %t, %c64 : index
      %any = arith.cmpi sgt, %t, %c0 : index
      %r = scf.if %any -> vector<64x64xf32> {
        %q = attn_tile.wait %qs[%t] : !attn_tile.pipe<64x64xbf16, stages = 2>
        %p = attn_tile.mma_start %q, %q transpose_rhs : !attn_tile.buffer<64x64xbf16>, !attn_tile.buffer<64x64xbf16>
            -> !attn_tile.pending<vector<64x64xf32>>
        %s = attn_tile.mma_wait %p : !attn_tile.pending<vector<64x64xf32>>
        attn_tile.release %q : !attn_tile.buffer<64x64xbf16>
        scf.yield %s : vector<64x64xf32>
      } else {
        scf.yield %init : vector<64x64xf32>
      }
      attn_tile.store %r, %out[%h, %row, %c0] : vector<64x64xf32>, memref<?x?x64xf32>
      %next = arith.addi %at, %c1 : index
      scf.yield %next : index
    }
  }
  attn_tile.return
}

// -----

// Shifts and additions do not take long enough.

// CHECK-LABEL: attn_tile.kernel @quick
// CHECK:         attn_tile.role consumer
// CHECK-NEXT:      scf.for %{{.*}} = %{{.*}} to %{{.*}} step %{{.*}} {
attn_tile.kernel @quick(%n: index, %any: i1, %init: vector<64x64xf32>, %out: memref<?x?x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  attn_tile.role producer warpgroups(1) registers(24) {
  }
  attn_tile.role consumer warpgroups(1) registers(240) {
    scf.for %item = %c0 to %n step %c1 {
      %h = arith.divui %item, %c16 : index
      %r = scf.if %any -> vector<64x64xf32> {
        %s = arith.addf %init, %init : vector<64x64xf32>
        scf.yield %s : vector<64x64xf32>
      } else {
        scf.yield %init : vector<64x64xf32>
      }
      attn_tile.store %r, %out[%h, %c0, %c0] : vector<64x64xf32>, memref<?x?x64xf32>
    }
  }
  attn_tile.return
}

// -----

// Where to compute is not known without steps.

// CHECK-LABEL: attn_tile.kernel @no_steps
// CHECK:         attn_tile.role consumer
// CHECK-NEXT:      scf.for %{{.*}} = %{{.*}} to %{{.*}} step %{{.*}} {
// CHECK-NEXT:        arith.divui
attn_tile.kernel @no_steps(%n: index, %tiles: index, %init: vector<64x64xf32>, %out: memref<?x?x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  attn_tile.role producer warpgroups(1) registers(24) {
  }
  attn_tile.role consumer warpgroups(1) registers(240) {
    scf.for %item = %c0 to %n step %c1 {
      %h = arith.divui %item, %tiles : index
      attn_tile.store %init, %out[%h, %c0, %c0] : vector<64x64xf32>, memref<?x?x64xf32>
    }
  }
  attn_tile.return
}

// -----

// Where the divisor is computed from the work item, it may be zero behind the last one,
// but where it is known not to be.

// CHECK-LABEL: attn_tile.kernel @divisors
// CHECK:         attn_tile.role consumer
// CHECK:           scf.for %[[WORK_ITEM:.*]] = %c0 to %[[N:.*]] step %c1 iter_args
// CHECK:             } else {
// CHECK:             }
// CHECK-NEXT:        %[[NEXT:.*]] = arith.addi %[[WORK_ITEM]], %c1
// CHECK-NEXT:        %[[LEFT:.*]] = arith.subi %[[N]], %[[NEXT]]
// CHECK-NEXT:        %[[ONE:.*]] = arith.constant 1 : index
// CHECK-NEXT:        %[[DIVISOR:.*]] = arith.maxui %[[LEFT]], %[[ONE]]
// CHECK-NEXT:        %[[H:.*]] = arith.ceildivui %[[NEXT]], %[[DIVISOR]]
// CHECK-NEXT:        %[[BOUND:.*]] = arith.maxui %[[LEFT]], %c16
// CHECK-NEXT:        %[[T:.*]] = arith.remui %[[NEXT]], %[[BOUND]]
// CHECK-NEXT:        attn_tile.store
attn_tile.kernel @divisors(%n: index, %any: i1, %init: vector<64x64xf32>, %out: memref<?x?x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  attn_tile.role producer warpgroups(1) registers(24) {
  }
  attn_tile.role consumer warpgroups(1) registers(240) {
    scf.for %item = %c0 to %n step %c1 {
      %left = arith.subi %n, %item : index
      %h = arith.ceildivui %item, %left : index
      %bound = arith.maxui %left, %c16 : index
      %t = arith.remui %item, %bound : index
      %r = scf.if %any -> vector<64x64xf32> {
        %s = arith.addf %init, %init : vector<64x64xf32>
        scf.yield %s : vector<64x64xf32>
      } else {
        scf.yield %init : vector<64x64xf32>
      }
      attn_tile.store %r, %out[%h, %t, %c0] : vector<64x64xf32>, memref<?x?x64xf32>
    }
  }
  attn_tile.return
}
