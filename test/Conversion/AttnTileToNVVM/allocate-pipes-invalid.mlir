// RUN: attn-opt %s -attn-tile-allocate-pipes=target=sm_80 -split-input-file -verify-diagnostics

// 163 KiB, where sm_90a has more.

// expected-error @below {{'attn_tile.kernel' op needs 230400 bytes of shared memory, but sm_80 has 166912 (63488 too many)}}
attn_tile.kernel @shared_memory() {
  // expected-note @below {{'!attn_tile.pipe<128x128xbf16, stages = 1>' takes 32768 bytes}}
  %q = attn_tile.create_pipe : !attn_tile.pipe<128x128xbf16, stages = 1>
  // expected-note @below {{'!attn_tile.pipe<192x256xbf16, stages = 2>' takes 196608 bytes}}
  %k = attn_tile.create_pipe : !attn_tile.pipe<192x256xbf16, stages = 2>
  attn_tile.return
}

// -----

attn_tile.kernel @element_type() {
  // expected-error @below {{'attn_tile.create_pipe' op sm_80 stages tiles of bf16, f16 or f32 values, or of 8-bit floats to convert (was 'i8')}}
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x64xi8, stages = 1>
  attn_tile.return
}

// -----

attn_tile.kernel @rows() {
  // expected-error @below {{sm_80 stages tiles whose rows are a multiple of 16 and whose columns are one of 8 (was '!attn_tile.buffer<72x64xbf16>')}}
  %p = attn_tile.create_pipe : !attn_tile.pipe<72x64xbf16, stages = 1>
  attn_tile.return
}

// -----

// A chunk of 16 bytes has four f32 columns.

attn_tile.kernel @columns_of_f32() {
  // expected-error @below {{sm_80 stages tiles whose rows are a multiple of 16 and whose columns are one of 4 (was '!attn_tile.buffer<64x66xf32>')}}
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x66xf32, stages = 1>
  attn_tile.return
}

// -----

attn_tile.kernel @columns() {
  // expected-error @below {{sm_80 stages tiles whose rows are a multiple of 16 and whose columns are one of 8 (was '!attn_tile.buffer<64x68xbf16>')}}
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x68xbf16, stages = 1>
  attn_tile.return
}
