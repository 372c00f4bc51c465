// RUN: attn-opt %s --split-input-file --attn-classify-masks | FileCheck %s
// RUN: attn-opt %s --split-input-file "--attn-schedule-pipeline=target=sm_90a" \
// RUN:   "--attn-bufferization-pipeline=target=sm_90a" "--attn-tiling-pipeline=target=sm_90a" \
// RUN:   | FileCheck %s --check-prefix=TILES

// Neighbours in a picture that is stored in blocks of 4 x 4 points, four in a row.

// CHECK-LABEL: func.func @tiled_neighbours
// CHECK: attributes {attn.classified_tiles} mask_mod
// TILES: attn_tile.kernel @tiled_neighbours_classes
// TILES: attn_tile.kernel @tiled_neighbours_kernel
// TILES: attn_tile.kv_tile_iterator {{.*}}listed(
func.func @tiled_neighbours(%q: tensor<1x2x?x64xf16>) -> tensor<1x2x?x64xf16> {
  %0 = attn.attention ins(%q, %q, %q : tensor<1x2x?x64xf16>, tensor<1x2x?x64xf16>, tensor<1x2x?x64xf16>)
    outs(%q : tensor<1x2x?x64xf16>) mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      %c2 = arith.constant 2 : index
      %c4 = arith.constant 4 : index
      %c16 = arith.constant 16 : index
      %c64 = arith.constant 64 : index
      %block_i = arith.floordivsi %i, %c16 : index
      %block_x_i = arith.remsi %block_i, %c4 : index
      %left_i = arith.muli %block_x_i, %c4 : index
      %in_i = arith.remsi %i, %c4 : index
      %x_i = arith.addi %left_i, %in_i : index
      %block_j = arith.floordivsi %j, %c16 : index
      %block_x_j = arith.remsi %block_j, %c4 : index
      %left_j = arith.muli %block_x_j, %c4 : index
      %in_j = arith.remsi %j, %c4 : index
      %x_j = arith.addi %left_j, %in_j : index
      %first_x = arith.subi %x_i, %c2 : index
      %keep_x = arith.cmpi sle, %first_x, %x_j : index
      %block_y_i = arith.floordivsi %i, %c64 : index
      %top_i = arith.muli %block_y_i, %c4 : index
      %point_i = arith.remsi %i, %c16 : index
      %row_i = arith.floordivsi %point_i, %c4 : index
      %y_i = arith.addi %top_i, %row_i : index
      %block_y_j = arith.floordivsi %j, %c64 : index
      %top_j = arith.muli %block_y_j, %c4 : index
      %point_j = arith.remsi %j, %c16 : index
      %row_j = arith.floordivsi %point_j, %c4 : index
      %y_j = arith.addi %top_j, %row_j : index
      %first_y = arith.subi %y_i, %c2 : index
      %keep_y = arith.cmpi sle, %first_y, %y_j : index
      %keep = arith.andi %keep_x, %keep_y : i1
      attn.yield %keep : i1
    } -> tensor<1x2x?x64xf16>
  return %0 : tensor<1x2x?x64xf16>
}

// -----

// Closed forms give the tiles.

// CHECK-LABEL: func.func @affine
// CHECK-NOT: attn.classified_tiles
// TILES: attn_tile.kernel @affine_kernel
// TILES-NOT: listed(
func.func @affine(%q: tensor<1x2x?x64xf16>) -> tensor<1x2x?x64xf16> {
  %0 = attn.attention ins(%q, %q, %q : tensor<1x2x?x64xf16>, tensor<1x2x?x64xf16>, tensor<1x2x?x64xf16>)
    outs(%q : tensor<1x2x?x64xf16>) mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      %c3 = arith.constant 3 : index
      %twice = arith.muli %j, %c3 : index
      %keep = arith.cmpi slt, %twice, %i : index
      attn.yield %keep : i1
    } -> tensor<1x2x?x64xf16>
  return %0 : tensor<1x2x?x64xf16>
}

// -----

// Three launches take longer than the tiles of one row.

// CHECK-LABEL: func.func @few_queries
// CHECK-NOT: attn.classified_tiles
func.func @few_queries(%q: tensor<1x2x4x64xf16>, %k: tensor<1x2x?x64xf16>) -> tensor<1x2x4x64xf16> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x4x64xf16>, tensor<1x2x?x64xf16>, tensor<1x2x?x64xf16>)
    outs(%q : tensor<1x2x4x64xf16>) mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      %c100 = arith.constant 100 : index
      %area = arith.muli %i, %j : index
      %keep = arith.cmpi slt, %area, %c100 : index
      attn.yield %keep : i1
    } -> tensor<1x2x4x64xf16>
  return %0 : tensor<1x2x4x64xf16>
}

// -----

// Lengths on the device: no kernel classifies tiles.

// CHECK-LABEL: func.func @key_lengths
// CHECK-NOT: attn.classified_tiles
// TILES: attn_tile.kernel @key_lengths_kernel
// TILES-NOT: listed(
func.func @key_lengths(%q: tensor<1x2x?x64xf16>, %lengths: tensor<1xi32>) -> tensor<1x2x?x64xf16> {
  %0 = attn.attention ins(%q, %q, %q : tensor<1x2x?x64xf16>, tensor<1x2x?x64xf16>, tensor<1x2x?x64xf16>)
    outs(%q : tensor<1x2x?x64xf16>) key_lengths(%lengths : tensor<1xi32>) mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      %c1024 = arith.constant 1024 : index
      %area = arith.muli %i, %j : index
      %keep = arith.cmpi sle, %area, %c1024 : index
      attn.yield %keep : i1
    } -> tensor<1x2x?x64xf16>
  return %0 : tensor<1x2x?x64xf16>
}
