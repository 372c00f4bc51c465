// RUN: attn-opt %s -convert-attn-tile-to-nvvm | FileCheck %s

// A quad makes one word each of four blocks of 16 keys, and hands them round.
// CHECK-LABEL: llvm.func @rows_are_queries
// CHECK:         arith.mului_extended
// CHECK:         %[[SEGMENTS:.*]] = arith.constant 7199 : i32
// CHECK-NEXT:    %[[WORD:.*]] = nvvm.shfl.sync idx %{{.*}}, %{{.*}}, %{{.*}}, %[[SEGMENTS]] : i32 -> i32
// CHECK-NEXT:    %[[BITS:.*]] = llvm.intr.fshl(%[[WORD]], %[[WORD]], %{{.*}})
// Bits 12 and 13 of exponents are cleared by one operation for a pair.
// CHECK:         %[[SHIFTED:.*]] = arith.shli %[[BITS]], %c2{{.*}} : i32
// CHECK-NEXT:    %[[OTHERS:.*]] = arith.constant -268439553 : i32
// CHECK-NEXT:    %[[MASK:.*]] = arith.ori %[[SHIFTED]], %[[OTHERS]] : i32
// CHECK-NEXT:    arith.andi %{{.*}}, %[[MASK]] : i32
attn_tile.kernel @rows_are_queries(%in: memref<64x64xbf16>, %out: memref<64x64xbf16>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %w = arith.constant 7 : i32
  %p = attn_tile.load %in[%c0, %c0] : memref<64x64xbf16> -> vector<64x64xbf16>
  %d = attn_tile.generate_keep_mask at(%c0, %c0) stream(%w, %w, %w, %w)
      by(#attn.dropout<p = 0.125, rng = #attn.philox<rounds = 7>>) : !attn_tile.keep_mask<64x64>
  %r = attn_tile.dropout %p by %d below_two : vector<64x64xbf16>, !attn_tile.keep_mask<64x64>
  attn_tile.store %r, %out[%c0, %c0] : vector<64x64xbf16>, memref<64x64xbf16>
  attn_tile.return
}

// Elements that may be large, or are not of bf16, become zeros.
// CHECK-LABEL: llvm.func @halves
// CHECK:         %[[BITS:.*]] = llvm.intr.fshl
// CHECK:         %[[SIGNS:.*]] = arith.shli %[[BITS]], %{{.*}} : i32
// CHECK-NEXT:    %[[SELECTOR:.*]] = arith.constant 48025 : i32
// CHECK-NEXT:    %[[MASK:.*]] = nvvm.prmt <default> %[[SELECTOR]], %[[SIGNS]], %[[SIGNS]]
// CHECK-NEXT:    arith.andi %{{.*}}, %[[MASK]] : i32
attn_tile.kernel @halves(%in: memref<64x64xf16>, %out: memref<64x64xf16>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %w = arith.constant 7 : i32
  %p = attn_tile.load %in[%c0, %c0] : memref<64x64xf16> -> vector<64x64xf16>
  %d = attn_tile.generate_keep_mask at(%c0, %c0) stream(%w, %w, %w, %w)
      by(#attn.dropout<p = 0.125, rng = #attn.arx>) : !attn_tile.keep_mask<64x64>
  %r = attn_tile.dropout %p by %d below_two : vector<64x64xf16>, !attn_tile.keep_mask<64x64>
  attn_tile.store %r, %out[%c0, %c0] : vector<64x64xf16>, memref<64x64xf16>
  attn_tile.return
}

// A warp makes the eight words of each of four blocks of 16 queries. The lanes
// at the same columns exchange halves, bytes and nibbles of them.
// CHECK-LABEL: llvm.func @rows_are_keys
// CHECK-NOT:     mului_extended
// CHECK:         %[[OTHER:.*]] = nvvm.shfl.sync bfly %{{.*}}, %[[WORD:.*]], %c4_{{.*}}, %{{.*}} : i32 -> i32
// CHECK:         %[[HALVES:.*]] = nvvm.prmt <default> %{{.*}}, %[[WORD]], %[[OTHER]] : i32
// CHECK:         %[[OTHER:.*]] = nvvm.shfl.sync bfly %{{.*}}, %[[HALVES]], %c16_{{.*}}, %{{.*}} : i32 -> i32
// CHECK:         %[[BYTES:.*]] = nvvm.prmt <default> %{{.*}}, %[[HALVES]], %[[OTHER]] : i32
// CHECK:         %[[OTHER:.*]] = nvvm.shfl.sync bfly %{{.*}}, %[[BYTES]], %c8_{{.*}}, %{{.*}} : i32 -> i32
// CHECK:         %[[MOVED:.*]] = llvm.intr.fshl(%[[OTHER]], %[[OTHER]], %{{.*}})
// CHECK:         %[[BOTH:.*]] = arith.xori %[[BYTES]], %[[MOVED]] : i32
// CHECK-NEXT:    %[[OWN:.*]] = arith.andi %[[BOTH]], %{{.*}} : i32
// CHECK-NEXT:    arith.xori %[[OWN]], %[[MOVED]] : i32
// CHECK-NOT:     nvvm.shfl
// CHECK:         nvvm.prmt <default>
// CHECK:         arith.andi
// CHECK:         arith.bitcast %{{.*}} : i32 to f32
attn_tile.kernel @rows_are_keys(%in: memref<64x64xf32>, %out: memref<64x64xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %w = arith.constant 7 : i32
  %p = attn_tile.load %in[%c0, %c0] : memref<64x64xf32> -> vector<64x64xf32>
  %d = attn_tile.generate_keep_mask at(%c0, %c0) stream(%w, %w, %w, %w)
      by(#attn.dropout<p = 0.125, rng = #attn.arx>) : !attn_tile.keep_mask<64x64, transposed>
  %r = attn_tile.dropout %p by %d : vector<64x64xf32>, !attn_tile.keep_mask<64x64, transposed>
  attn_tile.store %r, %out[%c0, %c0] : vector<64x64xf32>, memref<64x64xf32>
  attn_tile.return
}

// Words are read as far as there are any, each by one lane.
// CHECK-LABEL: llvm.func @read
// CHECK:         arith.minui
// CHECK:         arith.minui
// CHECK:         %[[WORD:.*]] = llvm.load %{{.*}} : !llvm.ptr<1> -> i32
// CHECK-NOT:     llvm.load {{.*}} -> i32
// CHECK:         nvvm.shfl.sync bfly %{{.*}}, %[[WORD]], %{{.*}}, %{{.*}} : i32 -> i32
attn_tile.kernel @read(%mask: memref<?x4x?x?xi32>, %out: memref<64x64xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %p = arith.constant dense<1.0> : vector<64x64xf32>
  %d = attn_tile.load_keep_mask %mask[%c0, %c0] columns at(%c0, %c0)
      : memref<?x4x?x?xi32> -> !attn_tile.keep_mask<64x64, transposed>
  %r = attn_tile.dropout %p by %d : vector<64x64xf32>, !attn_tile.keep_mask<64x64, transposed>
  attn_tile.store %r, %out[%c0, %c0] : vector<64x64xf32>, memref<64x64xf32>
  attn_tile.return
}

// Each thread reads all words of its rows, four at once. Nothing is exchanged.
// CHECK-LABEL: llvm.func @read_whole
// CHECK:         arith.minui
// CHECK-COUNT-2: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK-NOT:     llvm.load
// CHECK-NOT:     nvvm.shfl
// CHECK:         llvm.return
attn_tile.kernel @read_whole(%mask: memref<?x4x?x?xi32>, %out: memref<64x128xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %p = arith.constant dense<1.0> : vector<64x128xf32>
  %d = attn_tile.load_keep_mask %mask[%c0, %c0] rows at(%c0, %c0)
      : memref<?x4x?x?xi32> -> !attn_tile.keep_mask<64x128, whole>
  %r = attn_tile.dropout %p by %d : vector<64x128xf32>, !attn_tile.keep_mask<64x128, whole>
  attn_tile.store %r, %out[%c0, %c0] : vector<64x128xf32>, memref<64x128xf32>
  attn_tile.return
}
