// RUN: attn-opt %s --attn-choose-schedule="target=sm_90a" | FileCheck %s

// Scales of 8-bit queries and keys are read once for each work item: the schedule is that of attention without them.
// CHECK-LABEL: func @plain
// CHECK:         schedule(#[[CHOSEN:.*]])
func.func @plain(%q: tensor<4x16x4096x128xf8E4M3FN>, %o: tensor<4x16x4096x128xbf16>) -> tensor<4x16x4096x128xbf16> {
  %r = attn.attention ins(%q, %q, %q : tensor<4x16x4096x128xf8E4M3FN>, tensor<4x16x4096x128xf8E4M3FN>, tensor<4x16x4096x128xf8E4M3FN>)
      outs(%o : tensor<4x16x4096x128xbf16>) -> tensor<4x16x4096x128xbf16>
  return %r : tensor<4x16x4096x128xbf16>
}

// CHECK-LABEL: func @scales
// CHECK:         schedule(#[[CHOSEN]])
func.func @scales(%q: tensor<4x16x4096x128xf8E4M3FN>, %o: tensor<4x16x4096x128xbf16>, %qs: tensor<4x8xf32>,
    %ks: tensor<4x8xf32>) -> tensor<4x16x4096x128xbf16> {
  %r = attn.attention ins(%q, %q, %q : tensor<4x16x4096x128xf8E4M3FN>, tensor<4x16x4096x128xf8E4M3FN>, tensor<4x16x4096x128xf8E4M3FN>)
      outs(%o : tensor<4x16x4096x128xbf16>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %two = arith.constant 2 : index
        %shared = arith.floordivsi %h, %two : index
        %x = tensor.extract %qs[%b, %shared] : tensor<4x8xf32>
        %y = tensor.extract %ks[%b, %shared] : tensor<4x8xf32>
        %s0 = arith.mulf %s, %x : f32
        %s1 = arith.mulf %s0, %y : f32
        attn.yield %s1 : f32
      } -> tensor<4x16x4096x128xbf16>
  return %r : tensor<4x16x4096x128xbf16>
}
