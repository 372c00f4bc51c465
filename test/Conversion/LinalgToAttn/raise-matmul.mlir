// RUN: attn-opt %s --attn-raise-matmul --canonicalize | FileCheck %s

#mk = affine_map<(m, n, k) -> (m, k)>
#km = affine_map<(m, n, k) -> (k, m)>
#kn = affine_map<(m, n, k) -> (k, n)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
#ij = affine_map<(i, j) -> (i, j)>
#j = affine_map<(i, j) -> (j)>
#i = affine_map<(i, j) -> (i)>
#none = affine_map<(i, j) -> ()>

// CHECK-LABEL: func @named
// CHECK-SAME: (%[[A:.*]]: tensor<4x16xbf16>, %[[B:.*]]: tensor<16x8xbf16>, %[[C:.*]]: tensor<4x8xbf16>)
// CHECK-NEXT: %[[R:.*]] = attn.matmul ins(%[[A]], %[[B]] : tensor<4x16xbf16>, tensor<16x8xbf16>) outs(%[[C]] : tensor<4x8xbf16>) -> tensor<4x8xbf16>
// CHECK-NEXT: return %[[R]]
func.func @named(%a: tensor<4x16xbf16>, %b: tensor<16x8xbf16>, %c: tensor<4x8xbf16>) -> tensor<4x8xbf16> {
  %zero = arith.constant 0.0 : bf16
  %f = linalg.fill ins(%zero : bf16) outs(%c : tensor<4x8xbf16>) -> tensor<4x8xbf16>
  %r = linalg.matmul ins(%a, %b : tensor<4x16xbf16>, tensor<16x8xbf16>) outs(%f : tensor<4x8xbf16>) -> tensor<4x8xbf16>
  return %r : tensor<4x8xbf16>
}

// CHECK-LABEL: func @transposed
// CHECK: attn.matmul ins(%{{.*}} : tensor<16x4xf16>, tensor<8x16xf16>) outs(%{{.*}} : tensor<4x8xf32>) transpose_lhs transpose_rhs -> tensor<4x8xf32>
func.func @transposed(%a: tensor<16x4xf16>, %b: tensor<8x16xf16>, %c: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%c : tensor<4x8xf32>) -> tensor<4x8xf32>
  %r = linalg.matmul indexing_maps = [#km, #nk, #mn]
      ins(%a, %b : tensor<16x4xf16>, tensor<8x16xf16>) outs(%f : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}

// CHECK-LABEL: func @batch
// CHECK: attn.matmul ins(%{{.*}} : tensor<2x4x16xf32>, tensor<2x16x8xf32>) outs(%{{.*}} : tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
func.func @batch(%a: tensor<2x4x16xf32>, %b: tensor<2x16x8xf32>, %c: tensor<2x4x8xf32>) -> tensor<2x4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%c : tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %r = linalg.batch_matmul ins(%a, %b : tensor<2x4x16xf32>, tensor<2x16x8xf32>) outs(%f : tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  return %r : tensor<2x4x8xf32>
}

// The input that has the rows of the output comes first, and is the same for the
// whole batch.
// CHECK-LABEL: func @swapped
// CHECK-SAME: (%[[W:.*]]: tensor<2x16x8xf32>, %[[X:.*]]: tensor<4x16xf32>,
// CHECK: attn.matmul ins(%[[X]], %[[W]] : tensor<4x16xf32>, tensor<2x16x8xf32>) outs(%{{.*}} : tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
func.func @swapped(%w: tensor<2x16x8xf32>, %x: tensor<4x16xf32>, %c: tensor<2x4x8xf32>) -> tensor<2x4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%c : tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(b, m, n, k) -> (b, k, n)>, affine_map<(b, m, n, k) -> (m, k)>,
                                        affine_map<(b, m, n, k) -> (b, m, n)>],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%w, %x : tensor<2x16x8xf32>, tensor<4x16xf32>) outs(%f : tensor<2x4x8xf32>) {
  ^bb0(%y: f32, %z: f32, %s: f32):
    %p = arith.mulf %y, %z : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<2x4x8xf32>
  return %r : tensor<2x4x8xf32>
}

// The init of the matmul is read by the epilogue.
// CHECK-LABEL: func @accumulate
// CHECK-SAME: (%[[A:.*]]: tensor<?x16xbf16>, %[[B:.*]]: tensor<16x8xbf16>, %[[C:.*]]: tensor<?x8xbf16>)
// CHECK: %[[E:.*]] = tensor.empty(%{{.*}}) : tensor<?x8xbf16>
// CHECK: attn.matmul ins(%[[A]], %[[B]] : {{.*}}) outs(%[[E]] : tensor<?x8xbf16>) epilogue {
// CHECK-NEXT: ^bb0(%[[S:.*]]: f32, %{{.*}}: index, %[[I:.*]]: index, %[[J:.*]]: index):
// CHECK-NEXT:   %[[X:.*]] = tensor.extract %[[C]][%[[I]], %[[J]]]
// CHECK-NEXT:   %[[W:.*]] = arith.extf %[[X]] : bf16 to f32
// CHECK-NEXT:   %[[T:.*]] = arith.addf %[[S]], %[[W]] : f32
// CHECK-NEXT:   attn.yield %[[T]] : f32
func.func @accumulate(%a: tensor<?x16xbf16>, %b: tensor<16x8xbf16>, %c: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
  %r = linalg.matmul ins(%a, %b : tensor<?x16xbf16>, tensor<16x8xbf16>) outs(%c : tensor<?x8xbf16>) -> tensor<?x8xbf16>
  return %r : tensor<?x8xbf16>
}

// A bias for each column, a factor for each row, a scalar, a broadcast, the position, and two roundings, of which
// the last is that of the output.
// CHECK-LABEL: func @epilogue
// CHECK-SAME: (%[[A:[a-z0-9]+]]: tensor<4x16xbf16>, %[[B:[a-z0-9]+]]: tensor<16x8xbf16>, %[[BIAS:[a-z0-9]+]]: tensor<8xf32>,
// CHECK-SAME: %[[FACTOR:[a-z0-9]+]]: tensor<4xf32>, %[[SCALAR:[a-z0-9]+]]: f32, %[[OUT:[a-z0-9]+]]: tensor<4x8xbf16>)
// CHECK-NEXT: %[[R:.*]] = attn.matmul ins(%[[A]], %[[B]] : {{.*}}) outs(%[[OUT]] : tensor<4x8xbf16>) epilogue {
// CHECK-NEXT: ^bb0(%[[S:.*]]: f32, %{{.*}}: index, %[[I:.*]]: index, %[[J:.*]]: index):
// CHECK-NEXT:   %[[ROUNDED:.*]] = arith.truncf %[[S]] : f32 to bf16
// CHECK-NEXT:   %[[X:.*]] = tensor.extract %[[BIAS]][%[[J]]]
// CHECK-NEXT:   %[[Y:.*]] = tensor.extract %[[FACTOR]][%[[I]]]
// CHECK-NEXT:   %[[W:.*]] = arith.extf %[[ROUNDED]] : bf16 to f32
// CHECK-NEXT:   %[[T:.*]] = arith.addf %[[W]], %[[X]]
// CHECK-NEXT:   %[[U:.*]] = arith.mulf %[[T]], %[[Y]]
// CHECK-NEXT:   %[[V:.*]] = arith.mulf %[[U]], %[[SCALAR]]
// CHECK-NEXT:   %[[POSITION:.*]] = arith.index_cast %[[J]] : index to i32
// CHECK-NEXT:   %[[F:.*]] = arith.sitofp %[[POSITION]] : i32 to f32
// CHECK-NEXT:   %[[Z:.*]] = arith.addf %[[V]], %[[F]]
// CHECK-NEXT:   %[[B2:.*]] = tensor.extract %[[BIAS]][%[[J]]]
// CHECK-NEXT:   %[[LAST:.*]] = arith.addf %[[Z]], %[[B2]]
// CHECK-NEXT:   attn.yield %[[LAST]] : f32
// CHECK: return %[[R]]
func.func @epilogue(%a: tensor<4x16xbf16>, %b: tensor<16x8xbf16>, %bias: tensor<8xf32>, %factor: tensor<4xf32>,
                    %scalar: f32, %out: tensor<4x8xbf16>) -> tensor<4x8xbf16> {
  %zero = arith.constant 0.0 : bf16
  %e = tensor.empty() : tensor<4x8xbf16>
  %e32 = tensor.empty() : tensor<4x8xf32>
  %f = linalg.fill ins(%zero : bf16) outs(%e : tensor<4x8xbf16>) -> tensor<4x8xbf16>
  %s = linalg.matmul ins(%a, %b : tensor<4x16xbf16>, tensor<16x8xbf16>) outs(%f : tensor<4x8xbf16>) -> tensor<4x8xbf16>
  %t = linalg.generic {indexing_maps = [#ij, #j, #i, #none, #ij], iterator_types = ["parallel", "parallel"]}
      ins(%s, %bias, %factor, %scalar : tensor<4x8xbf16>, tensor<8xf32>, tensor<4xf32>, f32) outs(%e32 : tensor<4x8xf32>) {
  ^bb0(%x: bf16, %y: f32, %z: f32, %c: f32, %o: f32):
    %w = arith.extf %x : bf16 to f32
    %0 = arith.addf %w, %y : f32
    %1 = arith.mulf %0, %z : f32
    %2 = arith.mulf %1, %c : f32
    %n = linalg.index 1 : index
    %i = arith.index_cast %n : index to i32
    %p = arith.sitofp %i : i32 to f32
    %3 = arith.addf %2, %p : f32
    linalg.yield %3 : f32
  } -> tensor<4x8xf32>
  %wide = linalg.broadcast ins(%bias : tensor<8xf32>) outs(%e32 : tensor<4x8xf32>) dimensions = [0]
  %u = linalg.add ins(%t, %wide : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e32 : tensor<4x8xf32>) -> tensor<4x8xf32>
  %r = linalg.generic {indexing_maps = [#ij, #ij], iterator_types = ["parallel", "parallel"]}
      ins(%u : tensor<4x8xf32>) outs(%out : tensor<4x8xbf16>) {
  ^bb0(%x: f32, %o: bf16):
    %0 = arith.truncf %x : f32 to bf16
    linalg.yield %0 : bf16
  } -> tensor<4x8xbf16>
  return %r : tensor<4x8xbf16>
}

// An operation after two matmuls is part of the epilogue of the later one: the other
// one need not be delayed, with its inputs in memory.

// CHECK-LABEL: func @two(
// CHECK-SAME:    %[[A:.*]]: tensor<4x16xf32>, %[[B:.*]]: tensor<16x8xf32>, %[[W:.*]]: tensor<4x16xf32>,
// CHECK:         %[[X:.*]] = attn.matmul ins(%[[A]], %[[B]] :
// CHECK-NOT:       epilogue
// CHECK-SAME:      -> tensor<4x8xf32>
// CHECK:         attn.matmul ins(%[[W]], %[[B]] : {{.*}} epilogue {
// CHECK:           tensor.extract %[[X]]
// CHECK:         return
func.func @two(%a: tensor<4x16xf32>, %b: tensor<16x8xf32>, %w: tensor<4x16xf32>, %c: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%c : tensor<4x8xf32>) -> tensor<4x8xf32>
  %x = linalg.matmul ins(%a, %b : tensor<4x16xf32>, tensor<16x8xf32>) outs(%f : tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = linalg.matmul ins(%w, %b : tensor<4x16xf32>, tensor<16x8xf32>) outs(%f : tensor<4x8xf32>) -> tensor<4x8xf32>
  %s = linalg.add ins(%x, %y : tensor<4x8xf32>, tensor<4x8xf32>) outs(%c : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %s : tensor<4x8xf32>
}

// A matmul that is used twice is written; an epilogue that would give another element type
// does not follow it.
// CHECK-LABEL: func @kept
// CHECK: %[[S:.*]] = attn.matmul {{.*}} -> tensor<4x8xbf16>
// CHECK: linalg.add ins(%[[S]], %[[S]]
// CHECK: %[[U:.*]] = attn.matmul {{.*}} -> tensor<4x8xbf16>
// CHECK: linalg.generic {{.*}} ins(%[[U]] : tensor<4x8xbf16>) outs(%{{.*}} : tensor<4x8xf16>)
func.func @kept(%a: tensor<4x16xbf16>, %b: tensor<16x8xbf16>, %out: tensor<4x8xf16>) -> (tensor<4x8xbf16>, tensor<4x8xf16>) {
  %zero = arith.constant 0.0 : bf16
  %e = tensor.empty() : tensor<4x8xbf16>
  %f = linalg.fill ins(%zero : bf16) outs(%e : tensor<4x8xbf16>) -> tensor<4x8xbf16>
  %s = linalg.matmul ins(%a, %b : tensor<4x16xbf16>, tensor<16x8xbf16>) outs(%f : tensor<4x8xbf16>) -> tensor<4x8xbf16>
  %t = linalg.add ins(%s, %s : tensor<4x8xbf16>, tensor<4x8xbf16>) outs(%e : tensor<4x8xbf16>) -> tensor<4x8xbf16>
  %u = linalg.matmul ins(%a, %b : tensor<4x16xbf16>, tensor<16x8xbf16>) outs(%f : tensor<4x8xbf16>) -> tensor<4x8xbf16>
  %r = linalg.generic {indexing_maps = [#ij, #ij], iterator_types = ["parallel", "parallel"]}
      ins(%u : tensor<4x8xbf16>) outs(%out : tensor<4x8xf16>) {
  ^bb0(%x: bf16, %o: f16):
    %0 = arith.extf %x : bf16 to f32
    %1 = arith.truncf %0 : f32 to f16
    linalg.yield %1 : f16
  } -> tensor<4x8xf16>
  return %t, %r : tensor<4x8xbf16>, tensor<4x8xf16>
}

// Operations in a loop do not move the matmul there.
// CHECK-LABEL: func @region(
// CHECK:         %[[X:.*]] = attn.matmul
// CHECK-NOT:       epilogue
// CHECK:         scf.for
// CHECK:           linalg.add ins(%[[X]]
func.func @region(%a: tensor<4x16xf32>, %b: tensor<16x8xf32>, %c: tensor<4x8xf32>, %n: index) -> tensor<4x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %x = linalg.matmul ins(%a, %b : tensor<4x16xf32>, tensor<16x8xf32>) outs(%f : tensor<4x8xf32>) -> tensor<4x8xf32>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%s = %c) -> tensor<4x8xf32> {
    %t = linalg.add ins(%x, %s : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
    scf.yield %t : tensor<4x8xf32>
  }
  return %r : tensor<4x8xf32>
}

// Not matmuls of two matrices: a matmul with a vector, sums of integers and of
// f64, a batch that is not first, a sum of differences, two contracted dimensions.
// CHECK-LABEL: func @others
// CHECK-NOT: attn.matmul
func.func @others(%a: tensor<4x16xf32>, %v: tensor<16xf32>, %ai: tensor<4x4xi32>, %ad: tensor<4x4xf64>,
                  %t: tensor<4x2x16xf32>, %ov: tensor<4xf32>, %ot: tensor<2x4x4xf32>, %om: tensor<4x4xf32>)
    -> (tensor<4xf32>, tensor<4x4xi32>, tensor<4x4xf64>, tensor<2x4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = linalg.matvec ins(%a, %v : tensor<4x16xf32>, tensor<16xf32>) outs(%ov : tensor<4xf32>) -> tensor<4xf32>
  %1 = linalg.matmul ins(%ai, %ai : tensor<4x4xi32>, tensor<4x4xi32>) outs(%ai : tensor<4x4xi32>) -> tensor<4x4xi32>
  %2 = linalg.matmul ins(%ad, %ad : tensor<4x4xf64>, tensor<4x4xf64>) outs(%ad : tensor<4x4xf64>) -> tensor<4x4xf64>
  %3 = linalg.generic {indexing_maps = [affine_map<(b, m, n, k) -> (m, b, k)>, affine_map<(b, m, n, k) -> (n, b, k)>,
                                        affine_map<(b, m, n, k) -> (b, m, n)>],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%t, %t : tensor<4x2x16xf32>, tensor<4x2x16xf32>) outs(%ot : tensor<2x4x4xf32>) {
  ^bb0(%y: f32, %z: f32, %s: f32):
    %p = arith.mulf %y, %z : f32
    %u = arith.addf %s, %p : f32
    linalg.yield %u : f32
  } -> tensor<2x4x4xf32>
  %4 = linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %a : tensor<4x16xf32>, tensor<4x16xf32>) outs(%om : tensor<4x4xf32>) {
  ^bb0(%y: f32, %z: f32, %s: f32):
    %p = arith.subf %y, %z : f32
    %u = arith.addf %s, %p : f32
    linalg.yield %u : f32
  } -> tensor<4x4xf32>
  %5 = linalg.generic {indexing_maps = [affine_map<(m, n, k, l) -> (m, l, k)>, affine_map<(m, n, k, l) -> (n, l, k)>,
                                        affine_map<(m, n, k, l) -> (m, n)>],
                       iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%t, %t : tensor<4x2x16xf32>, tensor<4x2x16xf32>) outs(%om : tensor<4x4xf32>) {
  ^bb0(%y: f32, %z: f32, %s: f32):
    %p = arith.mulf %y, %z : f32
    %u = arith.addf %s, %p : f32
    linalg.yield %u : f32
  } -> tensor<4x4xf32>
  return %0, %1, %2, %3, %4, %5 : tensor<4xf32>, tensor<4x4xi32>, tensor<4x4xf64>, tensor<2x4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}

// A dimension of size one, indexed by zero.

// CHECK-LABEL: func.func @indexed_by_zero(
// CHECK-SAME:    %[[BIAS:[^:]*]]: tensor<1x16xf32>)
// CHECK:         attn.matmul
// CHECK:         ^bb0(%{{.*}}: f32, %{{.*}}: index, %{{.*}}: index, %[[J:.*]]: index):
// CHECK:           tensor.extract %[[BIAS]][%{{.*}}, %[[J]]]
// CHECK-NOT:     linalg.generic
func.func @indexed_by_zero(%x: tensor<8x32xf32>, %w: tensor<32x16xf32>, %bias: tensor<1x16xf32>) -> tensor<8x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %y = linalg.matmul ins(%x, %w : tensor<8x32xf32>, tensor<32x16xf32>) outs(%f : tensor<8x16xf32>) -> tensor<8x16xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (0, j)>, affine_map<(i, j) -> (i, j)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%y, %bias : tensor<8x16xf32>, tensor<1x16xf32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %0 = arith.addf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<8x16xf32>
  return %r : tensor<8x16xf32>
}
