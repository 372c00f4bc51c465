// RUN: attn-opt %s -attn-tile-create-pipes -split-input-file | FileCheck %s

#lhs = affine_map<(m, n, k) -> (m, k)>
#keys = affine_map<(m, n, k) -> (n, k)>
#values = affine_map<(m, n, k) -> (k, n)>
#result = affine_map<(m, n, k) -> (m, n)>

// Keys and values are the same in all CTAs of a cluster, queries are not.

// CHECK-LABEL: attn_tile.kernel @shared
// CHECK-NEXT:    attn_tile.create_pipe : <64x16xf16, stages = 1>
// CHECK-NEXT:    %[[K:.*]] = attn_tile.create_pipe : <32x16xf16, stages = 2, cluster = 2>
// CHECK-NEXT:    %[[V:.*]] = attn_tile.create_pipe : <32x16xf16, stages = 2, cluster = 2>
// CHECK:         scf.for
// CHECK:           attn_tile.acquire %[[K]]
// CHECK-NEXT:      attn_tile.copy {{.*}} to <32x16xf16, cluster = 2>
// CHECK:           attn_tile.acquire %[[V]]
attn_tile.kernel @shared(%q: memref<?x16xf16>, %k: memref<?x16xf16>, %v: memref<?x16xf16>, %out: memref<?x16xf32>, %n: index)
    attributes {cluster = 2 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : vector<64x32xf32>
  %acc0 = arith.constant dense<1.0> : vector<64x16xf32>
  %rank = attn_tile.cluster_rank
  %cluster = attn_tile.cluster_id
  %row = arith.muli %rank, %c64 : index
  %first = arith.muli %cluster, %c64 : index
  %qt = attn_tile.load %q[%row, %c0] stream(%c0 of %c1) : memref<?x16xf16> -> vector<64x16xf16>
  %r = scf.for %t = %c0 to %n step %c1 iter_args(%acc = %acc0) -> vector<64x16xf32> {
    %key = arith.addi %first, %t : index
    %kt = attn_tile.load %k[%key, %c0] stream(%t of %n) : memref<?x16xf16> -> vector<32x16xf16>
    %s = vector.contract {indexing_maps = [#lhs, #keys, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %qt, %kt, %zero : vector<64x16xf16>, vector<32x16xf16> into vector<64x32xf32>
    %p = arith.truncf %s : vector<64x32xf32> to vector<64x32xf16>
    %vt = attn_tile.load %v[%key, %c0] stream(%t of %n) : memref<?x16xf16> -> vector<32x16xf16>
    %next = vector.contract {indexing_maps = [#lhs, #values, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %p, %vt, %acc : vector<64x32xf16>, vector<32x16xf16> into vector<64x16xf32>
    scf.yield %next : vector<64x16xf32>
  }
  attn_tile.store %r, %out[%row, %c0] : vector<64x16xf32>, memref<?x16xf32>
  attn_tile.return
}

// -----

#lhs = affine_map<(m, n, k) -> (m, k)>
#keys = affine_map<(m, n, k) -> (n, k)>
#result = affine_map<(m, n, k) -> (m, n)>

// A loop that runs as often as a CTA's rank in the cluster says.

// CHECK-LABEL: attn_tile.kernel @steps
// CHECK-NEXT:    attn_tile.create_pipe : <64x16xf16, stages = 1>
// CHECK-NEXT:    attn_tile.create_pipe : <32x16xf16, stages = 2>
// CHECK-NOT:     create_pipe
// CHECK:         attn_tile.return
attn_tile.kernel @steps(%q: memref<?x16xf16>, %k: memref<?x16xf16>, %out: memref<?x32xf32>, %n: index)
    attributes {cluster = 2 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : vector<64x32xf32>
  %rank = attn_tile.cluster_rank
  %count = arith.addi %n, %rank : index
  %qt = attn_tile.load %q[%rank, %c0] stream(%c0 of %c1) : memref<?x16xf16> -> vector<64x16xf16>
  %r = scf.for %t = %c0 to %count step %c1 iter_args(%acc = %zero) -> vector<64x32xf32> {
    %kt = attn_tile.load %k[%c0, %c0] stream(%t of %count) : memref<?x16xf16> -> vector<32x16xf16>
    %s = vector.contract {indexing_maps = [#lhs, #keys, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %qt, %kt, %acc : vector<64x16xf16>, vector<32x16xf16> into vector<64x32xf32>
    scf.yield %s : vector<64x32xf32>
  }
  attn_tile.store %r, %out[%rank, %c0] : vector<64x32xf32>, memref<?x32xf32>
  attn_tile.return
}

// -----

#lhs = affine_map<(m, n, k) -> (m, k)>
#keys = affine_map<(m, n, k) -> (n, k)>
#result = affine_map<(m, n, k) -> (m, n)>

// What a loop carries depends on the place from its second step on, and so does
// what a conditional gives; a load in such a conditional is not in all CTAs.

// CHECK-LABEL: attn_tile.kernel @carried
// CHECK-COUNT-3: attn_tile.create_pipe : <{{[0-9x]+}}xf16, stages = {{[12]}}>
// CHECK-NOT:     create_pipe
// CHECK:         attn_tile.return
attn_tile.kernel @carried(%q: memref<?x16xf16>, %k: memref<?x16xf16>, %x: memref<?x16xf16>, %out: memref<?x32xf32>, %n: index)
    attributes {cluster = 2 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : vector<64x32xf32>
  %rank = attn_tile.cluster_rank
  %first = arith.cmpi eq, %rank, %c0 : index
  %step = scf.if %first -> index {
    scf.yield %c0 : index
  } else {
    scf.yield %c1 : index
  }
  %qt = attn_tile.load %q[%rank, %c0] stream(%c0 of %c1) : memref<?x16xf16> -> vector<64x16xf16>
  %r:2 = scf.for %t = %c0 to %n step %c1 iter_args(%acc = %zero, %row = %c0) -> (vector<64x32xf32>, index) {
    %kt = attn_tile.load %k[%row, %c0] stream(%t of %n) : memref<?x16xf16> -> vector<32x16xf16>
    %s = vector.contract {indexing_maps = [#lhs, #keys, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %qt, %kt, %acc : vector<64x16xf16>, vector<32x16xf16> into vector<64x32xf32>
    %next = arith.addi %row, %step : index
    scf.yield %s, %next : vector<64x32xf32>, index
  }
  %last = scf.if %first -> vector<64x32xf32> {
    %xt = attn_tile.load %x[%c0, %c0] stream(%c0 of %n) : memref<?x16xf16> -> vector<32x16xf16>
    %s = vector.contract {indexing_maps = [#lhs, #keys, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %qt, %xt, %r#0 : vector<64x16xf16>, vector<32x16xf16> into vector<64x32xf32>
    scf.yield %s : vector<64x32xf32>
  } else {
    scf.yield %r#0 : vector<64x32xf32>
  }
  attn_tile.store %last, %out[%rank, %c0] : vector<64x32xf32>, memref<?x32xf32>
  attn_tile.return
}
