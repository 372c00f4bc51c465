// RUN: attn-opt %s --pass-pipeline='builtin.module(attn_tile.kernel(attn-tile-hoist-loads))' --split-input-file | FileCheck %s

// CHECK-LABEL: attn_tile.kernel @ahead(
// CHECK-SAME:    %[[SRC:.*]]: memref<?x?xf32>, %[[S:.*]]: vector<64x48xf32>, %[[I:.*]]: index, %[[N:.*]]: index)
// CHECK:         %[[J0:.*]] = arith.muli %[[C0:.*]], %[[C48:.*]] : index
// CHECK-NEXT:    %[[FIRST:.*]] = attn_tile.load %[[SRC]][%[[I]], %[[J0]]] : memref<?x?xf32> -> vector<64x48xf32>
// CHECK-NEXT:    scf.for %[[T:.*]] = %[[C0]] to %[[N]] step %[[C1:.*]] iter_args(%[[M:.*]] = %[[S]], %[[BIAS:.*]] = %[[FIRST]])
// CHECK-NOT:       attn_tile.load
// CHECK:           %[[SUM:.*]] = arith.addf %[[M]], %[[BIAS]]
// CHECK-NEXT:      %[[T1:.*]] = arith.addi %[[T]], %[[C1]] : index
// CHECK-NEXT:      %[[J1:.*]] = arith.muli %[[T1]], %[[C48]] : index
// CHECK-NEXT:      %[[NEXT:.*]] = attn_tile.load %[[SRC]][%[[I]], %[[J1]]] : memref<?x?xf32> -> vector<64x48xf32>
// CHECK-NEXT:      %[[EXP:.*]] = math.exp2 %[[SUM]]
// CHECK-NEXT:      scf.yield %[[EXP]], %[[NEXT]]
attn_tile.kernel @ahead(%source: memref<?x?xf32>, %s: vector<64x48xf32>, %i: index, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c48 = arith.constant 48 : index
  %r = scf.for %t = %c0 to %n step %c1 iter_args(%m = %s) -> vector<64x48xf32> {
    %j = arith.muli %t, %c48 : index
    %bias = attn_tile.load %source[%i, %j] : memref<?x?xf32> -> vector<64x48xf32>
    %sum = arith.addf %m, %bias : vector<64x48xf32>
    %exp = math.exp2 %sum : vector<64x48xf32>
    scf.yield %exp : vector<64x48xf32>
  }
  attn_tile.return
}

// -----

// Loads of a stream belong to pipes, vectors of rows are few registers, and an
// index that a step computes is not known in the step before.

// CHECK-LABEL: attn_tile.kernel @others(
// CHECK-NOT:     attn_tile.load
// CHECK:         scf.for
// CHECK-COUNT-3:   attn_tile.load
// CHECK-NOT:       attn_tile.load
// CHECK:           scf.yield
attn_tile.kernel @others(%source: memref<?x?xf32>, %n: index, %out: memref<?x?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %t = %c0 to %n step %c1 iter_args(%j = %c0) -> index {
    %a = attn_tile.load %source[%c0, %t] stream(%t of %n) : memref<?x?xf32> -> vector<64x48xf32>
    %b = attn_tile.load %source[%c0, %t] : memref<?x?xf32> -> vector<64xf32>
    %c = attn_tile.load %source[%c0, %j] : memref<?x?xf32> -> vector<64x48xf32>
    %d = arith.addi %j, %t : index
    scf.yield %d : index
  }
  attn_tile.return
}

// -----

// The accumulator of an MMA is made at the end of the step before, in the
// registers of the scores of that step. What is read for it is not.

// CHECK-LABEL: attn_tile.kernel @addends(
// CHECK:         %[[J0:.*]] = arith.muli
// CHECK:         %[[FIRST:.*]] = attn_tile.map %{{.*}} at(%{{.*}}, %{{.*}}, %{{.*}}, %[[J0]])
// CHECK:         scf.for %[[T:.*]] = {{.*}} iter_args(%{{.*}} = %{{.*}}, %[[ADDEND:.*]] = %[[FIRST]])
// CHECK:           %[[READ:.*]] = attn_tile.map
// CHECK:             memref.load
// CHECK:           vector.contract {{.*}} %{{.*}}, %{{.*}}, %[[ADDEND]]
// CHECK:           vector.contract {{.*}} %{{.*}}, %{{.*}}, %[[READ]]
// CHECK:           math.exp2
// CHECK-NEXT:      %[[T1:.*]] = arith.addi %[[T]]
// CHECK-NEXT:      %[[J1:.*]] = arith.muli %[[T1]]
// CHECK-NEXT:      %[[NEXT:.*]] = attn_tile.map %{{.*}} at(%{{.*}}, %{{.*}}, %{{.*}}, %[[J1]])
// CHECK:           scf.yield %{{.*}}, %[[NEXT]]
#lhs = affine_map<(m, n, k) -> (m, k)>
#rhs = affine_map<(m, n, k) -> (n, k)>
#out = affine_map<(m, n, k) -> (m, n)>
attn_tile.kernel @addends(%table: memref<?xf32>, %keys: memref<?x?xbf16>, %q: vector<64x16xbf16>,
                          %zero: vector<64x48xf32>, %i: index, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c48 = arith.constant 48 : index
  %r = scf.for %t = %c0 to %n step %c1 iter_args(%m = %zero) -> vector<64x48xf32> {
    %j = arith.muli %t, %c48 : index
    %k = attn_tile.load %keys[%j, %c0] stream(%t of %n) : memref<?x?xbf16> -> vector<48x16xbf16>
    %linear = attn_tile.map %zero at(%c0, %c0, %i, %j) lengths(%n, %n) : vector<64x48xf32> {
    ^bb0(%x: f32, %b: index, %h: index, %ii: index, %jj: index):
      %d = arith.index_cast %jj : index to i32
      %f = arith.sitofp %d : i32 to f32
      attn_tile.yield %f : f32
    }
    %read = attn_tile.map %zero at(%c0, %c0, %i, %j) lengths(%n, %n) : vector<64x48xf32> {
    ^bb0(%x: f32, %b: index, %h: index, %ii: index, %jj: index):
      %f = memref.load %table[%jj] : memref<?xf32>
      attn_tile.yield %f : f32
    }
    %s = vector.contract {indexing_maps = [#lhs, #rhs, #out], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %q, %k, %linear : vector<64x16xbf16>, vector<48x16xbf16> into vector<64x48xf32>
    %u = vector.contract {indexing_maps = [#lhs, #rhs, #out], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %q, %k, %read : vector<64x16xbf16>, vector<48x16xbf16> into vector<64x48xf32>
    %v = arith.addf %s, %u : vector<64x48xf32>
    %e = math.exp2 %v : vector<64x48xf32>
    scf.yield %e : vector<64x48xf32>
  }
  attn_tile.return
}
