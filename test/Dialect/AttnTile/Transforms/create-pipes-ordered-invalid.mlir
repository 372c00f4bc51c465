// RUN: attn-opt %s -attn-tile-create-pipes=max-fragment-bytes=16383 -split-input-file -verify-diagnostics

#rows = affine_map<(m, n, k) -> (m, k)>
#values = affine_map<(m, n, k) -> (k, n)>
#result = affine_map<(m, n, k) -> (m, n)>

// Idle warps add from shared memory alone.
attn_tile.kernel @large(%p: vector<64x16xf16>, %v: memref<?x64xf16>, %sums: memref<?x64xf32>, %semaphores: memref<?xi32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : vector<64x64xf32>
  scf.for %t = %c0 to %n step %c1 {
    %u = attn_tile.load %v[%t, %c0] stream(%t of %n) : memref<?x64xf16> -> vector<16x64xf16>
    %o = vector.contract {indexing_maps = [#rows, #values, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %p, %u, %zero : vector<64x16xf16>, vector<16x64xf16> into vector<64x64xf32>
    // expected-error @below {{with an order must go through shared memory, which has no room for 16384 bytes in a step (at most 16383)}}
    attn_tile.bulk_reduce_add %o to %sums[%t, %c0] ordered(%t of %semaphores[%t]) : vector<64x64xf32> to memref<?x64xf32>, memref<?xi32>
  }
  attn_tile.return
}
