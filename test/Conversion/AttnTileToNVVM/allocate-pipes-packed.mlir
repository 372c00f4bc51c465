// RUN: attn-opt %s -attn-tile-allocate-pipes=target=sm_90a | FileCheck %s

// Tiles in fragment order have as many bytes as they have values. Tiles of ordered
// accumulation have barriers for two threads.

// CHECK-LABEL: attn_tile.kernel @packed(
// CHECK-NEXT:    attn_tile.create_pipe at(1024) barriers(0) : <128x40xf32, stages = 1>
// CHECK-NEXT:    attn_tile.create_pipe at(21504) barriers(16) : <64x64xbf16, stages = 1>
attn_tile.kernel @packed(%v: vector<128x40xf32>, %m: memref<?x40xf32>, %i: index) {
  %p = attn_tile.create_pipe : !attn_tile.pipe<128x40xf32, stages = 1>
  %q = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 1>
  %b = attn_tile.stage_fragments %v in %p : vector<128x40xf32>, !attn_tile.pipe<128x40xf32, stages = 1>
  attn_tile.bulk_reduce_add %b to %m[%i, %i] : !attn_tile.buffer<128x40xf32> to memref<?x40xf32>
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @turns(
// CHECK-NEXT:    attn_tile.create_pipe at(1024) barriers(0) : <128x40xf32, stages = 1>
// CHECK-NEXT:    attn_tile.create_pipe at(21504) barriers(32) : <64x64xbf16, stages = 1>
attn_tile.kernel @turns(%v: vector<128x40xf32>, %m: memref<?x40xf32>, %c: memref<?xi32>, %i: index) {
  %p = attn_tile.create_pipe : !attn_tile.pipe<128x40xf32, stages = 1>
  %q = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 1>
  attn_tile.auxiliary_warps {
    attn_tile.ordered_reduce_add %p[%i] to %m[%i, %i] ordered(%i of %c[%i])
        : !attn_tile.pipe<128x40xf32, stages = 1> to memref<?x40xf32>, memref<?xi32>
  }
  %b = attn_tile.stage_fragments %v in %p[%i] : vector<128x40xf32>, !attn_tile.pipe<128x40xf32, stages = 1>
  attn_tile.commit_fragments %b in %p[%i] : !attn_tile.pipe<128x40xf32, stages = 1>
  attn_tile.return
}
