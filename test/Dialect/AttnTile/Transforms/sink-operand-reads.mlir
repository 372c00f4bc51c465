// RUN: attn-opt %s --remarks-filter="attn-tile-sink-operand-reads" -attn-tile-sink-operand-reads -split-input-file -verify-diagnostics | FileCheck %s

// Values that a work item keeps in registers are waited for, cleared and read by the
// first MMA that takes them, and released behind it. A work item without steps
// releases them unread.

// CHECK-LABEL: attn_tile.kernel @values
// CHECK:         attn_tile.role consumer
// CHECK-NEXT:      scf.for %[[WORK_ITEM:.*]] =
// CHECK-NEXT:        %[[K:.*]] = attn_tile.wait %[[KS:.*]][%[[WORK_ITEM]]]
// CHECK-NEXT:        %[[ANY:.*]] = arith.cmpi
// CHECK-NEXT:        scf.if %[[ANY]]
// CHECK-NEXT:          %[[S:.*]] = attn_tile.mma_start %[[K]], %[[K]] transpose_rhs
// CHECK-NEXT:          %[[STAGE:.*]] = attn_tile.wait %[[VS:.*]][%[[WORK_ITEM]]]
// CHECK-NEXT:          attn_tile.clear %[[STAGE]]
// CHECK-NEXT:          %[[V:.*]] = attn_tile.read %[[STAGE]]
// CHECK-NEXT:          %[[D:.*]] = attn_tile.mma_start %[[V]], %[[K]] transpose_rhs
// CHECK-NEXT:          attn_tile.release %[[STAGE]]
// CHECK:               scf.for
// CHECK:                 attn_tile.mma_start %[[V]]
// CHECK:             } else {
// CHECK-NEXT:          %[[UNREAD:.*]] = attn_tile.wait %[[VS]][%[[WORK_ITEM]]]
// CHECK-NEXT:          attn_tile.release %[[UNREAD]]
// CHECK-NEXT:          scf.yield
// CHECK-NEXT:        }
// CHECK-NEXT:        attn_tile.release %[[K]]
attn_tile.kernel @values(%n: index, %steps: index, %init: vector<64x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ks = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 2>
  %vs = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 1>
  attn_tile.role producer warpgroups(1) registers(24) {
    scf.for %item = %c0 to %n step %c1 {
      %k = attn_tile.acquire %ks[%item] : !attn_tile.pipe<64x64xbf16, stages = 2>
      attn_tile.commit %k : !attn_tile.buffer<64x64xbf16>
      %v = attn_tile.acquire %vs[%item] : !attn_tile.pipe<64x64xbf16, stages = 1>
      attn_tile.commit %v : !attn_tile.buffer<64x64xbf16>
    }
  }
  attn_tile.role consumer warpgroups(1) registers(240) {
    scf.for %item = %c0 to %n step %c1 {
      %k = attn_tile.wait %ks[%item] : !attn_tile.pipe<64x64xbf16, stages = 2>
      %stage = attn_tile.wait %vs[%item] : !attn_tile.pipe<64x64xbf16, stages = 1>
      attn_tile.clear %stage within(%item of %n) : !attn_tile.buffer<64x64xbf16>
      %v = attn_tile.read %stage : !attn_tile.buffer<64x64xbf16> -> vector<64x64xbf16>
      %any = arith.cmpi sgt, %steps, %c0 : index
      %r = scf.if %any -> vector<64x64xf32> {
        %s = attn_tile.mma_start %k, %k transpose_rhs : !attn_tile.buffer<64x64xbf16>, !attn_tile.buffer<64x64xbf16>
            -> !attn_tile.pending<vector<64x64xf32>>
        %d = attn_tile.mma_start %v, %k transpose_rhs : vector<64x64xbf16>, !attn_tile.buffer<64x64xbf16>
            -> !attn_tile.pending<vector<64x64xf32>>
        %0 = attn_tile.mma_wait %s : !attn_tile.pending<vector<64x64xf32>>
        %1 = attn_tile.mma_wait %d : !attn_tile.pending<vector<64x64xf32>>
        %sum = arith.addf %0, %1 : vector<64x64xf32>
        %2 = scf.for %i = %c1 to %steps step %c1 iter_args(%a = %sum) -> vector<64x64xf32> {
          %e = attn_tile.mma_start %v, %k transpose_rhs : vector<64x64xbf16>, !attn_tile.buffer<64x64xbf16>
              -> !attn_tile.pending<vector<64x64xf32>>
          %3 = attn_tile.mma_wait %e : !attn_tile.pending<vector<64x64xf32>>
          %4 = arith.addf %a, %3 : vector<64x64xf32>
          scf.yield %4 : vector<64x64xf32>
        }
        scf.yield %2 : vector<64x64xf32>
      } else {
        scf.yield %init : vector<64x64xf32>
      }
      attn_tile.release %stage : !attn_tile.buffer<64x64xbf16>
      attn_tile.release %k : !attn_tile.buffer<64x64xbf16>
    }
  }
  attn_tile.return
}

// -----

// A loop without a branch around it may have no steps.

// CHECK-LABEL: attn_tile.kernel @no_branch
// CHECK:         attn_tile.read
// CHECK-NEXT:    scf.for
attn_tile.kernel @no_branch(%n: index, %steps: index, %init: vector<64x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %vs = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 1>
  attn_tile.role producer warpgroups(1) registers(24) {
    scf.for %item = %c0 to %n step %c1 {
      %v = attn_tile.acquire %vs[%item] : !attn_tile.pipe<64x64xbf16, stages = 1>
      attn_tile.commit %v : !attn_tile.buffer<64x64xbf16>
    }
  }
  attn_tile.role consumer warpgroups(1) registers(240) {
    scf.for %item = %c0 to %n step %c1 {
      %stage = attn_tile.wait %vs[%item] : !attn_tile.pipe<64x64xbf16, stages = 1>
      // expected-remark @below {{the users of the tile are not in one branch}}
      %v = attn_tile.read %stage : !attn_tile.buffer<64x64xbf16> -> vector<64x64xbf16>
      %r = scf.for %i = %c0 to %steps step %c1 iter_args(%a = %init) -> vector<64x64xf32> {
        %0 = arith.extf %v : vector<64x64xbf16> to vector<64x64xf32>
        scf.yield %0 : vector<64x64xf32>
      }
      attn_tile.release %stage : !attn_tile.buffer<64x64xbf16>
    }
  }
  attn_tile.return
}

// -----

// Arithmetic may take registers later than it stands.

// CHECK-LABEL: attn_tile.kernel @arithmetic
// CHECK:         attn_tile.read
// CHECK-NEXT:    scf.if
attn_tile.kernel @arithmetic(%n: index, %any: i1, %init: vector<64x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %vs = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 1>
  attn_tile.role producer warpgroups(1) registers(24) {
    scf.for %item = %c0 to %n step %c1 {
      %v = attn_tile.acquire %vs[%item] : !attn_tile.pipe<64x64xbf16, stages = 1>
      attn_tile.commit %v : !attn_tile.buffer<64x64xbf16>
    }
  }
  attn_tile.role consumer warpgroups(1) registers(240) {
    scf.for %item = %c0 to %n step %c1 {
      %stage = attn_tile.wait %vs[%item] : !attn_tile.pipe<64x64xbf16, stages = 1>
      // expected-remark @below {{the first user of the tile is no MMA}}
      %v = attn_tile.read %stage : !attn_tile.buffer<64x64xbf16> -> vector<64x64xbf16>
      %r = scf.if %any -> vector<64x64xf32> {
        %0 = arith.extf %v : vector<64x64xbf16> to vector<64x64xf32>
        scf.yield %0 : vector<64x64xf32>
      } else {
        scf.yield %init : vector<64x64xf32>
      }
      attn_tile.release %stage : !attn_tile.buffer<64x64xbf16>
    }
  }
  attn_tile.return
}

// -----

// An MMA that reads the stage itself needs it as long as the work item takes.

// CHECK-LABEL: attn_tile.kernel @read_by_others
// CHECK:         attn_tile.read
// CHECK-NEXT:    scf.if
attn_tile.kernel @read_by_others(%n: index, %any: i1, %init: vector<64x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %vs = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 1>
  attn_tile.role producer warpgroups(1) registers(24) {
    scf.for %item = %c0 to %n step %c1 {
      %v = attn_tile.acquire %vs[%item] : !attn_tile.pipe<64x64xbf16, stages = 1>
      attn_tile.commit %v : !attn_tile.buffer<64x64xbf16>
    }
  }
  attn_tile.role consumer warpgroups(1) registers(240) {
    scf.for %item = %c0 to %n step %c1 {
      %stage = attn_tile.wait %vs[%item] : !attn_tile.pipe<64x64xbf16, stages = 1>
      // expected-remark @below {{the stage of the tile is used by others as well}}
      %v = attn_tile.read %stage : !attn_tile.buffer<64x64xbf16> -> vector<64x64xbf16>
      %r = scf.if %any -> vector<64x64xf32> {
        %d = attn_tile.mma_start %v, %stage transpose_rhs : vector<64x64xbf16>, !attn_tile.buffer<64x64xbf16>
            -> !attn_tile.pending<vector<64x64xf32>>
        %0 = attn_tile.mma_wait %d : !attn_tile.pending<vector<64x64xf32>>
        scf.yield %0 : vector<64x64xf32>
      } else {
        scf.yield %init : vector<64x64xf32>
      }
      attn_tile.release %stage : !attn_tile.buffer<64x64xbf16>
    }
  }
  attn_tile.return
}

// -----

// A stage that is released at once stays where it is: others may wait for its
// pipe before the branch.

// CHECK-LABEL: attn_tile.kernel @released_before
// CHECK:         attn_tile.read
// CHECK-NEXT:    attn_tile.release
// CHECK-NEXT:    scf.if
attn_tile.kernel @released_before(%n: index, %any: i1, %init: vector<64x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ks = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 2>
  %vs = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 1>
  attn_tile.role producer warpgroups(1) registers(24) {
    scf.for %item = %c0 to %n step %c1 {
      %k = attn_tile.acquire %ks[%item] : !attn_tile.pipe<64x64xbf16, stages = 2>
      attn_tile.commit %k : !attn_tile.buffer<64x64xbf16>
      %v = attn_tile.acquire %vs[%item] : !attn_tile.pipe<64x64xbf16, stages = 1>
      attn_tile.commit %v : !attn_tile.buffer<64x64xbf16>
    }
  }
  attn_tile.role consumer warpgroups(1) registers(240) {
    scf.for %item = %c0 to %n step %c1 {
      %k = attn_tile.wait %ks[%item] : !attn_tile.pipe<64x64xbf16, stages = 2>
      %stage = attn_tile.wait %vs[%item] : !attn_tile.pipe<64x64xbf16, stages = 1>
      // expected-remark @below {{the stage of the tile is not released after all users of the tile}}
      %v = attn_tile.read %stage : !attn_tile.buffer<64x64xbf16> -> vector<64x64xbf16>
      attn_tile.release %stage : !attn_tile.buffer<64x64xbf16>
      %r = scf.if %any -> vector<64x64xf32> {
        %d = attn_tile.mma_start %v, %k transpose_rhs : vector<64x64xbf16>, !attn_tile.buffer<64x64xbf16>
            -> !attn_tile.pending<vector<64x64xf32>>
        %0 = attn_tile.mma_wait %d : !attn_tile.pending<vector<64x64xf32>>
        scf.yield %0 : vector<64x64xf32>
      } else {
        scf.yield %init : vector<64x64xf32>
      }
      attn_tile.release %k : !attn_tile.buffer<64x64xbf16>
    }
  }
  attn_tile.return
}

// -----

// What is cleared behind the read is not of this tile.

// CHECK-LABEL: attn_tile.kernel @cleared_behind
// CHECK:         attn_tile.read
// CHECK-NEXT:    scf.if
attn_tile.kernel @cleared_behind(%n: index, %any: i1, %init: vector<64x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ks = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 2>
  %vs = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 1>
  attn_tile.role producer warpgroups(1) registers(24) {
    scf.for %item = %c0 to %n step %c1 {
      %k = attn_tile.acquire %ks[%item] : !attn_tile.pipe<64x64xbf16, stages = 2>
      attn_tile.commit %k : !attn_tile.buffer<64x64xbf16>
      %v = attn_tile.acquire %vs[%item] : !attn_tile.pipe<64x64xbf16, stages = 1>
      attn_tile.commit %v : !attn_tile.buffer<64x64xbf16>
    }
  }
  attn_tile.role consumer warpgroups(1) registers(240) {
    scf.for %item = %c0 to %n step %c1 {
      %k = attn_tile.wait %ks[%item] : !attn_tile.pipe<64x64xbf16, stages = 2>
      %stage = attn_tile.wait %vs[%item] : !attn_tile.pipe<64x64xbf16, stages = 1>
      // expected-remark @below {{the stage of the tile is used by others as well}}
      %v = attn_tile.read %stage : !attn_tile.buffer<64x64xbf16> -> vector<64x64xbf16>
      %r = scf.if %any -> vector<64x64xf32> {
        %d = attn_tile.mma_start %v, %k transpose_rhs : vector<64x64xbf16>, !attn_tile.buffer<64x64xbf16>
            -> !attn_tile.pending<vector<64x64xf32>>
        %0 = attn_tile.mma_wait %d : !attn_tile.pending<vector<64x64xf32>>
        scf.yield %0 : vector<64x64xf32>
      } else {
        scf.yield %init : vector<64x64xf32>
      }
      attn_tile.clear %stage within(%item of %n) : !attn_tile.buffer<64x64xbf16>
      attn_tile.release %stage : !attn_tile.buffer<64x64xbf16>
      attn_tile.release %k : !attn_tile.buffer<64x64xbf16>
    }
  }
  attn_tile.return
}
