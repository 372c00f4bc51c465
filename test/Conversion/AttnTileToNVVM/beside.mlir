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
// CHECK:           %[[ONE:.*]] = arith.constant 1 : i32
// CHECK:           %[[ISIDLE:.*]] = arith.cmpi sge, %[[WARP]], %[[ONE]] : i32
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
// CHECK-NOT:   attn_tile.beside
attn_tile.kernel @beside(%list: memref<?xi32>, %x: i32, %n: index)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  attn_tile.beside {
    %p = attn_tile.program_id 0
    %s = attn_tile.num_programs 0
    scf.for %g = %p to %n step %s {
      attn_tile.each to(%n) {
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
