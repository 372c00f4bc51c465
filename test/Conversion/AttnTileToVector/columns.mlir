// RUN: attn-opt %s --convert-attn-tile-to-vector | FileCheck %s

// A tile of one column becomes a row vector: its elements are written one after another.
// CHECK-LABEL: func.func private @column
// CHECK: %[[BUFFER:.*]] = memref.alloca() {{.*}} : memref<16xf32>
// CHECK: scf.for %[[ROW:.*]] =
// CHECK: %[[PIECE:.*]] = arith.addf %{{.*}} : vector<1xf32>
// CHECK: vector.store %[[PIECE]], %[[BUFFER]][%[[ROW]]] : memref<16xf32>, vector<1xf32>
// CHECK: %[[VECTOR:.*]] = vector.load %[[BUFFER]]{{.*}} : memref<16xf32>, vector<16xf32>
// CHECK: vector.transfer_write %[[VECTOR]], %{{.*}} : vector<16xf32>, memref<1x?xf32>
attn_tile.kernel @column(%a: memref<?x1xf32>, %out: memref<1x?xf32>) attributes {schedule = #attn_tile.scalar} {
  scf.forall (%i) in (1) {
    %c0 = arith.constant 0 : index
    %tile = attn_tile.load %a[%c0, %c0] : memref<?x1xf32> -> vector<16x1xf32>
    %twice = arith.addf %tile, %tile : vector<16x1xf32>
    %column = vector.shape_cast %twice : vector<16x1xf32> to vector<16xf32>
    attn_tile.store %column, %out[%c0, %c0] : vector<16xf32>, memref<1x?xf32>
  }
  attn_tile.return
}
