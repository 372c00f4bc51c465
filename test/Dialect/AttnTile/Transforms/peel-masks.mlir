// RUN: attn-opt %s --pass-pipeline='builtin.module(attn_tile.kernel(attn-tile-peel-masks))' --split-input-file | FileCheck %s
// RUN: attn-opt %s --pass-pipeline='builtin.module(attn_tile.kernel(attn-tile-expand-kv-tile-iterators))' --split-input-file \
// RUN:   | FileCheck %s --check-prefix=EXPAND

// No bound on the left: two loops; the second has no mask, and tiles follow one
// another. Keys up to the diagonal of the last query are attended by some
// query, keys up to that of the first query by all of them.

// CHECK-LABEL: attn_tile.kernel @causal(
// CHECK-SAME:    %[[S:.*]]: vector<32x64xf32>, %[[ROW:.*]]: index, %[[SQ:.*]]: index, %[[SKV:.*]]: index
// CHECK-NOT:     attn_tile.kv_tile_iterator
// CHECK:         %[[END:.*]] = arith.addi %[[ROW]], %c32
// CHECK:         %[[CUT:.*]] = arith.minsi %[[END]], %[[SQ]]
// CHECK:         %[[LASTQ:.*]] = arith.subi %[[CUT]], %c1
// CHECK:         %[[SOME0:.*]] = arith.addi %[[SKV]], %[[LASTQ]]
// CHECK:         %[[SOME1:.*]] = arith.addi %[[SOME0]], %c1
// CHECK:         %[[SOME2:.*]] = arith.subi %[[SOME1]], %[[SQ]]
// CHECK:         %[[SOME:.*]] = arith.maxsi %[[SOME2]], %c0
// CHECK:         %[[UP:.*]] = arith.addi %[[SOME]], %c63
// CHECK:         %[[TILES:.*]] = arith.divui %[[UP]], %c64
// CHECK:         %[[ALL0:.*]] = arith.addi %[[SKV]], %[[ROW]]
// CHECK:         %[[ALL1:.*]] = arith.addi %[[ALL0]], %c1
// CHECK:         %[[ALL:.*]] = arith.subi %[[ALL1]], %[[SQ]]
// CHECK:         %[[TOP:.*]] = arith.maxsi %[[TILES]], %c1
// CHECK:         %[[LAST:.*]] = arith.subi %[[TOP]], %c1
// CHECK:         %[[COUNT:.*]] = arith.maxsi %{{.*}}, %c1
// CHECK:         %[[LEAD:.*]] = arith.minsi %{{.*}}, %[[COUNT]]
// CHECK:         %[[LOOP1:.*]] = scf.for %[[T:.*]] = %c0{{.*}} to %[[LEAD]] step %c1{{.*}} iter_args(%[[M:.*]] = %{{.*}})
// CHECK:           arith.subi %[[LAST]], %[[T]]
// CHECK:           %[[MASKED:.*]] = attn_tile.mask %[[S]]
// CHECK:           vector.multi_reduction <maxnumf>, %[[MASKED]], %[[M]]
// CHECK:         %[[LOOP2:.*]] = scf.for %[[T2:.*]] = %[[LEAD]] to %[[COUNT]] step %c1{{.*}} iter_args(%[[M:.*]] = %[[LOOP1]])
// CHECK-NEXT:      arith.subi %[[LAST]], %[[T2]]
// CHECK-NOT:       attn_tile.mask
// CHECK:           vector.multi_reduction <maxnumf>, %[[S]], %[[M]]
// CHECK-NOT:     scf.for
// CHECK:         attn_tile.store %[[LOOP2]]

// EXPAND-LABEL: attn_tile.kernel @causal(
// EXPAND-NOT:     attn_tile.kv_tile_iterator
// EXPAND:         %[[TOP:.*]] = arith.maxsi %{{.*}}, %c1
// EXPAND:         %[[LAST:.*]] = arith.subi %[[TOP]], %c1
// EXPAND:         %[[COUNT:.*]] = arith.maxsi %{{.*}}, %c1
// EXPAND:         scf.for %[[T:.*]] = %c0{{.*}} to %[[COUNT]] step
// EXPAND:           arith.subi %[[LAST]], %[[T]]
// EXPAND:           attn_tile.mask
// EXPAND-NOT:     scf.for
// EXPAND:         attn_tile.return
attn_tile.kernel @causal(%s: vector<32x64xf32>, %row: index, %sq: index,
                         %skv: index, %out: memref<32xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %tiles, %masked, %count = attn_tile.kv_tile_iterator at(%c0, %c0) queries(%row, 32) keys(64)
      lengths(%sq, %skv) by(#attn.causal)
  %m0 = arith.constant dense<0xFF800000> : vector<32xf32>
  %m = scf.for %t = %c0 to %count step %c1 iter_args(%m1 = %m0) -> vector<32xf32> {
    %tile = attn_tile.kv_tile_at %tiles[%t]
    %col = arith.muli %tile, %c64 : index
    %s1 = attn_tile.mask %s at(%c0, %c0, %row, %col) lengths(%sq, %skv)
        by(#attn.causal) : vector<32x64xf32>
    %m2 = vector.multi_reduction <maxnumf>, %s1, %m1 [1]
        : vector<32x64xf32> to vector<32xf32>
    scf.yield %m2 : vector<32xf32>
  }
  attn_tile.store %m, %out[%c0] : vector<32xf32>, memref<32xf32>
  attn_tile.return
}

// -----

// Bounds on both sides: the tiles at both ends come first, so that there are
// two loops all the same, and a step finds its tile by where it is.

// CHECK-LABEL: attn_tile.kernel @window(
// CHECK-SAME:    %[[S:.*]]: vector<32x64xf32>, %[[ROW:.*]]: index
// CHECK:         scf.for %[[T:.*]] = %c0{{.*}} to %[[MASKED:.*]] step
// CHECK:           %[[FAR:.*]] = arith.cmpi sge, %[[T]], %[[BEHIND:.*]] : index
// CHECK:           %[[BASE1:.*]] = arith.select %[[FAR]], %[[FIRST:.*]], %[[LAST:.*]] : index
// CHECK:           %[[INSIDE:.*]] = arith.cmpi sge, %[[T]], %[[CUT:.*]] : index
// CHECK:           %[[BASE2:.*]] = arith.select %[[INSIDE]], %[[FULL:.*]], %[[BASE1]] : index
// CHECK:           %[[TILE:.*]] = arith.subi %[[BASE2]], %[[T]]
// CHECK:           arith.muli %[[TILE]], %c64
// CHECK:           attn_tile.mask
// CHECK:         scf.for %[[T:.*]] = %[[MASKED]] to %{{.*}} step
// CHECK:           arith.cmpi sge, %[[T]], %[[BEHIND]]
// CHECK:           arith.cmpi sge, %[[T]], %[[CUT]]
// CHECK-NOT:       attn_tile.mask
// CHECK-NOT:     scf.for
attn_tile.kernel @window(%s: vector<32x64xf32>, %row: index, %sq: index,
                         %skv: index, %out: memref<32x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %tiles, %masked, %count = attn_tile.kv_tile_iterator at(%c0, %c0) queries(%row, 32) keys(64)
      lengths(%sq, %skv) by(#attn.sliding_window<left = 200, right = 0>)
  scf.for %t = %c0 to %count step %c1 {
    %tile = attn_tile.kv_tile_at %tiles[%t]
    %col = arith.muli %tile, %c64 : index
    %s1 = attn_tile.mask %s at(%c0, %c0, %row, %col) lengths(%sq, %skv)
        by(#attn.sliding_window<left = 200, right = 0>) : vector<32x64xf32>
    attn_tile.store %s1, %out[%c0, %c0] : vector<32x64xf32>, memref<32x64xf32>
  }
  attn_tile.return
}

// -----

// A region that is affine: only tiles that its diagonal cuts have mask code.

// CHECK-LABEL: attn_tile.kernel @region(
// CHECK:         scf.for %{{.*}} = %c0{{.*}} to %[[MASKED:.*]] step
// CHECK:           attn_tile.mask {{.*}} mask_mod
// CHECK:         scf.for %{{.*}} = %[[MASKED]] to
// CHECK-NOT:       attn_tile.mask
// CHECK:         attn_tile.return
attn_tile.kernel @region(%s: vector<32x64xf32>, %row: index, %sq: index,
                         %skv: index, %out: memref<32x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %tiles, %masked, %count = attn_tile.kv_tile_iterator at(%c0, %c0) queries(%row, 32) keys(64)
      lengths(%sq, %skv) mask_mod {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    %keep = arith.cmpi ne, %i, %j : index
    attn_tile.yield %keep : i1
  }
  scf.for %t = %c0 to %count step %c1 {
    %s1 = attn_tile.mask %s at(%c0, %c0, %row, %t) lengths(%sq, %skv)
        : vector<32x64xf32> mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      %keep = arith.cmpi ne, %i, %j : index
      attn_tile.yield %keep : i1
    }
    attn_tile.store %s1, %out[%c0, %c0] : vector<32x64xf32>, memref<32x64xf32>
  }
  attn_tile.return
}

// -----

// A region that reads what depends on the pair may mask anywhere: one loop. The
// mask attribute still bounds it.

// CHECK-LABEL: attn_tile.kernel @opaque(
// CHECK-SAME:    %{{.*}}: vector<32x64xf32>, %[[ROW:.*]]: index, %[[SQ:.*]]: index, %[[SKV:.*]]: index
// CHECK:         %[[END:.*]] = arith.minsi %{{.*}}, %[[SQ]]
// CHECK:         arith.minsi %[[END]], %[[SKV]]
// CHECK:         scf.for
// CHECK:           attn_tile.mask {{.*}} mask_mod
// CHECK-NOT:     scf.for
// CHECK:         attn_tile.return
attn_tile.kernel @opaque(%s: vector<32x64xf32>, %row: index, %sq: index,
                         %skv: index, %ids: memref<?xi32>, %out: memref<32x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %tiles, %masked, %count = attn_tile.kv_tile_iterator at(%c0, %c0) queries(%row, 32) keys(64)
      lengths(%sq, %skv) by(#attn.causal<alignment = top_left>) mask_mod {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    %x = memref.load %ids[%i] : memref<?xi32>
    %y = memref.load %ids[%j] : memref<?xi32>
    %keep = arith.cmpi eq, %x, %y : i32
    attn_tile.yield %keep : i1
  }
  scf.for %t = %c0 to %count step %c1 {
    %s1 = attn_tile.mask %s at(%c0, %c0, %row, %t) lengths(%sq, %skv)
        by(#attn.causal<alignment = top_left>) : vector<32x64xf32> mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      %x = memref.load %ids[%i] : memref<?xi32>
      %y = memref.load %ids[%j] : memref<?xi32>
      %keep = arith.cmpi eq, %x, %y : i32
      attn_tile.yield %keep : i1
    }
    attn_tile.store %s1, %out[%c0, %c0] : vector<32x64xf32>, memref<32x64xf32>
  }
  attn_tile.return
}

// -----

// Static lengths: the bounds fold. Keys [0, 192) make one masked step, as the
// first one always is, and two unmasked ones.

// CHECK-LABEL: attn_tile.kernel @static(
// CHECK-DAG:     %[[ONE:.*]] = arith.constant 1 : index
// CHECK-DAG:     %[[THREE:.*]] = arith.constant 3 : index
// CHECK-NOT:     arith.addi
// CHECK:         scf.for %{{.*}} = %c0{{.*}} to %[[ONE]] step
// CHECK:           attn_tile.mask
// CHECK:         scf.for %{{.*}} = %[[ONE]] to %[[THREE]] step
// CHECK-NOT:     attn_tile.mask
// CHECK:         attn_tile.return
attn_tile.kernel @static(%s: vector<32x64xf32>, %out: memref<32x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c192 = arith.constant 192 : index
  %tiles, %masked, %count = attn_tile.kv_tile_iterator at(%c0, %c0) queries(%c0, 32) keys(64)
      lengths(%c192, %c192)
  scf.for %t = %c0 to %count step %c1 {
    %s1 = attn_tile.mask %s at(%c0, %c0, %c0, %t) lengths(%c192, %c192)
        : vector<32x64xf32>
    attn_tile.store %s1, %out[%c0, %c0] : vector<32x64xf32>, memref<32x64xf32>
  }
  attn_tile.return
}

// -----

// Not applied to a loop that does not visit all steps.

// CHECK-LABEL: attn_tile.kernel @part(
// CHECK:         scf.for
// CHECK:           attn_tile.mask
// CHECK-NOT:     scf.for
// CHECK:         attn_tile.return
attn_tile.kernel @part(%s: vector<32x64xf32>, %row: index, %sq: index,
                       %skv: index, %out: memref<32x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %tiles, %masked, %count = attn_tile.kv_tile_iterator at(%c0, %c0) queries(%row, 32) keys(64)
      lengths(%sq, %skv)
  scf.for %t = %c1 to %count step %c1 {
    %s1 = attn_tile.mask %s at(%c0, %c0, %row, %t) lengths(%sq, %skv)
        : vector<32x64xf32>
    attn_tile.store %s1, %out[%c0, %c0] : vector<32x64xf32>, memref<32x64xf32>
  }
  attn_tile.return
}

// -----

// Tiles of a list: the masked ones from its beginning, the others from its end.

// CHECK-LABEL: attn_tile.kernel @listed(
// CHECK-SAME:    %[[LIST:[a-z0-9]+]]: memref<?x1x?x?xi32>, %[[I:[a-z0-9]+]]: index
// CHECK-DAG:     %[[C0:.*]] = arith.constant 0 : index
// CHECK:         %[[M:.*]] = memref.load %[[LIST]][%[[I]], %[[I]], %[[I]], %{{.*}}]
// CHECK:         %[[MASKED:.*]] = arith.index_cast %[[M]]
// CHECK:         memref.load %[[LIST]][%[[I]], %[[I]], %[[I]], %{{.*}}]
// CHECK:         scf.for %[[T:.*]] =
// CHECK:           %[[FIRST:.*]] = arith.cmpi slt, %[[T]], %[[MASKED]]
// CHECK:           %[[COLUMN:.*]] = arith.select %[[FIRST]]
// CHECK:           %[[TILE:.*]] = memref.load %[[LIST]][%[[I]], %[[I]], %[[I]], %[[COLUMN]]]
// CHECK:           attn_tile.mask
// CHECK:         scf.for
// CHECK:           memref.load %[[LIST]]
// CHECK-NOT:       attn_tile.mask
attn_tile.kernel @listed(%list: memref<?x1x?x?xi32>, %i: index, %s: vector<32x64xf32>,
                         %out: memref<?x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %tiles, %masked, %count = attn_tile.kv_tile_iterator at(%i, %i) queries(%i, 32) keys(64)
      lengths(%i, %i) listed(%list[%i, %i, %i] : memref<?x1x?x?xi32>)
  scf.for %t = %c0 to %count step %c1 {
    %tile = attn_tile.kv_tile_at %tiles[%t]
    %s1 = attn_tile.mask %s at(%i, %i, %i, %tile) lengths(%i, %i) : vector<32x64xf32>
    attn_tile.store %s1, %out[%tile, %c0] : vector<32x64xf32>, memref<?x64xf32>
  }
  attn_tile.return
}

// -----

// Bits are those of the masked tiles of a list.

// CHECK-LABEL: attn_tile.kernel @bits(
// CHECK-SAME:    %{{.*}}, %[[BITS:[a-z0-9]+]]: memref<?x1x?x?x128xi32>, %[[I:[a-z0-9]+]]: index
// CHECK:         scf.for %[[T:.*]] =
// CHECK:           %[[B:.*]] = attn_tile.load_mask_bits %[[BITS]][%[[I]], %[[I]], %[[I]], %[[T]]]
// CHECK:           attn_tile.apply_mask_bits %{{.*}} by %[[B]]
// CHECK:         scf.for
// CHECK-NOT:       pair
// CHECK:         attn_tile.return
attn_tile.kernel @bits(%list: memref<?x1x?x?xi32>, %bits: memref<?x1x?x?x128xi32>, %i: index, %s: vector<64x64xf32>,
                       %out: memref<?x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %tiles, %masked, %count = attn_tile.kv_tile_iterator at(%i, %i) queries(%i, 64) keys(64)
      lengths(%i, %i) listed(%list[%i, %i, %i] : memref<?x1x?x?xi32>)
  scf.for %t = %c0 to %count step %c1 {
    %tile = attn_tile.kv_tile_at %tiles[%t]
    %b = attn_tile.load_mask_bits %bits[%i, %i, %i, %t] : memref<?x1x?x?x128xi32> -> !attn_tile.mask_bits<64x64>
    %s1 = attn_tile.apply_mask_bits %s by %b : vector<64x64xf32>, !attn_tile.mask_bits<64x64>
    attn_tile.store %s1, %out[%tile, %c0] : vector<64x64xf32>, memref<?x64xf32>
  }
  attn_tile.return
}
