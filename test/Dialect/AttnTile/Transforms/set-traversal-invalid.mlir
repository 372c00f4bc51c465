// RUN: attn-opt %s -attn-tile-set-traversal='kind=persistent' -split-input-file -verify-diagnostics

attn_tile.kernel @two(%n: index) {
  scf.forall (%i) in (%n) {
  }
  // expected-error @below {{'scf.forall' op is a second loop over work items of the kernel}}
  scf.forall (%i) in (%n) {
  }
  attn_tile.return
}

// -----

attn_tile.kernel @nested(%n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %t = %c0 to %n step %c1 {
    // expected-error @below {{'scf.forall' op must be an outermost loop from 0 by 1 without results to iterate over work items}}
    scf.forall (%i) in (%n) {
    }
  }
  attn_tile.return
}

// -----

attn_tile.kernel @loaded_bound(%sizes: memref<1xindex>) {
  %c0 = arith.constant 0 : index
  %n = memref.load %sizes[%c0] : memref<1xindex>
  // expected-error @below {{'scf.forall' op bounds must be computed from the arguments of the kernel alone}}
  scf.forall (%i) in (%n) {
  }
  attn_tile.return
}

// -----

attn_tile.kernel @launched(%n: index) {
  scf.forall (%i) in (%n) {
  }
  attn_tile.return
}

func.func @launch(%n: index) {
  // expected-error @below {{'attn_tile.launch' op has a grid, but kernel @launched iterates over its work items by itself}}
  attn_tile.launch @launched grid(%n, %n, %n) args(%n : index)
  return
}

// -----

attn_tile.kernel @auxiliary_two_loops(%n: index) {
  attn_tile.auxiliary_warps {
    scf.forall (%i) in (%n) {
    }
    // expected-error @below {{'scf.forall' op is a second loop over work items of the kernel}}
    scf.forall (%i) in (%n) {
    }
  }
  attn_tile.return
}

// -----

attn_tile.kernel @auxiliary_unknown_bound(%n: memref<index>) {
  attn_tile.auxiliary_warps {
    %m = memref.load %n[] : memref<index>
    // expected-error @below {{'scf.forall' op bounds must be computed from the arguments of the kernel alone}}
    scf.forall (%i) in (%m) {
    }
  }
  attn_tile.return
}

// -----

attn_tile.kernel @length(%n: index, %a: memref<?x8xf16>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.forall (%i) in (%n) {
    scf.for %t = %c0 to %n step %c1 {
      %length = arith.addi %t, %c1 : index
      // expected-error @below {{'attn_tile.load' op length of the stream must be known at the end of the work item}}
      %k = attn_tile.load %a[%t, %c0] stream(%t of %length) : memref<?x8xf16> -> vector<16x8xf16>
      attn_tile.store %k, %a[%t, %c0] : vector<16x8xf16>, memref<?x8xf16>
    }
  }
  attn_tile.return
}
