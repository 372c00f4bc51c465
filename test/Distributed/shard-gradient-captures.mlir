// RUN: attn-opt %s --attn-shard-attention="method=ring ranks=2" --canonicalize --cse | FileCheck %s --check-prefixes=CHECK,RING
// RUN: attn-opt %s --attn-shard-attention="method=allgather ranks=2" --canonicalize --cse | FileCheck %s
// RUN: attn-opt %s --attn-shard-attention="method=ulysses ranks=2" --canonicalize --cse | FileCheck %s
// RUN: attn-opt %s --attn-shard-attention="method=usp ranks=4 ulysses-degree=2" --canonicalize --cse | FileCheck %s --check-prefix=USP
// RUN: attn-opt %s --attn-shard-attention="method=striped ranks=2" --canonicalize --cse | FileCheck %s

!t = tensor<1x2x64x16xf32>
!l = tensor<1x2x64xf32>
!b = tensor<2x64xf32>

// Ranks add up the terms of all steps, and then the terms of all ranks, to what the destination has.
// CHECK-LABEL: func @bias(
// CHECK-SAME: tensor<2x64xf32>, %[[DBIAS:[^:]*]]: tensor<2x64xf32>)
// CHECK: attn.attention_grad
// CHECK: attn.accumulate
// RING: attn.attention_grad
// RING: attn.accumulate
// CHECK: %[[GATHERED:.*]] = attn.comm.all_gather ins(%{{.*}} : tensor<2x64xf32>) outs(%{{.*}} : tensor<2x2x64xf32>)
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}} ins(%[[GATHERED]] : tensor<2x2x64xf32>)
// CHECK: %[[RESULT:.*]] = linalg.generic {{.*}} ins(%[[SUM]] : tensor<2x64xf32>) outs(%[[DBIAS]] : tensor<2x64xf32>)
// CHECK: return {{.*}}%[[RESULT]] :
// USP-LABEL: func @bias(
// USP-COUNT-1: attn.comm.all_gather ins(%{{.*}} : tensor<2x64xf32>) outs(%{{.*}} : tensor<4x2x64xf32>)
func.func @bias(%q: !t, %k: !t, %v: !t, %out: !t, %lse: !l, %dout: !t, %bias: !b, %dbias: !b) -> (!t, !t, !t, !b) {
  %e = tensor.empty() : !t
  %0:4 = attn.attention_grad ins(%q, %k, %v, %out, %lse, %dout : !t, !t, !t, !t, !l, !t)
      outs(%e, %e, %e, %dbias : !t, !t, !t, !b)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %x = tensor.extract %bias[%h, %j] : !b
        %y = arith.addf %s, %x : f32
        attn.yield %y : f32
      } score_mod_grad {
      ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index, %db: !b):
        attn.accumulate %ds into %db[%h, %j] : !b
        attn.yield %ds : f32
      } -> !t, !t, !t, !b
  return %0#0, %0#1, %0#2, %0#3 : !t, !t, !t, !b
}
