// RUN: attn-test-opt %s --pass-pipeline="builtin.module(func.func(attn-choose-schedule{target=sm_80}))" | FileCheck %s
// RUN: attn-test-opt %s --pass-pipeline="builtin.module(func.func(attn-choose-schedule{target=test_gpu}))" | FileCheck %s

// A table of another dialect that masks read gets the schedule of preparation kernels.

// CHECK-LABEL: func.func @table(
// CHECK:         test_attn.iota outs(%{{.*}} : tensor<1x8xi32>) schedule(#attn_tile.scalar) -> tensor<1x8xi32>
func.func @table(%table: tensor<1x8xi32>) -> tensor<1x8xi32> {
  %0 = test_attn.iota outs(%table : tensor<1x8xi32>) -> tensor<1x8xi32>
  return %0 : tensor<1x8xi32>
}
