// RUN: attn-opt %s -convert-attn-tile-to-nvvm=target=sm_80 | FileCheck %s

// CHECK-LABEL:   llvm.func @packed
// CHECK-COUNT-8:   llvm.atomicrmw fadd %{{.*}}, %{{.*}} monotonic : !llvm.ptr<1>, f32
attn_tile.kernel @packed(%m: memref<?x64xf32>, %i: index)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %x = attn_tile.load_fragments %m[%i, %c0] : memref<?x64xf32> to vector<64x16xf32>
  attn_tile.bulk_reduce_add %x to %m[%i, %c0] : vector<64x16xf32> to memref<?x64xf32>
  attn_tile.return
}
