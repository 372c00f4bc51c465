// RUN: attn-opt %s -attn-tile-allocate-pipes=target=sm_90a -convert-attn-tile-to-nvvm=target=sm_90a | FileCheck %s

// The second warp of the producer and those after it, here warps 1 to 3, are
// groups of their own, whose threads are counted from 0. All of the warpgroup
// has set its registers.

// CHECK-LABEL: llvm.func @beside(
// CHECK-SAME:    nvvm.reqntid = array<i32: 256>
// CHECK:         %[[TID:.*]] = nvvm.read.ptx.sreg.tid.x : i32
// CHECK:         %[[WARP:.*]] = nvvm.shfl.sync idx
// CHECK:         scf.if
// CHECK:           nvvm.setmaxregister
// CHECK:           %[[ISFIRST:.*]] = arith.cmpi eq, %[[TID]], %{{.*}} : i32
// CHECK:           scf.if %[[ISFIRST]] {
// CHECK-NOT:         llvm.store
// CHECK:           }
// CHECK:           %[[PLACE:.*]] = arith.addi %[[WARP]], %{{.*}} : i32
// CHECK:           %[[THREE:.*]] = arith.constant 3 : i32
// CHECK:           %[[ISIDLE:.*]] = arith.cmpi ult, %[[PLACE]], %[[THREE]] : i32
// CHECK:           scf.if %[[ISIDLE]] {
// CHECK:             %[[BLOCK:.*]] = nvvm.read.ptx.sreg.ctaid.x : i32
// CHECK:             %[[BLOCKS:.*]] = arith.muli %[[BLOCK]], %{{.*}} : i32
// CHECK:             %[[INBLOCK:.*]] = arith.addi %[[WARP]], %{{.*}} : i32
// CHECK:             %[[GROUP:.*]] = arith.addi %[[BLOCKS]], %[[INBLOCK]] : i32
// CHECK:             %[[GRID:.*]] = nvvm.read.ptx.sreg.nctaid.x : i32
// CHECK:             %[[GROUPS:.*]] = arith.muli %[[GRID]], %{{.*}} : i32
// CHECK:             scf.for %{{.*}} = %[[GROUP]] to %{{.*}} step %[[GROUPS]]
// CHECK:               %[[LAST:.*]] = arith.constant 31 : i32
// CHECK:               %[[LANE:.*]] = arith.andi %[[TID]], %[[LAST]] : i32
// CHECK:               scf.for %{{.*}} = %[[LANE]] to
// CHECK:                 llvm.store
// CHECK:         } else {
// CHECK:           nvvm.setmaxregister
// CHECK-NOT:       llvm.store
// CHECK:         llvm.return
// CHECK-NOT:   attn_tile.auxiliary_warps
attn_tile.kernel @beside(%list: memref<?xi32>, %x: i32, %n: index)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  attn_tile.auxiliary_warps {
    %p = attn_tile.program_id 0
    %s = attn_tile.num_programs 0
    scf.for %g = %p to %n step %s {
      attn_tile.thread_for to(%n) {
      ^bb0(%i: index):
        memref.store %x, %list[%i] : memref<?xi32>
        attn_tile.yield
      }
    }
  }
  attn_tile.role producer warpgroups(1) registers(56) {
  }
  attn_tile.role consumer warpgroups(1) registers(240) {
  }
  attn_tile.return
}

// Those that say how many warps they have get the first ones: here warp 1, and
// warps 2 and 3 what is left.

// CHECK-LABEL: llvm.func @shared(
// CHECK-SAME:    nvvm.reqntid = array<i32: 256>
// CHECK:         %[[WARP:.*]] = nvvm.shfl.sync idx
// CHECK:         %[[MINUSTWO:.*]] = arith.constant -2 : i32
// CHECK:         %[[PLACE:.*]] = arith.addi %[[WARP]], %[[MINUSTWO]] : i32
// CHECK:         %[[TWO:.*]] = arith.constant 2 : i32
// CHECK:         %[[ISLEFT:.*]] = arith.cmpi ult, %[[PLACE]], %[[TWO]] : i32
// CHECK:         scf.if %[[ISLEFT]] {
// CHECK:           arith.constant 2 : i32
// CHECK:           arith.constant -2 : i32
// CHECK:           llvm.store
// CHECK:         %[[MINUSONE:.*]] = arith.constant -1 : i32
// CHECK:         %[[FIRST:.*]] = arith.addi %[[WARP]], %[[MINUSONE]] : i32
// CHECK:         %[[ONE:.*]] = arith.constant 1 : i32
// CHECK:         %[[ISFIRST:.*]] = arith.cmpi ult, %[[FIRST]], %[[ONE]] : i32
// CHECK:         scf.if %[[ISFIRST]] {
// CHECK:           llvm.store
attn_tile.kernel @shared(%list: memref<?xi32>, %x: i32, %n: index)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  attn_tile.auxiliary_warps {
    %p = attn_tile.program_id 0
    memref.store %x, %list[%p] : memref<?xi32>
  }
  attn_tile.auxiliary_warps warps(1) {
    memref.store %x, %list[%n] : memref<?xi32>
  }
  attn_tile.role producer warpgroups(1) registers(56) {
  }
  attn_tile.role consumer warpgroups(1) registers(240) {
  }
  attn_tile.return
}

// What is joined is run by the idle warps and, once they are done, by those of
// consumers. One lane of a warp takes a number, from a counter at the end of
// shared memory that the first thread clears. Two idle warps take part from the
// beginning: warps 1 and 2, counted from 0, and what is above the idle ones has
// joined. Threads take four numbers at a time, then one.

// CHECK-LABEL: llvm.func @joined(
// CHECK:         %[[TID:.*]] = nvvm.read.ptx.sreg.tid.x : i32
// CHECK:         %[[THREAD0:.*]] = arith.cmpi eq, %[[TID]]
// CHECK:         scf.if %[[THREAD0]] {
// CHECK:           llvm.store %{{.*}}, %{{.*}} : i32, !llvm.ptr<3>
// CHECK:         nvvm.barrier
// CHECK:         nvvm.setmaxregister
// CHECK:         %[[IDLE:.*]] = arith.cmpi ult, %{{.*}}, %{{.*}} : i32
// CHECK:         scf.if %[[IDLE]] {
// CHECK:         %[[PLACE:.*]] = arith.addi %{{.*}}, %{{.*}} : i32
// CHECK:         %[[EARLY:.*]] = arith.cmpi ult, %[[PLACE]], %{{.*}} : i32
// CHECK:         %[[HAS:.*]] = arith.cmpi uge, %[[PLACE]], %{{.*}} : i32
// CHECK:         %[[TAKES:.*]] = arith.ori %[[EARLY]], %[[HAS]] : i1
// CHECK:         scf.if %[[TAKES]] {
// CHECK:         scf.while
// CHECK:           %[[BLOCK:.*]] = llvm.atomicrmw add %{{.*}}, %{{.*}} monotonic : !llvm.ptr<3>, i32
// CHECK:           nvvm.shfl.sync idx
// CHECK:           scf.condition
// CHECK:         } do {
// CHECK:           nvvm.read.ptx.sreg.ctaid.x
// CHECK:           %[[FOUR:.*]] = arith.constant 128 : i32
// CHECK:           %[[ROUNDS:.*]] = arith.divui %{{.*}}, %[[FOUR]] : i32
// CHECK:           %[[END:.*]] = arith.muli %[[ROUNDS]], %[[FOUR]] : i32
// CHECK:           scf.for %{{.*}} = %{{.*}} to %[[END]] step %[[FOUR]]
// CHECK-COUNT-4:     llvm.store
// CHECK-NOT:         llvm.store
// CHECK:           }
// CHECK:           scf.for
// CHECK:             llvm.store
// CHECK:         } else {
// CHECK:           nvvm.setmaxregister
// CHECK:           scf.while
// CHECK:             llvm.atomicrmw add
// CHECK-COUNT-5:     llvm.store
// CHECK:         llvm.return
attn_tile.kernel @joined(%list: memref<?xi32>, %x: i32, %n: index)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  attn_tile.auxiliary_warps joined {
    %two = arith.constant 2 : index
    %b = attn_tile.is_active_warp %two
    scf.if %b {
      scf.while : () -> index {
        %k = attn_tile.fetch_work_item
        %exists = arith.cmpi ult, %k, %n : index
        scf.condition(%exists) %k : index
      } do {
      ^bb0(%k: index):
        %p = attn_tile.program_id 0
        %last = arith.addi %k, %p : index
        attn_tile.thread_for to(%last) together(4) {
        ^bb0(%i: index):
          memref.store %x, %list[%i] : memref<?xi32>
          attn_tile.yield
        }
        scf.yield
      }
    }
  }
  attn_tile.role producer warpgroups(1) registers(56) {
  }
  attn_tile.role consumer warpgroups(1) registers(240) {
  }
  attn_tile.return
}
