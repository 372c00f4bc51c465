// RUN: attn-opt %s --attn-differentiate="function=f mode=combined arguments=0" --canonicalize | FileCheck %s
// RUN: attn-opt %s --attn-differentiate="function=norm mode=combined" --canonicalize | FileCheck %s --check-prefix=NORM
// RUN: attn-opt %s --attn-differentiate="function=plain_norm mode=combined arguments=0" --canonicalize | FileCheck %s --check-prefix=PLAIN
// RUN: attn-opt %s --attn-differentiate="function=weight_of_norm mode=combined arguments=1" --canonicalize | FileCheck %s --check-prefix=WEIGHT

// The gradient of a rotation is rotated back.

// CHECK-LABEL: func.func @f_grad(
// CHECK-SAME:    %[[Q:[a-z0-9]+]]: tensor<1x2x8x16xf32>, %[[T:[a-z0-9]+]]: tensor<8x4xf32>, %[[DOUT:[a-z0-9]+]]: tensor<1x2x8x16xf32>)
// CHECK:         %[[R:.*]] = attn.rope %[[Q]], %[[T]], %[[T]] interleaved :
// CHECK:         %[[A:.*]]:2 = attn.attention ins(%[[R]], %[[R]], %[[R]] :
// CHECK:         %[[G:.*]]:3 = attn.attention_grad
// CHECK:         attn.rope %{{.*}}, %[[T]], %[[T]] interleaved inverse :
func.func @f(%q: tensor<1x2x8x16xf32>, %t: tensor<8x4xf32>) -> tensor<1x2x8x16xf32> {
  %r = attn.rope %q, %t, %t interleaved : tensor<1x2x8x16xf32>, tensor<8x4xf32>, tensor<8x4xf32>
  %0 = attn.attention ins(%r, %r, %r : tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>)
      outs(%q : tensor<1x2x8x16xf32>) -> tensor<1x2x8x16xf32>
  return %0 : tensor<1x2x8x16xf32>
}

// Norms of queries and keys: sums over the head dim of each row, the gradient
// of the source by them, and of the weight sums of each head first.

// NORM-DAG:      #[[ALL:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
// NORM-DAG:      #[[HEAD_DIMS:.*]] = affine_map<(d0, d1, d2, d3) -> (d3)>
// NORM-DAG:      #[[ROWS:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
// NORM-DAG:      #[[HEADS:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>
// NORM-LABEL: func.func @norm_grad(
// NORM-SAME:    %[[Q:[a-z0-9]+]]: tensor<?x2x?x16xbf16>, %[[W:[a-z0-9]+]]: tensor<16xf16>, %[[DOUT:[a-z0-9]+]]: tensor<?x2x?x16xbf16>)
// NORM-SAME:    -> (tensor<?x2x?x16xbf16>, tensor<?x2x?x16xbf16>, tensor<16xf16>)
// NORM:         %[[N:.*]] = attn.rms_norm %[[Q]] weight(%[[W]] : tensor<16xf16>)
// NORM:         attn.attention ins(%[[N]], %[[N]], %[[Q]] :
// NORM:         attn.attention_grad
// NORM:         %[[G:.*]] = linalg.add {{.*}} -> tensor<?x2x?x16xbf16>
// NORM:         %[[S:.*]]:2 = linalg.generic {indexing_maps = [#[[ALL]], #[[ALL]], #[[HEAD_DIMS]], #[[ROWS]], #[[ROWS]]],
// NORM-SAME:        {{^}} iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
// NORM-SAME:        ins(%[[Q]], %[[G]], %[[W]] : tensor<?x2x?x16xbf16>, tensor<?x2x?x16xbf16>, tensor<16xf16>)
// NORM-SAME:        {{^}} outs({{.*}} : tensor<?x2x?xf32>, tensor<?x2x?xf32>)
// NORM:         %[[DQ:.*]] = linalg.generic {indexing_maps = [#[[ALL]], #[[ROWS]], #[[ROWS]], #[[ALL]], #[[HEAD_DIMS]], #[[ALL]]],
// NORM-SAME:        {{^}} iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
// NORM-SAME:        ins(%[[Q]], %[[S]]#0, %[[S]]#1, %[[G]], %[[W]] :
// NORM:           math.rsqrt
// NORM:         } -> tensor<?x2x?x16xbf16>
// NORM:         %[[SUM:.*]] = linalg.add ins(%{{.*}}, %[[DQ]] :
// NORM:         %[[H:.*]] = linalg.generic {indexing_maps = [#[[ALL]], #[[ROWS]], #[[ALL]], #[[HEADS]]], iterator_types = ["parallel", "parallel", "reduction",
// NORM-SAME:        {{^}} "parallel"]}
// NORM-SAME:        ins(%[[Q]], %[[S]]#0, %[[G]] :
// NORM-SAME:        outs({{.*}} : tensor<?x2x16xf32>)
// NORM:         %[[DW:.*]] = linalg.reduce ins(%[[H]] : tensor<?x2x16xf32>) outs({{.*}} : tensor<16xf32>) dimensions = [0, 1]
// NORM:         arith.truncf {{.*}} : f32 to f16
func.func @norm(%q: tensor<?x2x?x16xbf16>, %w: tensor<16xf16>) -> tensor<?x2x?x16xbf16> {
  %n = attn.rms_norm %q weight(%w : tensor<16xf16>) epsilon(1.0e-5) : tensor<?x2x?x16xbf16>
  %0 = attn.attention ins(%n, %n, %q : tensor<?x2x?x16xbf16>, tensor<?x2x?x16xbf16>, tensor<?x2x?x16xbf16>)
      outs(%q : tensor<?x2x?x16xbf16>) -> tensor<?x2x?x16xbf16>
  return %0 : tensor<?x2x?x16xbf16>
}

// Without a weight, and where the weight's gradient alone is wanted, there is
// no more than is needed.

// PLAIN-LABEL: func.func @plain_norm_grad(
// PLAIN-NOT:     linalg.reduce
// PLAIN:         %[[S:.*]]:2 = linalg.generic
// PLAIN-SAME:        ins(%{{.*}}, %{{.*}} : tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>)
// PLAIN-NOT:     linalg.reduce
// PLAIN:         return
func.func @plain_norm(%q: tensor<1x2x8x16xf32>, %w: tensor<16xf32>) -> tensor<1x2x8x16xf32> {
  %n = attn.rms_norm %q epsilon(1.0e-5) : tensor<1x2x8x16xf32>
  return %n : tensor<1x2x8x16xf32>
}

// WEIGHT-LABEL: func.func @weight_of_norm_grad(
// WEIGHT:         %[[S:.*]] = linalg.generic
// WEIGHT-SAME:        ins(%{{[a-z0-9]+}} : tensor<1x2x8x16xf32>) outs(%{{.*}} : tensor<1x2x8xf32>)
// WEIGHT:         linalg.generic {{.*}} ins(%{{.*}}, %[[S]], %{{.*}} : tensor<1x2x8x16xf32>, tensor<1x2x8xf32>, tensor<1x2x8x16xf32>)
// WEIGHT-SAME:        {{^}} outs(%{{.*}} : tensor<1x2x16xf32>)
// WEIGHT:         %[[DW:.*]] = linalg.reduce
// WEIGHT:         return %{{.*}}, %[[DW]] : tensor<1x2x8x16xf32>, tensor<16xf32>
func.func @weight_of_norm(%q: tensor<1x2x8x16xf32>, %w: tensor<16xf32>) -> tensor<1x2x8x16xf32> {
  %n = attn.rms_norm %q weight(%w : tensor<16xf32>) epsilon(1.0e-5) : tensor<1x2x8x16xf32>
  return %n : tensor<1x2x8x16xf32>
}
