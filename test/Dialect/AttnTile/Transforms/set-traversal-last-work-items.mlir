// RUN: attn-opt %s -attn-tile-set-traversal='kind=paired in-order last-work-items=330' -canonicalize -cse | FileCheck %s
// RUN: attn-opt %s -attn-tile-set-traversal='kind=paired in-order' -canonicalize -cse | FileCheck %s --check-prefix=NONE

// 1024 heads of 8 tiles are 4096 units: G CTAs have F waves, and a partial wave. The
// heads from the wave before the last one on are the last ones, if that is a
// part of a wave and they have no more work items. The others run in order,
// then the longest work items of the last heads, the next ones and so on: forwards
// and backwards alternately.

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
// CHECK:         %[[WORK_ITEMS:.*]] = arith.muli %[[HEADS]], %c8
// CHECK:         %[[ISREST:.*]] = arith.cmpi ne, %[[REST]], %c0
// CHECK:         %[[ISPART:.*]] = arith.cmpi ule
// CHECK:         %[[BOTH:.*]] = arith.andi %[[ISREST]], %[[ISPART]]
// CHECK:         %[[FIT:.*]] = arith.cmpi ule, %[[WORK_ITEMS]], %c330
// CHECK:         %[[HELPS:.*]] = arith.andi %[[BOTH]], %[[FIT]]
// CHECK:         %[[LAST:.*]] = arith.select %[[HELPS]], %[[FIRST]], %c1024
// CHECK:         scf.for %[[STEP:.*]] =
// CHECK:           %[[ISLAST:.*]] = arith.cmpi uge, %{{.*}}, %{{.*}} : index
// CHECK:           %[[ROW:.*]] = arith.subi %[[STEP]], %{{.*}} : index
// CHECK:           %[[FIRSTOFROW:.*]] = arith.muli %[[ROW]], %[[G]]
// CHECK:           %[[SIDE:.*]] = arith.remui %[[ROW]], %c2
// CHECK:           %[[FORWARDS:.*]] = arith.cmpi eq, %[[SIDE]], %c0
// CHECK:           %[[PLACE:.*]] = arith.select %[[FORWARDS]], %[[P]], %{{.*}} : index
// CHECK:           %[[WORK_ITEM:.*]] = arith.addi %[[FIRSTOFROW]], %[[PLACE]]
// CHECK:           %[[SHORTER:.*]] = arith.divui %[[WORK_ITEM]], %[[COUNT:.*]] : index
// CHECK:           %[[INLAST:.*]] = arith.remui %[[WORK_ITEM]], %[[COUNT]]
// CHECK:           %[[LASTHEAD:.*]] = arith.addi %[[LAST]], %[[INLAST]]
// CHECK:           %[[HEAD:.*]] = arith.select %[[ISLAST]], %[[LASTHEAD]], %{{.*}} : index
// CHECK:           %[[LASTTILE:.*]] = arith.subi %c7, %[[SHORTER]]
// CHECK:           %[[TILE:.*]] = arith.select %[[ISLAST]], %[[LASTTILE]], %{{.*}} : index
// CHECK:           attn_tile.semaphore_wait %{{.*}}[%[[HEAD]]] to(%[[TILE]])

// NONE-LABEL: attn_tile.kernel @waits(
// NONE-NOT:     arith.cmpi uge
// NONE:         attn_tile.return
attn_tile.kernel @waits(%c: memref<?xi32>) {
  scf.forall (%h, %i) in (1024, 8) {
    attn_tile.semaphore_wait %c[%h] to(%i) : memref<?xi32>
    attn_tile.semaphore_add %c[%h] : memref<?xi32>
  }
  attn_tile.return
}
