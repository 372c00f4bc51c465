// RUN: attn-test-opt %s --test-attn-tile-skip-phase --split-input-file --verify-diagnostics

// A pass outside of the project has a contract, which also says what it leaves.

// expected-error @below {{pass 'test-attn-tile-skip-phase' must leave a kernel in phase 'staged' (was 'specialized')}}
attn_tile.kernel @plain() {
  attn_tile.return
}

// -----

// expected-error @below {{pass 'test-attn-tile-skip-phase' expects a kernel in phase 'plain' (was 'specialized')}}
attn_tile.kernel @roles() {
  attn_tile.role producer warpgroups(1) registers(24) {
  }
  attn_tile.return
}
