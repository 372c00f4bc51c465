// RUN: attn-opt %s --pass-pipeline='builtin.module(attn_tile.kernel(attn-tile-hoist-loads{rows=true}))' --split-input-file | FileCheck %s

// Row values and a scalar are loaded where the iteration before begins, and by nothing if there is none. Tiles stay.

// CHECK-LABEL: attn_tile.kernel @rows(
// CHECK-SAME:    %[[SRC:.*]]: memref<?x?xf32>, %[[TILES:.*]]: memref<?x64xf32>, %[[N:.*]]: index
// CHECK:         %[[IS:.*]] = arith.cmpi slt, %[[C0:.*]], %[[N]]
// CHECK-NEXT:    %[[FIRST:.*]]:2 = scf.if %[[IS]] -> (vector<64xf32>, f32) {
// CHECK:           attn_tile.load %[[SRC]]
// CHECK:           memref.load %[[SRC]]
// CHECK:         } else {
// CHECK:           scf.yield %{{.*}}, %{{.*}} : vector<64xf32>, f32
// CHECK:         scf.for %[[T:.*]] = %[[C0]] to %[[N]] step %{{.*}} iter_args(%[[ACC:.*]] = %{{.*}}, %[[ROW:.*]] = %[[FIRST]]#0, %[[ONE:.*]] = %[[FIRST]]#1)
// CHECK:           %[[AFTER:.*]] = arith.addi %[[T]]
// CHECK:           %[[IN:.*]] = arith.cmpi slt, %[[AFTER]], %[[N]]
// CHECK:           %[[NEXT:.*]] = arith.select %[[IN]], %[[AFTER]], %[[T]]
// CHECK:           attn_tile.load %[[SRC]]
// CHECK:           attn_tile.load %[[TILES]]
// CHECK:           vector.contract
// CHECK:           vector.broadcast %[[ROW]]
// CHECK:           vector.broadcast %[[ONE]]
// CHECK:           scf.yield
#lhs = affine_map<(m, n, k) -> (m, k)>
#rhs = affine_map<(m, n, k) -> (k, n)>
#acc = affine_map<(m, n, k) -> (m, n)>
attn_tile.kernel @rows(%source: memref<?x?xf32>, %tiles: memref<?x64xf32>, %n: index, %s: vector<64x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %r = scf.for %t = %c0 to %n step %c1 iter_args(%a = %s) -> vector<64x64xf32> {
    %j = arith.muli %t, %c64 : index
    %row = attn_tile.load %source[%c0, %j] : memref<?x?xf32> -> vector<64xf32>
    %one = memref.load %source[%c1, %j] : memref<?x?xf32>
    %tile = attn_tile.load %tiles[%j, %c0] : memref<?x64xf32> -> vector<64x64xf32>
    %p = vector.contract {indexing_maps = [#lhs, #rhs, #acc], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %tile, %tile, %a : vector<64x64xf32>, vector<64x64xf32> into vector<64x64xf32>
    %columns = vector.broadcast %row : vector<64xf32> to vector<64x64xf32>
    %whole = vector.broadcast %one : f32 to vector<64x64xf32>
    %q = arith.mulf %p, %columns : vector<64x64xf32>
    %next = arith.mulf %q, %whole : vector<64x64xf32>
    scf.yield %next : vector<64x64xf32>
  }
  attn_tile.return
}

// -----

// What the loop stores, and loops without matmuls, stay as they are.

// CHECK-LABEL: attn_tile.kernel @stored(
// CHECK:         scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}) -> (vector<64x64xf32>) {
// CHECK:           attn_tile.load
// CHECK:           attn_tile.store
// CHECK:         scf.for
// CHECK-NEXT:      attn_tile.load
#lhs = affine_map<(m, n, k) -> (m, k)>
#rhs = affine_map<(m, n, k) -> (k, n)>
#acc = affine_map<(m, n, k) -> (m, n)>
attn_tile.kernel @stored(%source: memref<?xf32>, %n: index, %s: vector<64x64xf32>) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %r = scf.for %t = %c0 to %n step %c64 iter_args(%a = %s) -> vector<64x64xf32> {
    %row = attn_tile.load %source[%t] : memref<?xf32> -> vector<64xf32>
    attn_tile.store %row, %source[%t] : vector<64xf32>, memref<?xf32>
    %p = vector.contract {indexing_maps = [#lhs, #rhs, #acc], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %a, %a, %a : vector<64x64xf32>, vector<64x64xf32> into vector<64x64xf32>
    scf.yield %p : vector<64x64xf32>
  }
  scf.for %t = %c0 to %n step %c64 {
    %row = attn_tile.load %source[%t] : memref<?xf32> -> vector<64xf32>
    %e = math.exp2 %row : vector<64xf32>
    attn_tile.store %e, %source[%t] : vector<64xf32>, memref<?xf32>
  }
  attn_tile.return
}

// -----

// The source, or an index, is known in its own step alone.

// CHECK-LABEL: attn_tile.kernel @known_late(
// CHECK:         scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}) -> (vector<64x64xf32>) {
// CHECK:           memref.subview
// CHECK:           attn_tile.load
// CHECK:           memref.load
// CHECK:           memref.load
// CHECK:           memref.store
#lhs = affine_map<(m, n, k) -> (m, k)>
#rhs = affine_map<(m, n, k) -> (k, n)>
#acc = affine_map<(m, n, k) -> (m, n)>
attn_tile.kernel @known_late(%source: memref<128xf32>, %numbers: memref<128xindex>, %n: index, %s: vector<64x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %t = %c0 to %n step %c1 iter_args(%a = %s) -> vector<64x64xf32> {
    %part = memref.subview %source[%t] [64] [1] : memref<128xf32> to memref<64xf32, strided<[1], offset: ?>>
    %row = attn_tile.load %part[%c0] : memref<64xf32, strided<[1], offset: ?>> -> vector<64xf32>
    %i = memref.load %numbers[%t] : memref<128xindex>
    %one = memref.load %source[%i] : memref<128xf32>
    memref.store %i, %numbers[%c0] : memref<128xindex>
    %p = vector.contract {indexing_maps = [#lhs, #rhs, #acc], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %a, %a, %a : vector<64x64xf32>, vector<64x64xf32> into vector<64x64xf32>
    %columns = vector.broadcast %row : vector<64xf32> to vector<64x64xf32>
    %whole = vector.broadcast %one : f32 to vector<64x64xf32>
    %q = arith.mulf %p, %columns : vector<64x64xf32>
    %next = arith.mulf %q, %whole : vector<64x64xf32>
    scf.yield %next : vector<64x64xf32>
  }
  attn_tile.return
}
