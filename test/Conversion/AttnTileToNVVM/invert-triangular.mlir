// RUN: attn-opt %s --attn-tile-allocate-pipes=target=sm_80 --convert-attn-tile-to-nvvm=target=sm_80 | FileCheck %s

// The tile goes to shared memory and back. Each warp inverts 16 rows: 40 loads of up to four elements, 120 multiplications.
// Twice, two matmuls of blocks follow: of 16 rows (a thread has 4 columns), then of 32 rows (8 columns).

// CHECK-LABEL: llvm.func @inverse
// CHECK: nvvm.barrier0
// CHECK-COUNT-16: llvm.store {{.*}} : vector<2xf32>, !llvm.ptr<3>
// CHECK: nvvm.barrier0
// CHECK-COUNT-120: llvm.intr.fma
// CHECK: nvvm.bar.warp.sync
// CHECK: scf.if
// CHECK-COUNT-16: llvm.store {{.*}} : f32, !llvm.ptr<3>
// CHECK: nvvm.barrier0
// CHECK-COUNT-64: llvm.intr.fma
// CHECK-COUNT-1: llvm.store {{.*}} : vector<4xf32>, !llvm.ptr<3>
// CHECK: nvvm.barrier0
// CHECK-COUNT-64: llvm.intr.fma
// CHECK-COUNT-4: arith.negf
// CHECK: nvvm.barrier0
// CHECK-COUNT-256: llvm.intr.fma
// CHECK-COUNT-2: llvm.store {{.*}} : vector<4xf32>, !llvm.ptr<3>
// CHECK: nvvm.barrier0
// CHECK-COUNT-256: llvm.intr.fma
// CHECK-COUNT-8: arith.negf
// CHECK: nvvm.barrier0
// CHECK-NOT: llvm.intr.fma
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
