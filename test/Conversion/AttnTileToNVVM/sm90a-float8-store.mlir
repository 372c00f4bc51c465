// RUN: attn-opt %s -attn-tile-allocate-pipes=target=sm_90a -convert-attn-tile-to-nvvm=target=sm_90a -split-input-file \
// RUN: | FileCheck %s

// A word of a thread has pairs of two groups of eight columns. Four words of the threads of a quad are 64 columns:
// after the exchange, each thread stores sixteen of them, in order.

// CHECK-LABEL:   llvm.func @whole
// CHECK-COUNT-16: nvvm.convert.f32x2.to.f8x2 {{.*}}<satfinite>{{.*}} : i16(f8E4M3FN)
// CHECK-COUNT-4: nvvm.shfl.sync {{ *}}bfly
// CHECK:         llvm.shufflevector %{{.*}}, %{{.*}} [0, 2, 4, 6, 1, 3, 5, 7] : vector<8xi16>
// CHECK:         llvm.store %{{.*}}, %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// CHECK-NOT:     llvm.store {{.*}} : i16,
attn_tile.kernel @whole(%in: memref<64x64xf32>, %out: memref<64x64xf8E4M3FN>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %t = attn_tile.load %in[%c0, %c0] : memref<64x64xf32> -> vector<64x64xf32>
  %r = arith.truncf %t : vector<64x64xf32> to vector<64x64xf8E4M3FN>
  attn_tile.store %r, %out[%c0, %c0] : vector<64x64xf8E4M3FN>, memref<64x64xf8E4M3FN>
  attn_tile.return
}

// -----

// Words that are no four are stored as pairs.

// CHECK-LABEL: llvm.func @rest
// CHECK:       nvvm.convert.f32x2.to.f8x2 {{.*}}<satfinite>{{.*}} : i16(f8E5M2)
// CHECK-NOT:   nvvm.shfl.sync {{ *}}bfly
// CHECK:       llvm.store %{{.*}}, %{{.*}} {alignment = 2 : i64} : i16, !llvm.ptr<1>
// CHECK:       llvm.store %{{.*}}, %{{.*}} {alignment = 2 : i64} : i16, !llvm.ptr<1>
attn_tile.kernel @rest(%in: memref<64x16xf32>, %out: memref<64x16xf8E5M2>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %t = attn_tile.load %in[%c0, %c0] : memref<64x16xf32> -> vector<64x16xf32>
  %r = arith.truncf %t : vector<64x16xf32> to vector<64x16xf8E5M2>
  attn_tile.store %r, %out[%c0, %c0] : vector<64x16xf8E5M2>, memref<64x16xf8E5M2>
  attn_tile.return
}

// -----

// A tile that is wider than its tensor stores what is within it.

// CHECK-LABEL: llvm.func @beyond
// CHECK:       llvm.store %{{.*}}, %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
attn_tile.kernel @beyond(%in: memref<64x64xf32>, %out: memref<64x48xf8E4M3FN>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %t = attn_tile.load %in[%c0, %c0] : memref<64x64xf32> -> vector<64x64xf32>
  %r = arith.truncf %t : vector<64x64xf32> to vector<64x64xf8E4M3FN>
  attn_tile.store %r, %out[%c0, %c0] : vector<64x64xf8E4M3FN>, memref<64x48xf8E4M3FN>
  attn_tile.return
}
