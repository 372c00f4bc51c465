// RUN: attn-opt %s -attn-tile-allocate-pipes=target=sm_90a -convert-attn-tile-to-nvvm=target=sm_90a -canonicalize | FileCheck %s

// Two barriers for each of two threads: a tile is full when all eight warps of
// consumers have packed their part, and empty when one thread has added it.

// CHECK-LABEL: llvm.func @turns(
// CHECK-DAG:     %[[EIGHT:.*]] = llvm.mlir.constant(8 : i32) : i32
// CHECK-DAG:     %[[FOUR:.*]] = llvm.mlir.constant(4 : i32) : i32
// CHECK-DAG:     %[[ONE:.*]] = llvm.mlir.constant(1 : i32) : i32
// CHECK:         llvm.inline_asm has_side_effects
// CHECK-SAME:        mbarrier.init.shared::cta.b64 [$0], $1;\0Ambarrier.init.shared::cta.b64 [$0 + 8], 1;\0Ambarrier.init.shared::cta.b64 [$0 + 16], $1;
// CHECK-SAME:        {{^}}\0Ambarrier.init.shared::cta.b64 [$0 + 24], 1;{{.*}} %[[BARRIERS:[0-9]+]], %[[EIGHT]] : (i32, i32) -> ()

// Idle warps are the second and third one of the producer. The turn is waited
// for, then the tile; the stage is given back before the addition is complete.
// CHECK:         llvm.inline_asm has_side_effects {{.*}}sub.u32 warp, warp, 1;
// CHECK-SAME:      setp.ne.u32 skips, warp, barrier;
// CHECK-SAME:      ld.acquire.gpu.global.s32 found, [$4];
// CHECK-SAME:      setp.eq.s32 done, found, $5;
// CHECK-SAME:      fence.proxy.async;\0Amad.lo.u32 barrier, warp, 16, $2;\0Abfe.u32 found, $3, 1, 1;
// CHECK-SAME:      mbarrier.try_wait.parity.shared::cta.b64 done, [barrier], found;
// CHECK-SAME:      cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [$0], [$1], 8192;
// CHECK-SAME:      cp.async.bulk.wait_group.read 0;\0Ambarrier.arrive.shared::cta.b64 _, [barrier + 8];
// CHECK-SAME:      cp.async.bulk.wait_group 0;\0Ared.release.gpu.global.add.s32 [$4], 1;

// Consumers wait until the tile before has been read, by the other thread, pack
// theirs, and one lane of each warp tells so. They wait for no bulk addition of
// their own. The tile before the first one is that before the first phase.
// CHECK-NOT:     cp.async.bulk.wait_group.read
// CHECK:         scf.for %[[N:.*]] = 
// CHECK:           %[[BEFORE:.*]] = arith.subi %[[N]], %[[ONE]] : i32
// CHECK-NEXT:      %[[THREAD:.*]] = arith.andi %[[BEFORE]], %[[ONE]] : i32
// CHECK-NEXT:      %[[OFFSET:.*]] = arith.shli %[[THREAD]], %[[FOUR]] : i32
// CHECK-NEXT:      %[[FULL:.*]] = arith.addi %[[BARRIERS]], %[[OFFSET]] : i32
// CHECK-NEXT:      %[[EMPTY:.*]] = arith.addi %[[FULL]], %[[EIGHT]] : i32
// CHECK-NEXT:      %[[ROUND:.*]] = arith.shrui %[[BEFORE]], %[[ONE]] : i32
// CHECK-NEXT:      %[[PARITY:.*]] = arith.andi %[[ROUND]], %[[ONE]] : i32
// CHECK-NEXT:      llvm.inline_asm {{.*}}mbarrier.try_wait.parity{{.*}} %[[EMPTY]], %[[PARITY]] : (i32, i32) -> ()
// CHECK:           st.shared
// CHECK:           %[[THREAD:.*]] = arith.andi %[[N]], %[[ONE]] : i32
// CHECK-NEXT:      %[[OFFSET:.*]] = arith.shli %[[THREAD]], %[[FOUR]] : i32
// CHECK-NEXT:      %[[FULL:.*]] = arith.addi %[[BARRIERS]], %[[OFFSET]] : i32
// CHECK-NEXT:      llvm.inline_asm has_side_effects
// CHECK-SAME:          fence.proxy.async.shared::cta;\0Abar.warp.sync 0xffffffff;\0Asetp.eq.s32 first, $1, 0;\0A@first mbarrier.arrive.shared::cta.b64 _, [$0];
// CHECK-SAME:          %[[FULL]], %{{.*}} : (i32, i32) -> ()
// CHECK-NOT:     cp.reduce.async.bulk
// CHECK:         llvm.return
attn_tile.kernel @turns(%m: memref<?x16xf32>, %c: memref<?xi32>, %n: index) attributes {layout = #attn_tile.row_blocks<warps = 8>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %v = arith.constant dense<1.0> : vector<128x16xf32>
  %p = attn_tile.create_pipe : !attn_tile.pipe<128x16xf32, stages = 1>
  attn_tile.auxiliary_warps registers(24) {
    scf.for %i = %c0 to %n step %c1 {
      attn_tile.ordered_reduce_add %p[%i] to %m[%i, %c0] ordered(%i of %c[%i])
          : !attn_tile.pipe<128x16xf32, stages = 1> to memref<?x16xf32>, memref<?xi32>
    }
  }
  attn_tile.role producer warpgroups(1) registers(24) {
  }
  attn_tile.role consumer warpgroups(2) registers(240) {
    scf.for %i = %c0 to %n step %c1 {
      %b = attn_tile.stage_fragments %v in %p[%i] : vector<128x16xf32>, !attn_tile.pipe<128x16xf32, stages = 1>
      attn_tile.commit_fragments %b in %p[%i] : !attn_tile.pipe<128x16xf32, stages = 1>
    }
  }
  attn_tile.return
}
