// RUN: attn-opt %s --attn-differentiate="mode=combined" --canonicalize | FileCheck %s

// Heads that a map chooses get keys and values of their own, whose gradients
// are summed up.

// CHECK-LABEL: func.func @mapped_grad(
// CHECK-SAME:    %[[Q:[a-z0-9]+]]: tensor<2x4x8x16xbf16>, %[[K:[a-z0-9]+]]: tensor<2x3x8x16xbf16>, %[[MAP:[a-z0-9]+]]: tensor<4xi32>
// CHECK-DAG:     %[[LAST:.*]] = arith.constant 2 : index
// CHECK:         linalg.generic
// CHECK-SAME:    outs(%{{.*}} : tensor<2x4x8x16xbf16>)
// CHECK:         %[[ENTRY:.*]] = tensor.extract %[[MAP]][%{{.*}}] : tensor<4xi32>
// CHECK-NEXT:    %[[INDEX:.*]] = arith.index_cast %[[ENTRY]] : i32 to index
// CHECK-NEXT:    %[[HEAD:.*]] = arith.minui %[[INDEX]], %[[LAST]] : index
// CHECK-NEXT:    tensor.extract %[[K]][%{{.*}}, %[[HEAD]], %{{.*}}, %{{.*}}]
// CHECK:         attn.attention_grad ins(%[[Q]], %{{.*}}, %{{.*}} : tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>,
// CHECK-COUNT-2: iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]
func.func @mapped(%q: tensor<2x4x8x16xbf16>, %k: tensor<2x3x8x16xbf16>, %map: tensor<4xi32>) -> tensor<2x4x8x16xbf16> {
  %0 = attn.attention ins(%q, %k, %k : tensor<2x4x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>)
      outs(%q : tensor<2x4x8x16xbf16>) heads(%map : tensor<4xi32>) -> tensor<2x4x8x16xbf16>
  return %0 : tensor<2x4x8x16xbf16>
}
