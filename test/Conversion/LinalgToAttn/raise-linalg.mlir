// RUN: attn-opt %s --attn-raise-linalg --canonicalize --split-input-file | FileCheck %s --check-prefixes=CHECK,FINITE
// RUN: attn-opt %s --attn-raise-linalg=assume-kept-rows --canonicalize --split-input-file | FileCheck %s --check-prefixes=CHECK,KEPT

// CHECK-LABEL: func.func @named(
// CHECK-SAME:    %[[Q:.*]]: tensor<8x512x64xf32>, %[[KT:.*]]: tensor<8x64x256xf32>, %[[V:.*]]: tensor<8x256x32xf32>
// CHECK-DAG:     %[[Q1:.*]] = tensor.expand_shape %[[Q]] {{\[}}[0, 1], [2], [3]]
// CHECK-DAG:     %[[K:.*]] = linalg.transpose ins(%[[KT]] {{.*}} permutation = [0, 2, 1]
// CHECK-DAG:     %[[K1:.*]] = tensor.expand_shape %[[K]] {{\[}}[0, 1], [2], [3]]
// CHECK-DAG:     %[[V1:.*]] = tensor.expand_shape %[[V]] {{\[}}[0, 1], [2], [3]]
// CHECK:         %[[A:.*]] = attn.attention ins(%[[Q1]], %[[K1]], %[[V1]] :
// CHECK-SAME:        scale(1.000000e+00) -> tensor<1x8x512x32xf32>
// CHECK:         %[[O:.*]] = tensor.collapse_shape %[[A]] {{\[}}[0, 1], [2], [3]]
// CHECK:         return %[[O]]
func.func @named(%q: tensor<8x512x64xf32>, %kt: tensor<8x64x256xf32>,
                 %v: tensor<8x256x32xf32>) -> tensor<8x512x32xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<8x512x256xf32>
  %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<8x512x256xf32>) -> tensor<8x512x256xf32>
  %s = linalg.batch_matmul ins(%q, %kt : tensor<8x512x64xf32>, tensor<8x64x256xf32>)
      outs(%1 : tensor<8x512x256xf32>) -> tensor<8x512x256xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<8x512x256xf32>)
      outs(%0 : tensor<8x512x256xf32>) -> tensor<8x512x256xf32>
  %2 = tensor.empty() : tensor<8x512x32xf32>
  %3 = linalg.fill ins(%zero : f32) outs(%2 : tensor<8x512x32xf32>) -> tensor<8x512x32xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<8x512x256xf32>, tensor<8x256x32xf32>)
      outs(%3 : tensor<8x512x32xf32>) -> tensor<8x512x32xf32>
  return %o : tensor<8x512x32xf32>
}

// -----

// The scale is of scores: a factor of the values stays with them.

// CHECK-LABEL: func.func @scaled_values(
// CHECK:         %[[V:.*]] = arith.mulf %{{.*}}, %{{.*}} : tensor<8x256x32xf32>
// CHECK:         %[[V1:.*]] = tensor.expand_shape %[[V]]
// CHECK:         attn.attention ins(%{{.*}}, %{{.*}}, %[[V1]] :
// CHECK-SAME:        scale(1.000000e+00)
func.func @scaled_values(%q: tensor<8x512x64xf32>, %kt: tensor<8x64x256xf32>,
                         %v: tensor<8x256x32xf32>) -> tensor<8x512x32xf32> {
  %zero = arith.constant 0.0 : f32
  %two = arith.constant dense<2.0> : tensor<8x256x32xf32>
  %v2 = arith.mulf %v, %two : tensor<8x256x32xf32>
  %0 = tensor.empty() : tensor<8x512x256xf32>
  %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<8x512x256xf32>) -> tensor<8x512x256xf32>
  %s = linalg.batch_matmul ins(%q, %kt : tensor<8x512x64xf32>, tensor<8x64x256xf32>)
      outs(%1 : tensor<8x512x256xf32>) -> tensor<8x512x256xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<8x512x256xf32>)
      outs(%0 : tensor<8x512x256xf32>) -> tensor<8x512x256xf32>
  %2 = tensor.empty() : tensor<8x512x32xf32>
  %3 = linalg.fill ins(%zero : f32) outs(%2 : tensor<8x512x32xf32>) -> tensor<8x512x32xf32>
  %o = linalg.batch_matmul ins(%p, %v2 : tensor<8x512x256xf32>, tensor<8x256x32xf32>)
      outs(%3 : tensor<8x512x32xf32>) -> tensor<8x512x32xf32>
  return %o : tensor<8x512x32xf32>
}

// -----

// A matmul without a batch is one of one head.

// CHECK-LABEL: func.func @matmul(
// CHECK-SAME:    %[[Q:.*]]: tensor<?x16xf16>, %[[K:.*]]: tensor<16x?xf16>, %[[V:.*]]: tensor<?x16xf16>
// CHECK-DAG:     tensor.expand_shape %[[Q]] {{\[}}[0, 1, 2], [3]] {{.*}} into tensor<1x1x?x16xf16>
// CHECK:         attn.attention ins({{.*}} : tensor<1x1x?x16xf16>, tensor<1x1x?x16xf16>, tensor<1x1x?x16xf16>)
// CHECK:         tensor.collapse_shape {{.*}} {{\[}}[0, 1, 2], [3]]
func.func @matmul(%q: tensor<?x16xf16>, %kt: tensor<16x?xf16>, %v: tensor<?x16xf16>) -> tensor<?x16xf16> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f16
  %n = tensor.dim %q, %c0 : tensor<?x16xf16>
  %m = tensor.dim %v, %c0 : tensor<?x16xf16>
  %0 = tensor.empty(%n, %m) : tensor<?x?xf16>
  %1 = linalg.fill ins(%zero : f16) outs(%0 : tensor<?x?xf16>) -> tensor<?x?xf16>
  %s = linalg.matmul ins(%q, %kt : tensor<?x16xf16>, tensor<16x?xf16>) outs(%1 : tensor<?x?xf16>) -> tensor<?x?xf16>
  %p = linalg.softmax dimension(1) ins(%s : tensor<?x?xf16>) outs(%0 : tensor<?x?xf16>) -> tensor<?x?xf16>
  %2 = tensor.empty(%n) : tensor<?x16xf16>
  %3 = linalg.fill ins(%zero : f16) outs(%2 : tensor<?x16xf16>) -> tensor<?x16xf16>
  %o = linalg.matmul ins(%p, %v : tensor<?x?xf16>, tensor<?x16xf16>) outs(%3 : tensor<?x16xf16>) -> tensor<?x16xf16>
  return %o : tensor<?x16xf16>
}

// -----

// One query for each batch entry and head, as in decoding.

#q = affine_map<(b, h, j, d) -> (b, h, d)>
#k = affine_map<(b, h, j, d) -> (b, h, j, d)>
#s = affine_map<(b, h, j, d) -> (b, h, j)>
#p = affine_map<(b, h, d, j) -> (b, h, j)>
#v = affine_map<(b, h, d, j) -> (b, h, j, d)>
#o = affine_map<(b, h, d, j) -> (b, h, d)>

// CHECK-LABEL: func.func @decode(
// CHECK:         attn.attention ins({{.*}} : tensor<?x4x1x16xf32>, tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>)
func.func @decode(%q: tensor<?x4x16xf32>, %k: tensor<?x4x?x16xf32>, %v: tensor<?x4x?x16xf32>) -> tensor<?x4x16xf32> {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %zero = arith.constant 0.0 : f32
  %b = tensor.dim %q, %c0 : tensor<?x4x16xf32>
  %m = tensor.dim %k, %c2 : tensor<?x4x?x16xf32>
  %0 = tensor.empty(%b, %m) : tensor<?x4x?xf32>
  %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<?x4x?xf32>) -> tensor<?x4x?xf32>
  %s = linalg.contract indexing_maps = [#q, #k, #s] ins(%q, %k : tensor<?x4x16xf32>, tensor<?x4x?x16xf32>) outs(%1 : tensor<?x4x?xf32>) -> tensor<?x4x?xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<?x4x?xf32>) outs(%0 : tensor<?x4x?xf32>) -> tensor<?x4x?xf32>
  %2 = tensor.empty(%b) : tensor<?x4x16xf32>
  %3 = linalg.fill ins(%zero : f32) outs(%2 : tensor<?x4x16xf32>) -> tensor<?x4x16xf32>
  %o = linalg.contract indexing_maps = [#p, #v, #o] ins(%p, %v : tensor<?x4x?xf32>, tensor<?x4x?x16xf32>) outs(%3 : tensor<?x4x16xf32>) -> tensor<?x4x16xf32>
  return %o : tensor<?x4x16xf32>
}

// -----

// Query heads that share all keys and values are as good as queries of one head.

#q = affine_map<(b, h, j, d) -> (b, h, d)>
#k = affine_map<(b, h, j, d) -> (b, j, d)>
#s = affine_map<(b, h, j, d) -> (b, h, j)>
#p = affine_map<(b, h, d, j) -> (b, h, j)>
#v = affine_map<(b, h, d, j) -> (b, j, d)>
#o = affine_map<(b, h, d, j) -> (b, h, d)>

// CHECK-LABEL: func.func @multi_query(
// CHECK:         attn.attention ins({{.*}} : tensor<?x1x4x16xf32>, tensor<?x1x?x16xf32>, tensor<?x1x?x16xf32>)
func.func @multi_query(%q: tensor<?x4x16xf32>, %k: tensor<?x?x16xf32>, %v: tensor<?x?x16xf32>) -> tensor<?x4x16xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %b = tensor.dim %q, %c0 : tensor<?x4x16xf32>
  %m = tensor.dim %k, %c1 : tensor<?x?x16xf32>
  %0 = tensor.empty(%b, %m) : tensor<?x4x?xf32>
  %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<?x4x?xf32>) -> tensor<?x4x?xf32>
  %s = linalg.contract indexing_maps = [#q, #k, #s] ins(%q, %k : tensor<?x4x16xf32>, tensor<?x?x16xf32>) outs(%1 : tensor<?x4x?xf32>) -> tensor<?x4x?xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<?x4x?xf32>) outs(%0 : tensor<?x4x?xf32>) -> tensor<?x4x?xf32>
  %2 = tensor.empty(%b) : tensor<?x4x16xf32>
  %3 = linalg.fill ins(%zero : f32) outs(%2 : tensor<?x4x16xf32>) -> tensor<?x4x16xf32>
  %o = linalg.contract indexing_maps = [#p, #v, #o] ins(%p, %v : tensor<?x4x?xf32>, tensor<?x?x16xf32>) outs(%3 : tensor<?x4x16xf32>) -> tensor<?x4x16xf32>
  return %o : tensor<?x4x16xf32>
}

// -----

// A mask tensor, by -inf: a region that keeps pairs.

#all = affine_map<(b, i, j) -> (b, i, j)>

// CHECK-LABEL: func.func @infinite_mask(
// CHECK-SAME:    %[[MASK:[^:]*]]: tensor<2x8x8xi1>
// CHECK:         attn.attention
// CHECK-NOT:     score_mod
// CHECK:         mask_mod {
// CHECK:         ^bb0(%{{.*}}: index, %[[H:.*]]: index, %[[I:.*]]: index, %[[J:.*]]: index):
// CHECK:           %[[X:.*]] = tensor.extract %[[MASK]][%[[H]], %[[I]], %[[J]]]
// CHECK:           attn.yield %[[X]]
func.func @infinite_mask(%q: tensor<2x8x16xf32>, %k: tensor<2x16x8xf32>, %v: tensor<2x8x16xf32>, %mask: tensor<2x8x8xi1>) -> tensor<2x8x16xf32> {
  %zero = arith.constant 0.0 : f32
  %inf = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<2x8x8xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x8x16xf32>, tensor<2x16x8xf32>) outs(%s0 : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %x = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%mask, %s : tensor<2x8x8xi1>, tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) {
  ^bb0(%c: i1, %a: f32, %out: f32):
    %0 = arith.select %c, %a, %inf : f32
    linalg.yield %0 : f32
  } -> tensor<2x8x8xf32>
  %p = linalg.softmax dimension(2) ins(%x : tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %o0 = tensor.empty() : tensor<2x8x16xf32>
  %o1 = linalg.fill ins(%zero : f32) outs(%o0 : tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<2x8x8xf32>, tensor<2x8x16xf32>) outs(%o1 : tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  return %o : tensor<2x8x16xf32>
}

// -----

// A mask of the keys, by a finite number: a row that keeps none is the mean of
// all values, so that it stays a change of the score unless there is no such
// row.

#all = affine_map<(b, i, j) -> (b, i, j)>
#keys = affine_map<(b, i, j) -> (j)>

// CHECK-LABEL: func.func @finite_mask(
// FINITE-NOT:    mask_mod
// FINITE:        score_mod {
// FINITE:          arith.select
// FINITE-NOT:    mask_mod
// KEPT-NOT:      score_mod
// KEPT:          mask_mod {
// KEPT:            tensor.extract
// KEPT-NOT:      score_mod
// CHECK:         return
func.func @finite_mask(%q: tensor<2x8x16xf32>, %k: tensor<2x16x8xf32>, %v: tensor<2x8x16xf32>, %mask: tensor<8xi1>) -> tensor<2x8x16xf32> {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant -1.0e9 : f32
  %e = tensor.empty() : tensor<2x8x8xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x8x16xf32>, tensor<2x16x8xf32>) outs(%s0 : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %x = linalg.generic {indexing_maps = [#keys, #all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%mask, %s : tensor<8xi1>, tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) {
  ^bb0(%c: i1, %a: f32, %out: f32):
    %b = arith.select %c, %zero, %lowest : f32
    %0 = arith.addf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<2x8x8xf32>
  %p = linalg.softmax dimension(2) ins(%x : tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %o0 = tensor.empty() : tensor<2x8x16xf32>
  %o1 = linalg.fill ins(%zero : f32) outs(%o0 : tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<2x8x8xf32>, tensor<2x8x16xf32>) outs(%o1 : tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  return %o : tensor<2x8x16xf32>
}

// -----

// A soft cap, slopes of the heads by the distance, operations of arith on
// tensors.

#all = affine_map<(b, i, j) -> (b, i, j)>
#head = affine_map<(b, i, j) -> (b)>

// CHECK-LABEL: func.func @soft_cap_alibi(
// CHECK-SAME:    %[[SLOPES:[^:]*]]: tensor<2xf32>)
// CHECK:         attn.attention {{.*}} scale(0.00833333{{[0-9]*}}) score_mod {
// CHECK:         ^bb0(%[[S:.*]]: f32, %{{.*}}: index, %[[H:.*]]: index, %[[I:.*]]: index, %[[J:.*]]: index):
// CHECK-DAG:       %[[T:.*]] = math.tanh
// CHECK-DAG:       %[[C:.*]] = arith.mulf %[[T]], %{{.*}}
// CHECK-DAG:       %[[SLOPE:.*]] = tensor.extract %[[SLOPES]][%[[H]]]
// CHECK-DAG:       arith.subi
// CHECK-DAG:       arith.sitofp
// CHECK:           attn.yield
// CHECK-NOT:     linalg.generic
func.func @soft_cap_alibi(%q: tensor<2x8x16xf32>, %k: tensor<2x16x8xf32>, %v: tensor<2x8x16xf32>, %slopes: tensor<2xf32>) -> tensor<2x8x16xf32> {
  %zero = arith.constant 0.0 : f32
  %scale = arith.constant dense<0.25> : tensor<2x8x8xf32>
  %cap = arith.constant dense<30.0> : tensor<2x8x8xf32>
  %e = tensor.empty() : tensor<2x8x8xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x8x16xf32>, tensor<2x16x8xf32>) outs(%s0 : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %s1 = arith.mulf %s, %scale : tensor<2x8x8xf32>
  %s2 = arith.divf %s1, %cap : tensor<2x8x8xf32>
  %s3 = math.tanh %s2 : tensor<2x8x8xf32>
  %s4 = arith.mulf %s3, %cap : tensor<2x8x8xf32>
  %x = linalg.generic {indexing_maps = [#head, #all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%slopes, %s4 : tensor<2xf32>, tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) {
  ^bb0(%slope: f32, %a: f32, %out: f32):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %d = arith.subi %j, %i : index
    %d32 = arith.index_cast %d : index to i32
    %df = arith.sitofp %d32 : i32 to f32
    %m = arith.mulf %slope, %df : f32
    %0 = arith.addf %a, %m : f32
    linalg.yield %0 : f32
  } -> tensor<2x8x8xf32>
  %p = linalg.softmax dimension(2) ins(%x : tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %o0 = tensor.empty() : tensor<2x8x16xf32>
  %o1 = linalg.fill ins(%zero : f32) outs(%o0 : tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<2x8x8xf32>, tensor<2x8x16xf32>) outs(%o1 : tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  return %o : tensor<2x8x16xf32>
}

// -----

// Values that take long to compute, and do not depend on the matmul, are read.

#all = affine_map<(b, i, j) -> (b, i, j)>

// CHECK-LABEL: func.func @computed_bias(
// CHECK:         %[[LOG:.*]] = linalg.log
// CHECK:         attn.attention
// CHECK:           tensor.extract %[[LOG]]
// CHECK-NOT:       math.log
func.func @computed_bias(%q: tensor<2x8x16xf32>, %k: tensor<2x16x8xf32>, %v: tensor<2x8x16xf32>, %b: tensor<2x8x8xf32>) -> tensor<2x8x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x8xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x8x16xf32>, tensor<2x16x8xf32>) outs(%s0 : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %l = linalg.log ins(%b : tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %x = linalg.add ins(%s, %l : tensor<2x8x8xf32>, tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %p = linalg.softmax dimension(2) ins(%x : tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %o0 = tensor.empty() : tensor<2x8x16xf32>
  %o1 = linalg.fill ins(%zero : f32) outs(%o0 : tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<2x8x8xf32>, tensor<2x8x16xf32>) outs(%o1 : tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  return %o : tensor<2x8x16xf32>
}
