// RUN: attn-opt %s --attn-raise-linalg --canonicalize --cse --split-input-file | FileCheck %s

// Softmax whose exponentials are divided by their sum after the matmul with the
// values.


// CHECK-LABEL: func.func @late_quotient(
// CHECK-SAME:    %[[Q:.*]]: tensor<3x20x8xf32>, %[[K:.*]]: tensor<3x8x12xf32>, %[[V:.*]]: tensor<3x12x16xf32>
// CHECK:         %[[A:.*]] = attn.attention ins({{.*}} : tensor<1x3x20x8xf32>, tensor<1x3x12x8xf32>, tensor<1x3x12x16xf32>)
// CHECK-SAME:        scale(5.000000e-01)
// CHECK:         %[[R:.*]] = tensor.collapse_shape %[[A]]
// CHECK-NEXT:    return %[[R]] : tensor<3x20x16xf32>
func.func @late_quotient(%q: tensor<3x20x8xf32>, %k: tensor<3x8x12xf32>, %v: tensor<3x12x16xf32>) -> tensor<3x20x16xf32> {
  %zero = arith.constant 0.0 : f32
  %minus = arith.constant 0xFF800000 : f32
  %half = arith.constant 0.5 : f32
  %e = tensor.empty() : tensor<3x20x12xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<3x20x12xf32>) -> tensor<3x20x12xf32>
  %p = linalg.batch_matmul ins(%q, %k : tensor<3x20x8xf32>, tensor<3x8x12xf32>) outs(%f : tensor<3x20x12xf32>) -> tensor<3x20x12xf32>
  %h = linalg.fill ins(%half : f32) outs(%e : tensor<3x20x12xf32>) -> tensor<3x20x12xf32>
  %s = linalg.mul ins(%p, %h : tensor<3x20x12xf32>, tensor<3x20x12xf32>) outs(%e : tensor<3x20x12xf32>) -> tensor<3x20x12xf32>
  %re = tensor.empty() : tensor<3x20xf32>
  %m0 = linalg.fill ins(%minus : f32) outs(%re : tensor<3x20xf32>) -> tensor<3x20xf32>
  %m = linalg.reduce { arith.maximumf } ins(%s : tensor<3x20x12xf32>) outs(%m0 : tensor<3x20xf32>) dimensions = [2]
  %mb = linalg.broadcast ins(%m : tensor<3x20xf32>) outs(%e : tensor<3x20x12xf32>) dimensions = [2]
  %d = linalg.sub ins(%s, %mb : tensor<3x20x12xf32>, tensor<3x20x12xf32>) outs(%e : tensor<3x20x12xf32>) -> tensor<3x20x12xf32>
  %x = linalg.exp ins(%d : tensor<3x20x12xf32>) outs(%e : tensor<3x20x12xf32>) -> tensor<3x20x12xf32>
  %l0 = linalg.fill ins(%zero : f32) outs(%re : tensor<3x20xf32>) -> tensor<3x20xf32>
  %l = linalg.reduce { arith.addf } ins(%x : tensor<3x20x12xf32>) outs(%l0 : tensor<3x20xf32>) dimensions = [2]
  %oe = tensor.empty() : tensor<3x20x16xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%oe : tensor<3x20x16xf32>) -> tensor<3x20x16xf32>
  %o = linalg.batch_matmul ins(%x, %v : tensor<3x20x12xf32>, tensor<3x12x16xf32>) outs(%o0 : tensor<3x20x16xf32>) -> tensor<3x20x16xf32>
  %lb = linalg.broadcast ins(%l : tensor<3x20xf32>) outs(%oe : tensor<3x20x16xf32>) dimensions = [2]
  %r = linalg.div ins(%o, %lb : tensor<3x20x16xf32>, tensor<3x20x16xf32>) outs(%oe : tensor<3x20x16xf32>) -> tensor<3x20x16xf32>
  return %r : tensor<3x20x16xf32>
}

// -----

// Six query heads on two of keys, causal, f16 with f32 accumulators. The result is
// expanded, widened, multiplied by the reciprocals of the sums and narrowed by
// one operation that transposes, too.

#repeat = affine_map<(b, h, g, j, d) -> (b, h, j, d)>
#whole = affine_map<(b, h, g, j, d) -> (b, h, g, j, d)>
#scores = affine_map<(x, i, j) -> (x, i, j)>
#rows = affine_map<(x, i, j) -> (x, i)>
#heads = affine_map<(b, h, i, d) -> (b, h, i, d)>
#sums = affine_map<(b, h, i, d) -> (b, h, i)>
#merged = affine_map<(b, h, i, d) -> (b, i, h, d)>

// CHECK-LABEL: func.func @late_grouped(
// CHECK-SAME:    %[[Q:.*]]: tensor<2x6x20x16xf16>, %[[K:.*]]: tensor<2x2x20x16xf16>, %[[V:.*]]: tensor<2x2x20x16xf16>
// CHECK:         %[[A:.*]] = attn.attention ins(%[[Q]], %[[K]], %[[V]] : tensor<2x6x20x16xf16>, tensor<2x2x20x16xf16>, tensor<2x2x20x16xf16>)
// CHECK-SAME:        scale(1.000000e+00) mask_mod {
// CHECK:         }
// CHECK:         %[[T:.*]] = linalg.generic {{.*}} ins(%[[A]] :
// CHECK-NEXT:    ^bb0(%[[E:.*]]: f32, %{{.*}}: f16):
// CHECK-NEXT:      %[[H:.*]] = arith.truncf %[[E]] : f32 to f16
// CHECK-NEXT:      linalg.yield %[[H]] : f16
// CHECK:         %[[R:.*]] = tensor.collapse_shape %[[T]]
// CHECK-NEXT:    return %[[R]]
func.func @late_grouped(%q: tensor<2x6x20x16xf16>, %k: tensor<2x2x20x16xf16>, %v: tensor<2x2x20x16xf16>) -> tensor<2x20x96xf16> {
  %zero = arith.constant 0.0 : f32
  %minus = arith.constant 0xFF800000 : f32
  %re = tensor.empty() : tensor<2x2x3x20x16xf16>
  %k3 = linalg.generic {indexing_maps = [#repeat, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}
      ins(%k : tensor<2x2x20x16xf16>) outs(%re : tensor<2x2x3x20x16xf16>) {
  ^bb0(%a: f16, %b: f16):
    linalg.yield %a : f16
  } -> tensor<2x2x3x20x16xf16>
  %v3 = linalg.generic {indexing_maps = [#repeat, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}
      ins(%v : tensor<2x2x20x16xf16>) outs(%re : tensor<2x2x3x20x16xf16>) {
  ^bb0(%a: f16, %b: f16):
    linalg.yield %a : f16
  } -> tensor<2x2x3x20x16xf16>
  %k6 = tensor.collapse_shape %k3 [[0], [1, 2], [3], [4]] : tensor<2x2x3x20x16xf16> into tensor<2x6x20x16xf16>
  %kc = tensor.collapse_shape %k6 [[0, 1], [2], [3]] : tensor<2x6x20x16xf16> into tensor<12x20x16xf16>
  %v6 = tensor.collapse_shape %v3 [[0], [1, 2], [3], [4]] : tensor<2x2x3x20x16xf16> into tensor<2x6x20x16xf16>
  %vc = tensor.collapse_shape %v6 [[0, 1], [2], [3]] : tensor<2x6x20x16xf16> into tensor<12x20x16xf16>
  %qc = tensor.collapse_shape %q [[0, 1], [2], [3]] : tensor<2x6x20x16xf16> into tensor<12x20x16xf16>
  %te = tensor.empty() : tensor<12x16x20xf16>
  %kt = linalg.transpose ins(%kc : tensor<12x20x16xf16>) outs(%te : tensor<12x16x20xf16>) permutation = [0, 2, 1]
  %se = tensor.empty() : tensor<12x20x20xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%se : tensor<12x20x20xf32>) -> tensor<12x20x20xf32>
  %p = linalg.batch_matmul ins(%qc, %kt : tensor<12x20x16xf16>, tensor<12x16x20xf16>) outs(%s0 : tensor<12x20x20xf32>) -> tensor<12x20x20xf32>
  %s = linalg.generic {indexing_maps = [#scores, #scores], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%p : tensor<12x20x20xf32>) outs(%se : tensor<12x20x20xf32>) {
  ^bb0(%a: f32, %b: f32):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %c = arith.cmpi ugt, %j, %i : index
    %n = arith.select %c, %minus, %a : f32
    linalg.yield %n : f32
  } -> tensor<12x20x20xf32>
  %me = tensor.empty() : tensor<12x20xf32>
  %m0 = linalg.fill ins(%minus : f32) outs(%me : tensor<12x20xf32>) -> tensor<12x20xf32>
  %m = linalg.reduce { arith.maximumf } ins(%s : tensor<12x20x20xf32>) outs(%m0 : tensor<12x20xf32>) dimensions = [2]
  %x = linalg.generic {indexing_maps = [#scores, #rows, #scores], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%s, %m : tensor<12x20x20xf32>, tensor<12x20xf32>) outs(%se : tensor<12x20x20xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.subf %a, %b : f32
    %e = math.exp %d : f32
    linalg.yield %e : f32
  } -> tensor<12x20x20xf32>
  %l0 = linalg.fill ins(%zero : f32) outs(%me : tensor<12x20xf32>) -> tensor<12x20xf32>
  %l = linalg.reduce { arith.addf } ins(%x : tensor<12x20x20xf32>) outs(%l0 : tensor<12x20xf32>) dimensions = [2]
  %xe = tensor.empty() : tensor<12x20x20xf16>
  %xh = linalg.generic {indexing_maps = [#scores, #scores], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<12x20x20xf32>) outs(%xe : tensor<12x20x20xf16>) {
  ^bb0(%a: f32, %b: f16):
    %h = arith.truncf %a : f32 to f16
    linalg.yield %h : f16
  } -> tensor<12x20x20xf16>
  %oe = tensor.empty() : tensor<12x20x16xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%oe : tensor<12x20x16xf32>) -> tensor<12x20x16xf32>
  %o = linalg.batch_matmul ins(%xh, %vc : tensor<12x20x20xf16>, tensor<12x20x16xf16>) outs(%o0 : tensor<12x20x16xf32>) -> tensor<12x20x16xf32>
  %o4 = tensor.expand_shape %o [[0, 1], [2], [3]] output_shape [2, 6, 20, 16] : tensor<12x20x16xf32> into tensor<2x6x20x16xf32>
  %l4 = tensor.expand_shape %l [[0, 1], [2]] output_shape [2, 6, 20] : tensor<12x20xf32> into tensor<2x6x20xf32>
  %ie = tensor.empty() : tensor<2x6x20xf32>
  %inverse = linalg.reciprocal ins(%l4 : tensor<2x6x20xf32>) outs(%ie : tensor<2x6x20xf32>) -> tensor<2x6x20xf32>
  %he = tensor.empty() : tensor<2x20x6x16xf16>
  %r = linalg.generic {indexing_maps = [#sums, #heads, #merged], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%inverse, %o4 : tensor<2x6x20xf32>, tensor<2x6x20x16xf32>) outs(%he : tensor<2x20x6x16xf16>) {
  ^bb0(%a: f32, %b: f32, %c: f16):
    %d = arith.mulf %a, %b : f32
    %h = arith.truncf %d : f32 to f16
    linalg.yield %h : f16
  } -> tensor<2x20x6x16xf16>
  %rc = tensor.collapse_shape %r [[0], [1], [2, 3]] : tensor<2x20x6x16xf16> into tensor<2x20x96xf16>
  return %rc : tensor<2x20x96xf16>
}

// -----

// Lengths that are not known: sizes of the matmul are asked for as well.

#rows = affine_map<(b, h, i, j) -> (b, h, i)>
#scores = affine_map<(b, h, i, j) -> (b, h, i, j)>
#qi = affine_map<(b, h, i, j, d) -> (b, h, i, d)>
#kj = affine_map<(b, h, i, j, d) -> (b, h, j, d)>
#ij = affine_map<(b, h, i, j, d) -> (b, h, i, j)>
#pj = affine_map<(b, h, i, d, j) -> (b, h, i, j)>
#vj = affine_map<(b, h, i, d, j) -> (b, h, j, d)>
#oi = affine_map<(b, h, i, d, j) -> (b, i, h, d)>
#out = affine_map<(b, i, h, d) -> (b, i, h, d)>
#outrow = affine_map<(b, i, h, d) -> (b, h, i)>

// CHECK-LABEL: func.func @late_dynamic(
// CHECK:         %[[A:.*]] = attn.attention ins({{.*}} : tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>)
// CHECK:         %[[T:.*]] = linalg.transpose ins(%[[A]] {{.*}} permutation = [0, 2, 1, 3]
// CHECK-NOT:     divf
// CHECK:         return %{{.*}} : tensor<?x?x4x8xf32>
func.func @late_dynamic(%q: tensor<?x4x?x8xf32>, %k: tensor<?x4x?x8xf32>, %v: tensor<?x4x?x8xf32>) -> tensor<?x?x4x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %zero = arith.constant 0.0 : f32
  %minus = arith.constant 0xFF800000 : f32
  %b = tensor.dim %q, %c0 : tensor<?x4x?x8xf32>
  %n = tensor.dim %q, %c2 : tensor<?x4x?x8xf32>
  %m = tensor.dim %k, %c2 : tensor<?x4x?x8xf32>
  %se = tensor.empty(%b, %n, %m) : tensor<?x4x?x?xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%se : tensor<?x4x?x?xf32>) -> tensor<?x4x?x?xf32>
  %s = linalg.generic {indexing_maps = [#qi, #kj, #ij], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%q, %k : tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>) outs(%s0 : tensor<?x4x?x?xf32>) {
  ^bb0(%a0: f32, %a1: f32, %a2: f32):
    %0 = arith.mulf %a0, %a1 : f32
    %1 = arith.addf %0, %a2 : f32
    linalg.yield %1 : f32
  } -> tensor<?x4x?x?xf32>
  %re = tensor.empty(%b, %n) : tensor<?x4x?xf32>
  %m0 = linalg.fill ins(%minus : f32) outs(%re : tensor<?x4x?xf32>) -> tensor<?x4x?xf32>
  %mx = linalg.reduce { arith.maximumf } ins(%s : tensor<?x4x?x?xf32>) outs(%m0 : tensor<?x4x?xf32>) dimensions = [3]
  %x = linalg.generic {indexing_maps = [#scores, #rows, #scores], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%s, %mx : tensor<?x4x?x?xf32>, tensor<?x4x?xf32>) outs(%se : tensor<?x4x?x?xf32>) {
  ^bb0(%a0: f32, %a1: f32, %a2: f32):
    %0 = arith.subf %a0, %a1 : f32
    %1 = math.exp %0 : f32
    linalg.yield %1 : f32
  } -> tensor<?x4x?x?xf32>
  %l0 = linalg.fill ins(%zero : f32) outs(%re : tensor<?x4x?xf32>) -> tensor<?x4x?xf32>
  %l = linalg.reduce { arith.addf } ins(%x : tensor<?x4x?x?xf32>) outs(%l0 : tensor<?x4x?xf32>) dimensions = [3]
  %oe = tensor.empty(%b, %n) : tensor<?x?x4x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%oe : tensor<?x?x4x8xf32>) -> tensor<?x?x4x8xf32>
  %o = linalg.generic {indexing_maps = [#pj, #vj, #oi], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %v : tensor<?x4x?x?xf32>, tensor<?x4x?x8xf32>) outs(%o0 : tensor<?x?x4x8xf32>) {
  ^bb0(%a0: f32, %a1: f32, %a2: f32):
    %0 = arith.mulf %a0, %a1 : f32
    %1 = arith.addf %0, %a2 : f32
    linalg.yield %1 : f32
  } -> tensor<?x?x4x8xf32>
  %ob = tensor.dim %o, %c0 : tensor<?x?x4x8xf32>
  %on = tensor.dim %o, %c1 : tensor<?x?x4x8xf32>
  %qe = tensor.empty(%ob, %on) : tensor<?x?x4x8xf32>
  %r = linalg.generic {indexing_maps = [#out, #outrow, #out], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%o, %l : tensor<?x?x4x8xf32>, tensor<?x4x?xf32>) outs(%qe : tensor<?x?x4x8xf32>) {
  ^bb0(%a0: f32, %a1: f32, %a2: f32):
    %0 = arith.divf %a0, %a1 : f32
    linalg.yield %0 : f32
  } -> tensor<?x?x4x8xf32>
  return %r : tensor<?x?x4x8xf32>
}
