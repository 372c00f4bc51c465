// The count of operations is exact, whatever the mask.

// REQUIRES: host-cc
// RUN: attn-run %s --function=dilated --shape=queries=100 --shape=keys=120 --bench --json | FileCheck %s --check-prefix=DILATED
// RUN: attn-run %s --function=causal --shape=queries=100 --shape=keys=120 --bench --json | FileCheck %s --check-prefix=CAUSAL
// RUN: attn-run %s --function=outside --shape=queries=100 --shape=keys=120 --bench --json | FileCheck %s --check-prefix=OUTSIDE

// 2 * 4 * (64 + 64) operations for each pair and batch. Each query attends three
// keys.
// DILATED: "flops": 614400,
func.func @dilated(%q: tensor<2x4x?x64xf32>, %k: tensor<2x4x?x64xf32>, %v: tensor<2x4x?x64xf32>,
                   %o: tensor<2x4x?x64xf32>) -> tensor<2x4x?x64xf32> {
  %0 = attn.attention
      ins(%q, %k, %v : tensor<2x4x?x64xf32>, tensor<2x4x?x64xf32>, tensor<2x4x?x64xf32>)
      outs(%o : tensor<2x4x?x64xf32>)
      mask(#attn.dilated_window<left = 8, right = 0, dilation = 4>) -> tensor<2x4x?x64xf32>
  return %0 : tensor<2x4x?x64xf32>
}

// 100 * 21 + 100 * 99 / 2 pairs.
// CAUSAL: "flops": 14438400,
func.func @causal(%q: tensor<2x4x?x64xf32>, %k: tensor<2x4x?x64xf32>, %v: tensor<2x4x?x64xf32>,
                  %o: tensor<2x4x?x64xf32>) -> tensor<2x4x?x64xf32> {
  %0 = attn.attention
      ins(%q, %k, %v : tensor<2x4x?x64xf32>, tensor<2x4x?x64xf32>, tensor<2x4x?x64xf32>)
      outs(%o : tensor<2x4x?x64xf32>) mask(#attn.causal) -> tensor<2x4x?x64xf32>
  return %0 : tensor<2x4x?x64xf32>
}

// All 12000 pairs but three of each query.
// OUTSIDE: "flops": 23961600,
func.func @outside(%q: tensor<2x4x?x64xf32>, %k: tensor<2x4x?x64xf32>, %v: tensor<2x4x?x64xf32>,
                   %o: tensor<2x4x?x64xf32>) -> tensor<2x4x?x64xf32> {
  %0 = attn.attention
      ins(%q, %k, %v : tensor<2x4x?x64xf32>, tensor<2x4x?x64xf32>, tensor<2x4x?x64xf32>)
      outs(%o : tensor<2x4x?x64xf32>)
      mask(#attn.not<#attn.dilated_window<left = 8, right = 0, dilation = 4>>) -> tensor<2x4x?x64xf32>
  return %0 : tensor<2x4x?x64xf32>
}
