// RUN: attn-opt %s -attn-tile-create-pipes -split-input-file -verify-diagnostics

#lhs = affine_map<(m, n, k) -> (m, k)>
#values = affine_map<(m, n, k) -> (k, n)>
#result = affine_map<(m, n, k) -> (m, n)>

attn_tile.kernel @items(%v: memref<?x16xf16>, %p: vector<16x8xf16>, %acc: vector<16x16xf32>,
                        %out: memref<?x16xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // expected-error @below {{'scf.forall' op must be replaced by a traversal of work items before pipes are created}}
  scf.forall (%i) in (%n) {
    %vt = attn_tile.load %v[%i, %c0] stream(%c0 of %c1) : memref<?x16xf16> -> vector<8x16xf16>
    %o = vector.contract {indexing_maps = [#lhs, #values, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %p, %vt, %acc : vector<16x8xf16>, vector<8x16xf16> into vector<16x16xf32>
    attn_tile.store %o, %out[%i, %c0] : vector<16x16xf32>, memref<?x16xf32>
  }
  attn_tile.return
}

// -----

#lhs = affine_map<(m, n, k) -> (m, k)>
#values = affine_map<(m, n, k) -> (k, n)>
#result = affine_map<(m, n, k) -> (m, n)>

// Two tiles of columns would fill a stage one after the other.
attn_tile.kernel @positions(%v: memref<?x32xf16>, %p: vector<16x8xf16>, %acc: vector<16x16xf32>,
                            %out: memref<?x16xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  // expected-note @below {{see the other load here}}
  %v0 = attn_tile.load %v[%c0, %c0] stream(%c0 of %n) : memref<?x32xf16> -> vector<8x16xf16>
  %o0 = vector.contract {indexing_maps = [#lhs, #values, #result],
      iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
      %p, %v0, %acc : vector<16x8xf16>, vector<8x16xf16> into vector<16x16xf32>
  // expected-error @below {{'attn_tile.load' op position of the stream must not be that of another load from its source}}
  %v1 = attn_tile.load %v[%c0, %c16] stream(%c0 of %n) : memref<?x32xf16> -> vector<8x16xf16>
  %o1 = vector.contract {indexing_maps = [#lhs, #values, #result],
      iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
      %p, %v1, %o0 : vector<16x8xf16>, vector<8x16xf16> into vector<16x16xf32>
  attn_tile.store %o1, %out[%c0, %c0] : vector<16x16xf32>, memref<?x16xf32>
  attn_tile.return
}

// -----

#lhs = affine_map<(m, n, k) -> (m, k)>
#values = affine_map<(m, n, k) -> (k, n)>
#result = affine_map<(m, n, k) -> (m, n)>

attn_tile.kernel @lengths(%v: memref<?x16xf16>, %p: vector<16x8xf16>, %acc: vector<16x16xf32>,
                          %out: memref<?x16xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // expected-note @below {{see another load here}}
  %v0 = attn_tile.load %v[%c0, %c0] stream(%c0 of %c1) : memref<?x16xf16> -> vector<8x16xf16>
  %o0 = vector.contract {indexing_maps = [#lhs, #values, #result],
      iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
      %p, %v0, %acc : vector<16x8xf16>, vector<8x16xf16> into vector<16x16xf32>
  // expected-error @below {{'attn_tile.load' op length of the stream must be that of the other loads from its source}}
  %v1 = attn_tile.load %v[%c1, %c0] stream(%c1 of %n) : memref<?x16xf16> -> vector<8x16xf16>
  %o1 = vector.contract {indexing_maps = [#lhs, #values, #result],
      iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
      %p, %v1, %o0 : vector<16x8xf16>, vector<8x16xf16> into vector<16x16xf32>
  attn_tile.store %o1, %out[%c0, %c0] : vector<16x16xf32>, memref<?x16xf32>
  attn_tile.return
}

// -----

#columns = affine_map<(m, n, k) -> (k, m)>
#values = affine_map<(m, n, k) -> (k, n)>
#result = affine_map<(m, n, k) -> (m, n)>

// The position of the shared tile is that of a load in the same block.
attn_tile.kernel @no_position(%v: memref<?x16xf16>, %p: vector<8x16xf16>, %acc: vector<16x16xf32>,
                              %out: memref<?x16xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %v0 = attn_tile.load %v[%c0, %c0] stream(%c0 of %c1) : memref<?x16xf16> -> vector<8x16xf16>
  %o = scf.for %t = %c0 to %n step %c1 iter_args(%a = %acc) -> vector<16x16xf32> {
    // expected-error @below {{'vector.contract' op needs an operand in shared memory, but no stream of tiles in its block counts its steps}}
    %o0 = vector.contract {indexing_maps = [#columns, #values, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %v0, %p, %a : vector<8x16xf16>, vector<8x16xf16> into vector<16x16xf32>
    scf.yield %o0 : vector<16x16xf32>
  }
  attn_tile.store %o, %out[%c0, %c0] : vector<16x16xf32>, memref<?x16xf32>
  attn_tile.return
}

// -----

#lhs = affine_map<(m, n, k) -> (m, k)>
#values = affine_map<(m, n, k) -> (k, n)>
#result = affine_map<(m, n, k) -> (m, n)>

// Ordered additions go through shared memory, where their steps are counted.
attn_tile.kernel @order_without_stream(%v: memref<?x16xf16>, %p: vector<16x8xf16>, %acc: vector<16x16xf32>,
                                      %sums: memref<?x16xf32>, %semaphores: memref<?xi32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %v0 = attn_tile.load %v[%c0, %c0] stream(%c0 of %c1) : memref<?x16xf16> -> vector<8x16xf16>
  %o = vector.contract {indexing_maps = [#lhs, #values, #result],
      iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
      %p, %v0, %acc : vector<16x8xf16>, vector<8x16xf16> into vector<16x16xf32>
  scf.for %t = %c0 to %n step %c1 {
    // expected-error @below {{'attn_tile.bulk_reduce_add' op with an order needs a stream of tiles in its block, which counts its steps}}
    attn_tile.bulk_reduce_add %o to %sums[%t, %c0] ordered(%t of %semaphores[%t]) : vector<16x16xf32> to memref<?x16xf32>, memref<?xi32>
  }
  attn_tile.return
}
