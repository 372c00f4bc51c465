// RUN: attn-opt %s --split-input-file \
// RUN:   --pass-pipeline='builtin.module(attn_tile.kernel(attn-tile-peel-masks,canonicalize,cse))' | FileCheck %s

// The bounds of the loops that are derived from the predicates of named masks.

// Keys up to the larger of prefix and diagonal are visited; those up to the
// larger of prefix and the diagonal of the first query have no mask code.

// CHECK-LABEL: attn_tile.kernel @prefix_lm(
// CHECK-SAME:    %[[FIRST:.*]]: index, %[[SQ:.*]]: index, %[[SKV:.*]]: index, %{{.*}}: vector
// CHECK:         %[[NEXT:.*]] = arith.addi %[[FIRST]], %c64
// CHECK:         %[[END:.*]] = arith.minsi %[[NEXT]], %[[SQ]]
// CHECK:         %[[PREFIX:.*]] = arith.minsi %[[SKV]], %c100
// CHECK:         %[[DIAGONAL:.*]] = arith.minsi %[[END]], %[[SKV]]
// CHECK:         %[[ALL0:.*]] = arith.addi %[[FIRST]], %c1
// CHECK:         %[[ALL:.*]] = arith.maxsi %[[ALL0]], %c100
// CHECK:         arith.minsi %[[SKV]], %[[ALL]]
// CHECK:         scf.for
// CHECK:           attn_tile.mask
// CHECK:         scf.for
// CHECK-NOT:       attn_tile.mask
attn_tile.kernel @prefix_lm(%first: index, %sq: index, %skv: index, %s: vector<64x64xf32>, %out: memref<64x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %tiles, %masked, %count = attn_tile.kv_tile_iterator at(%c0, %c0) queries(%first, 64) keys(64)
      lengths(%sq, %skv) by(#attn.prefix_lm<length = 100, alignment = top_left>)
  scf.for %t = %c0 to %count step %c1 {
    %tile = attn_tile.kv_tile_at %tiles[%t]
    %c64 = arith.constant 64 : index
    %col = arith.muli %tile, %c64 : index
    %s1 = attn_tile.mask %s at(%c0, %c0, %first, %col) lengths(%sq, %skv)
        by(#attn.prefix_lm<length = 100, alignment = top_left>) : vector<64x64xf32>
    attn_tile.store %s1, %out[%c0, %c0] : vector<64x64xf32>, memref<64x64xf32>
  }
  attn_tile.return
}

// -----

// The blocks of the first and the last query bound the tiles.

// CHECK-LABEL: attn_tile.kernel @block_diagonal(
// CHECK-SAME:    %[[FIRST:.*]]: index, %[[SQ:.*]]: index, %[[SKV:.*]]: index, %{{.*}}: vector
// CHECK:         %[[LAST:.*]] = arith.subi %{{.*}}, %c1
// CHECK:         %[[UP:.*]] = arith.subi %c255, %[[FIRST]]
// CHECK:         %[[NEGATED:.*]] = arith.shrsi %[[UP]], %c8
// CHECK:         arith.muli %[[NEGATED]], %c256
// CHECK:         %[[BLOCK:.*]] = arith.divui %[[LAST]], %c256
// CHECK:         %[[BEGIN:.*]] = arith.muli %[[BLOCK]], %c256
// CHECK:         %[[END:.*]] = arith.addi %[[BEGIN]], %c256
// CHECK:         arith.minsi %[[END]], %[[SKV]]
// CHECK:         scf.for
// CHECK:           attn_tile.mask
// CHECK:         scf.for
// CHECK-NOT:       attn_tile.mask
attn_tile.kernel @block_diagonal(%first: index, %sq: index, %skv: index, %s: vector<64x64xf32>, %out: memref<64x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %tiles, %masked, %count = attn_tile.kv_tile_iterator at(%c0, %c0) queries(%first, 64) keys(64)
      lengths(%sq, %skv) by(#attn.local_blocks<size = 256, before = 0, after = 0, alignment = top_left>)
  scf.for %t = %c0 to %count step %c1 {
    %tile = attn_tile.kv_tile_at %tiles[%t]
    %c64 = arith.constant 64 : index
    %col = arith.muli %tile, %c64 : index
    %s1 = attn_tile.mask %s at(%c0, %c0, %first, %col) lengths(%sq, %skv)
        by(#attn.local_blocks<size = 256, before = 0, after = 0, alignment = top_left>) : vector<64x64xf32>
    attn_tile.store %s1, %out[%c0, %c0] : vector<64x64xf32>, memref<64x64xf32>
  }
  attn_tile.return
}

// -----

// CHECK-LABEL: attn_tile.kernel @block_causal(
// CHECK-SAME:    %[[FIRST:.*]]: index, %[[SQ:.*]]: index, %[[SKV:.*]]: index, %{{.*}}: vector
// CHECK:         %[[LAST:.*]] = arith.subi %{{.*}}, %c1
// CHECK:         %[[BLOCK:.*]] = arith.divui %[[LAST]], %c256
// CHECK:         %[[BEGIN:.*]] = arith.muli %[[BLOCK]], %c256
// CHECK:         %[[END:.*]] = arith.addi %[[BEGIN]], %c256
// CHECK:         arith.minsi %[[END]], %[[SKV]]
// CHECK:         scf.for
// CHECK:           attn_tile.mask
// CHECK:         scf.for
// CHECK-NOT:       attn_tile.mask
attn_tile.kernel @block_causal(%first: index, %sq: index, %skv: index, %s: vector<64x64xf32>, %out: memref<64x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %tiles, %masked, %count = attn_tile.kv_tile_iterator at(%c0, %c0) queries(%first, 64) keys(64)
      lengths(%sq, %skv) by(#attn.local_blocks<size = 256, after = 0, alignment = top_left>)
  scf.for %t = %c0 to %count step %c1 {
    %tile = attn_tile.kv_tile_at %tiles[%t]
    %c64 = arith.constant 64 : index
    %col = arith.muli %tile, %c64 : index
    %s1 = attn_tile.mask %s at(%c0, %c0, %first, %col) lengths(%sq, %skv)
        by(#attn.local_blocks<size = 256, after = 0, alignment = top_left>) : vector<64x64xf32>
    attn_tile.store %s1, %out[%c0, %c0] : vector<64x64xf32>, memref<64x64xf32>
  }
  attn_tile.return
}

// -----

// Either all keys or the first ones.

// CHECK-LABEL: attn_tile.kernel @global_tokens(
// CHECK-SAME:    %[[FIRST:.*]]: index, %[[SQ:.*]]: index, %[[SKV:.*]]: index, %{{.*}}: vector
// CHECK:         %[[LEFT:.*]] = arith.subi %c63, %[[FIRST]]
// CHECK:         %[[IS_GLOBAL:.*]] = arith.cmpi sge, %[[LEFT]], %c0
// CHECK:         %[[ALL:.*]] = arith.select %[[IS_GLOBAL]]
// CHECK:         arith.minsi %[[SKV]], %c64
// CHECK:         scf.for
// CHECK:           attn_tile.mask
// CHECK:         scf.for
// CHECK-NOT:       attn_tile.mask
attn_tile.kernel @global_tokens(%first: index, %sq: index, %skv: index, %s: vector<64x64xf32>, %out: memref<64x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %tiles, %masked, %count = attn_tile.kv_tile_iterator at(%c0, %c0) queries(%first, 64) keys(64)
      lengths(%sq, %skv) by(#attn.global_tokens<count = 64>)
  scf.for %t = %c0 to %count step %c1 {
    %tile = attn_tile.kv_tile_at %tiles[%t]
    %c64 = arith.constant 64 : index
    %col = arith.muli %tile, %c64 : index
    %s1 = attn_tile.mask %s at(%c0, %c0, %first, %col) lengths(%sq, %skv)
        by(#attn.global_tokens<count = 64>) : vector<64x64xf32>
    attn_tile.store %s1, %out[%c0, %c0] : vector<64x64xf32>, memref<64x64xf32>
  }
  attn_tile.return
}

// -----

// No tile is full.

// CHECK-LABEL: attn_tile.kernel @dilated(
// CHECK-SAME:    %[[FIRST:.*]]: index, %[[SQ:.*]]: index, %[[SKV:.*]]: index, %{{.*}}: vector
// CHECK:         %[[BEGIN:.*]] = arith.addi %[[FIRST]], %c-256
// CHECK:         arith.maxsi %[[BEGIN]], %c0
// CHECK:         scf.for
// CHECK:           attn_tile.mask
// CHECK-NOT:     scf.for
// CHECK:         attn_tile.return
attn_tile.kernel @dilated(%first: index, %sq: index, %skv: index, %s: vector<64x64xf32>, %out: memref<64x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %tiles, %masked, %count = attn_tile.kv_tile_iterator at(%c0, %c0) queries(%first, 64) keys(64)
      lengths(%sq, %skv) by(#attn.dilated_window<left = 256, right = 0, dilation = 2, alignment = top_left>)
  scf.for %t = %c0 to %count step %c1 {
    %tile = attn_tile.kv_tile_at %tiles[%t]
    %c64 = arith.constant 64 : index
    %col = arith.muli %tile, %c64 : index
    %s1 = attn_tile.mask %s at(%c0, %c0, %first, %col) lengths(%sq, %skv)
        by(#attn.dilated_window<left = 256, right = 0, dilation = 2, alignment = top_left>) : vector<64x64xf32>
    attn_tile.store %s1, %out[%c0, %c0] : vector<64x64xf32>, memref<64x64xf32>
  }
  attn_tile.return
}

// -----

// From the block of the first query to the diagonal of the last one.

// CHECK-LABEL: attn_tile.kernel @chunked(
// CHECK-SAME:    %[[FIRST:.*]]: index, %[[SQ:.*]]: index, %[[SKV:.*]]: index, %{{.*}}: vector
// CHECK:         %[[NEXT:.*]] = arith.addi %[[FIRST]], %c64
// CHECK:         %[[END:.*]] = arith.minsi %[[NEXT]], %[[SQ]]
// CHECK:         %[[UP:.*]] = arith.subi %c255, %[[FIRST]]
// CHECK:         %[[NEGATED:.*]] = arith.shrsi %[[UP]], %c8
// CHECK:         %[[BLOCK:.*]] = arith.muli %[[NEGATED]], %c256
// CHECK:         arith.subi %c0, %[[BLOCK]]
// CHECK:         arith.minsi %[[END]], %[[SKV]]
// CHECK:         scf.for
// CHECK:           attn_tile.mask
// CHECK:         scf.for
// CHECK-NOT:       attn_tile.mask
attn_tile.kernel @chunked(%first: index, %sq: index, %skv: index, %s: vector<64x64xf32>, %out: memref<64x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %tiles, %masked, %count = attn_tile.kv_tile_iterator at(%c0, %c0) queries(%first, 64) keys(64)
      lengths(%sq, %skv) by(#attn.and<#attn.causal<alignment = top_left>, #attn.local_blocks<size = 256, before = 0, after = 0, alignment = top_left>>)
  scf.for %t = %c0 to %count step %c1 {
    %tile = attn_tile.kv_tile_at %tiles[%t]
    %c64 = arith.constant 64 : index
    %col = arith.muli %tile, %c64 : index
    %s1 = attn_tile.mask %s at(%c0, %c0, %first, %col) lengths(%sq, %skv)
        by(#attn.and<#attn.causal<alignment = top_left>, #attn.local_blocks<size = 256, before = 0, after = 0, alignment = top_left>>) : vector<64x64xf32>
    attn_tile.store %s1, %out[%c0, %c0] : vector<64x64xf32>, memref<64x64xf32>
  }
  attn_tile.return
}

// -----

// From behind the diagonal of the first query on.

// CHECK-LABEL: attn_tile.kernel @not(
// CHECK-SAME:    %[[FIRST:.*]]: index, %[[SQ:.*]]: index, %[[SKV:.*]]: index, %{{.*}}: vector
// CHECK:         %[[BEGIN:.*]] = arith.addi %[[FIRST]], %c1
// CHECK:         %[[LENGTH:.*]] = arith.maxsi %[[SKV]], %c0
// CHECK:         %[[CUT:.*]] = arith.minsi %[[BEGIN]], %[[LENGTH]]
// CHECK:         arith.divui %[[CUT]], %c64
// CHECK:         scf.for
// CHECK:           attn_tile.mask
// CHECK:         scf.for
// CHECK-NOT:       attn_tile.mask
attn_tile.kernel @not(%first: index, %sq: index, %skv: index, %s: vector<64x64xf32>, %out: memref<64x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %tiles, %masked, %count = attn_tile.kv_tile_iterator at(%c0, %c0) queries(%first, 64) keys(64)
      lengths(%sq, %skv) by(#attn.not<#attn.causal<alignment = top_left>>)
  scf.for %t = %c0 to %count step %c1 {
    %tile = attn_tile.kv_tile_at %tiles[%t]
    %c64 = arith.constant 64 : index
    %col = arith.muli %tile, %c64 : index
    %s1 = attn_tile.mask %s at(%c0, %c0, %first, %col) lengths(%sq, %skv)
        by(#attn.not<#attn.causal<alignment = top_left>>) : vector<64x64xf32>
    attn_tile.store %s1, %out[%c0, %c0] : vector<64x64xf32>, memref<64x64xf32>
  }
  attn_tile.return
}

// -----

// Keys up to the diagonal, or all for the first queries; the second part of the
// union, the first keys, lies within.

// CHECK-LABEL: attn_tile.kernel @or(
// CHECK-SAME:    %[[FIRST:.*]]: index, %[[SQ:.*]]: index, %[[SKV:.*]]: index, %{{.*}}: vector
// CHECK:         %[[LEFT:.*]] = arith.subi %c63, %[[FIRST]]
// CHECK:         %[[IS_GLOBAL:.*]] = arith.cmpi sge, %[[LEFT]], %c0
// CHECK:         %[[ALL:.*]] = arith.select %[[IS_GLOBAL]]
// CHECK:         %[[BEHIND0:.*]] = arith.addi %[[FIRST]], %c1
// CHECK:         arith.maxsi %[[BEHIND0]], %c65
// CHECK:         scf.for
// CHECK:           attn_tile.mask
// CHECK:         scf.for
// CHECK-NOT:       attn_tile.mask
attn_tile.kernel @or(%first: index, %sq: index, %skv: index, %s: vector<64x64xf32>, %out: memref<64x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %tiles, %masked, %count = attn_tile.kv_tile_iterator at(%c0, %c0) queries(%first, 64) keys(64)
      lengths(%sq, %skv) by(#attn.or<#attn.causal<alignment = top_left>, #attn.global_tokens<count = 64>>)
  scf.for %t = %c0 to %count step %c1 {
    %tile = attn_tile.kv_tile_at %tiles[%t]
    %c64 = arith.constant 64 : index
    %col = arith.muli %tile, %c64 : index
    %s1 = attn_tile.mask %s at(%c0, %c0, %first, %col) lengths(%sq, %skv)
        by(#attn.or<#attn.causal<alignment = top_left>, #attn.global_tokens<count = 64>>) : vector<64x64xf32>
    attn_tile.store %s1, %out[%c0, %c0] : vector<64x64xf32>, memref<64x64xf32>
  }
  attn_tile.return
}
