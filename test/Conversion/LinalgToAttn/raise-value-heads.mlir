// RUN: attn-opt %s --attn-raise-linalg --canonicalize --cse --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-raise-linalg --split-input-file -o /dev/null \
// RUN:   --remarks-filter=attn-raise-linalg --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=REMARK

// Query heads share keys in groups of three, and values not at all.
#repeat = affine_map<(b, h, g, j, d) -> (b, h, j, d)>
#whole = affine_map<(b, h, g, j, d) -> (b, h, g, j, d)>

// REMARK: raised an attention of 6 query heads, 2 key heads and 6 value heads
// CHECK-LABEL: func.func @shared_keys(
// CHECK-SAME:    %[[Q:.*]]: tensor<2x6x20x16xf32>, %[[K:.*]]: tensor<2x2x20x16xf32>, %[[V:.*]]: tensor<2x6x20x16xf32>
// CHECK:         attn.attention ins(%[[Q]], %[[K]], %[[V]] : tensor<2x6x20x16xf32>, tensor<2x2x20x16xf32>, tensor<2x6x20x16xf32>)
func.func @shared_keys(%q: tensor<2x6x20x16xf32>, %k: tensor<2x2x20x16xf32>, %v: tensor<2x6x20x16xf32>) -> tensor<2x6x20x16xf32> {
  %zero = arith.constant 0.0 : f32
  %re = tensor.empty() : tensor<2x2x3x20x16xf32>
  %k3 = linalg.generic {indexing_maps = [#repeat, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}
      ins(%k : tensor<2x2x20x16xf32>) outs(%re : tensor<2x2x3x20x16xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  } -> tensor<2x2x3x20x16xf32>
  %k6 = tensor.collapse_shape %k3 [[0], [1, 2], [3], [4]] : tensor<2x2x3x20x16xf32> into tensor<2x6x20x16xf32>
  %kc = tensor.collapse_shape %k6 [[0, 1], [2], [3]] : tensor<2x6x20x16xf32> into tensor<12x20x16xf32>
  %vc = tensor.collapse_shape %v [[0, 1], [2], [3]] : tensor<2x6x20x16xf32> into tensor<12x20x16xf32>
  %qc = tensor.collapse_shape %q [[0, 1], [2], [3]] : tensor<2x6x20x16xf32> into tensor<12x20x16xf32>
  %te = tensor.empty() : tensor<12x16x20xf32>
  %kt = linalg.transpose ins(%kc : tensor<12x20x16xf32>) outs(%te : tensor<12x16x20xf32>) permutation = [0, 2, 1]
  %se = tensor.empty() : tensor<12x20x20xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%se : tensor<12x20x20xf32>) -> tensor<12x20x20xf32>
  %s = linalg.batch_matmul ins(%qc, %kt : tensor<12x20x16xf32>, tensor<12x16x20xf32>) outs(%s0 : tensor<12x20x20xf32>) -> tensor<12x20x20xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<12x20x20xf32>) outs(%se : tensor<12x20x20xf32>) -> tensor<12x20x20xf32>
  %oe = tensor.empty() : tensor<12x20x16xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%oe : tensor<12x20x16xf32>) -> tensor<12x20x16xf32>
  %o = linalg.batch_matmul ins(%p, %vc : tensor<12x20x20xf32>, tensor<12x20x16xf32>) outs(%o0 : tensor<12x20x16xf32>) -> tensor<12x20x16xf32>
  %r = tensor.expand_shape %o [[0, 1], [2], [3]] output_shape [2, 6, 20, 16] : tensor<12x20x16xf32> into tensor<2x6x20x16xf32>
  return %r : tensor<2x6x20x16xf32>
}
