// RUN: attn-opt %s --attn-tile-allocate-pipes=target=sm_80 --convert-attn-tile-to-nvvm=target=sm_80 | FileCheck %s

// The negated tile goes to shared memory, and the inverse comes back. Each warp inverts 16 rows: 28 multiplications for
// eight rows, 32 for half of the sums of the next ones over them, 28 for these. Twice, two matmuls of blocks follow, and
// a warp has eight columns of both: of 16 rows (two steps of the contracted dimension), then of 32 rows (four steps for
// each 16 rows, of which the second matmul leaves out what is above the diagonal). Each step has three MMAs.

// CHECK-LABEL: llvm.func @inverse
// CHECK: nvvm.barrier0
// CHECK-COUNT-16: llvm.store {{.*}} : vector<2xf32>, !llvm.ptr<3>
// CHECK-NOT: nvvm.barrier0
// CHECK: nvvm.bar.warp.sync
// CHECK-COUNT-60: llvm.intr.fma
// CHECK-COUNT-28: llvm.intr.fma
// CHECK-NOT: llvm.intr.fma
// CHECK: nvvm.bar.warp.sync
// CHECK-COUNT-8: llvm.store {{.*}} : f32, !llvm.ptr<3>
// CHECK: nvvm.barrier0
// CHECK-COUNT-6: nvvm.mma.sync {{.*}}<tf32>
// CHECK-NOT: nvvm.mma.sync
// CHECK-COUNT-2: llvm.store {{.*}} : vector<2xf32>, !llvm.ptr<3>
// CHECK: nvvm.barrier0
// CHECK-COUNT-6: nvvm.mma.sync {{.*}}<tf32>
// CHECK-NOT: nvvm.mma.sync
// CHECK-COUNT-2: llvm.store {{.*}} : vector<2xf32>, !llvm.ptr<3>
// CHECK: nvvm.barrier0
// CHECK-COUNT-24: nvvm.mma.sync {{.*}}<tf32>
// CHECK-NOT: nvvm.mma.sync
// CHECK-COUNT-4: llvm.store {{.*}} : vector<2xf32>, !llvm.ptr<3>
// CHECK-NOT: nvvm.barrier0
// CHECK: nvvm.bar.warp.sync
// CHECK-COUNT-18: nvvm.mma.sync {{.*}}<tf32>
// CHECK-NOT: nvvm.mma.sync
// CHECK: nvvm.bar.warp.sync
// CHECK-COUNT-4: llvm.store {{.*}} : vector<2xf32>, !llvm.ptr<3>
// CHECK: nvvm.barrier0
// CHECK-COUNT-16: llvm.load {{.*}} : !llvm.ptr<3> -> vector<2xf32>
attn_tile.kernel @inverse(%in: memref<64x64xf32>, %out: memref<64x64xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x64xf32, stages = 1>
  %a = attn_tile.load %in[%c0, %c0] : memref<64x64xf32> -> vector<64x64xf32>
  %t = attn_tile.invert_triangular %a in %p : vector<64x64xf32>, !attn_tile.pipe<64x64xf32, stages = 1>
  attn_tile.store %t, %out[%c0, %c0] : vector<64x64xf32>, memref<64x64xf32>
  attn_tile.return
}
