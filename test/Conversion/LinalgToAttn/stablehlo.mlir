// RUN: attn-opt %s --attn-raise-linalg --attn-simplify-masks --canonicalize --cse --split-input-file | FileCheck %s

// Attention in the form in which StableHLO is lowered to linalg: matmuls of
// any order of dimensions, positions that are compared, reciprocals of sums.
// The functions are run by Integration/host/raise_linalg.py, too.

// T5: no scale, a bias of each head added, heads beside channels.

#q = affine_map<(b, h, i, j, d) -> (b, i, h, d)>
#k = affine_map<(b, h, i, j, d) -> (b, j, h, d)>
#s = affine_map<(b, h, i, j, d) -> (b, h, i, j)>
#p = affine_map<(b, h, i, d, j) -> (b, h, i, j)>
#v = affine_map<(b, h, i, d, j) -> (b, j, h, d)>
#o = affine_map<(b, h, i, d, j) -> (b, i, h, d)>
#all = affine_map<(b, h, i, j) -> (b, h, i, j)>
#row = affine_map<(b, h, i, j) -> (b, h, i)>
#bias = affine_map<(b, h, i, j) -> (h, i, j)>

// CHECK-LABEL: func.func @t5(
// CHECK-SAME:    %[[Q:.*]]: tensor<2x12x3x8xf32>, %[[K:.*]]: tensor<2x20x3x8xf32>, %[[V:.*]]: tensor<2x20x3x8xf32>, %[[BIAS:.*]]: tensor<3x12x20xf32>
// CHECK-DAG:     %[[Q1:.*]] = linalg.transpose ins(%[[Q]] {{.*}} permutation = [0, 2, 1, 3]
// CHECK-DAG:     %[[K1:.*]] = linalg.transpose ins(%[[K]] {{.*}} permutation = [0, 2, 1, 3]
// CHECK-DAG:     %[[V1:.*]] = linalg.transpose ins(%[[V]] {{.*}} permutation = [0, 2, 1, 3]
// CHECK:         %[[A:.*]] = attn.attention ins(%[[Q1]], %[[K1]], %[[V1]] :
// CHECK-SAME:        scale(1.000000e+00) score_mod {
// CHECK:         ^bb0(%[[S:.*]]: f32, %{{.*}}: index, %[[H:.*]]: index, %[[I:.*]]: index, %[[J:.*]]: index):
// CHECK:           %[[X:.*]] = tensor.extract %[[BIAS]][%[[H]], %[[I]], %[[J]]]
// CHECK:           arith.addf %[[S]], %[[X]]
// CHECK:         linalg.transpose ins(%[[A]] {{.*}} permutation = [0, 2, 1, 3]
// CHECK-NOT:     linalg.generic
func.func @t5(%q: tensor<2x12x3x8xf32>, %k: tensor<2x20x3x8xf32>, %v: tensor<2x20x3x8xf32>, %bias: tensor<3x12x20xf32>)
    -> tensor<2x12x3x8xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %inf = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<2x3x12x20xf32>
  %e0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x3x12x20xf32>) -> tensor<2x3x12x20xf32>
  %s0 = linalg.generic {indexing_maps = [#q, #k, #s], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%q, %k : tensor<2x12x3x8xf32>, tensor<2x20x3x8xf32>) outs(%e0 : tensor<2x3x12x20xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %out, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x3x12x20xf32>
  %s1 = linalg.generic {indexing_maps = [#all, #bias, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%s0, %bias : tensor<2x3x12x20xf32>, tensor<3x12x20xf32>) outs(%e : tensor<2x3x12x20xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %0 = arith.addf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<2x3x12x20xf32>
  %r = tensor.empty() : tensor<2x3x12xf32>
  %r0 = linalg.fill ins(%inf : f32) outs(%r : tensor<2x3x12xf32>) -> tensor<2x3x12xf32>
  %m = linalg.reduce { arith.maximumf } ins(%s1 : tensor<2x3x12x20xf32>) outs(%r0 : tensor<2x3x12xf32>) dimensions = [3]
  %mb = linalg.broadcast ins(%m : tensor<2x3x12xf32>) outs(%e : tensor<2x3x12x20xf32>) dimensions = [3]
  %d = linalg.sub ins(%s1, %mb : tensor<2x3x12x20xf32>, tensor<2x3x12x20xf32>) outs(%e : tensor<2x3x12x20xf32>) -> tensor<2x3x12x20xf32>
  %x = linalg.exp ins(%d : tensor<2x3x12x20xf32>) outs(%e : tensor<2x3x12x20xf32>) -> tensor<2x3x12x20xf32>
  %r1 = linalg.fill ins(%zero : f32) outs(%r : tensor<2x3x12xf32>) -> tensor<2x3x12xf32>
  %l = linalg.reduce { arith.addf } ins(%x : tensor<2x3x12x20xf32>) outs(%r1 : tensor<2x3x12xf32>) dimensions = [3]
  %lr = linalg.reciprocal ins(%l : tensor<2x3x12xf32>) outs(%r : tensor<2x3x12xf32>) -> tensor<2x3x12xf32>
  %w = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x, %lr : tensor<2x3x12x20xf32>, tensor<2x3x12xf32>) outs(%e : tensor<2x3x12x20xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %0 = arith.mulf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<2x3x12x20xf32>
  %o = tensor.empty() : tensor<2x12x3x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%o : tensor<2x12x3x8xf32>) -> tensor<2x12x3x8xf32>
  %o1 = linalg.generic {indexing_maps = [#p, #v, #o], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%w, %v : tensor<2x3x12x20xf32>, tensor<2x20x3x8xf32>) outs(%o0 : tensor<2x12x3x8xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %out, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x12x3x8xf32>
  return %o1 : tensor<2x12x3x8xf32>
}

// -----

// Llama in bf16, with groups as a dimension of the queries, queries scaled
// before, positions compared, an exponential of a difference that guards rows
// of -inf, a window.

#q = affine_map<(b, h, g, i, j, d) -> (b, i, h, g, d)>
#k = affine_map<(b, h, g, i, j, d) -> (b, j, h, d)>
#s = affine_map<(b, h, g, i, j, d) -> (b, h, g, i, j)>
#p = affine_map<(b, i, h, g, d, j) -> (b, h, g, i, j)>
#v = affine_map<(b, i, h, g, d, j) -> (b, j, h, d)>
#o = affine_map<(b, i, h, g, d, j) -> (b, i, h, g, d)>
#all5 = affine_map<(b, h, g, i, j) -> (b, h, g, i, j)>
#pair = affine_map<(b, h, g, i, j) -> (i, j)>
#row = affine_map<(b, h, g, i, j) -> (b, h, g, i)>
#ij = affine_map<(i, j) -> (i, j)>

// CHECK-LABEL: func.func @llama_window(
// CHECK-SAME:    %[[Q:.*]]: tensor<2x16x2x3x16xbf16>, %[[K:.*]]: tensor<2x16x2x16xbf16>, %[[V:.*]]: tensor<2x16x2x16xbf16>
// CHECK-DAG:     linalg.transpose ins(%[[K]] {{.*}} permutation = [0, 2, 1, 3]
// CHECK-DAG:     linalg.transpose ins(%[[V]] {{.*}} permutation = [0, 2, 1, 3]
// CHECK-DAG:     linalg.transpose ins(%[[Q]] {{.*}} permutation = [0, 2, 3, 1, 4]
// CHECK:         attn.attention ins({{.*}} : tensor<2x6x16x16xbf16>, tensor<2x2x16x16xbf16>, tensor<2x2x16x16xbf16>)
// CHECK-NOT:     scale
// CHECK-SAME:        mask(#attn.sliding_window<left = 4, right = 0>) -> tensor<2x6x16x16xbf16>
// CHECK-NOT:     linalg.generic
func.func @llama_window(%q: tensor<2x16x2x3x16xbf16>, %k: tensor<2x16x2x16xbf16>, %v: tensor<2x16x2x16xbf16>) -> tensor<2x16x96xbf16> {
  %zero = arith.constant 0.0 : f32
  %zerob = arith.constant 0.0 : bf16
  %lowest = arith.constant -3.3895e+38 : f32
  %inf = arith.constant 0xFF800000 : f32
  %quarter = arith.constant dense<0.25> : tensor<2x16x2x3x16xbf16>
  %c4 = arith.constant 4 : i32
  %q0 = tensor.empty() : tensor<2x16x2x3x16xbf16>
  %qs = linalg.map { arith.mulf } ins(%q, %quarter : tensor<2x16x2x3x16xbf16>, tensor<2x16x2x3x16xbf16>)
      outs(%q0 : tensor<2x16x2x3x16xbf16>)
  %e = tensor.empty() : tensor<2x2x3x16x16xf32>
  %e0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x2x3x16x16xf32>) -> tensor<2x2x3x16x16xf32>
  %s0 = linalg.generic {indexing_maps = [#q, #k, #s], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%qs, %k : tensor<2x16x2x3x16xbf16>, tensor<2x16x2x16xbf16>) outs(%e0 : tensor<2x2x3x16x16xf32>) {
  ^bb0(%a: bf16, %b: bf16, %out: f32):
    %0 = arith.extf %a : bf16 to f32
    %1 = arith.extf %b : bf16 to f32
    %2 = arith.mulf %0, %1 : f32
    %3 = arith.addf %out, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<2x2x3x16x16xf32>
  %i0 = tensor.empty() : tensor<16x16xi32>
  %ri = linalg.generic {indexing_maps = [#ij], iterator_types = ["parallel", "parallel"]} outs(%i0 : tensor<16x16xi32>) {
  ^bb0(%out: i32):
    %0 = linalg.index 0 : index
    %1 = arith.index_cast %0 : index to i32
    linalg.yield %1 : i32
  } -> tensor<16x16xi32>
  %ci = linalg.generic {indexing_maps = [#ij], iterator_types = ["parallel", "parallel"]} outs(%i0 : tensor<16x16xi32>) {
  ^bb0(%out: i32):
    %0 = linalg.index 1 : index
    %1 = arith.index_cast %0 : index to i32
    linalg.yield %1 : i32
  } -> tensor<16x16xi32>
  %k0 = tensor.empty() : tensor<16x16xi1>
  %keep = linalg.generic {indexing_maps = [#ij, #ij, #ij], iterator_types = ["parallel", "parallel"]}
      ins(%ri, %ci : tensor<16x16xi32>, tensor<16x16xi32>) outs(%k0 : tensor<16x16xi1>) {
  ^bb0(%a: i32, %b: i32, %out: i1):
    %0 = arith.cmpi sge, %a, %b : i32
    %1 = arith.subi %a, %b : i32
    %2 = arith.cmpi sle, %1, %c4 : i32
    %3 = arith.andi %0, %2 : i1
    linalg.yield %3 : i1
  } -> tensor<16x16xi1>
  %s1 = linalg.generic {indexing_maps = [#pair, #all5, #all5], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}
      ins(%keep, %s0 : tensor<16x16xi1>, tensor<2x2x3x16x16xf32>) outs(%e : tensor<2x2x3x16x16xf32>) {
  ^bb0(%c: i1, %a: f32, %out: f32):
    %0 = arith.select %c, %a, %lowest : f32
    linalg.yield %0 : f32
  } -> tensor<2x2x3x16x16xf32>
  %r = tensor.empty() : tensor<2x2x3x16xf32>
  %r0 = linalg.fill ins(%inf : f32) outs(%r : tensor<2x2x3x16xf32>) -> tensor<2x2x3x16xf32>
  %m = linalg.reduce { arith.maximumf } ins(%s1 : tensor<2x2x3x16x16xf32>) outs(%r0 : tensor<2x2x3x16xf32>) dimensions = [4]
  %x = linalg.generic {indexing_maps = [#all5, #row, #all5], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}
      ins(%s1, %m : tensor<2x2x3x16x16xf32>, tensor<2x2x3x16xf32>) outs(%e : tensor<2x2x3x16x16xf32>) {
  ^bb0(%a: f32, %max: f32, %out: f32):
    %guard = arith.cmpf oeq, %max, %inf : f32
    %ms = arith.select %guard, %zero, %max : f32
    %0 = arith.subf %a, %ms : f32
    %1 = math.exp %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x2x3x16x16xf32>
  %r1 = linalg.fill ins(%zero : f32) outs(%r : tensor<2x2x3x16xf32>) -> tensor<2x2x3x16xf32>
  %l = linalg.reduce { arith.addf } ins(%x : tensor<2x2x3x16x16xf32>) outs(%r1 : tensor<2x2x3x16xf32>) dimensions = [4]
  %eb = tensor.empty() : tensor<2x2x3x16x16xbf16>
  %w = linalg.generic {indexing_maps = [#all5, #row, #all5], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}
      ins(%x, %l : tensor<2x2x3x16x16xf32>, tensor<2x2x3x16xf32>) outs(%eb : tensor<2x2x3x16x16xbf16>) {
  ^bb0(%a: f32, %b: f32, %out: bf16):
    %0 = arith.divf %a, %b : f32
    %1 = arith.truncf %0 : f32 to bf16
    linalg.yield %1 : bf16
  } -> tensor<2x2x3x16x16xbf16>
  %o = tensor.empty() : tensor<2x16x2x3x16xbf16>
  %o0 = linalg.fill ins(%zerob : bf16) outs(%o : tensor<2x16x2x3x16xbf16>) -> tensor<2x16x2x3x16xbf16>
  %o1 = linalg.generic {indexing_maps = [#p, #v, #o], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%w, %v : tensor<2x2x3x16x16xbf16>, tensor<2x16x2x16xbf16>) outs(%o0 : tensor<2x16x2x3x16xbf16>) {
  ^bb0(%a: bf16, %b: bf16, %out: bf16):
    %0 = arith.mulf %a, %b : bf16
    %1 = arith.addf %out, %0 : bf16
    linalg.yield %1 : bf16
  } -> tensor<2x16x2x3x16xbf16>
  %o2 = tensor.collapse_shape %o1 [[0], [1], [2, 3, 4]] : tensor<2x16x2x3x16xbf16> into tensor<2x16x96xbf16>
  return %o2 : tensor<2x16x96xbf16>
}
