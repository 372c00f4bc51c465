// RUN: attn-opt %s --inline --attn-differentiate=function=layer --attn-plan-recompute=budget=1064960 \
// RUN:   --symbol-privatize=exclude=layer_fwd,layer_bwd --symbol-dce \
// RUN:   --attn-shard-attention="method=lightseq ranks=4" --remarks-filter=attn-plan-recompute \
// RUN:   --remark-format=emitRemark -o %t.mlir 2>&1 | FileCheck %s --check-prefix=PLAN
// RUN: FileCheck %s < %t.mlir

// The budget has room for the output and the log-sum-exp of attention, 8 * 512 * (64 + 1) * 4 bytes. So the backward
// function runs all but attention again: no rank sends keys for the forward pass a second time.
// PLAN: saved result of 'attn.attention', 1048576 bytes
// PLAN: saved result of 'attn.attention', 16384 bytes
// PLAN: saves 1064960 of 3162112 bytes

// CHECK-LABEL: func.func @layer_fwd(
// CHECK-SAME: -> (tensor<1x8x128x64xf32>, tensor<1x8x128x64xf32>, tensor<1x8x128xf32>)
// CHECK: attn.attention ins(
// CHECK-LABEL: func.func @layer_bwd(
// CHECK-SAME: %[[OUT:[^:]*]]: tensor<1x8x128x64xf32> {attn.name = "out"}, %[[LSE:[^:]*]]: tensor<1x8x128xf32> {attn.name = "lse"}
// CHECK-NOT: attn.attention ins(
// CHECK: math.tanh
// CHECK: attn.attention_grad ins({{.*}}, %[[OUT]], %[[LSE]],
// CHECK-NOT: attn.attention ins(

#rows = affine_map<(b, h, i, d) -> (b, h, i, d)>
!t = tensor<1x8x512x64xf32>

func.func private @tanh(%x: !t) -> !t {
  %e = tensor.empty() : !t
  %y = linalg.generic {indexing_maps = [#rows, #rows], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x : !t) outs(%e : !t) {
  ^bb0(%a: f32, %b: f32):
    %t = math.tanh %a : f32
    linalg.yield %t : f32
  } -> !t
  return %y : !t
}

func.func @layer(%x: !t, %key: !t, %value: !t) -> !t {
  %query = func.call @tanh(%x) : (!t) -> !t
  %init = tensor.empty() : !t
  %o = attn.attention ins(%query, %key, %value : !t, !t, !t) outs(%init : !t) mask(#attn.causal) -> !t
  %y = func.call @tanh(%o) : (!t) -> !t
  %z = func.call @tanh(%y) : (!t) -> !t
  return %z : !t
}
