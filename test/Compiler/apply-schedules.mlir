// RUN: attn-opt %s --attn-apply-schedules | FileCheck %s

// Each kernel gets the passes of its own schedule: a host kernel keeps its loop
// over work items, one for a GPU gets a grid.

// CHECK-LABEL: func.func @launches
// CHECK:         attn_tile.launch @host args
// CHECK:         attn_tile.launch @gpu grid(
// CHECK-NOT:   attn_tile.launch
// CHECK-NOT:   func.func
func.func @launches(%m: memref<64x16xf32>) {
  attn_tile.launch @empty args(%m : memref<64x16xf32>)
  attn_tile.launch @host args(%m : memref<64x16xf32>)
  attn_tile.launch @gpu args(%m : memref<64x16xf32>)
  return
}

// CHECK-LABEL: attn_tile.kernel @host
// CHECK:         scf.forall
attn_tile.kernel @host(%m: memref<64x16xf32>)
    attributes {schedule = #attn_tile.sequential<query_tile = 16, key_tile = 16>} {
  %c0 = arith.constant 0 : index
  %z = arith.constant dense<0.0> : vector<16x16xf32>
  scf.forall (%b, %h, %i) in (1, 1, 4) {
    %row = arith.muli %i, %i : index
    attn_tile.store %z, %m[%row, %c0] : vector<16x16xf32>, memref<64x16xf32>
  }
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @gpu
// CHECK-NOT:     scf.forall
attn_tile.kernel @gpu(%m: memref<64x16xf32>)
    attributes {schedule = #attn_tile.multistage<query_tile = 16, key_tile = 16, stages = 2, warps = 1>} {
  %c0 = arith.constant 0 : index
  %z = arith.constant dense<0.0> : vector<16x16xf32>
  scf.forall (%b, %h, %i) in (1, 1, 4) {
    %row = arith.muli %i, %i : index
    attn_tile.store %z, %m[%row, %c0] : vector<16x16xf32>, memref<64x16xf32>
  }
  attn_tile.return
}

// A kernel without work items is erased, and so are its launches.

// CHECK-NOT: attn_tile.kernel
attn_tile.kernel @empty(%m: memref<64x16xf32>)
    attributes {schedule = #attn_tile.multistage<query_tile = 16, key_tile = 16, stages = 2, warps = 1>} {
  %c0 = arith.constant 0 : index
  %dim = memref.dim %m, %c0 : memref<64x16xf32>
  attn_tile.return
}
