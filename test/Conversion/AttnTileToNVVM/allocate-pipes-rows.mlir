// RUN: attn-opt %s -attn-tile-allocate-pipes=target=sm_90a | FileCheck %s

// Stages of rows are no multiple of 1024 bytes, and begin at a multiple of their own size.

// CHECK-LABEL: attn_tile.kernel @rows(
// CHECK-NEXT:    attn_tile.create_pipe at(256) barriers(0) : <1x64xf32, stages = 1>
// CHECK-NEXT:    attn_tile.create_pipe at(512) barriers(16) : <1x64xf32, stages = 1>
// CHECK-NEXT:    attn_tile.create_pipe at(1024) barriers(32) : <64x64xbf16, stages = 1>
// CHECK-NEXT:    attn_tile.create_pipe at(9216) barriers(48) : <1x96xf32, stages = 1>
attn_tile.kernel @rows() {
  %a = attn_tile.create_pipe : !attn_tile.pipe<1x64xf32, stages = 1>
  %b = attn_tile.create_pipe : !attn_tile.pipe<1x64xf32, stages = 1>
  %c = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 1>
  %d = attn_tile.create_pipe : !attn_tile.pipe<1x96xf32, stages = 1>
  attn_tile.return
}
