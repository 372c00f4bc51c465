// RUN: attn-opt %s --convert-attn-tile-to-vector | FileCheck %s

// Buffers of more than 2 MiB of a work item are on the heap.
// CHECK-LABEL: func.func private @large
// CHECK: scf.forall
// CHECK-NOT: memref.alloca
// CHECK: %[[BUFFER:.*]] = memref.alloc() {alignment = 64 : i64} : memref<800x800xf32>
// CHECK: vector.store %{{.*}}, %[[BUFFER]]
// CHECK: memref.dealloc %[[BUFFER]]
attn_tile.kernel @large(%a: memref<?x?xf32>, %b: memref<?x?xf32>) attributes {schedule = #attn_tile.scalar} {
  scf.forall (%i) in (1) {
    %c0 = arith.constant 0 : index
    %t = attn_tile.load %a[%c0, %c0] : memref<?x?xf32> -> vector<800x800xf32>
    attn_tile.store %t, %b[%c0, %c0] : vector<800x800xf32>, memref<?x?xf32>
  }
  attn_tile.return
}

// CHECK-LABEL: func.func private @small
// CHECK: memref.alloca() {{.*}} : memref<64x64xf32>
// CHECK-NOT: memref.dealloc
attn_tile.kernel @small(%a: memref<?x?xf32>, %b: memref<?x?xf32>) attributes {schedule = #attn_tile.scalar} {
  scf.forall (%i) in (1) {
    %c0 = arith.constant 0 : index
    %t = attn_tile.load %a[%c0, %c0] : memref<?x?xf32> -> vector<64x64xf32>
    attn_tile.store %t, %b[%c0, %c0] : vector<64x64xf32>, memref<?x?xf32>
  }
  attn_tile.return
}
