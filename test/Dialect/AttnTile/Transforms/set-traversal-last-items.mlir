// RUN: attn-opt %s -attn-tile-set-traversal='kind=paired in-order last-items=330' -canonicalize -cse | FileCheck %s
// RUN: attn-opt %s -attn-tile-set-traversal='kind=paired in-order' -canonicalize -cse | FileCheck %s --check-prefix=NONE

// 1024 heads of 8 tiles are 4096 units: G groups have F rounds, and a rest. The
// heads from the round before the last one on are the last ones, if that is a
// part of a round and they have no more items. The others are walked in order,
// then the longest items of the last heads, the next ones and so on: forwards
// and backwards in turn.

// CHECK-LABEL: attn_tile.kernel @waits(
// CHECK:         %[[P:.*]] = attn_tile.program_id 0
// CHECK:         %[[G:.*]] = attn_tile.num_programs 0
// CHECK:         %[[REST:.*]] = arith.remui %c4096, %[[G]] : index
// CHECK:         %[[F:.*]] = arith.divui %c4096, %[[G]] : index
// CHECK:         %[[ONE:.*]] = arith.maxui %[[F]], %c1
// CHECK:         %[[WHOLE:.*]] = arith.subi %[[ONE]], %c1
// CHECK:         %[[BEFORE:.*]] = arith.muli %[[WHOLE]], %[[G]]
// CHECK:         %[[TWOHEADS:.*]] = arith.divui %[[BEFORE]], %c8
// CHECK:         %[[FIRST:.*]] = arith.muli %[[TWOHEADS]], %c2
// CHECK:         %[[HEADS:.*]] = arith.subi %c1024, %[[FIRST]]
// CHECK:         %[[ITEMS:.*]] = arith.muli %[[HEADS]], %c8
// CHECK:         %[[ISREST:.*]] = arith.cmpi ne, %[[REST]], %c0
// CHECK:         %[[ISPART:.*]] = arith.cmpi ule
// CHECK:         %[[BOTH:.*]] = arith.andi %[[ISREST]], %[[ISPART]]
// CHECK:         %[[FIT:.*]] = arith.cmpi ule, %[[ITEMS]], %c330
// CHECK:         %[[HELPS:.*]] = arith.andi %[[BOTH]], %[[FIT]]
// CHECK:         %[[LAST:.*]] = arith.select %[[HELPS]], %[[FIRST]], %c1024
// CHECK:         scf.for %[[STEP:.*]] =
// CHECK:           %[[ISLAST:.*]] = arith.cmpi uge, %{{.*}}, %{{.*}} : index
// CHECK:           %[[ROW:.*]] = arith.subi %[[STEP]], %{{.*}} : index
// CHECK:           %[[FIRSTOFROW:.*]] = arith.muli %[[ROW]], %[[G]]
// CHECK:           %[[SIDE:.*]] = arith.remui %[[ROW]], %c2
// CHECK:           %[[FORWARDS:.*]] = arith.cmpi eq, %[[SIDE]], %c0
// CHECK:           %[[PLACE:.*]] = arith.select %[[FORWARDS]], %[[P]], %{{.*}} : index
// CHECK:           %[[ITEM:.*]] = arith.addi %[[FIRSTOFROW]], %[[PLACE]]
// CHECK:           %[[SHORTER:.*]] = arith.divui %[[ITEM]], %[[COUNT:.*]] : index
// CHECK:           %[[INLAST:.*]] = arith.remui %[[ITEM]], %[[COUNT]]
// CHECK:           %[[LASTHEAD:.*]] = arith.addi %[[LAST]], %[[INLAST]]
// CHECK:           %[[HEAD:.*]] = arith.select %[[ISLAST]], %[[LASTHEAD]], %{{.*}} : index
// CHECK:           %[[LASTTILE:.*]] = arith.subi %c7, %[[SHORTER]]
// CHECK:           %[[TILE:.*]] = arith.select %[[ISLAST]], %[[LASTTILE]], %{{.*}} : index
// CHECK:           attn_tile.await_count %{{.*}}[%[[HEAD]]] to(%[[TILE]])

// NONE-LABEL: attn_tile.kernel @waits(
// NONE-NOT:     arith.cmpi uge
// NONE:         attn_tile.return
attn_tile.kernel @waits(%c: memref<?xi32>) {
  scf.forall (%h, %i) in (1024, 8) {
    attn_tile.await_count %c[%h] to(%i) : memref<?xi32>
    attn_tile.count %c[%h] : memref<?xi32>
  }
  attn_tile.return
}
