// RUN: attn-opt %s --attn-differentiate --attn-plan-recompute --canonicalize --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-differentiate --attn-plan-recompute=budget=100000 --canonicalize --split-input-file | FileCheck %s --check-prefix=SMALL
// RUN: attn-opt %s --attn-differentiate --attn-plan-recompute=budget=0 --canonicalize --split-input-file | FileCheck %s --check-prefix=ZERO
// RUN: attn-opt %s --attn-differentiate --attn-plan-recompute=budget=100000 --remarks-filter=attn-plan-recompute --remark-format=emitRemark \
// RUN:   --split-input-file -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARKS

// Keep masks that attention makes itself are no values: the gradient, and attention if
// it runs again, make them from the same state.
// CHECK-LABEL: func.func @in_kernel_fwd(
// CHECK: %[[A:.*]]:2 = attn.attention {{.*}} dropout(<p = 1.250000e-01, rng = #attn.philox<rounds = 7>>, %{{.*}}, %{{.*}} : tensor<i64>, tensor<i64>)
// CHECK: return %[[A]]#0, %[[A]]#1 : tensor<2x4x512x64xf32>, tensor<2x4x512xf32>
// CHECK-LABEL: func.func @in_kernel_bwd(
// CHECK-SAME: %{{[a-z0-9]+}}: tensor<2x4x512x64xf32>, %[[SEED:[a-z0-9]+]]: tensor<i64>, %[[OFFSET:[a-z0-9]+]]: tensor<i64>,
// CHECK-SAME: %[[OUT:[a-z0-9]+]]: tensor<2x4x512x64xf32>, %[[LSE:[a-z0-9]+]]: tensor<2x4x512xf32>,
// CHECK-NOT: attn.attention ins
// CHECK: attn.attention_grad ins({{.*}}, %[[OUT]], %[[LSE]], {{.*}} dropout(<p = 1.250000e-01, rng = #attn.philox<rounds = 7>>, %[[SEED]], %[[OFFSET]]
// CHECK-SAME:     {{^}} : tensor<i64>, tensor<i64>)

// ZERO-LABEL: func.func @in_kernel_fwd(
// ZERO: %[[A:.*]]:2 = attn.attention
// ZERO: return %[[A]]#0 : tensor<2x4x512x64xf32>
// ZERO-LABEL: func.func @in_kernel_bwd(
// ZERO-SAME: %{{[a-z0-9]+}}: tensor<2x4x512x64xf32>, %[[SEED:[a-z0-9]+]]: tensor<i64>, %[[OFFSET:[a-z0-9]+]]: tensor<i64>,
// ZERO-SAME: %[[OUT:[a-z0-9]+]]: tensor<2x4x512x64xf32>,
// ZERO: %[[A:.*]]:2 = attn.attention {{.*}} dropout(<p = 1.250000e-01, rng = #attn.philox<rounds = 7>>, %[[SEED]], %[[OFFSET]] : tensor<i64>, tensor<i64>)
// ZERO: attn.attention_grad ins({{.*}}, %[[OUT]], %[[A]]#1, {{.*}} dropout(<p = 1.250000e-01, rng = #attn.philox<rounds = 7>>, %[[SEED]], %[[OFFSET]]
// ZERO-SAME:     {{^}} : tensor<i64>, tensor<i64>)

// REMARKS: saved result of 'attn.attention', 16384 bytes
// REMARKS: saves 16384 of 16384 bytes and computes again for 0.0 us; peak memory
func.func @in_kernel(%q: tensor<2x4x512x64xf32>, %seed: tensor<i64>, %offset: tensor<i64>) -> tensor<2x4x512x64xf32> {
  %e = tensor.empty() : tensor<2x4x512x64xf32>
  %o = attn.attention ins(%q, %q, %q : tensor<2x4x512x64xf32>, tensor<2x4x512x64xf32>, tensor<2x4x512x64xf32>)
      outs(%e : tensor<2x4x512x64xf32>)
      dropout(#attn.dropout<p = 0.125, rng = #attn.philox<rounds = 7>>, %seed, %offset : tensor<i64>, tensor<i64>)
      -> tensor<2x4x512x64xf32>
  return %o : tensor<2x4x512x64xf32>
}

// -----

// Keep masks that are a tensor are saved where that is cheaper than to make them, and
// made again where the budget has no room for them.
// CHECK-LABEL: func.func @tensor_fwd(
// CHECK: %[[BITS:.*]] = attn.dropout_mask
// CHECK: %[[A:.*]]:2 = attn.attention
// CHECK: return %[[A]]#0, %[[A]]#1, %[[BITS]] : tensor<2x4x512x64xf32>, tensor<2x4x512xf32>, tensor<2x4x256x32xi32>
// CHECK-LABEL: func.func @tensor_bwd(
// CHECK-SAME: %{{[a-z0-9]+}}: tensor<2x4x512x64xf32>, %{{[a-z0-9]+}}: tensor<i64> {attn.unused}, %{{[a-z0-9]+}}: tensor<i64> {attn.unused},
// CHECK-SAME: %{{[a-z0-9]+}}: tensor<2x4x512x64xf32>, %{{[a-z0-9]+}}: tensor<2x4x512xf32>, %[[BITS:[a-z0-9]+]]: tensor<2x4x256x32xi32>,
// CHECK-NOT: attn.dropout_mask rows by
// CHECK: attn.attention_grad {{.*}} dropout_mask rows(%[[BITS]] :

// SMALL-LABEL: func.func @tensor_fwd(
// SMALL: %[[A:.*]]:2 = attn.attention
// SMALL: return %[[A]]#0, %[[A]]#1 : tensor<2x4x512x64xf32>, tensor<2x4x512xf32>
// SMALL-LABEL: func.func @tensor_bwd(
// SMALL-SAME: %{{[a-z0-9]+}}: tensor<2x4x512x64xf32>, %[[SEED:[a-z0-9]+]]: tensor<i64>, %[[OFFSET:[a-z0-9]+]]: tensor<i64>,
// SMALL-NOT: attn.attention ins
// SMALL: %[[BITS:.*]] = attn.dropout_mask rows by(<p = 1.250000e-01, rng = #attn.philox<rounds = 7>>, %[[SEED]], %[[OFFSET]] :
// SMALL-NOT: attn.attention ins
// SMALL: attn.attention_grad {{.*}} dropout_mask rows(%[[BITS]] :

// REMARKS: recomputed result of 'attn.dropout_mask', 262144 bytes: 0.1 us to move, 3.1 us to run the operation again; without the budget it would be saved"
// REMARKS: saved result of 'attn.attention', 16384 bytes
// REMARKS: saves 16384 of 278528 bytes and computes again for 3.1 us; peak memory
func.func @tensor(%q: tensor<2x4x512x64xf32>, %seed: tensor<i64>, %offset: tensor<i64>) -> tensor<2x4x512x64xf32> {
  %e = tensor.empty() : tensor<2x4x512x64xf32>
  %i = tensor.empty() : tensor<2x4x256x32xi32>
  %bits = attn.dropout_mask rows by(#attn.dropout<p = 0.125, rng = #attn.philox<rounds = 7>>, %seed, %offset : tensor<i64>, tensor<i64>)
      outs(%i : tensor<2x4x256x32xi32>) -> tensor<2x4x256x32xi32>
  %o = attn.attention ins(%q, %q, %q : tensor<2x4x512x64xf32>, tensor<2x4x512x64xf32>, tensor<2x4x512x64xf32>)
      outs(%e : tensor<2x4x512x64xf32>) dropout_mask rows(%bits : tensor<2x4x256x32xi32>) p(0.125)
      -> tensor<2x4x512x64xf32>
  return %o : tensor<2x4x512x64xf32>
}
