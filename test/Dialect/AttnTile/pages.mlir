// RUN: attn-opt %s --verify-roundtrip | FileCheck %s
// RUN: attn-opt %s --mlir-print-op-generic | attn-opt | FileCheck %s

// CHECK-LABEL: func @load
// CHECK: attn_tile.load %{{.*}}[%{{.*}}] pages(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : memref<?x?xi32>, memref<1xi32>)
// CHECK-SAME: within(%{{.*}} of %{{.*}}) stream(%{{.*}} of %{{.*}}) : memref<?x2x16x64xbf16> -> vector<64x64xbf16>
func.func @load(%m: memref<?x2x16x64xbf16>, %t: memref<?x?xi32>, %f: memref<1xi32>, %i: index) {
  %0 = attn_tile.load %m[%i, %i, %i, %i] pages(%t, %i, %i, %f : memref<?x?xi32>, memref<1xi32>)
      within(%i of %i) stream(%i of %i) : memref<?x2x16x64xbf16> -> vector<64x64xbf16>
  return
}

// CHECK-LABEL: func @copy
// CHECK: attn_tile.copy %{{.*}}[%{{.*}}] pages 16(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : memref<?x?xi32>, memref<1xi32>)
// CHECK-SAME: to %{{.*}} : !attn_tile.tensor_map<4, 16x64xbf16> to <64x64xbf16>
func.func @copy(%m: !attn_tile.tensor_map<4, 16x64xbf16>, %b: !attn_tile.buffer<64x64xbf16>, %t: memref<?x?xi32>,
                %f: memref<1xi32>, %i: index) {
  attn_tile.copy %m[%i, %i, %i, %i] pages 16(%t, %i, %i, %f : memref<?x?xi32>, memref<1xi32>)
      to %b : !attn_tile.tensor_map<4, 16x64xbf16> to !attn_tile.buffer<64x64xbf16>
  return
}

// Rows that an addressing stores.

// CHECK-LABEL: func @load_stored
// CHECK: attn_tile.load %{{.*}}[%{{.*}}] stored(#attn.paged_kv<page_size = 16> from %{{.*}} of %{{.*}}) within(
func.func @load_stored(%m: memref<?x2x?x64xbf16>, %i: index) {
  %0 = attn_tile.load %m[%i, %i, %i, %i] stored(#attn.paged_kv<page_size = 16> from %i of %i) within(%i of %i)
      : memref<?x2x?x64xbf16> -> vector<64x64xbf16>
  return
}

// CHECK-LABEL: func @copy_stored
// CHECK: attn_tile.copy %{{.*}}[%{{.*}}] stored(#attn.paged_kv<page_size = 16> from %{{.*}} of %{{.*}}) to
func.func @copy_stored(%m: !attn_tile.tensor_map<4, 16x64xbf16>, %b: !attn_tile.buffer<64x64xbf16>, %i: index) {
  attn_tile.copy %m[%i, %i, %i, %i] stored(#attn.paged_kv<page_size = 16> from %i of %i)
      to %b : !attn_tile.tensor_map<4, 16x64xbf16> to !attn_tile.buffer<64x64xbf16>
  return
}
