// RUN: attn-opt %s -convert-attn-tile-to-nvvm | FileCheck %s

// A warp has 16 rows. With 128 columns a lane has a word for each of its two rows.
// CHECK-LABEL: llvm.func @two_words
// CHECK:         %[[WARP:.*]] = arith.divui %{{.*}}, %c32{{.*}} : i32
// CHECK:         %[[BLOCK:.*]] = arith.muli %[[WARP]], %c64{{.*}} : i32
// CHECK-NEXT:    arith.addi %[[BLOCK]], %{{.*}} : i32
// CHECK:         %[[PLACE0:.*]] = llvm.getelementptr %[[PLACE:.*]][0]
// CHECK-NEXT:    %[[W0:.*]] = llvm.load %[[PLACE0]] : !llvm.ptr<1> -> i32
// CHECK-NEXT:    %[[PLACE1:.*]] = llvm.getelementptr %[[PLACE]][32]
// CHECK-NEXT:    %[[W1:.*]] = llvm.load %[[PLACE1]] : !llvm.ptr<1> -> i32
// CHECK-NOT:     llvm.load {{.*}} !llvm.ptr<1> -> i32
// CHECK:         %[[B0:.*]] = arith.andi %[[W0]], %c1{{.*}} : i32
// CHECK-NEXT:    %[[KEPT:.*]] = arith.cmpi ne, %[[B0]], %{{.*}} : i32
// CHECK-NEXT:    arith.select %[[KEPT]], %{{.*}}, %{{.*}} : f32
// CHECK:         %[[B1:.*]] = arith.andi %[[W0]], %c2{{.*}} : i32
// CHECK:         arith.andi %[[W0]], %c-2147483648{{.*}} : i32
// CHECK:         arith.andi %[[W1]], %c1{{.*}} : i32
attn_tile.kernel @two_words(%in: memref<64x128xf32>, %bits: memref<?x1x?x?x256xi32>, %out: memref<64x128xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %s = attn_tile.load %in[%c0, %c0] : memref<64x128xf32> -> vector<64x128xf32>
  %b = attn_tile.load_mask_bits %bits[%c0, %c0, %c0, %c0] : memref<?x1x?x?x256xi32> -> !attn_tile.mask_bits<64x128>
  %r = attn_tile.apply_mask_bits %s by %b : vector<64x128xf32>, !attn_tile.mask_bits<64x128>
  attn_tile.store %r, %out[%c0, %c0] : vector<64x128xf32>, memref<64x128xf32>
  attn_tile.return
}

// With 64 columns both rows share a word; the next rows of a warp are 64 rows further.
// CHECK-LABEL: llvm.func @rows_in_a_word
// CHECK:         %[[PLACE0:.*]] = llvm.getelementptr %[[PLACE:.*]][0]
// CHECK-NEXT:    %[[W0:.*]] = llvm.load %[[PLACE0]] : !llvm.ptr<1> -> i32
// CHECK-NEXT:    %[[PLACE1:.*]] = llvm.getelementptr %[[PLACE]][128]
// CHECK-NEXT:    %[[W1:.*]] = llvm.load %[[PLACE1]] : !llvm.ptr<1> -> i32
// CHECK:         arith.andi %[[W0]], %c65536{{.*}} : i32
// CHECK:         arith.andi %[[W0]], %c-2147483648{{.*}} : i32
// CHECK:         arith.andi %[[W1]], %c1{{.*}} : i32
attn_tile.kernel @rows_in_a_word(%in: memref<128x64xf32>, %bits: memref<?x1x?x?x256xi32>, %out: memref<128x64xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %s = attn_tile.load %in[%c0, %c0] : memref<128x64xf32> -> vector<128x64xf32>
  %b = attn_tile.load_mask_bits %bits[%c0, %c0, %c0, %c0] : memref<?x1x?x?x256xi32> -> !attn_tile.mask_bits<128x64>
  %r = attn_tile.apply_mask_bits %s by %b : vector<128x64xf32>, !attn_tile.mask_bits<128x64>
  attn_tile.store %r, %out[%c0, %c0] : vector<128x64xf32>, memref<128x64xf32>
  attn_tile.return
}

// With 96 columns the second row begins in the first word.
// CHECK-LABEL: llvm.func @row_across_words
// CHECK:         %[[PLACE0:.*]] = llvm.getelementptr %[[PLACE:.*]][0]
// CHECK-NEXT:    %[[W0:.*]] = llvm.load %[[PLACE0]] : !llvm.ptr<1> -> i32
// CHECK-NEXT:    %[[PLACE1:.*]] = llvm.getelementptr %[[PLACE]][32]
// CHECK-NEXT:    %[[W1:.*]] = llvm.load %[[PLACE1]] : !llvm.ptr<1> -> i32
// CHECK:         arith.andi %[[W0]], %c-2147483648{{.*}} : i32
// CHECK:         arith.andi %[[W1]], %c32768{{.*}} : i32
// CHECK-NOT:     arith.andi %[[W1]]
attn_tile.kernel @row_across_words(%in: memref<64x96xf32>, %bits: memref<?x1x?x?x256xi32>, %out: memref<64x96xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %s = attn_tile.load %in[%c0, %c0] : memref<64x96xf32> -> vector<64x96xf32>
  %b = attn_tile.load_mask_bits %bits[%c0, %c0, %c0, %c0] : memref<?x1x?x?x256xi32> -> !attn_tile.mask_bits<64x96>
  %r = attn_tile.apply_mask_bits %s by %b : vector<64x96xf32>, !attn_tile.mask_bits<64x96>
  attn_tile.store %r, %out[%c0, %c0] : vector<64x96xf32>, memref<64x96xf32>
  attn_tile.return
}
