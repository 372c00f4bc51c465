// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{database=%S/Inputs/schedules.json}))' \
// RUN:   --remarks-filter='.*' --remark-format=emitRemark 2>&1 | FileCheck %s

// Of schedules that were measured at all lengths, one for short and one for long
// sequences.
// CHECK: key tile 32 of 2 schedules that fit, measured 100 us for 1024 queries; from 2560 queries on key tile 128 of 2 schedules that fit,
// CHECK-SAME:     measured 1000 us for 4096 queries
// CHECK-LABEL: @dynamic(
// CHECK: schedule(#attn.by_query_length<bound = 2560, below = #attn_tile.sequential<query_tile = 16, key_tile = 32>,
// CHECK-SAME: from = #attn_tile.sequential<query_tile = 32, key_tile = 128>>)
func.func @dynamic(%q: tensor<?x4x?x64xf32>, %o: tensor<?x4x?x64xf32>) -> tensor<?x4x?x64xf32> {
  %0 = attn.attention ins(%q, %q, %q : tensor<?x4x?x64xf32>, tensor<?x4x?x64xf32>, tensor<?x4x?x64xf32>)
      outs(%o : tensor<?x4x?x64xf32>) -> tensor<?x4x?x64xf32>
  return %0 : tensor<?x4x?x64xf32>
}

// Of a length that is known, the times at the nearest power of two.
// CHECK-LABEL: @near(
// CHECK: schedule(#attn_tile.sequential<query_tile = 8, key_tile = 64>)
func.func @near(%q: tensor<1x4x1200x64xf32>, %o: tensor<1x4x1200x64xf32>) -> tensor<1x4x1200x64xf32> {
  %0 = attn.attention ins(%q, %q, %q : tensor<1x4x1200x64xf32>, tensor<1x4x1200x64xf32>, tensor<1x4x1200x64xf32>)
      outs(%o : tensor<1x4x1200x64xf32>) -> tensor<1x4x1200x64xf32>
  return %0 : tensor<1x4x1200x64xf32>
}

// Of other lengths, and of other attentions, nothing was measured: the model
// chooses.
// CHECK-LABEL: @far(
// CHECK: schedule(#attn_tile.sequential<query_tile = 256, key_tile = 128>)
func.func @far(%q: tensor<1x4x256x64xf32>, %o: tensor<1x4x256x64xf32>) -> tensor<1x4x256x64xf32> {
  %0 = attn.attention ins(%q, %q, %q : tensor<1x4x256x64xf32>, tensor<1x4x256x64xf32>, tensor<1x4x256x64xf32>)
      outs(%o : tensor<1x4x256x64xf32>) -> tensor<1x4x256x64xf32>
  return %0 : tensor<1x4x256x64xf32>
}

// CHECK-LABEL: @causal(
// CHECK: schedule(#attn_tile.sequential<query_tile = 64, key_tile = 64>)
func.func @causal(%q: tensor<1x4x1024x64xf32>, %o: tensor<1x4x1024x64xf32>) -> tensor<1x4x1024x64xf32> {
  %0 = attn.attention ins(%q, %q, %q : tensor<1x4x1024x64xf32>, tensor<1x4x1024x64xf32>, tensor<1x4x1024x64xf32>)
      outs(%o : tensor<1x4x1024x64xf32>) mask(#attn.causal) -> tensor<1x4x1024x64xf32>
  return %0 : tensor<1x4x1024x64xf32>
}
