// RUN: attn-opt %s --attn-raise-linalg --canonicalize --split-input-file | FileCheck %s

// Scores without a softmax. test/Integration/host/raise_linear_attention.py runs
// these functions.

// The causal mask by comparison, and a scale of the scores.

#qk_q = affine_map<(b, h, i, j, d) -> (b, h, i, d)>
#qk_k = affine_map<(b, h, i, j, d) -> (b, h, j, d)>
#qk_s = affine_map<(b, h, i, j, d) -> (b, h, i, j)>
#all = affine_map<(b, h, i, j) -> (b, h, i, j)>
#row = affine_map<(b, h, i, j) -> (b, h, i)>
#column = affine_map<(b, h, i, j) -> (b, h, j)>
#head = affine_map<(b, h, i, j) -> (h)>
#wv_w = affine_map<(b, h, i, d, j) -> (b, h, i, j)>
#wv_v = affine_map<(b, h, i, d, j) -> (b, h, j, d)>
#wv_o = affine_map<(b, h, i, d, j) -> (b, h, i, d)>

// CHECK-LABEL: func.func @causal(
// CHECK-SAME:    %[[Q:.*]]: tensor<2x4x64x16xf32>, %[[K:.*]]: tensor<2x4x64x16xf32>, %[[V:.*]]: tensor<2x4x64x32xf32>
// CHECK-NOT:     linalg
// CHECK:         %[[O:.*]] = attn.linear_attention ins(%[[Q]], %[[K]], %[[V]] :
// CHECK-SAME:        causal scale(1.250000e-01) -> tensor<2x4x64x32xf32>
// CHECK-NEXT:    return %[[O]]
func.func @causal(%q: tensor<2x4x64x16xf32>, %k: tensor<2x4x64x16xf32>, %v: tensor<2x4x64x32xf32>)
    -> tensor<2x4x64x32xf32> {
  %zero = arith.constant 0.0 : f32
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<2x4x64x64xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x4x64x64xf32>) -> tensor<2x4x64x64xf32>
  %s = linalg.contract indexing_maps = [#qk_q, #qk_k, #qk_s]
      ins(%q, %k : tensor<2x4x64x16xf32>, tensor<2x4x64x16xf32>)
          outs(%s0 : tensor<2x4x64x64xf32>) -> tensor<2x4x64x64xf32>
  %w = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%s : tensor<2x4x64x64xf32>) outs(%e : tensor<2x4x64x64xf32>) {
  ^bb0(%a: f32, %out: f32):
    %i = linalg.index 2 : index
    %j = linalg.index 3 : index
    %c = arith.cmpi ule, %j, %i : index
    %0 = arith.mulf %a, %scale : f32
    %1 = arith.select %c, %0, %zero : f32
    linalg.yield %1 : f32
  } -> tensor<2x4x64x64xf32>
  %oe = tensor.empty() : tensor<2x4x64x32xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%oe : tensor<2x4x64x32xf32>) -> tensor<2x4x64x32xf32>
  %o = linalg.contract indexing_maps = [#wv_w, #wv_v, #wv_o]
      ins(%w, %v : tensor<2x4x64x64xf32>, tensor<2x4x64x32xf32>)
          outs(%o0 : tensor<2x4x64x32xf32>) -> tensor<2x4x64x32xf32>
  return %o : tensor<2x4x64x32xf32>
}

// -----

// Retention: a tensor of decays of heads, to the power of the distance.

#qk_q = affine_map<(b, h, i, j, d) -> (b, h, i, d)>
#qk_k = affine_map<(b, h, i, j, d) -> (b, h, j, d)>
#qk_s = affine_map<(b, h, i, j, d) -> (b, h, i, j)>
#all = affine_map<(b, h, i, j) -> (b, h, i, j)>
#row = affine_map<(b, h, i, j) -> (b, h, i)>
#column = affine_map<(b, h, i, j) -> (b, h, j)>
#head = affine_map<(b, h, i, j) -> (h)>
#wv_w = affine_map<(b, h, i, d, j) -> (b, h, i, j)>
#wv_v = affine_map<(b, h, i, d, j) -> (b, h, j, d)>
#wv_o = affine_map<(b, h, i, d, j) -> (b, h, i, d)>

// CHECK-LABEL: func.func @retention(
// CHECK-SAME:    %[[GAMMA:[^:]*]]: tensor<4xf32>
// CHECK:         %[[LOG:.*]] = linalg.generic
// CHECK:           %[[H:.*]] = linalg.index 0
// CHECK:           %[[G:.*]] = tensor.extract %[[GAMMA]][%[[H]]]
// CHECK:           math.log %[[G]]
// CHECK:         } -> tensor<4xf32>
// CHECK:         attn.linear_attention
// CHECK-SAME:        log_decay(%[[LOG]] : tensor<4xf32>) causal scale(5.000000e-01)
// CHECK-NOT:     linalg
func.func @retention(%q: tensor<2x4x48x16xf32>, %k: tensor<2x4x48x16xf32>, %v: tensor<2x4x48x16xf32>,
    %gamma: tensor<4xf32>) -> tensor<2x4x48x16xf32> {
  %zero = arith.constant 0.0 : f32
  %half = arith.constant 0.5 : f32
  %qe = tensor.empty() : tensor<2x4x48x16xf32>
  %q1 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%q : tensor<2x4x48x16xf32>) outs(%qe : tensor<2x4x48x16xf32>) {
  ^bb0(%a: f32, %out: f32):
    %0 = arith.mulf %a, %half : f32
    linalg.yield %0 : f32
  } -> tensor<2x4x48x16xf32>
  %e = tensor.empty() : tensor<2x4x48x48xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x4x48x48xf32>) -> tensor<2x4x48x48xf32>
  %s = linalg.contract indexing_maps = [#qk_q, #qk_k, #qk_s]
      ins(%q1, %k : tensor<2x4x48x16xf32>, tensor<2x4x48x16xf32>)
          outs(%s0 : tensor<2x4x48x48xf32>) -> tensor<2x4x48x48xf32>
  %me = tensor.empty() : tensor<4x48x48xf32>
  %m = linalg.generic {indexing_maps = [affine_map<(h, i, j) -> (h)>, affine_map<(h, i, j)
      -> (h, i, j)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%gamma : tensor<4xf32>) outs(%me : tensor<4x48x48xf32>) {
  ^bb0(%g: f32, %out: f32):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %i1 = arith.index_cast %i : index to i64
    %j1 = arith.index_cast %j : index to i64
    %d = arith.subi %i1, %j1 : i64
    %x = arith.sitofp %d : i64 to f32
    %p = math.powf %g, %x : f32
    %c = arith.cmpi sge, %i1, %j1 : i64
    %0 = arith.select %c, %p, %zero : f32
    linalg.yield %0 : f32
  } -> tensor<4x48x48xf32>
  %w = linalg.generic {indexing_maps = [#all, affine_map<(b, h, i, j)
      -> (h, i, j)>, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%s, %m : tensor<2x4x48x48xf32>, tensor<4x48x48xf32>) outs(%e : tensor<2x4x48x48xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %0 = arith.mulf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<2x4x48x48xf32>
  %oe = tensor.empty() : tensor<2x4x48x16xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%oe : tensor<2x4x48x16xf32>) -> tensor<2x4x48x16xf32>
  %o = linalg.contract indexing_maps = [#wv_w, #wv_v, #wv_o]
      ins(%w, %v : tensor<2x4x48x48xf32>, tensor<2x4x48x16xf32>)
          outs(%o0 : tensor<2x4x48x16xf32>) -> tensor<2x4x48x16xf32>
  return %o : tensor<2x4x48x16xf32>
}

// -----

// A constant decay as an exponential, masked by -inf in the exponent; keys and values of groups of four
// heads, repeated.

// CHECK-LABEL: func.func @grouped(
// CHECK-DAG:     %[[RATE:.*]] = arith.constant -1.250000e-01 : f32
// CHECK:         %[[LOG:.*]] = linalg.fill ins(%[[RATE]] : f32) outs({{.*}} : tensor<8xf32>)
// CHECK:         attn.linear_attention ins({{.*}} : tensor<2x8x40x16xf16>, tensor<2x2x40x16xf16>, tensor<2x2x40x16xf16>)
// CHECK-SAME:        log_decay(%[[LOG]] : tensor<8xf32>) causal
// CHECK-NOT:     linalg.generic
func.func @grouped(%q: tensor<2x8x40x16xf16>, %k: tensor<2x2x40x16xf16>, %v: tensor<2x2x40x16xf16>)
    -> tensor<2x8x40x16xf16> {
  %zero = arith.constant 0.0 : f16
  %rate = arith.constant -0.125 : f32
  %inf = arith.constant 0xFF800000 : f32
  %re = tensor.empty() : tensor<2x2x4x40x16xf16>
  %kr = linalg.broadcast ins(%k : tensor<2x2x40x16xf16>) outs(%re : tensor<2x2x4x40x16xf16>) dimensions = [2]
  %vr = linalg.broadcast ins(%v : tensor<2x2x40x16xf16>) outs(%re : tensor<2x2x4x40x16xf16>) dimensions = [2]
  %k4 = tensor.collapse_shape %kr [[0], [1, 2], [3], [4]] : tensor<2x2x4x40x16xf16> into tensor<2x8x40x16xf16>
  %v4 = tensor.collapse_shape %vr [[0], [1, 2], [3], [4]] : tensor<2x2x4x40x16xf16> into tensor<2x8x40x16xf16>
  %k1 = tensor.collapse_shape %k4 [[0, 1], [2], [3]] : tensor<2x8x40x16xf16> into tensor<16x40x16xf16>
  %v1 = tensor.collapse_shape %v4 [[0, 1], [2], [3]] : tensor<2x8x40x16xf16> into tensor<16x40x16xf16>
  %q1 = tensor.collapse_shape %q [[0, 1], [2], [3]] : tensor<2x8x40x16xf16> into tensor<16x40x16xf16>
  %te = tensor.empty() : tensor<16x16x40xf16>
  %kt = linalg.transpose ins(%k1 : tensor<16x40x16xf16>) outs(%te : tensor<16x16x40xf16>) permutation = [0, 2, 1]
  %e = tensor.empty() : tensor<16x40x40xf16>
  %s0 = linalg.fill ins(%zero : f16) outs(%e : tensor<16x40x40xf16>) -> tensor<16x40x40xf16>
  %s = linalg.batch_matmul ins(%q1, %kt : tensor<16x40x16xf16>, tensor<16x16x40xf16>)
      outs(%s0 : tensor<16x40x40xf16>) -> tensor<16x40x40xf16>
  %w = linalg.generic {indexing_maps = [affine_map<(b, i, j) -> (b, i, j)>, affine_map<(b, i, j)
      -> (b, i, j)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%s : tensor<16x40x40xf16>) outs(%e : tensor<16x40x40xf16>) {
  ^bb0(%a: f16, %out: f16):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %i1 = arith.index_cast %i : index to i64
    %j1 = arith.index_cast %j : index to i64
    %i2 = arith.sitofp %i1 : i64 to f32
    %j2 = arith.sitofp %j1 : i64 to f32
    %d = arith.subf %i2, %j2 : f32
    %x = arith.mulf %d, %rate : f32
    %c = arith.cmpi sgt, %j1, %i1 : i64
    %y = arith.select %c, %inf, %x : f32
    %p = math.exp %y : f32
    %p1 = arith.truncf %p : f32 to f16
    %0 = arith.mulf %a, %p1 : f16
    linalg.yield %0 : f16
  } -> tensor<16x40x40xf16>
  %oe = tensor.empty() : tensor<16x40x16xf16>
  %o0 = linalg.fill ins(%zero : f16) outs(%oe : tensor<16x40x16xf16>) -> tensor<16x40x16xf16>
  %o = linalg.batch_matmul ins(%w, %v1 : tensor<16x40x40xf16>, tensor<16x40x16xf16>)
      outs(%o0 : tensor<16x40x16xf16>) -> tensor<16x40x16xf16>
  %o1 = tensor.expand_shape %o [[0, 1], [2], [3]] output_shape [2, 8, 40, 16]
      : tensor<16x40x16xf16> into tensor<2x8x40x16xf16>
  return %o1 : tensor<2x8x40x16xf16>
}

// -----

// Cumulative log-decays of tokens, dynamic sizes, positions before heads.

#qk_q = affine_map<(b, h, i, j, d) -> (b, i, h, d)>
#qk_k = affine_map<(b, h, i, j, d) -> (b, j, h, d)>
#qk_s = affine_map<(b, h, i, j, d) -> (b, h, i, j)>
#all = affine_map<(b, h, i, j) -> (b, h, i, j)>
#row = affine_map<(b, h, i, j) -> (b, i, h)>
#column = affine_map<(b, h, i, j) -> (b, j, h)>
#wv_w = affine_map<(b, i, h, d, j) -> (b, h, i, j)>
#wv_v = affine_map<(b, i, h, d, j) -> (b, j, h, d)>
#wv_o = affine_map<(b, i, h, d, j) -> (b, i, h, d)>

// CHECK-LABEL: func.func @token_decay(
// CHECK-SAME:    %[[C:[^:]*]]: tensor<?x?x4xf32>
// CHECK:         %[[LOG:.*]] = linalg.generic
// CHECK-SAME:        iterator_types = ["parallel", "parallel", "parallel"]
// CHECK-DAG:       %[[B:.*]] = linalg.index 0
// CHECK-DAG:       %[[H:.*]] = linalg.index 1
// CHECK-DAG:       %[[T:.*]] = linalg.index 2
// CHECK:           tensor.extract %[[C]][%[[B]], %[[T]], %[[H]]]
// CHECK:           tensor.extract %[[C]][%[[B]], %{{.*}}, %[[H]]]
// CHECK:           arith.subf
// CHECK:         } -> tensor<?x4x?xf32>
// CHECK:         attn.linear_attention
// CHECK-SAME:        log_decay(%[[LOG]] : tensor<?x4x?xf32>) causal
// CHECK-NOT:     reduction
func.func @token_decay(%q: tensor<?x?x4x16xf32>, %k: tensor<?x?x4x16xf32>, %v: tensor<?x?x4x16xf32>,
    %c: tensor<?x?x4xf32>) -> tensor<?x?x4x16xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %b = tensor.dim %q, %c0 : tensor<?x?x4x16xf32>
  %n = tensor.dim %q, %c1 : tensor<?x?x4x16xf32>
  %m = tensor.dim %k, %c1 : tensor<?x?x4x16xf32>
  %e = tensor.empty(%b, %n, %m) : tensor<?x4x?x?xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<?x4x?x?xf32>) -> tensor<?x4x?x?xf32>
  %s = linalg.contract indexing_maps = [#qk_q, #qk_k, #qk_s] ins(%q, %k : tensor<?x?x4x16xf32>, tensor<?x?x4x16xf32>)
      outs(%s0 : tensor<?x4x?x?xf32>) -> tensor<?x4x?x?xf32>
  %w = linalg.generic {indexing_maps = [#all, #row, #column, #all],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%s, %c, %c : tensor<?x4x?x?xf32>, tensor<?x?x4xf32>, tensor<?x?x4xf32>) outs(%e : tensor<?x4x?x?xf32>) {
  ^bb0(%a: f32, %ci: f32, %cj: f32, %out: f32):
    %i = linalg.index 2 : index
    %j = linalg.index 3 : index
    %keep = arith.cmpi ule, %j, %i : index
    %d = arith.subf %ci, %cj : f32
    %p = math.exp %d : f32
    %0 = arith.select %keep, %p, %zero : f32
    %1 = arith.mulf %a, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<?x4x?x?xf32>
  %oe = tensor.empty(%b, %n) : tensor<?x?x4x16xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%oe : tensor<?x?x4x16xf32>) -> tensor<?x?x4x16xf32>
  %o = linalg.contract indexing_maps = [#wv_w, #wv_v, #wv_o] ins(%w, %v : tensor<?x4x?x?xf32>, tensor<?x?x4x16xf32>)
      outs(%o0 : tensor<?x?x4x16xf32>) -> tensor<?x?x4x16xf32>
  return %o : tensor<?x?x4x16xf32>
}

// -----

// A normaliser: weights are divided by their sum. Feature maps stay in front.

#qk_q = affine_map<(b, i, j, d) -> (b, i, d)>
#qk_k = affine_map<(b, i, j, d) -> (b, j, d)>
#qk_s = affine_map<(b, i, j, d) -> (b, i, j)>
#all = affine_map<(b, i, j) -> (b, i, j)>
#kept = affine_map<(b, i, j) -> (b, i, 0)>

// CHECK-LABEL: func.func @normalised(
// CHECK-DAG:     %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CHECK:         %[[MAP:.*]]:2 = linalg.generic
// CHECK:           arith.maximumf
// CHECK-DAG:     %[[PQ:.*]] = tensor.expand_shape %[[MAP]]#0
// CHECK-DAG:     %[[PK:.*]] = tensor.expand_shape %[[MAP]]#1
// CHECK:         linalg.fill ins(%[[ONE]] : f32) {{.*}} -> tensor<1x1x40x8xf32>
// CHECK:         %[[SUM:.*]] = attn.linear_attention ins(%[[PQ]], %[[PK]], {{.*}} : tensor<1x3x40x16xf32>, tensor<1x3x40x16xf32>, tensor<1x1x40x8xf32>)
// CHECK-SAME:        causal scale(1.000000e+00) -> tensor<1x3x40x8xf32>
// CHECK:         tensor.extract_slice %[[SUM]][0, 0, 0, 0] [1, 3, 40, 1]
// CHECK:         attn.linear_attention ins({{.*}} : tensor<1x3x40x16xf32>, tensor<1x3x40x16xf32>, tensor<1x3x40x16xf32>)
// CHECK-SAME:        causal scale(1.000000e+00) -> tensor<1x3x40x16xf32>
// CHECK:         linalg.generic
// CHECK:           arith.divf
// CHECK-NOT:     reduction
func.func @normalised(%q: tensor<3x40x16xf32>, %k: tensor<3x40x16xf32>, %v: tensor<3x40x16xf32>)
    -> tensor<3x40x16xf32> {
  %zero = arith.constant 0.0 : f32
  %eps = arith.constant 1.0e-6 : f32
  %least = arith.constant 0.001 : f32
  %fe = tensor.empty() : tensor<3x40x16xf32>
  %pq, %pk = linalg.generic {indexing_maps = [#all, #all, #all, #all],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%q, %k : tensor<3x40x16xf32>, tensor<3x40x16xf32>) outs(%fe, %fe : tensor<3x40x16xf32>, tensor<3x40x16xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32, %out1: f32):
    %0 = arith.maximumf %a, %least : f32
    %1 = arith.maximumf %b, %least : f32
    linalg.yield %0, %1 : f32, f32
  } -> (tensor<3x40x16xf32>, tensor<3x40x16xf32>)
  %e = tensor.empty() : tensor<3x40x40xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<3x40x40xf32>) -> tensor<3x40x40xf32>
  %s = linalg.contract indexing_maps = [#qk_q, #qk_k, #qk_s] ins(%pq, %pk : tensor<3x40x16xf32>, tensor<3x40x16xf32>)
      outs(%s0 : tensor<3x40x40xf32>) -> tensor<3x40x40xf32>
  %w = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%s : tensor<3x40x40xf32>) outs(%e : tensor<3x40x40xf32>) {
  ^bb0(%a: f32, %out: f32):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %c = arith.cmpi ule, %j, %i : index
    %1 = arith.select %c, %a, %zero : f32
    linalg.yield %1 : f32
  } -> tensor<3x40x40xf32>
  %re = tensor.empty() : tensor<3x40x1xf32>
  %r0 = linalg.fill ins(%zero : f32) outs(%re : tensor<3x40x1xf32>) -> tensor<3x40x1xf32>
  %r = linalg.generic {indexing_maps = [#all, #kept], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%w : tensor<3x40x40xf32>) outs(%r0 : tensor<3x40x1xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<3x40x1xf32>
  %p = linalg.generic {indexing_maps = [#all, #kept, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%w, %r : tensor<3x40x40xf32>, tensor<3x40x1xf32>) outs(%e : tensor<3x40x40xf32>) {
  ^bb0(%a: f32, %n: f32, %out: f32):
    %0 = arith.addf %n, %eps : f32
    %1 = arith.divf %a, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<3x40x40xf32>
  %oe = tensor.empty() : tensor<3x40x16xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%oe : tensor<3x40x16xf32>) -> tensor<3x40x16xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<3x40x40xf32>, tensor<3x40x16xf32>)
      outs(%o0 : tensor<3x40x16xf32>) -> tensor<3x40x16xf32>
  return %o : tensor<3x40x16xf32>
}

// -----

// Scores of the sum that are computed once more.

#qk_q = affine_map<(b, i, j, d) -> (b, i, d)>
#qk_k = affine_map<(b, i, j, d) -> (b, j, d)>
#qk_s = affine_map<(b, i, j, d) -> (b, i, j)>
#all = affine_map<(b, i, j) -> (b, i, j)>
#kept = affine_map<(b, i, j) -> (b, i, 0)>

// CHECK-LABEL: func.func @twice(
// CHECK-NOT:     tensor<3x40x40xf32>
// CHECK:         attn.linear_attention ins({{.*}} : tensor<1x3x40x16xf32>, tensor<1x3x40x16xf32>, tensor<1x1x40x8xf32>)
// CHECK-SAME:        causal scale(1.000000e+00) -> tensor<1x3x40x8xf32>
// CHECK-NOT:     tensor<3x40x40xf32>
// CHECK:         attn.linear_attention ins({{.*}} : tensor<1x3x40x16xf32>, tensor<1x3x40x16xf32>, tensor<1x3x40x16xf32>)
// CHECK-SAME:        causal scale(1.000000e+00) -> tensor<1x3x40x16xf32>
// CHECK-NOT:     tensor<3x40x40xf32>
// CHECK:         return
func.func @twice(%q: tensor<3x40x16xf32>, %k: tensor<3x40x16xf32>, %v: tensor<3x40x16xf32>)
    -> tensor<3x40x16xf32> {
  %zero = arith.constant 0.0 : f32
  %eps = arith.constant 1.0e-6 : f32
  %least = arith.constant 0.001 : f32
  %fe = tensor.empty() : tensor<3x40x16xf32>
  %pq, %pk = linalg.generic {indexing_maps = [#all, #all, #all, #all],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%q, %k : tensor<3x40x16xf32>, tensor<3x40x16xf32>) outs(%fe, %fe : tensor<3x40x16xf32>, tensor<3x40x16xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32, %out1: f32):
    %0 = arith.maximumf %a, %least : f32
    %1 = arith.maximumf %b, %least : f32
    linalg.yield %0, %1 : f32, f32
  } -> (tensor<3x40x16xf32>, tensor<3x40x16xf32>)
  %e = tensor.empty() : tensor<3x40x40xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<3x40x40xf32>) -> tensor<3x40x40xf32>
  %s = linalg.contract indexing_maps = [#qk_q, #qk_k, #qk_s] ins(%pq, %pk : tensor<3x40x16xf32>, tensor<3x40x16xf32>)
      outs(%s0 : tensor<3x40x40xf32>) -> tensor<3x40x40xf32>
  %w = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%s : tensor<3x40x40xf32>) outs(%e : tensor<3x40x40xf32>) {
  ^bb0(%a: f32, %out: f32):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %c = arith.cmpi ule, %j, %i : index
    %1 = arith.select %c, %a, %zero : f32
    linalg.yield %1 : f32
  } -> tensor<3x40x40xf32>
  %s0_again = linalg.fill ins(%zero : f32) outs(%e : tensor<3x40x40xf32>) -> tensor<3x40x40xf32>
  %s_again = linalg.contract indexing_maps = [#qk_q, #qk_k, #qk_s] ins(%pq, %pk : tensor<3x40x16xf32>, tensor<3x40x16xf32>)
      outs(%s0_again : tensor<3x40x40xf32>) -> tensor<3x40x40xf32>
  %w_again = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%s_again : tensor<3x40x40xf32>) outs(%e : tensor<3x40x40xf32>) {
  ^bb0(%a: f32, %out: f32):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %c = arith.cmpi ule, %j, %i : index
    %1 = arith.select %c, %a, %zero : f32
    linalg.yield %1 : f32
  } -> tensor<3x40x40xf32>
  %re = tensor.empty() : tensor<3x40x1xf32>
  %r0 = linalg.fill ins(%zero : f32) outs(%re : tensor<3x40x1xf32>) -> tensor<3x40x1xf32>
  %r = linalg.generic {indexing_maps = [#all, #kept], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%w_again : tensor<3x40x40xf32>) outs(%r0 : tensor<3x40x1xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<3x40x1xf32>
  %p = linalg.generic {indexing_maps = [#all, #kept, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%w, %r : tensor<3x40x40xf32>, tensor<3x40x1xf32>) outs(%e : tensor<3x40x40xf32>) {
  ^bb0(%a: f32, %n: f32, %out: f32):
    %0 = arith.addf %n, %eps : f32
    %1 = arith.divf %a, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<3x40x40xf32>
  %oe = tensor.empty() : tensor<3x40x16xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%oe : tensor<3x40x16xf32>) -> tensor<3x40x16xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<3x40x40xf32>, tensor<3x40x16xf32>)
      outs(%o0 : tensor<3x40x16xf32>) -> tensor<3x40x16xf32>
  return %o : tensor<3x40x16xf32>
}

// -----

// Without a mask; padding of keys, and the normaliser after the second matmul.

#qk_q = affine_map<(b, h, i, j, d) -> (b, h, i, d)>
#qk_k = affine_map<(b, h, i, j, d) -> (b, h, j, d)>
#qk_s = affine_map<(b, h, i, j, d) -> (b, h, i, j)>
#all = affine_map<(b, h, i, j) -> (b, h, i, j)>
#row = affine_map<(b, h, i, j) -> (b, h, i)>
#wv_w = affine_map<(b, h, i, d, j) -> (b, h, i, j)>
#wv_v = affine_map<(b, h, i, d, j) -> (b, h, j, d)>
#wv_o = affine_map<(b, h, i, d, j) -> (b, h, i, d)>

// CHECK-LABEL: func.func @padded(
// CHECK-SAME:    %[[MASK:[^:]*]]: tensor<2x40xi1>
// CHECK:         %[[ONES:.*]] = linalg.generic
// CHECK:           tensor.extract %[[MASK]]
// CHECK:           arith.select
// CHECK:         } -> tensor<2x1x40x8xf32>
// CHECK:         attn.linear_attention ins(%{{.*}}, %{{.*}}, %[[ONES]] : tensor<2x3x40x8xf32>, tensor<2x3x40x8xf32>, tensor<2x1x40x8xf32>)
// CHECK-NOT:     causal
// CHECK:         %[[VALUES:.*]] = linalg.generic
// CHECK:           tensor.extract %[[MASK]]
// CHECK:         } -> tensor<2x3x40x16xf32>
// CHECK:         attn.linear_attention ins(%{{.*}}, %{{.*}}, %[[VALUES]] :
// CHECK-NOT:     reduction
// CHECK:         arith.divf
func.func @padded(%q: tensor<2x3x40x8xf32>, %k: tensor<2x3x40x8xf32>, %v: tensor<2x3x40x16xf32>,
    %mask: tensor<2x40xi1>) -> tensor<2x3x40x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x3x40x40xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x3x40x40xf32>) -> tensor<2x3x40x40xf32>
  %s = linalg.contract indexing_maps = [#qk_q, #qk_k, #qk_s] ins(%q, %k : tensor<2x3x40x8xf32>, tensor<2x3x40x8xf32>)
      outs(%s0 : tensor<2x3x40x40xf32>) -> tensor<2x3x40x40xf32>
  %w = linalg.generic {indexing_maps = [#all, affine_map<(b, h, i, j)
      -> (b, j)>, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%s, %mask : tensor<2x3x40x40xf32>, tensor<2x40xi1>) outs(%e : tensor<2x3x40x40xf32>) {
  ^bb0(%a: f32, %m: i1, %out: f32):
    %0 = arith.select %m, %a, %zero : f32
    linalg.yield %0 : f32
  } -> tensor<2x3x40x40xf32>
  %re = tensor.empty() : tensor<2x3x40xf32>
  %r0 = linalg.fill ins(%zero : f32) outs(%re : tensor<2x3x40xf32>) -> tensor<2x3x40xf32>
  %r = linalg.reduce ins(%w : tensor<2x3x40x40xf32>) outs(%r0 : tensor<2x3x40xf32>) dimensions = [3]
    (%in: f32, %acc: f32) {
      %0 = arith.addf %in, %acc : f32
      linalg.yield %0 : f32
    }
  %oe = tensor.empty() : tensor<2x3x40x16xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%oe : tensor<2x3x40x16xf32>) -> tensor<2x3x40x16xf32>
  %o = linalg.contract indexing_maps = [#wv_w, #wv_v, #wv_o]
      ins(%w, %v : tensor<2x3x40x40xf32>, tensor<2x3x40x16xf32>)
          outs(%o0 : tensor<2x3x40x16xf32>) -> tensor<2x3x40x16xf32>
  %n = linalg.generic {indexing_maps = [#all, #row, #all],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%o, %r : tensor<2x3x40x16xf32>, tensor<2x3x40xf32>) outs(%oe : tensor<2x3x40x16xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %0 = arith.divf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<2x3x40x16xf32>
  return %n : tensor<2x3x40x16xf32>
}

// -----

// A result of f32 is computed in f32. Distances at least 0, and a factor of rows.

#qk_q = affine_map<(h, i, j, d) -> (h, i, d)>
#qk_k = affine_map<(h, i, j, d) -> (h, j, d)>
#qk_s = affine_map<(h, i, j, d) -> (h, i, j)>
#all = affine_map<(h, i, j) -> (h, i, j)>
#wv_w = affine_map<(h, i, d, j) -> (h, i, j)>
#wv_v = affine_map<(h, i, d, j) -> (h, j, d)>
#wv_o = affine_map<(h, i, d, j) -> (h, i, d)>

// CHECK-LABEL: func.func @widened(
// CHECK:         arith.extf
// CHECK:         attn.linear_attention ins({{.*}} : tensor<1x2x24x16xf32>, tensor<1x2x24x16xf32>, tensor<1x2x24x16xf32>)
// CHECK-SAME:        log_decay({{.*}} : tensor<2xf32>) causal
// CHECK-NOT:     reduction
func.func @widened(%q: tensor<2x24x16xbf16>, %k: tensor<2x24x16xbf16>, %v: tensor<2x24x16xbf16>, %rate: tensor<2xf32>,
    %row: tensor<24xf32>) -> tensor<2x24x16xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : i64
  %e = tensor.empty() : tensor<2x24x24xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x24x24xf32>) -> tensor<2x24x24xf32>
  %s = linalg.contract indexing_maps = [#qk_q, #qk_k, #qk_s] ins(%q, %k : tensor<2x24x16xbf16>, tensor<2x24x16xbf16>)
      outs(%s0 : tensor<2x24x24xf32>) -> tensor<2x24x24xf32>
  %we = tensor.empty() : tensor<2x24x24xbf16>
  %w = linalg.generic {indexing_maps = [#all, affine_map<(h, i, j) -> (h)>, affine_map<(h, i, j)
      -> (i)>, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%s, %rate, %row : tensor<2x24x24xf32>, tensor<2xf32>, tensor<24xf32>) outs(%we : tensor<2x24x24xbf16>) {
  ^bb0(%a: f32, %r: f32, %f: f32, %out: bf16):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %i1 = arith.index_cast %i : index to i64
    %j1 = arith.index_cast %j : index to i64
    %d = arith.subi %i1, %j1 : i64
    %d1 = arith.maxsi %d, %c0 : i64
    %x = arith.sitofp %d1 : i64 to f32
    %y = arith.mulf %r, %x : f32
    %p = math.exp %y : f32
    %c = arith.cmpi sge, %d, %c0 : i64
    %c1 = arith.uitofp %c : i1 to f32
    %0 = arith.mulf %a, %p : f32
    %1 = arith.mulf %0, %c1 : f32
    %2 = arith.mulf %1, %f : f32
    %3 = arith.truncf %2 : f32 to bf16
    linalg.yield %3 : bf16
  } -> tensor<2x24x24xbf16>
  %oe = tensor.empty() : tensor<2x24x16xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%oe : tensor<2x24x16xf32>) -> tensor<2x24x16xf32>
  %o = linalg.contract indexing_maps = [#wv_w, #wv_v, #wv_o] ins(%w, %v : tensor<2x24x24xbf16>, tensor<2x24x16xbf16>)
      outs(%o0 : tensor<2x24x16xf32>) -> tensor<2x24x16xf32>
  return %o : tensor<2x24x16xf32>
}
