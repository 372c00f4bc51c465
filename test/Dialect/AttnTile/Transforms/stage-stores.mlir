// RUN: attn-opt %s -attn-tile-stage-stores="stages=2 consumers=2" | FileCheck %s
// RUN: attn-opt %s -attn-tile-stage-stores="stages=2 consumers=2" \
// RUN:   -attn-tile-set-layout=warps=8 -attn-tile-use-tensor-maps | FileCheck %s --check-prefix=MAPS

// CHECK-LABEL: attn_tile.kernel @matrix
// CHECK: %[[P:.*]] = attn_tile.create_pipe : <64x64xbf16, stages = 4>
// CHECK: attn_tile.store_through %[[P]], %{{.*}} to %{{.*}}[%{{.*}}, %{{.*}}] : <64x64xbf16, stages = 4>, vector<128x256xbf16> to memref<?x?xbf16>
// MAPS: attn_tile.kernel @matrix(%{{.*}}: index, %[[MAP:[a-z0-9]+]]: !attn_tile.tensor_map<2, 64x64xbf16>)
// MAPS: attn_tile.store_through %{{.*}}, %{{.*}} to %[[MAP]][%{{.*}}, %{{.*}}] : {{.*}} to !attn_tile.tensor_map<2, 64x64xbf16>
attn_tile.kernel @matrix(%out: memref<?x?xbf16>, %i: index) {
  %t = arith.constant dense<1.0> : vector<128x256xbf16>
  attn_tile.store %t, %out[%i, %i] : vector<128x256xbf16>, memref<?x?xbf16>
  attn_tile.return
}

// A copy writes 16 bytes at once, where there may be memory between the rows.
// CHECK-LABEL: attn_tile.kernel @strided
// CHECK-SAME: (%[[OUT:[a-z0-9]+]]: memref
// CHECK-DAG: %[[DIM:.*]] = memref.dim %[[OUT]], %c1
// CHECK: %[[REST:.*]] = arith.remui %[[DIM]], %c8{{.*}} : index
// CHECK: %[[WHOLE:.*]] = arith.cmpi eq, %[[REST]], %c0{{.*}} : index
// CHECK: scf.if %[[WHOLE]] {
// CHECK-NEXT: attn_tile.store_through
// CHECK-NEXT: } else {
// CHECK-NEXT: attn_tile.store %{{.*}}, %[[OUT]]
attn_tile.kernel @strided(%out: memref<?x?xbf16, strided<[?, 1], offset: ?>>, %i: index) {
  %t = arith.constant dense<1.0> : vector<128x256xbf16>
  attn_tile.store %t, %out[%i, %i] : vector<128x256xbf16>, memref<?x?xbf16, strided<[?, 1], offset: ?>>
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @static_columns
// CHECK: attn_tile.store_through {{.*}} to memref<?x264xbf16
// CHECK-NOT: attn_tile.store_through
// CHECK: attn_tile.store {{.*}} memref<?x260xbf16
attn_tile.kernel @static_columns(%whole: memref<?x264xbf16, strided<[?, 1]>>, %cut: memref<?x260xbf16, strided<[?, 1]>>, %i: index) {
  %t = arith.constant dense<1.0> : vector<128x256xbf16>
  attn_tile.store %t, %whole[%i, %i] : vector<128x256xbf16>, memref<?x264xbf16, strided<[?, 1]>>
  attn_tile.store %t, %cut[%i, %i] : vector<128x256xbf16>, memref<?x260xbf16, strided<[?, 1]>>
  attn_tile.return
}

// Tiles of other types and shapes, transposed ones, and those of sequences stay.
// CHECK-LABEL: attn_tile.kernel @others
// CHECK-NOT: store_through
attn_tile.kernel @others(%out: memref<?x?xbf16>, %wide: memref<?x?xf32>, %i: index) {
  %f32 = arith.constant dense<1.0> : vector<128x256xf32>
  attn_tile.store %f32, %wide[%i, %i] : vector<128x256xf32>, memref<?x?xf32>
  %t = arith.constant dense<1.0> : vector<128x256xbf16>
  attn_tile.store %t, %out[%i, %i] transposed : vector<128x256xbf16>, memref<?x?xbf16>
  attn_tile.store %t, %out[%i, %i] within(%i of %i) : vector<128x256xbf16>, memref<?x?xbf16>
  %rows = arith.constant dense<1.0> : vector<64x64xbf16>
  attn_tile.store %rows, %out[%i, %i] : vector<64x64xbf16>, memref<?x?xbf16>
  %columns = arith.constant dense<1.0> : vector<128x48xbf16>
  attn_tile.store %columns, %out[%i, %i] : vector<128x48xbf16>, memref<?x?xbf16>
  attn_tile.return
}
