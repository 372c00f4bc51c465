// RUN: attn-opt %s -attn-tile-set-traversal='cluster=2' -split-input-file -verify-diagnostics

attn_tile.kernel @no_work_items_of_cluster(%n: index) {
  // expected-error @below {{'scf.forall' op last dimension must count the work items of a cluster (expected the size 2)}}
  scf.forall (%h, %i) in (%n, %n) {
  }
  attn_tile.return
}

// -----

attn_tile.kernel @work_items_of_other_cluster(%n: index) {
  // expected-error @below {{'scf.forall' op last dimension must count the work items of a cluster (expected the size 2)}}
  scf.forall (%h, %i) in (%n, 4) {
  }
  attn_tile.return
}

// -----

attn_tile.kernel @one_cluster() {
  // expected-error @below {{'scf.forall' op last dimension must count the work items of a cluster (expected the size 2)}}
  scf.forall (%i) in (2) {
  }
  attn_tile.return
}
