// RUN: attn-opt %s -attn-tile-set-layout=warps=2 | FileCheck %s
// RUN: not attn-opt %s -attn-tile-set-layout=warps=4 2>&1 | FileCheck %s --check-prefix=ROWS
// RUN: not attn-opt %s -attn-tile-set-layout=warps=0 2>&1 | FileCheck %s --check-prefix=NONE

// ROWS: error: 'attn_tile.mma_start' op result 'vector<32x16xf32>' cannot be spread over 4 warps
// NONE: error: 'warps' must be positive (was 0)

// CHECK-LABEL: attn_tile.kernel @product
// CHECK-SAME:    layout = #attn_tile.row_blocks<warps = 2>
attn_tile.kernel @product(%p: vector<32x16xf16>) {
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<16x16xf16, stages = 1>
  %c0 = arith.constant 0 : index
  %b = attn_tile.wait %pipe[%c0] : !attn_tile.pipe<16x16xf16, stages = 1>
  %s = attn_tile.mma_start %p, %b : vector<32x16xf16>, !attn_tile.buffer<16x16xf16>
      -> !attn_tile.pending<vector<32x16xf32>>
  %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<32x16xf32>>
  attn_tile.release %b : !attn_tile.buffer<16x16xf16>
  attn_tile.return
}
