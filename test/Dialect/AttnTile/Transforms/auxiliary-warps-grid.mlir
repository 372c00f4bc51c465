// RUN: attn-opt %s -attn-tile-set-traversal -canonicalize -split-input-file -verify-diagnostics | FileCheck %s

// With one CTA for each work item, the concurrent work is shared by these CTAs.

// CHECK-LABEL: attn_tile.kernel @some(
// CHECK:         attn_tile.auxiliary_warps {
// CHECK:           scf.for %{{.*}} = %{{.*}} to %{{.*}} step %{{.*}} {
// CHECK:         attn_tile.program_id 0
// CHECK-NOT:     scf.for
// CHECK:         memref.store
// CHECK-LABEL: func.func @launch(
// CHECK-DAG:     %[[WORK_ITEMS:.*]] = arith.constant 6 : index
// CHECK:         attn_tile.launch @some grid(%[[WORK_ITEMS]], %{{.*}}, %{{.*}}) args
attn_tile.kernel @some(%n: index, %list: memref<?xindex>) {
  attn_tile.auxiliary_warps {
    scf.forall (%i) in (%n) {
      attn_tile.thread_for to(%n) {
      ^bb0(%e: index):
        memref.store %i, %list[%i] : memref<?xindex>
        attn_tile.yield
      }
    }
  }
  scf.forall (%i, %j) in (2, 3) {
    memref.store %j, %list[%i] : memref<?xindex>
  }
  attn_tile.return
}

func.func @launch(%n: index, %list: memref<?xindex>) {
  attn_tile.launch @some args(%n, %list : index, memref<?xindex>)
  return
}

// -----

// Without work items there would be no CTAs, and no concurrent work.

attn_tile.kernel @perhaps_none(%n: index, %list: memref<?xindex>) {
  attn_tile.auxiliary_warps {
    // expected-error @below {{needs CTAs that iterate over work items where the other loop may have none (expected the kind persistent or paired)}}
    scf.forall (%i) in (4) {
      attn_tile.thread_for to(%n) {
      ^bb0(%e: index):
        memref.store %i, %list[%i] : memref<?xindex>
        attn_tile.yield
      }
    }
  }
  // expected-note @below {{the other loop}}
  scf.forall (%i) in (%n) {
    memref.store %i, %list[%i] : memref<?xindex>
  }
  attn_tile.return
}
