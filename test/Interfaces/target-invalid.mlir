// RUN: attn-test-opt %s -attn-tile-allocate-pipes=target=test_gpu -convert-attn-tile-to-nvvm=target=test_gpu \
// RUN:   -split-input-file -verify-diagnostics

// The target of test/lib has none of the optional capabilities, and stages nothing but bf16.

attn_tile.kernel @semaphores(%counts: memref<?xi32>, %i: index)
    attributes {layout = #test_attn.whole_rows<32>} {
  // expected-error @below {{needs semaphores, which test_gpu does not have}}
  // expected-error @below {{failed to legalize operation}}
  attn_tile.semaphore_wait %counts[%i] to(%i) : memref<?xi32>
  attn_tile.return
}

// -----

attn_tile.kernel @stage() attributes {layout = #test_attn.whole_rows<32>} {
  // expected-error @below {{test_gpu stages tiles of bf16 values (was 'f16')}}
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x16xf16, stages = 2>
  attn_tile.return
}

// -----

attn_tile.kernel @mma(%out: memref<64x64xf32>) attributes {layout = #test_attn.whole_rows<32>} {
  %c0 = arith.constant 0 : index
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x16xbf16, stages = 1>
  %b = attn_tile.wait %p[%c0] : !attn_tile.pipe<64x16xbf16, stages = 1>
  // expected-error @below {{cannot be '#attn_tile.mma_sync<multiplicand = bf16>' on test_gpu, which has '#test_attn.dot' for 'bf16'}}
  %s = attn_tile.mma_start %b, %b transpose_rhs mma(#attn_tile.mma_sync<multiplicand = bf16>)
      : !attn_tile.buffer<64x16xbf16>, !attn_tile.buffer<64x16xbf16> -> !attn_tile.pending<vector<64x64xf32>>
  %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<64x64xf32>>
  attn_tile.release %b : !attn_tile.buffer<64x16xbf16>
  attn_tile.store %r, %out[%c0, %c0] : vector<64x64xf32>, memref<64x64xf32>
  attn_tile.return
}
