// RUN: attn-opt %s --attn-differentiate=mode=combined --split-input-file | FileCheck %s

// A key head that two query heads share is repeated for the gradient, and the gradients of both are added up. So are
// those of the log-decays of heads, over the batch. Attributes are kept.
// CHECK-DAG: #[[OF_KEYS:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1 floordiv 2, d2, d3)>
// CHECK-DAG: #[[OF_GROUPS:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1 * 2 + d4, d2, d3)>
// CHECK-LABEL: func @shared_grad
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<3x4x?x16xf32>, %[[K:[a-z0-9]+]]: tensor<3x2x?x16xf32>,
// CHECK-SAME:  %[[V:[a-z0-9]+]]: tensor<3x4x?x8xf32>, %[[G:[a-z0-9]+]]: tensor<4xf32>
// CHECK: attn.linear_attention ins
// CHECK: %[[KEYS:.*]] = linalg.generic {indexing_maps = [#[[OF_KEYS]], #{{.*}}]{{.*}} ins(%[[K]] :
// CHECK-SAME: outs(%{{.*}} : tensor<3x4x?x16xf32>)
// CHECK: %[[R:.*]]:4 = attn.linear_attention_grad ins(%[[Q]], %[[KEYS]], %[[V]],
// CHECK-SAME: log_decay(%[[G]] : tensor<4xf32>) dlog_decay(%{{.*}} : tensor<3x4xf32>) causal scale(5.000000e-01) chunk(16)
// CHECK: %[[WINDOW:.*]] = tensor.empty() : tensor<2xf32>
// CHECK: linalg.generic {indexing_maps = [#[[OF_GROUPS]], #{{[a-z0-9]*}}, #{{[a-z0-9]*}}]
// CHECK-SAME: iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]
// CHECK-SAME: ins(%[[R]]#1, %[[WINDOW]] : tensor<3x4x?x16xf32>, tensor<2xf32>)
// CHECK: linalg.generic {{.*}} iterator_types = ["reduction", "parallel"]{{.*}} ins(%[[R]]#3
func.func @shared(%q: tensor<3x4x?x16xf32>, %k: tensor<3x2x?x16xf32>, %v: tensor<3x4x?x8xf32>, %g: tensor<4xf32>,
                  %o: tensor<3x4x?x8xf32>) -> tensor<3x4x?x8xf32> {
  %r = attn.linear_attention ins(%q, %k, %v : tensor<3x4x?x16xf32>, tensor<3x2x?x16xf32>, tensor<3x4x?x8xf32>)
      outs(%o : tensor<3x4x?x8xf32>) log_decay(%g : tensor<4xf32>) causal scale(0.5) chunk(16) -> tensor<3x4x?x8xf32>
  return %r : tensor<3x4x?x8xf32>
}

// -----

// Sequences keep their states, and their boundaries have no gradient.
// CHECK-LABEL: func @sequences_grad
// CHECK-SAME: %[[C:[a-z0-9]+]]: tensor<?xi32>
// CHECK: attn.linear_attention_grad
// CHECK-SAME: initial_state(%{{[a-z0-9]+}} : tensor<?x2x16x16xf32>) sequences(%[[C]] : tensor<?xi32>)
// CHECK-SAME: dinitial_state(%{{[a-z0-9]+}} : tensor<?x2x16x16xf32>) causal
func.func @sequences(%q: tensor<1x2x9x16xf32>, %s: tensor<?x2x16x16xf32>, %c: tensor<?xi32>) -> tensor<1x2x9x16xf32> {
  %o = tensor.empty() : tensor<1x2x9x16xf32>
  %r = attn.linear_attention
      ins(%q, %q, %q : tensor<1x2x9x16xf32>, tensor<1x2x9x16xf32>, tensor<1x2x9x16xf32>)
      outs(%o : tensor<1x2x9x16xf32>) initial_state(%s : tensor<?x2x16x16xf32>) sequences(%c : tensor<?xi32>) causal
      -> tensor<1x2x9x16xf32>
  return %r : tensor<1x2x9x16xf32>
}

// -----

// The gradients of states and of beta. Only the state has a gradient here.
// CHECK-LABEL: func @states_grad
// CHECK-SAME: %{{[a-z0-9]+}}: tensor<1x2x16x16xf32>, %[[DS:[a-z0-9]+]]: tensor<1x2x16x16xf32>)
// CHECK: %[[ZERO:.*]] = linalg.fill
// CHECK: %[[R:.*]]:5 = attn.linear_attention_grad
// CHECK-SAME: beta(%{{[a-z0-9]+}} : tensor<1x2x9xf32>) initial_state(%{{[a-z0-9]+}} : tensor<1x2x16x16xf32>)
// CHECK-SAME: dfinal_state(%[[DS]] : tensor<1x2x16x16xf32>) dbeta(%{{[a-z0-9]+}} : tensor<1x2x9xf32>)
// CHECK-SAME: dinitial_state(%{{[a-z0-9]+}} : tensor<1x2x16x16xf32>) causal
func.func @states(%q: tensor<1x2x9x16xf32>, %k: tensor<1x2x9x16xf32>, %v: tensor<1x2x9x16xf32>, %b: tensor<1x2x9xf32>,
                  %s: tensor<1x2x16x16xf32>) -> tensor<1x2x16x16xf32> {
  %o = tensor.empty() : tensor<1x2x9x16xf32>
  %f = tensor.empty() : tensor<1x2x16x16xf32>
  %r:2 = attn.linear_attention
      ins(%q, %k, %v : tensor<1x2x9x16xf32>, tensor<1x2x9x16xf32>, tensor<1x2x9x16xf32>)
      outs(%o, %f : tensor<1x2x9x16xf32>, tensor<1x2x16x16xf32>) beta(%b : tensor<1x2x9xf32>)
      initial_state(%s : tensor<1x2x16x16xf32>) causal -> tensor<1x2x9x16xf32>, tensor<1x2x16x16xf32>
  return %r#1 : tensor<1x2x16x16xf32>
}
