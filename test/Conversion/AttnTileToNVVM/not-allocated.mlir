// RUN: attn-opt %s -convert-attn-tile-to-nvvm -verify-diagnostics

attn_tile.kernel @no_place()
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  // expected-error @below {{'attn_tile.create_pipe' op has no place in shared memory; attn-tile-allocate-pipes gives it one}}
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 1>
  attn_tile.return
}
