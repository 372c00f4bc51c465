// RUN: attn-opt %s --attn-differentiate=function=drop | FileCheck %s

// The gradient drops what attention drops.
// CHECK-LABEL: func.func {{.*}}@drop_bwd(
// CHECK:         attn.attention_grad
// CHECK-SAME:    dropout(<p = 1.250000e-01, rng = #attn.philox<rounds = 7>>, %[[SEED:.*]], %[[OFFSET:.*]] : tensor<i64>, tensor<i64>)
func.func @drop(%q: tensor<?x4x?x16xf32>, %seed: tensor<i64>, %offset: tensor<i64>) -> tensor<?x4x?x16xf32> {
  %0 = attn.attention
      ins(%q, %q, %q : tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>)
      outs(%q : tensor<?x4x?x16xf32>)
      dropout(#attn.dropout<p = 0.125, rng = #attn.philox<rounds = 7>>, %seed, %offset : tensor<i64>, tensor<i64>)
      -> tensor<?x4x?x16xf32>
  return %0 : tensor<?x4x?x16xf32>
}
