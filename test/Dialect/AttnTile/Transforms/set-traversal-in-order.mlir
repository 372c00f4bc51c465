// RUN: attn-opt %s -attn-tile-set-traversal='kind=paired in-order' | FileCheck %s

// Units of two steps, no partial last wave: two heads of N tiles are N units,
// of which that in the middle, if N is odd, has a tile of each head. Only the
// last unit of all may have one step.

// CHECK-LABEL: attn_tile.kernel @waits(
// CHECK-SAME:    %[[C:[a-z0-9]+]]: memref<?xi32>, %[[HEADS:[a-z0-9]+]]: index, %[[N:[a-z0-9]+]]: index)
// CHECK:         %[[ONE:.*]] = arith.constant 1 : index
// CHECK:         %[[TWO:.*]] = arith.constant 2 : index
// CHECK:         %[[WORK_ITEMS:.*]] = arith.muli %{{.*}}, %[[N]] : index
// CHECK:         %[[HALF:.*]] = arith.divui %[[N]], %[[TWO]] : index
// CHECK:         %[[MORE:.*]] = arith.addi %[[WORK_ITEMS]], %[[ONE]] : index
// CHECK:         %[[UNITS:.*]] = arith.divui %[[MORE]], %[[TWO]] : index
// CHECK:         %[[P:.*]] = attn_tile.program_id 0
// CHECK:         %[[G:.*]] = attn_tile.num_programs 0
// CHECK:         %[[LAST:.*]] = arith.remui %{{.*}}, %[[G]] : index
// CHECK:         %[[ISLAST:.*]] = arith.cmpi eq, %[[P]], %[[LAST]] : index
// CHECK:         %[[ODD:.*]] = arith.remui %[[WORK_ITEMS]], %{{.*}} : index
// CHECK:         %[[MISSING:.*]] = arith.select %[[ISLAST]], %[[ODD]], %{{.*}} : index
// CHECK:         %[[SHARE:.*]] = arith.divui %{{.*}}, %[[G]] : index
// CHECK:         %[[STEPS:.*]] = arith.muli %[[SHARE]], %{{.*}} : index
// CHECK:         %[[COUNT:.*]] = arith.subi %[[STEPS]], %[[MISSING]] : index
// CHECK:         scf.for %[[STEP:.*]] = %{{.*}} to %[[COUNT]]
// CHECK:           %[[ROUND:.*]] = arith.divui %[[STEP]]
// CHECK:           %[[FIRST:.*]] = arith.muli %[[ROUND]], %[[G]]
// CHECK:           %[[UNIT:.*]] = arith.addi %[[FIRST]], %[[P]]
// CHECK:           %[[SIDE:.*]] = arith.remui %[[STEP]]
// CHECK:           %[[TWOHEADS:.*]] = arith.divui %[[UNIT]], %[[N]]
// CHECK:           %[[FIRSTHEAD:.*]] = arith.muli %[[TWOHEADS]]
// CHECK:           %[[NUMBER:.*]] = arith.remui %[[UNIT]], %[[N]]
// CHECK:           %[[ISMIDDLE:.*]] = arith.andi
// CHECK:           %[[HEAD:.*]] = arith.addi %[[FIRSTHEAD]]
// CHECK:           %[[TILE:.*]] = arith.select %[[ISMIDDLE]], %[[HALF]]
// CHECK:           attn_tile.semaphore_wait %[[C]][%[[HEAD]]] to(%[[TILE]])
attn_tile.kernel @waits(%c: memref<?xi32>, %heads: index, %n: index) {
  scf.forall (%h, %i) in (%heads, %n) {
    attn_tile.semaphore_wait %c[%h] to(%i) : memref<?xi32>
    attn_tile.semaphore_add %c[%h] : memref<?xi32>
  }
  attn_tile.return
}

// Who waits for others runs together with them.

// CHECK-LABEL: func.func @launch(
// CHECK:         attn_tile.launch @waits together grid(
// CHECK:         attn_tile.launch @counts grid(
attn_tile.kernel @counts(%c: memref<?xi32>, %n: index) {
  scf.forall (%i) in (%n) {
    attn_tile.semaphore_add %c[%i] : memref<?xi32>
  }
  attn_tile.return
}

func.func @launch(%c: memref<?xi32>, %heads: index, %n: index) {
  attn_tile.launch @waits args(%c, %heads, %n : memref<?xi32>, index, index)
  attn_tile.launch @counts args(%c, %n : memref<?xi32>, index)
  return
}

// Ordered additions wait for others as well.

// CHECK-LABEL: func.func @launch_order(
// CHECK:         attn_tile.launch @turns together grid(
attn_tile.kernel @turns(%c: memref<?xi32>, %v: vector<64x16xf32>, %m: memref<?x16xf32>, %heads: index, %n: index) {
  scf.forall (%h, %i) in (%heads, %n) {
    attn_tile.bulk_reduce_add %v to %m[%h, %i] ordered(%i of %c[%h]) : vector<64x16xf32> to memref<?x16xf32>, memref<?xi32>
  }
  attn_tile.return
}

func.func @launch_order(%c: memref<?xi32>, %v: vector<64x16xf32>, %m: memref<?x16xf32>, %heads: index, %n: index) {
  attn_tile.launch @turns args(%c, %v, %m, %heads, %n : memref<?xi32>, vector<64x16xf32>, memref<?x16xf32>, index, index)
  return
}
