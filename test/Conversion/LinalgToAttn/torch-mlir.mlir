// RUN: attn-opt %s --attn-raise-linalg --attn-simplify-masks --canonicalize --cse --split-input-file | FileCheck %s

// Attention in the form in which torch-mlir lowers models to linalg on tensors.
// The functions are run by Integration/host/raise_linalg.py, too.

// BERT: scores divided by a constant, a mask of the keys in large negative
// numbers added, a softmax whose maximum comes with an index.

#all3 = affine_map<(b, i, j) -> (b, i, j)>
#all = affine_map<(b, h, i, j) -> (b, h, i, j)>
#row = affine_map<(b, h, i, j) -> (b, h, i, 0)>
#row_out = affine_map<(b, h, i, j) -> (b, h, i)>
#keys = affine_map<(b, h, i, j) -> (b, 0, 0, j)>
#unit = affine_map<(b, h, i, j) -> (b, 0, 0, j)>

// CHECK-LABEL: func.func @bert(
// CHECK-SAME:    %[[Q:.*]]: tensor<2x24x24xf32>, %[[K:.*]]: tensor<2x24x24xf32>, %[[V:.*]]: tensor<2x24x24xf32>, %[[MASK:.*]]: tensor<2x24xi64>
// CHECK-DAG:     %[[Q0:.*]] = tensor.expand_shape %[[Q]] {{.*}} into tensor<2x24x3x8xf32>
// CHECK-DAG:     %[[Q1:.*]] = linalg.transpose ins(%[[Q0]] {{.*}} permutation = [0, 2, 1, 3]
// CHECK-DAG:     %[[K0:.*]] = tensor.expand_shape %[[K]] {{.*}} into tensor<2x24x3x8xf32>
// CHECK-DAG:     %[[K1:.*]] = linalg.transpose ins(%[[K0]] {{.*}} permutation = [0, 2, 1, 3]
// CHECK-DAG:     %[[V0:.*]] = tensor.expand_shape %[[V]] {{.*}} into tensor<2x24x3x8xf32>
// CHECK-DAG:     %[[V1:.*]] = linalg.transpose ins(%[[V0]] {{.*}} permutation = [0, 2, 1, 3]
// CHECK:         attn.attention ins(%[[Q1]], %[[K1]], %[[V1]] :
// CHECK-NOT:     scale
// CHECK:         score_mod {
// CHECK:         ^bb0(%[[S:.*]]: f32, %[[B:.*]]: index, %{{.*}}: index, %{{.*}}: index, %[[J:.*]]: index):
// CHECK:           %[[M:.*]] = tensor.extract %[[MASK]][%[[B]], %[[J]]]
// CHECK:           %[[F:.*]] = arith.sitofp %[[M]] : i64 to f32
// CHECK:           %[[N:.*]] = arith.subf %{{.*}}, %[[F]]
// CHECK:           %[[P:.*]] = arith.mulf %[[N]], %{{.*}}
// CHECK:           %[[R:.*]] = arith.addf %[[S]], %[[P]]
// CHECK:           attn.yield %[[R]]
// CHECK-NOT:     linalg.generic
// CHECK-NOT:     linalg.batch_matmul
func.func @bert(%query: tensor<2x24x24xf32>, %key: tensor<2x24x24xf32>, %value: tensor<2x24x24xf32>,
                %mask: tensor<2x24xi64>) -> tensor<2x24x24xf32> {
  %cst = arith.constant 0.000000e+00 : f32
  %one = arith.constant 1.000000e+00 : f64
  %lowest = arith.constant -3.4028234663852886E+38 : f64
  %root = arith.constant 2.8284271247461903 : f64
  %inf = arith.constant 0xFF800000 : f32
  %c0_i64 = arith.constant 0 : i64
  %m = tensor.expand_shape %mask [[0], [1, 2, 3]] output_shape [2, 1, 1, 24] : tensor<2x24xi64> into tensor<2x1x1x24xi64>
  %m0 = tensor.empty() : tensor<2x1x1x24xf32>
  %mf = linalg.generic {indexing_maps = [#unit, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%m : tensor<2x1x1x24xi64>) outs(%m0 : tensor<2x1x1x24xf32>) {
  ^bb0(%in: i64, %out: f32):
    %0 = arith.sitofp %in : i64 to f32
    linalg.yield %0 : f32
  } -> tensor<2x1x1x24xf32>
  %mr = linalg.generic {indexing_maps = [#unit, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%mf : tensor<2x1x1x24xf32>) outs(%m0 : tensor<2x1x1x24xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.truncf %one : f64 to f32
    %1 = arith.subf %0, %in : f32
    linalg.yield %1 : f32
  } -> tensor<2x1x1x24xf32>
  %mm = linalg.generic {indexing_maps = [#unit, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%mr : tensor<2x1x1x24xf32>) outs(%m0 : tensor<2x1x1x24xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.truncf %lowest : f64 to f32
    %1 = arith.mulf %in, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x1x1x24xf32>
  %q = tensor.expand_shape %query [[0], [1], [2, 3]] output_shape [2, 24, 3, 8] : tensor<2x24x24xf32> into tensor<2x24x3x8xf32>
  %k = tensor.expand_shape %key [[0], [1], [2, 3]] output_shape [2, 24, 3, 8] : tensor<2x24x24xf32> into tensor<2x24x3x8xf32>
  %v = tensor.expand_shape %value [[0], [1], [2, 3]] output_shape [2, 24, 3, 8] : tensor<2x24x24xf32> into tensor<2x24x3x8xf32>
  %h0 = tensor.empty() : tensor<2x3x24x8xf32>
  %qt = linalg.transpose ins(%q : tensor<2x24x3x8xf32>) outs(%h0 : tensor<2x3x24x8xf32>) permutation = [0, 2, 1, 3]
  %kt = linalg.transpose ins(%k : tensor<2x24x3x8xf32>) outs(%h0 : tensor<2x3x24x8xf32>) permutation = [0, 2, 1, 3]
  %vt = linalg.transpose ins(%v : tensor<2x24x3x8xf32>) outs(%h0 : tensor<2x3x24x8xf32>) permutation = [0, 2, 1, 3]
  %h1 = tensor.empty() : tensor<2x3x8x24xf32>
  %ktt = linalg.transpose ins(%kt : tensor<2x3x24x8xf32>) outs(%h1 : tensor<2x3x8x24xf32>) permutation = [0, 1, 3, 2]
  %qc = tensor.collapse_shape %qt [[0, 1], [2], [3]] : tensor<2x3x24x8xf32> into tensor<6x24x8xf32>
  %kc = tensor.collapse_shape %ktt [[0, 1], [2], [3]] : tensor<2x3x8x24xf32> into tensor<6x8x24xf32>
  %s0 = tensor.empty() : tensor<6x24x24xf32>
  %s1 = linalg.fill ins(%cst : f32) outs(%s0 : tensor<6x24x24xf32>) -> tensor<6x24x24xf32>
  %s2 = linalg.batch_matmul ins(%qc, %kc : tensor<6x24x8xf32>, tensor<6x8x24xf32>) outs(%s1 : tensor<6x24x24xf32>) -> tensor<6x24x24xf32>
  %s3 = tensor.expand_shape %s2 [[0, 1], [2], [3]] output_shape [2, 3, 24, 24] : tensor<6x24x24xf32> into tensor<2x3x24x24xf32>
  %e = tensor.empty() : tensor<2x3x24x24xf32>
  %s4 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%s3 : tensor<2x3x24x24xf32>) outs(%e : tensor<2x3x24x24xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.truncf %root : f64 to f32
    %1 = arith.divf %in, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x3x24x24xf32>
  %s5 = linalg.generic {indexing_maps = [#all, #keys, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%s4, %mm : tensor<2x3x24x24xf32>, tensor<2x1x1x24xf32>) outs(%e : tensor<2x3x24x24xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %0 = arith.addf %in, %in_0 : f32
    linalg.yield %0 : f32
  } -> tensor<2x3x24x24xf32>
  %i0 = tensor.empty() : tensor<2x3x24xi64>
  %i1 = linalg.fill ins(%c0_i64 : i64) outs(%i0 : tensor<2x3x24xi64>) -> tensor<2x3x24xi64>
  %r0 = tensor.empty() : tensor<2x3x24xf32>
  %r1 = linalg.fill ins(%inf : f32) outs(%r0 : tensor<2x3x24xf32>) -> tensor<2x3x24xf32>
  %max:2 = linalg.generic {indexing_maps = [#all, #row_out, #row_out], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%s5 : tensor<2x3x24x24xf32>) outs(%r1, %i1 : tensor<2x3x24xf32>, tensor<2x3x24xi64>) {
  ^bb0(%in: f32, %out: f32, %out_0: i64):
    %0 = linalg.index 3 : index
    %1 = arith.index_cast %0 : index to i64
    %2 = arith.maximumf %in, %out : f32
    %3 = arith.cmpf ogt, %in, %out : f32
    %4 = arith.select %3, %1, %out_0 : i64
    linalg.yield %2, %4 : f32, i64
  } -> (tensor<2x3x24xf32>, tensor<2x3x24xi64>)
  %maxe = tensor.expand_shape %max#0 [[0], [1], [2, 3]] output_shape [2, 3, 24, 1] : tensor<2x3x24xf32> into tensor<2x3x24x1xf32>
  %s6 = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%s5, %maxe : tensor<2x3x24x24xf32>, tensor<2x3x24x1xf32>) outs(%e : tensor<2x3x24x24xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %0 = arith.subf %in, %in_0 : f32
    linalg.yield %0 : f32
  } -> tensor<2x3x24x24xf32>
  %s7 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%s6 : tensor<2x3x24x24xf32>) outs(%e : tensor<2x3x24x24xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = math.exp %in : f32
    linalg.yield %0 : f32
  } -> tensor<2x3x24x24xf32>
  %l0 = tensor.empty() : tensor<2x3x24x1xf32>
  %l1 = linalg.fill ins(%cst : f32) outs(%l0 : tensor<2x3x24x1xf32>) -> tensor<2x3x24x1xf32>
  %l2 = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%s7 : tensor<2x3x24x24xf32>) outs(%l1 : tensor<2x3x24x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.addf %in, %out : f32
    linalg.yield %0 : f32
  } -> tensor<2x3x24x1xf32>
  %p = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%s7, %l2 : tensor<2x3x24x24xf32>, tensor<2x3x24x1xf32>) outs(%e : tensor<2x3x24x24xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %0 = arith.divf %in, %in_0 : f32
    linalg.yield %0 : f32
  } -> tensor<2x3x24x24xf32>
  %pc = tensor.collapse_shape %p [[0, 1], [2], [3]] : tensor<2x3x24x24xf32> into tensor<6x24x24xf32>
  %vc = tensor.collapse_shape %vt [[0, 1], [2], [3]] : tensor<2x3x24x8xf32> into tensor<6x24x8xf32>
  %o0 = tensor.empty() : tensor<6x24x8xf32>
  %o1 = linalg.fill ins(%cst : f32) outs(%o0 : tensor<6x24x8xf32>) -> tensor<6x24x8xf32>
  %o2 = linalg.batch_matmul ins(%pc, %vc : tensor<6x24x24xf32>, tensor<6x24x8xf32>) outs(%o1 : tensor<6x24x8xf32>) -> tensor<6x24x8xf32>
  %o3 = tensor.expand_shape %o2 [[0, 1], [2], [3]] output_shape [2, 3, 24, 8] : tensor<6x24x8xf32> into tensor<2x3x24x8xf32>
  %o4 = tensor.empty() : tensor<2x24x3x8xf32>
  %o5 = linalg.transpose ins(%o3 : tensor<2x3x24x8xf32>) outs(%o4 : tensor<2x24x3x8xf32>) permutation = [0, 2, 1, 3]
  %o6 = tensor.collapse_shape %o5 [[0], [1], [2, 3]] : tensor<2x24x3x8xf32> into tensor<2x24x24xf32>
  return %o6 : tensor<2x24x24xf32>
}

// -----

// GPT-2 in f16: the causal mask is a comparison of positions, `where` with the
// lowest f16 number, a softmax in f32.

#all = affine_map<(b, h, i, j) -> (b, h, i, j)>
#row = affine_map<(b, h, i, j) -> (b, h, i, 0)>
#pair = affine_map<(b, h, i, j) -> (0, 0, i, j)>
#ij = affine_map<(i, j) -> (i, j)>
#i1 = affine_map<(i, j) -> (i, 0)>
#j1 = affine_map<(i, j) -> (j)>
#j = affine_map<(j) -> (j)>

// CHECK-LABEL: func.func @gpt2(
// CHECK:         attn.attention ins({{.*}} : tensor<2x2x20x16xf16>, tensor<2x2x20x16xf16>, tensor<2x2x20x16xf16>)
// CHECK-SAME:        mask(#attn.causal) -> tensor<2x2x20x16xf16>
// CHECK-NOT:     linalg.batch_matmul
func.func @gpt2(%q: tensor<2x2x20x16xf16>, %k: tensor<2x2x20x16xf16>, %v: tensor<2x2x20x16xf16>) -> tensor<2x20x32xf16> {
  %zero = arith.constant 0.0 : f16
  %zerof = arith.constant 0.0 : f32
  %inf = arith.constant 0xFF800000 : f32
  %lowest = arith.constant -6.550400e+04 : f16
  %scale = arith.constant 4.0 : f16
  %p0 = tensor.empty() : tensor<20xi64>
  %pos = linalg.generic {indexing_maps = [#j], iterator_types = ["parallel"]} outs(%p0 : tensor<20xi64>) {
  ^bb0(%out: i64):
    %0 = linalg.index 0 : index
    %1 = arith.index_cast %0 : index to i64
    linalg.yield %1 : i64
  } -> tensor<20xi64>
  %rows = tensor.expand_shape %pos [[0, 1]] output_shape [20, 1] : tensor<20xi64> into tensor<20x1xi64>
  %c0 = tensor.empty() : tensor<20x20xi1>
  %c1 = linalg.generic {indexing_maps = [#i1, #j1, #ij], iterator_types = ["parallel", "parallel"]}
      ins(%rows, %pos : tensor<20x1xi64>, tensor<20xi64>) outs(%c0 : tensor<20x20xi1>) {
  ^bb0(%a: i64, %b: i64, %out: i1):
    %0 = arith.cmpi sge, %a, %b : i64
    linalg.yield %0 : i1
  } -> tensor<20x20xi1>
  %c2 = tensor.expand_shape %c1 [[0, 1, 2], [3]] output_shape [1, 1, 20, 20] : tensor<20x20xi1> into tensor<1x1x20x20xi1>
  %kt0 = tensor.empty() : tensor<2x2x16x20xf16>
  %kt = linalg.transpose ins(%k : tensor<2x2x20x16xf16>) outs(%kt0 : tensor<2x2x16x20xf16>) permutation = [0, 1, 3, 2]
  %qc = tensor.collapse_shape %q [[0, 1], [2], [3]] : tensor<2x2x20x16xf16> into tensor<4x20x16xf16>
  %kc = tensor.collapse_shape %kt [[0, 1], [2], [3]] : tensor<2x2x16x20xf16> into tensor<4x16x20xf16>
  %s0 = tensor.empty() : tensor<4x20x20xf16>
  %s1 = linalg.fill ins(%zero : f16) outs(%s0 : tensor<4x20x20xf16>) -> tensor<4x20x20xf16>
  %s2 = linalg.batch_matmul ins(%qc, %kc : tensor<4x20x16xf16>, tensor<4x16x20xf16>) outs(%s1 : tensor<4x20x20xf16>) -> tensor<4x20x20xf16>
  %s3 = tensor.expand_shape %s2 [[0, 1], [2], [3]] output_shape [2, 2, 20, 20] : tensor<4x20x20xf16> into tensor<2x2x20x20xf16>
  %e = tensor.empty() : tensor<2x2x20x20xf16>
  %s4 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%s3 : tensor<2x2x20x20xf16>) outs(%e : tensor<2x2x20x20xf16>) {
  ^bb0(%in: f16, %out: f16):
    %0 = arith.divf %in, %scale : f16
    linalg.yield %0 : f16
  } -> tensor<2x2x20x20xf16>
  %s5 = linalg.generic {indexing_maps = [#pair, #all, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%c2, %s4 : tensor<1x1x20x20xi1>, tensor<2x2x20x20xf16>) outs(%e : tensor<2x2x20x20xf16>) {
  ^bb0(%c: i1, %in: f16, %out: f16):
    %0 = arith.select %c, %in, %lowest : f16
    linalg.yield %0 : f16
  } -> tensor<2x2x20x20xf16>
  %ef = tensor.empty() : tensor<2x2x20x20xf32>
  %s6 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%s5 : tensor<2x2x20x20xf16>) outs(%ef : tensor<2x2x20x20xf32>) {
  ^bb0(%in: f16, %out: f32):
    %0 = arith.extf %in : f16 to f32
    linalg.yield %0 : f32
  } -> tensor<2x2x20x20xf32>
  %r0 = tensor.empty() : tensor<2x2x20x1xf32>
  %r1 = linalg.fill ins(%inf : f32) outs(%r0 : tensor<2x2x20x1xf32>) -> tensor<2x2x20x1xf32>
  %m = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%s6 : tensor<2x2x20x20xf32>) outs(%r1 : tensor<2x2x20x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.maximumf %in, %out : f32
    linalg.yield %0 : f32
  } -> tensor<2x2x20x1xf32>
  // The difference and the exponential are fused.
  %x = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%s6, %m : tensor<2x2x20x20xf32>, tensor<2x2x20x1xf32>) outs(%ef : tensor<2x2x20x20xf32>) {
  ^bb0(%in: f32, %max: f32, %out: f32):
    %0 = arith.subf %in, %max : f32
    %1 = math.exp %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x2x20x20xf32>
  %l1 = linalg.fill ins(%zerof : f32) outs(%r0 : tensor<2x2x20x1xf32>) -> tensor<2x2x20x1xf32>
  %l = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x : tensor<2x2x20x20xf32>) outs(%l1 : tensor<2x2x20x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.addf %in, %out : f32
    linalg.yield %0 : f32
  } -> tensor<2x2x20x1xf32>
  // The division and the conversion are fused.
  %p = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x, %l : tensor<2x2x20x20xf32>, tensor<2x2x20x1xf32>) outs(%e : tensor<2x2x20x20xf16>) {
  ^bb0(%in: f32, %sum: f32, %out: f16):
    %0 = arith.divf %in, %sum : f32
    %1 = arith.truncf %0 : f32 to f16
    linalg.yield %1 : f16
  } -> tensor<2x2x20x20xf16>
  %pc = tensor.collapse_shape %p [[0, 1], [2], [3]] : tensor<2x2x20x20xf16> into tensor<4x20x20xf16>
  %vc = tensor.collapse_shape %v [[0, 1], [2], [3]] : tensor<2x2x20x16xf16> into tensor<4x20x16xf16>
  %o0 = tensor.empty() : tensor<4x20x16xf16>
  %o1 = linalg.fill ins(%zero : f16) outs(%o0 : tensor<4x20x16xf16>) -> tensor<4x20x16xf16>
  %o2 = linalg.batch_matmul ins(%pc, %vc : tensor<4x20x20xf16>, tensor<4x20x16xf16>) outs(%o1 : tensor<4x20x16xf16>) -> tensor<4x20x16xf16>
  %o3 = tensor.expand_shape %o2 [[0, 1], [2], [3]] output_shape [2, 2, 20, 16] : tensor<4x20x16xf16> into tensor<2x2x20x16xf16>
  %o4 = tensor.empty() : tensor<2x20x2x16xf16>
  %o5 = linalg.transpose ins(%o3 : tensor<2x2x20x16xf16>) outs(%o4 : tensor<2x20x2x16xf16>) permutation = [0, 2, 1, 3]
  %o6 = tensor.collapse_shape %o5 [[0], [1], [2, 3]] : tensor<2x20x2x16xf16> into tensor<2x20x32xf16>
  return %o6 : tensor<2x20x32xf16>
}

// -----

// Llama: keys and values of two heads repeated for six query heads, a mask
// tensor of the lowest numbers added, softmax in f32, any batch and length.

#all5 = affine_map<(b, h, g, s, d) -> (b, h, g, s, d)>
#rep = affine_map<(b, h, g, s, d) -> (b, h, 0, s, d)>
#all = affine_map<(b, h, i, j) -> (b, h, i, j)>
#mask = affine_map<(b, h, i, j) -> (b, 0, i, j)>

// CHECK-LABEL: func.func @llama(
// CHECK-SAME:    %[[Q:.*]]: tensor<?x6x?x8xf32>, %[[K:.*]]: tensor<?x2x?x8xf32>, %[[V:.*]]: tensor<?x2x?x8xf32>, %[[MASK:.*]]: tensor<?x1x?x?xf32>
// CHECK:         attn.attention ins(%[[Q]], %[[K]], %[[V]] : tensor<?x6x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>)
// CHECK-NOT:     scale
// CHECK:         ^bb0(%[[S:.*]]: f32, %[[B:.*]]: index, %{{.*}}: index, %[[I:.*]]: index, %[[J:.*]]: index):
// CHECK:           %[[M:.*]] = tensor.extract %[[MASK]][%[[B]], %{{.*}}, %[[I]], %[[J]]]
// CHECK:           %[[R:.*]] = arith.addf %[[S]], %[[M]]
// CHECK:           attn.yield %[[R]]
func.func @llama(%q: tensor<?x6x?x8xf32>, %k: tensor<?x2x?x8xf32>, %v: tensor<?x2x?x8xf32>, %mask: tensor<?x1x?x?xf32>)
    -> tensor<?x6x?x8xf32> {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %zero = arith.constant 0.0 : f32
  %scale = arith.constant 0.35355339059327379 : f64
  %b = tensor.dim %q, %c0 : tensor<?x6x?x8xf32>
  %n = tensor.dim %q, %c2 : tensor<?x6x?x8xf32>
  %m = tensor.dim %k, %c2 : tensor<?x2x?x8xf32>
  %r0 = tensor.empty(%b, %m) : tensor<?x2x3x?x8xf32>
  %k1 = tensor.expand_shape %k [[0], [1, 2], [3], [4]] output_shape [%b, 2, 1, %m, 8] : tensor<?x2x?x8xf32> into tensor<?x2x1x?x8xf32>
  %k2 = linalg.generic {indexing_maps = [#rep, #all5], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}
      ins(%k1 : tensor<?x2x1x?x8xf32>) outs(%r0 : tensor<?x2x3x?x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<?x2x3x?x8xf32>
  %k3 = tensor.collapse_shape %k2 [[0], [1, 2], [3], [4]] : tensor<?x2x3x?x8xf32> into tensor<?x6x?x8xf32>
  %v1 = tensor.expand_shape %v [[0], [1, 2], [3], [4]] output_shape [%b, 2, 1, %m, 8] : tensor<?x2x?x8xf32> into tensor<?x2x1x?x8xf32>
  %v2 = linalg.generic {indexing_maps = [#rep, #all5], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}
      ins(%v1 : tensor<?x2x1x?x8xf32>) outs(%r0 : tensor<?x2x3x?x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<?x2x3x?x8xf32>
  %v3 = tensor.collapse_shape %v2 [[0], [1, 2], [3], [4]] : tensor<?x2x3x?x8xf32> into tensor<?x6x?x8xf32>
  %kt0 = tensor.empty(%b, %m) : tensor<?x6x8x?xf32>
  %kt = linalg.transpose ins(%k3 : tensor<?x6x?x8xf32>) outs(%kt0 : tensor<?x6x8x?xf32>) permutation = [0, 1, 3, 2]
  %qc = tensor.collapse_shape %q [[0, 1], [2], [3]] : tensor<?x6x?x8xf32> into tensor<?x?x8xf32>
  %kc = tensor.collapse_shape %kt [[0, 1], [2], [3]] : tensor<?x6x8x?xf32> into tensor<?x8x?xf32>
  %c6 = arith.constant 6 : index
  %bh = arith.muli %b, %c6 : index
  %s0 = tensor.empty(%bh, %n, %m) : tensor<?x?x?xf32>
  %s1 = linalg.fill ins(%zero : f32) outs(%s0 : tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
  %s2 = linalg.batch_matmul ins(%qc, %kc : tensor<?x?x8xf32>, tensor<?x8x?xf32>) outs(%s1 : tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
  %s3 = tensor.expand_shape %s2 [[0, 1], [2], [3]] output_shape [%b, 6, %n, %m] : tensor<?x?x?xf32> into tensor<?x6x?x?xf32>
  %e = tensor.empty(%b, %n, %m) : tensor<?x6x?x?xf32>
  %s4 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%s3 : tensor<?x6x?x?xf32>) outs(%e : tensor<?x6x?x?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.truncf %scale : f64 to f32
    %1 = arith.mulf %in, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<?x6x?x?xf32>
  %s5 = linalg.generic {indexing_maps = [#all, #mask, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%s4, %mask : tensor<?x6x?x?xf32>, tensor<?x1x?x?xf32>) outs(%e : tensor<?x6x?x?xf32>) {
  ^bb0(%in: f32, %x: f32, %out: f32):
    %0 = arith.addf %in, %x : f32
    linalg.yield %0 : f32
  } -> tensor<?x6x?x?xf32>
  %p = linalg.softmax dimension(3) ins(%s5 : tensor<?x6x?x?xf32>) outs(%e : tensor<?x6x?x?xf32>) -> tensor<?x6x?x?xf32>
  %pc = tensor.collapse_shape %p [[0, 1], [2], [3]] : tensor<?x6x?x?xf32> into tensor<?x?x?xf32>
  %vc = tensor.collapse_shape %v3 [[0, 1], [2], [3]] : tensor<?x6x?x8xf32> into tensor<?x?x8xf32>
  %o0 = tensor.empty(%bh, %n) : tensor<?x?x8xf32>
  %o1 = linalg.fill ins(%zero : f32) outs(%o0 : tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  %o2 = linalg.batch_matmul ins(%pc, %vc : tensor<?x?x?xf32>, tensor<?x?x8xf32>) outs(%o1 : tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  %o3 = tensor.expand_shape %o2 [[0, 1], [2], [3]] output_shape [%b, 6, %n, 8] : tensor<?x?x8xf32> into tensor<?x6x?x8xf32>
  return %o3 : tensor<?x6x?x8xf32>
}
