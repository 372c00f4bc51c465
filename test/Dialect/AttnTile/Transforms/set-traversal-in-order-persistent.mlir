// RUN: attn-opt %s -attn-tile-set-traversal='kind=persistent in-order' | FileCheck %s --check-prefixes=CHECK,ORDER
// RUN: attn-opt %s -attn-tile-set-traversal='kind=persistent' | FileCheck %s --check-prefixes=CHECK,ORDERED

// Each wave of work items runs forwards, where otherwise every other one is
// run backwards.

// CHECK-LABEL: attn_tile.kernel @items(
// CHECK:         %[[P:.*]] = attn_tile.program_id 0
// CHECK:         %[[G:.*]] = attn_tile.num_programs 0
// CHECK:         scf.for %[[ROUND:.*]] = 
// CHECK:           %[[FIRST:.*]] = arith.muli %[[ROUND]], %[[G]]
// ORDER-NOT:       arith.select
// ORDER:           %[[WORK_ITEM:.*]] = arith.addi %[[FIRST]], %[[P]]
// ORDER-NOT:       arith.select
// ORDER:           arith.remui %[[WORK_ITEM]]
// ORDERED:           arith.select
// CHECK:           attn_tile.semaphore_add
attn_tile.kernel @items(%c: memref<?x?xi32>, %heads: index, %n: index) {
  scf.forall (%h, %i) in (%heads, %n) {
    attn_tile.semaphore_add %c[%h, %i] : memref<?x?xi32>
  }
  attn_tile.return
}
