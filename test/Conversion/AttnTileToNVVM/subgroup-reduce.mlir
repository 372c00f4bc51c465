// RUN: attn-opt %s -attn-tile-allocate-pipes=target=sm_90a -convert-attn-tile-to-nvvm=target=sm_90a -split-input-file | FileCheck %s

// Threads of a cluster add up their values by shuffles. There are as many indices as threads: no loop runs over them.

// CHECK-LABEL: llvm.func @clusters
// CHECK-NOT: scf.for
// CHECK: %[[X:.*]] = llvm.load
// CHECK: nvvm.shfl.sync bfly %{{.*}}, %[[X]], %c16_i32
// CHECK: %[[SUM:.*]] = arith.addf %[[X]]
// CHECK: nvvm.shfl.sync bfly %{{.*}}, %[[SUM]], %c8_i32
// CHECK: %[[ALL:.*]] = arith.addf %[[SUM]]
// CHECK-NOT: nvvm.shfl
// CHECK: llvm.store %[[ALL]]
attn_tile.kernel @clusters(%x: memref<32xf32>) attributes {layout = #attn_tile.row_blocks<warps = 1>} {
  %threads = arith.constant 32 : index
  attn_tile.thread_for to(%threads) {
  ^bb0(%i: index):
    %0 = memref.load %x[%i] {attn_tile.in_bounds} : memref<32xf32>
    %1 = gpu.subgroup_reduce add %0 cluster(size = 4, stride = 8) : (f32) -> f32
    memref.store %1, %x[%i] : memref<32xf32>
    attn_tile.yield
  }
  attn_tile.return
}
