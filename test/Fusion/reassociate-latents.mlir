// RUN: attn-opt %s --attn-reassociate=target=sm_90a --canonicalize --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-reassociate=target=sm_90a --split-input-file \
// RUN:   --remarks-filter=attn-reassociate --remark-format=emitRemark 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: attn-opt %s --attn-reassociate=target=sm_90a --split-input-file | FileCheck %s --check-prefix=ERASED

// Keys and values that are projections of a latent that all heads share.

// Weights as modules of torch store them, one query of each batch entry:
// queries and the result of all heads are multiplied.

// CHECK-LABEL: func.func @decode(
// CHECK-SAME:    %[[Q:[^:]*]]: tensor<4x16x1x128xbf16>, %[[C:[^:]*]]: tensor<4x8192x192xbf16>, %[[WK:[^:]*]]: tensor<2048x192xbf16>,
// CHECK-SAME:    %[[WV:[^:]*]]: tensor<1024x192xbf16>, %[[SINKS:.*]]: tensor<16xf32>)
// CHECK-DAG:     %[[UK:.*]] = tensor.expand_shape %[[WK]] {{\[}}[0, 1], [2]] output_shape [16, 128, 192]
// CHECK-DAG:     %[[Q0:.*]] = linalg.transpose ins(%[[Q]] : {{.*}}) outs(%{{.*}} : tensor<16x4x1x128xbf16>) permutation = [1, 0, 2, 3]
// CHECK-DAG:     %[[Q1:.*]] = tensor.collapse_shape %[[Q0]] {{\[}}[0], [1, 2], [3]] : {{.*}} into tensor<16x4x128xbf16>
// CHECK:         %[[Q2:.*]] = attn.matmul ins(%[[Q1]], %[[UK]] : tensor<16x4x128xbf16>, tensor<16x128x192xbf16>) outs(%{{.*}} : tensor<16x4x192xbf16>)
// CHECK-SAME:        {{^}} -> tensor<16x4x192xbf16>
// CHECK:         %[[Q3:.*]] = tensor.expand_shape %[[Q2]] {{\[}}[0], [1, 2], [3]] output_shape [16, 4, 1, 192]
// CHECK:         %[[Q4:.*]] = linalg.transpose ins(%[[Q3]] : {{.*}}) outs(%{{.*}} : tensor<4x16x1x192xbf16>) permutation = [1, 0, 2, 3]
// CHECK:         %[[L:.*]] = tensor.expand_shape %[[C]] {{\[}}[0, 1], [2], [3]] output_shape [4, 1, 8192, 192]
// CHECK:         %[[A:.*]]:2 = attn.attention ins(%[[Q4]], %{{.*}}, %{{.*}} : tensor<4x16x1x192xbf16>, tensor<4x1x8192x192xbf16>, tensor<4x1x8192x192xbf16>)
// CHECK-SAME:        outs(%{{.*}} : tensor<4x16x1x192xbf16>, tensor<4x16x1xf32>) sinks(%[[SINKS]] : tensor<16xf32>)
// CHECK-SAME:        scale(0.0883883461)
// CHECK:           tensor.extract
// CHECK-DAG:     %[[UV:.*]] = tensor.expand_shape %[[WV]] {{\[}}[0, 1], [2]] output_shape [16, 64, 192]
// CHECK-DAG:     %[[O0:.*]] = linalg.transpose ins(%[[A]]#0 : {{.*}}) outs(%{{.*}} : tensor<16x4x1x192xbf16>) permutation = [1, 0, 2, 3]
// CHECK-DAG:     %[[O1:.*]] = tensor.collapse_shape %[[O0]] {{\[}}[0], [1, 2], [3]]
// CHECK:         %[[O2:.*]] = attn.matmul ins(%[[O1]], %[[UV]] : tensor<16x4x192xbf16>, tensor<16x64x192xbf16>)
// CHECK-SAME:        {{^}} outs(%{{.*}} : tensor<16x4x64xf32>) transpose_rhs -> tensor<16x4x64xf32>
// CHECK:         %[[O3:.*]] = tensor.expand_shape %[[O2]] {{\[}}[0], [1, 2], [3]] output_shape [16, 4, 1, 64]
// CHECK:         %[[O4:.*]] = linalg.transpose ins(%[[O3]] : {{.*}}) outs(%{{.*}} : tensor<4x16x1x64xf32>) permutation = [1, 0, 2, 3]
// CHECK:         return %[[O4]], %[[A]]#1
// REMARK: attention is to the latents of keys and values: it takes {{.*}} us with them, and {{.*}} us with matmuls of queries and results
// ERASED-LABEL: func.func @decode(
// ERASED-COUNT-2: attn.matmul
// ERASED-NOT:     attn.matmul
// ERASED:         return
func.func @decode(%q: tensor<4x16x1x128xbf16>, %c: tensor<4x8192x192xbf16>, %wk: tensor<2048x192xbf16>, %wv: tensor<1024x192xbf16>, %sinks: tensor<16xf32>)
    -> (tensor<4x16x1x64xf32>, tensor<4x16x1xf32>) {
  %e = tensor.empty() : tensor<4x8192x2048xbf16>
  %f = tensor.empty() : tensor<4x8192x1024xbf16>
  %g = tensor.empty() : tensor<4x16x8192x128xbf16>
  %h = tensor.empty() : tensor<4x16x8192x64xbf16>
  %out = tensor.empty() : tensor<4x16x1x64xf32>
  %lse = tensor.empty() : tensor<4x16x1xf32>
  %0 = attn.matmul ins(%c, %wk : tensor<4x8192x192xbf16>, tensor<2048x192xbf16>) outs(%e : tensor<4x8192x2048xbf16>) transpose_rhs -> tensor<4x8192x2048xbf16>
  %1 = tensor.expand_shape %0 [[0], [1], [2, 3]] output_shape [4, 8192, 16, 128] : tensor<4x8192x2048xbf16> into tensor<4x8192x16x128xbf16>
  %k = linalg.transpose ins(%1 : tensor<4x8192x16x128xbf16>) outs(%g : tensor<4x16x8192x128xbf16>) permutation = [0, 2, 1, 3]
  %2 = attn.matmul ins(%c, %wv : tensor<4x8192x192xbf16>, tensor<1024x192xbf16>) outs(%f : tensor<4x8192x1024xbf16>) transpose_rhs -> tensor<4x8192x1024xbf16>
  %3 = tensor.expand_shape %2 [[0], [1], [2, 3]] output_shape [4, 8192, 16, 64] : tensor<4x8192x1024xbf16> into tensor<4x8192x16x64xbf16>
  %v = linalg.transpose ins(%3 : tensor<4x8192x16x64xbf16>) outs(%h : tensor<4x16x8192x64xbf16>) permutation = [0, 2, 1, 3]
  %a:2 = attn.attention ins(%q, %k, %v : tensor<4x16x1x128xbf16>, tensor<4x16x8192x128xbf16>, tensor<4x16x8192x64xbf16>)
      outs(%out, %lse : tensor<4x16x1x64xf32>, tensor<4x16x1xf32>) sinks(%sinks : tensor<16xf32>)
      score_mod {
      ^bb0(%s: f32, %b: index, %hd: index, %i: index, %j: index):
        %x = tensor.extract %sinks[%hd] : tensor<16xf32>
        %y = arith.addf %s, %x : f32
        attn.yield %y : f32
      } -> tensor<4x16x1x64xf32>, tensor<4x16x1xf32>
  return %a#0, %a#1 : tensor<4x16x1x64xf32>, tensor<4x16x1xf32>
}

// -----

// One batch entry, with a batch of weight matrices and no transpositions; latents that
// differ, of any length.

// CHECK-LABEL: func.func @heads(
// CHECK-SAME:    %[[Q:[^:]*]]: tensor<1x8x16x64xf16>, %[[CK:[^:]*]]: tensor<?x64xf16>, %[[CV:[^:]*]]: tensor<?x128xf16>, %[[WK:[^:]*]]: tensor<8x64x64xf16>,
// CHECK-SAME:    %[[WV:.*]]: tensor<8x128x64xf16>)
// CHECK-DAG:     %[[LK:.*]] = tensor.expand_shape %[[CK]] {{\[}}[0, 1, 2], [3]] output_shape [1, 1, %{{.*}}, 64] : tensor<?x64xf16> into tensor<1x1x?x64xf16>
// CHECK-DAG:     %[[LV:.*]] = tensor.expand_shape %[[CV]] {{\[}}[0, 1, 2], [3]] output_shape [1, 1, %{{.*}}, 128] : {{.*}} into tensor<1x1x?x128xf16>
// CHECK-DAG:     %[[Q0:.*]] = tensor.collapse_shape %[[Q]] {{\[}}[0, 1], [2], [3]] : {{.*}} into tensor<8x16x64xf16>
// CHECK-DAG:     %[[Q1:.*]] = attn.matmul ins(%[[Q0]], %[[WK]] : tensor<8x16x64xf16>, tensor<8x64x64xf16>) outs({{.*}}) transpose_rhs -> tensor<8x16x64xf16>
// CHECK-DAG:     %[[Q2:.*]] = tensor.expand_shape %[[Q1]] {{\[}}[0, 1], [2], [3]] output_shape [1, 8, 16, 64]
// CHECK:         %[[A:.*]] = attn.attention ins(%[[Q2]], %[[LK]], %[[LV]] : tensor<1x8x16x64xf16>, tensor<1x1x?x64xf16>, tensor<1x1x?x128xf16>)
// CHECK-SAME:        scale(2.500000e-01) mask(#attn.causal)
// CHECK:         %[[O0:.*]] = tensor.collapse_shape %[[A]] {{\[}}[0, 1], [2], [3]]
// CHECK:         %[[O1:.*]] = attn.matmul ins(%[[O0]], %[[WV]] : tensor<8x16x128xf16>, tensor<8x128x64xf16>) outs(%{{.*}} : tensor<8x16x64xf16>)
// CHECK-SAME:        {{^}} -> tensor<8x16x64xf16>
// CHECK:         %[[O2:.*]] = tensor.expand_shape %[[O1]] {{\[}}[0, 1], [2], [3]] output_shape [1, 8, 16, 64]
// CHECK-NOT:     linalg.transpose
// CHECK:         return %[[O2]]
// REMARK: attention is to the latents of keys and values
func.func @heads(%q: tensor<1x8x16x64xf16>, %ck: tensor<?x64xf16>, %cv: tensor<?x128xf16>, %wk: tensor<8x64x64xf16>, %wv: tensor<8x128x64xf16>)
    -> tensor<1x8x16x64xf16> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %ck, %c0 : tensor<?x64xf16>
  %e = tensor.empty(%n) : tensor<8x?x64xf16>
  %out = tensor.empty() : tensor<1x8x16x64xf16>
  %0 = attn.matmul ins(%ck, %wk : tensor<?x64xf16>, tensor<8x64x64xf16>) outs(%e : tensor<8x?x64xf16>) -> tensor<8x?x64xf16>
  %k = tensor.expand_shape %0 [[0, 1], [2], [3]] output_shape [1, 8, %n, 64] : tensor<8x?x64xf16> into tensor<1x8x?x64xf16>
  %1 = attn.matmul ins(%cv, %wv : tensor<?x128xf16>, tensor<8x128x64xf16>) outs(%e : tensor<8x?x64xf16>) -> tensor<8x?x64xf16>
  %v = tensor.expand_shape %1 [[0, 1], [2], [3]] output_shape [1, 8, %n, 64] : tensor<8x?x64xf16> into tensor<1x8x?x64xf16>
  %a = attn.attention ins(%q, %k, %v : tensor<1x8x16x64xf16>, tensor<1x8x?x64xf16>, tensor<1x8x?x64xf16>)
      outs(%out : tensor<1x8x16x64xf16>) scale(0.25) mask(#attn.causal) -> tensor<1x8x16x64xf16>
  return %a : tensor<1x8x16x64xf16>
}

// -----

// Rows of all batch entries in one dimension, weight matrices that are not transposed,
// keys that are values, too: they get the order of heads first.

// CHECK-LABEL: func.func @rows(
// CHECK-SAME:    %[[Q:[^:]*]]: tensor<8x16x8x64xbf16>, %[[C:[^:]*]]: tensor<131072x64xbf16>, %[[W:.*]]: tensor<64x1024xbf16>)
// CHECK-DAG:     %[[W0:.*]] = tensor.expand_shape %[[W]] {{\[}}[0], [1, 2]] output_shape [64, 16, 64]
// CHECK-DAG:     %[[W1:.*]] = linalg.transpose ins(%[[W0]] : {{.*}}) outs(%{{.*}} : tensor<16x64x64xbf16>) permutation = [1, 0, 2]
// CHECK-DAG:     tensor.expand_shape %[[C]] {{\[}}[0, 1, 2], [3]] output_shape [8, 1, 16384, 64]
// CHECK-DAG:     attn.matmul ins(%{{.*}}, %[[W1]] : tensor<16x64x64xbf16>, tensor<16x64x64xbf16>) outs(%{{.*}} : tensor<16x64x64xbf16>) transpose_rhs
// CHECK:         attn.attention ins({{.*}} : tensor<8x16x8x64xbf16>, tensor<8x1x16384x64xbf16>, tensor<8x1x16384x64xbf16>)
// CHECK:         attn.matmul ins({{.*}} : tensor<16x64x64xbf16>, tensor<16x64x64xbf16>) outs(%{{.*}} : tensor<16x64x64xbf16>) -> tensor<16x64x64xbf16>
// REMARK: attention is to the latents of keys and values
func.func @rows(%q: tensor<8x16x8x64xbf16>, %c: tensor<131072x64xbf16>, %w: tensor<64x1024xbf16>) -> tensor<8x16x8x64xbf16> {
  %e = tensor.empty() : tensor<131072x1024xbf16>
  %g = tensor.empty() : tensor<8x16x16384x64xbf16>
  %out = tensor.empty() : tensor<8x16x8x64xbf16>
  %0 = attn.matmul ins(%c, %w : tensor<131072x64xbf16>, tensor<64x1024xbf16>) outs(%e : tensor<131072x1024xbf16>) -> tensor<131072x1024xbf16>
  %1 = tensor.expand_shape %0 [[0], [1, 2]] output_shape [131072, 16, 64] : tensor<131072x1024xbf16> into tensor<131072x16x64xbf16>
  %2 = tensor.expand_shape %1 [[0, 1], [2], [3]] output_shape [8, 16384, 16, 64] : tensor<131072x16x64xbf16> into tensor<8x16384x16x64xbf16>
  %k = attn.permute %2 [0, 2, 1, 3] : tensor<8x16384x16x64xbf16> -> tensor<8x16x16384x64xbf16>
  %a = attn.attention ins(%q, %k, %k : tensor<8x16x8x64xbf16>, tensor<8x16x16384x64xbf16>, tensor<8x16x16384x64xbf16>)
      outs(%out : tensor<8x16x8x64xbf16>) -> tensor<8x16x8x64xbf16>
  return %a : tensor<8x16x8x64xbf16>
}

// -----

// As many queries as keys, whose head dim is smaller than the latent's.

// CHECK-LABEL: func.func @prefill(
// CHECK-COUNT-2: attn.matmul
// CHECK:         attn.attention ins({{.*}} : tensor<1x8x4096x64xbf16>, tensor<1x8x4096x64xbf16>, tensor<1x8x4096x64xbf16>)
// CHECK-NOT:     attn.matmul
// REMARK: the matmuls of keys and values stay: it takes {{.*}} us with them, and {{.*}} us with matmuls of queries and results
func.func @prefill(%q: tensor<1x8x4096x64xbf16>, %c: tensor<4096x256xbf16>, %wk: tensor<8x256x64xbf16>, %wv: tensor<8x256x64xbf16>)
    -> tensor<1x8x4096x64xbf16> {
  %e = tensor.empty() : tensor<8x4096x64xbf16>
  %out = tensor.empty() : tensor<1x8x4096x64xbf16>
  %0 = attn.matmul ins(%c, %wk : tensor<4096x256xbf16>, tensor<8x256x64xbf16>) outs(%e : tensor<8x4096x64xbf16>) -> tensor<8x4096x64xbf16>
  %k = tensor.expand_shape %0 [[0, 1], [2], [3]] output_shape [1, 8, 4096, 64] : tensor<8x4096x64xbf16> into tensor<1x8x4096x64xbf16>
  %1 = attn.matmul ins(%c, %wv : tensor<4096x256xbf16>, tensor<8x256x64xbf16>) outs(%e : tensor<8x4096x64xbf16>) -> tensor<8x4096x64xbf16>
  %v = tensor.expand_shape %1 [[0, 1], [2], [3]] output_shape [1, 8, 4096, 64] : tensor<8x4096x64xbf16> into tensor<1x8x4096x64xbf16>
  %a = attn.attention ins(%q, %k, %v : tensor<1x8x4096x64xbf16>, tensor<1x8x4096x64xbf16>, tensor<1x8x4096x64xbf16>)
      outs(%out : tensor<1x8x4096x64xbf16>) -> tensor<1x8x4096x64xbf16>
  return %a : tensor<1x8x4096x64xbf16>
}

// -----

// Values that are not made of a latent; keys that are kept for later; keys of
// several query heads; a latent that kernels do not take; an epilogue; a tensor of
// each head, which none share; a matmul with an epilogue; rows that are split up and
// and head dims in the other order.

// CHECK-LABEL: func.func @near_misses(
// CHECK-COUNT-7: attn.attention ins({{.*}} : tensor<1x{{8|16}}x1x64xbf16>, tensor<1x8x8192x64xbf16>, tensor<1x8x8192x64xbf16>)
// REMARK: the matmuls of keys and values stay: values are no matmul of a latent that all heads share
// REMARK: the matmuls of keys and values stay: the result of one of them is used elsewhere, too
// REMARK: the matmuls of keys and values stay: query heads share keys, whose weights differ
// REMARK: the matmuls of keys and values stay: a latent has too many columns
// REMARK: the matmuls of keys and values stay: one of them has an epilogue, or is not of rows
// REMARK-NOT: the matmuls of keys and values
func.func @near_misses(%q: tensor<1x8x1x64xbf16>, %q2: tensor<1x16x1x64xbf16>, %v: tensor<1x8x8192x64xbf16>, %c: tensor<8192x128xbf16>,
    %w: tensor<8x128x64xbf16>, %wide: tensor<8192x1024xbf16>, %ww: tensor<8x1024x64xbf16>, %apart: tensor<8x8192x128xbf16>, %w2: tensor<128x512xbf16>)
    -> (tensor<1x8x1x64xbf16>, tensor<1x8x1x64xbf16>, tensor<1x16x1x64xbf16>, tensor<1x8x1x64xbf16>, tensor<1x8x1x64xbf16>, tensor<1x8x1x64xbf16>,
        tensor<1x8x1x64xbf16>, tensor<1x8x8192x64xbf16>) {
  %e = tensor.empty() : tensor<8x8192x64xbf16>
  %f = tensor.empty() : tensor<8192x512xbf16>
  %g = tensor.empty() : tensor<1x8x8192x64xbf16>
  %out = tensor.empty() : tensor<1x8x1x64xbf16>
  %out2 = tensor.empty() : tensor<1x16x1x64xbf16>
  %half = arith.constant 0.5 : f32

  %0 = attn.matmul ins(%c, %w : tensor<8192x128xbf16>, tensor<8x128x64xbf16>) outs(%e : tensor<8x8192x64xbf16>) -> tensor<8x8192x64xbf16>
  %k0 = tensor.expand_shape %0 [[0, 1], [2], [3]] output_shape [1, 8, 8192, 64] : tensor<8x8192x64xbf16> into tensor<1x8x8192x64xbf16>
  %a0 = attn.attention ins(%q, %k0, %v : tensor<1x8x1x64xbf16>, tensor<1x8x8192x64xbf16>, tensor<1x8x8192x64xbf16>)
      outs(%out : tensor<1x8x1x64xbf16>) -> tensor<1x8x1x64xbf16>

  %1 = attn.matmul ins(%c, %w : tensor<8192x128xbf16>, tensor<8x128x64xbf16>) outs(%e : tensor<8x8192x64xbf16>) -> tensor<8x8192x64xbf16>
  %k1 = tensor.expand_shape %1 [[0, 1], [2], [3]] output_shape [1, 8, 8192, 64] : tensor<8x8192x64xbf16> into tensor<1x8x8192x64xbf16>
  %a1 = attn.attention ins(%q, %k1, %k1 : tensor<1x8x1x64xbf16>, tensor<1x8x8192x64xbf16>, tensor<1x8x8192x64xbf16>)
      outs(%out : tensor<1x8x1x64xbf16>) -> tensor<1x8x1x64xbf16>

  %2 = attn.matmul ins(%c, %w : tensor<8192x128xbf16>, tensor<8x128x64xbf16>) outs(%e : tensor<8x8192x64xbf16>) -> tensor<8x8192x64xbf16>
  %k2 = tensor.expand_shape %2 [[0, 1], [2], [3]] output_shape [1, 8, 8192, 64] : tensor<8x8192x64xbf16> into tensor<1x8x8192x64xbf16>
  %a2 = attn.attention ins(%q2, %k2, %k2 : tensor<1x16x1x64xbf16>, tensor<1x8x8192x64xbf16>, tensor<1x8x8192x64xbf16>)
      outs(%out2 : tensor<1x16x1x64xbf16>) -> tensor<1x16x1x64xbf16>

  %3 = attn.matmul ins(%wide, %ww : tensor<8192x1024xbf16>, tensor<8x1024x64xbf16>) outs(%e : tensor<8x8192x64xbf16>) -> tensor<8x8192x64xbf16>
  %k3 = tensor.expand_shape %3 [[0, 1], [2], [3]] output_shape [1, 8, 8192, 64] : tensor<8x8192x64xbf16> into tensor<1x8x8192x64xbf16>
  %a3 = attn.attention ins(%q, %k3, %k3 : tensor<1x8x1x64xbf16>, tensor<1x8x8192x64xbf16>, tensor<1x8x8192x64xbf16>)
      outs(%out : tensor<1x8x1x64xbf16>) -> tensor<1x8x1x64xbf16>

  %4 = attn.matmul ins(%c, %w : tensor<8192x128xbf16>, tensor<8x128x64xbf16>) outs(%e : tensor<8x8192x64xbf16>)
      epilogue {
      ^bb0(%s: f32, %b: index, %i: index, %j: index):
        %h = arith.addf %s, %half : f32
        attn.yield %h : f32
      } -> tensor<8x8192x64xbf16>
  %k4 = tensor.expand_shape %4 [[0, 1], [2], [3]] output_shape [1, 8, 8192, 64] : tensor<8x8192x64xbf16> into tensor<1x8x8192x64xbf16>
  %a4 = attn.attention ins(%q, %k4, %k4 : tensor<1x8x1x64xbf16>, tensor<1x8x8192x64xbf16>, tensor<1x8x8192x64xbf16>)
      outs(%out : tensor<1x8x1x64xbf16>) -> tensor<1x8x1x64xbf16>

  %5 = attn.matmul ins(%apart, %w : tensor<8x8192x128xbf16>, tensor<8x128x64xbf16>) outs(%e : tensor<8x8192x64xbf16>) -> tensor<8x8192x64xbf16>
  %k5 = tensor.expand_shape %5 [[0, 1], [2], [3]] output_shape [1, 8, 8192, 64] : tensor<8x8192x64xbf16> into tensor<1x8x8192x64xbf16>
  %a5 = attn.attention ins(%q, %k5, %v : tensor<1x8x1x64xbf16>, tensor<1x8x8192x64xbf16>, tensor<1x8x8192x64xbf16>)
      outs(%out : tensor<1x8x1x64xbf16>) -> tensor<1x8x1x64xbf16>

  %6 = attn.matmul ins(%c, %w2 : tensor<8192x128xbf16>, tensor<128x512xbf16>) outs(%f : tensor<8192x512xbf16>) -> tensor<8192x512xbf16>
  %7 = tensor.expand_shape %6 [[0, 1], [2, 3]] output_shape [8, 1024, 8, 64] : tensor<8192x512xbf16> into tensor<8x1024x8x64xbf16>
  %8 = tensor.collapse_shape %7 [[0, 1], [2], [3]] : tensor<8x1024x8x64xbf16> into tensor<8192x8x64xbf16>
  %9 = tensor.expand_shape %8 [[0, 1], [2], [3]] output_shape [1, 8192, 8, 64] : tensor<8192x8x64xbf16> into tensor<1x8192x8x64xbf16>
  %k6 = linalg.transpose ins(%9 : tensor<1x8192x8x64xbf16>) outs(%g : tensor<1x8x8192x64xbf16>) permutation = [0, 2, 1, 3]
  %a6 = attn.attention ins(%q, %k6, %v : tensor<1x8x1x64xbf16>, tensor<1x8x8192x64xbf16>, tensor<1x8x8192x64xbf16>)
      outs(%out : tensor<1x8x1x64xbf16>) -> tensor<1x8x1x64xbf16>
  return %a0, %a1, %a2, %a3, %a4, %a5, %a6, %k1
      : tensor<1x8x1x64xbf16>, tensor<1x8x1x64xbf16>, tensor<1x16x1x64xbf16>, tensor<1x8x1x64xbf16>, tensor<1x8x1x64xbf16>, tensor<1x8x1x64xbf16>,
        tensor<1x8x1x64xbf16>, tensor<1x8x8192x64xbf16>
}
