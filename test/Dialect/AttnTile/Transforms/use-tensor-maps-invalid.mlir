// RUN: attn-opt %s -attn-tile-use-tensor-maps -split-input-file -verify-diagnostics

attn_tile.kernel @view(%k: memref<64x64xf16>) {
  %c0 = arith.constant 0 : index
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<16x64xf16, stages = 2>
  %view = memref.subview %k[0, 0] [32, 64] [1, 1] : memref<64x64xf16> to memref<32x64xf16, strided<[64, 1]>>
  %a = attn_tile.acquire %pipe[%c0] : !attn_tile.pipe<16x64xf16, stages = 2>
  // expected-error @below {{'attn_tile.copy' op source must be an argument of the kernel to be copied through a tensor map}}
  attn_tile.copy %view[%c0, %c0] to %a : memref<32x64xf16, strided<[64, 1]>> to !attn_tile.buffer<16x64xf16>
  attn_tile.commit %a : !attn_tile.buffer<16x64xf16>
  attn_tile.return
}

// -----

attn_tile.kernel @rank(%k: memref<2x2x2x2x64x64xf16>) {
  %c0 = arith.constant 0 : index
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<16x64xf16, stages = 2>
  %a = attn_tile.acquire %pipe[%c0] : !attn_tile.pipe<16x64xf16, stages = 2>
  // expected-error @below {{'attn_tile.copy' op source must have 2 to 5 dimensions to be copied through a tensor map (has 6)}}
  attn_tile.copy %k[%c0, %c0, %c0, %c0, %c0, %c0] to %a : memref<2x2x2x2x64x64xf16> to !attn_tile.buffer<16x64xf16>
  attn_tile.commit %a : !attn_tile.buffer<16x64xf16>
  attn_tile.return
}

// -----

attn_tile.kernel @element(%k: memref<64x64xi4>) {
  %c0 = arith.constant 0 : index
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<16x64xi4, stages = 2>
  %a = attn_tile.acquire %pipe[%c0] : !attn_tile.pipe<16x64xi4, stages = 2>
  // expected-error @below {{'attn_tile.copy' op elements must have 8 to 64 bits to be copied through a tensor map (were 'i4')}}
  attn_tile.copy %k[%c0, %c0] to %a : memref<64x64xi4> to !attn_tile.buffer<16x64xi4>
  attn_tile.commit %a : !attn_tile.buffer<16x64xi4>
  attn_tile.return
}

// -----

attn_tile.kernel @rows(%k: memref<512x64xf16>) {
  %c0 = arith.constant 0 : index
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<320x64xf16, stages = 2>
  %a = attn_tile.acquire %pipe[%c0] : !attn_tile.pipe<320x64xf16, stages = 2>
  // expected-error @below {{'attn_tile.copy' op buffer must have at most 256 rows to be copied through a tensor map (has 320)}}
  attn_tile.copy %k[%c0, %c0] to %a : memref<512x64xf16> to !attn_tile.buffer<320x64xf16>
  attn_tile.commit %a : !attn_tile.buffer<320x64xf16>
  attn_tile.return
}

// -----

attn_tile.kernel @long_row(%k: memref<1x512xf32>) {
  %c0 = arith.constant 0 : index
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<1x320xf32, stages = 2>
  %a = attn_tile.acquire %pipe[%c0] : !attn_tile.pipe<1x320xf32, stages = 2>
  // expected-error @below {{'attn_tile.copy' op a row must have at most 256 elements to be copied through a tensor map (has 320)}}
  attn_tile.copy %k[%c0, %c0] to %a : memref<1x512xf32> to !attn_tile.buffer<1x320xf32>
  attn_tile.commit %a : !attn_tile.buffer<1x320xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @strides(%k: memref<32x20xf16>) {
  %c0 = arith.constant 0 : index
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<16x64xf16, stages = 2>
  %a = attn_tile.acquire %pipe[%c0] : !attn_tile.pipe<16x64xf16, stages = 2>
  // expected-error @below {{source must have strides of multiples of 16 bytes to be copied through a tensor map (that of dimension 0 is 40)}}
  attn_tile.copy %k[%c0, %c0] to %a : memref<32x20xf16> to !attn_tile.buffer<16x64xf16>
  attn_tile.commit %a : !attn_tile.buffer<16x64xf16>
  attn_tile.return
}

// -----

attn_tile.kernel @strides_of_destination(%out: memref<32x20xf16>) {
  %c0 = arith.constant 0 : index
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<64x64xf16, stages = 2>
  %t = arith.constant dense<1.0> : vector<64x64xf16>
  // expected-error @below {{destination must have strides of multiples of 16 bytes to be copied through a tensor map (that of dimension 0 is 40)}}
  attn_tile.store_through %pipe, %t to %out[%c0, %c0] : !attn_tile.pipe<64x64xf16, stages = 2>, vector<64x64xf16> to memref<32x20xf16>
  attn_tile.return
}
