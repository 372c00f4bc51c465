// RUN: attn-opt %s -attn-tile-allocate-pipes=target=sm_90a -split-input-file -verify-diagnostics | FileCheck %s
// RUN: attn-opt %s -attn-tile-allocate-pipes=target=sm_80 -split-input-file -verify-diagnostics | FileCheck %s

// Barriers of all pipes come first, 16 bytes for each stage. Stages start at
// multiples of 1024; columns are padded to a multiple of 64.

// CHECK-LABEL: attn_tile.kernel @three
attn_tile.kernel @three() {
  // CHECK-NEXT: %{{.*}} = attn_tile.create_pipe at(1024) barriers(0) : <128x128xbf16, stages = 1>
  // CHECK-NEXT: %{{.*}} = attn_tile.create_pipe at(33792) barriers(16) : <64x72xbf16, stages = 3>
  // CHECK-NEXT: %{{.*}} = attn_tile.create_pipe at(82944) barriers(64) : <64x64xf16, stages = 2>
  %q = attn_tile.create_pipe : !attn_tile.pipe<128x128xbf16, stages = 1>
  %k = attn_tile.create_pipe : !attn_tile.pipe<64x72xbf16, stages = 3>
  %v = attn_tile.create_pipe : !attn_tile.pipe<64x64xf16, stages = 2>
  attn_tile.return
}

// -----

// A kernel without pipes needs nothing.

// CHECK-LABEL: attn_tile.kernel @none
attn_tile.kernel @none() {
  // CHECK-NEXT: attn_tile.return
  attn_tile.return
}
