// RUN: attn-opt %s -attn-tile-create-pipes -split-input-file -verify-diagnostics

// One idle warp counts additions once for each work item.

#rows = affine_map<(m, n, k) -> (m, k)>
#values = affine_map<(m, n, k) -> (k, n)>
#result = affine_map<(m, n, k) -> (m, n)>

attn_tile.kernel @twice(%c: memref<?xi32>, %p: vector<64x16xf16>, %v: memref<?x64xf16>, %sums: memref<?x64xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : vector<64x64xf32>
  scf.for %t = %c0 to %n step %c1 {
    %u = attn_tile.load %v[%t, %c0] stream(%t of %n) : memref<?x64xf16> -> vector<16x64xf16>
    %o = vector.contract {indexing_maps = [#rows, #values, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %p, %u, %zero : vector<64x16xf16>, vector<16x64xf16> into vector<64x64xf32>
    attn_tile.bulk_reduce_add %o to %sums[%t, %c0] : vector<64x64xf32> to memref<?x64xf32>
  }
  // expected-note @below {{see the first one here}}
  attn_tile.semaphore_add %c[%c0] of additions : memref<?xi32>
  // expected-error @below {{'attn_tile.semaphore_add' op is a second one of additions in the kernel}}
  attn_tile.semaphore_add %c[%c1] of additions : memref<?xi32>
  attn_tile.return
}

// -----

#rows = affine_map<(m, n, k) -> (m, k)>
#values = affine_map<(m, n, k) -> (k, n)>
#result = affine_map<(m, n, k) -> (m, n)>

attn_tile.kernel @ordered_dq(%c: memref<?xi32>, %p: vector<64x16xf16>, %v: memref<?x64xf16>, %sums: memref<?x64xf32>,
                          %semaphores: memref<?xi32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : vector<64x64xf32>
  scf.for %t = %c0 to %n step %c1 {
    %u = attn_tile.load %v[%t, %c0] stream(%t of %n) : memref<?x64xf16> -> vector<16x64xf16>
    %o = vector.contract {indexing_maps = [#rows, #values, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %p, %u, %zero : vector<64x16xf16>, vector<16x64xf16> into vector<64x64xf32>
    attn_tile.bulk_reduce_add %o to %sums[%t, %c0] ordered(%t of %semaphores[%t]) : vector<64x64xf32> to memref<?x64xf32>, memref<?xi32>
  }
  // expected-error @below {{'attn_tile.semaphore_add' op cannot be of ordered additions, which idle warps make}}
  attn_tile.semaphore_add %c[%c0] of additions : memref<?xi32>
  attn_tile.return
}
