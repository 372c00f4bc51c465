// RUN: attn-opt %s --attn-shard-attention="method=zigzag ranks=2" --canonicalize --cse | FileCheck %s

!t = tensor<1x2x64x16xf32>
!l = tensor<1x2x64xf32>

// Of 4 chunks, rank 0 has 0 and 3, and rank 1 has 1 and 2. In the first step, the second chunk of queries attends to both
// chunks of keys, and the first chunk of keys gets gradients from both chunks of queries.
// CHECK-LABEL: func @causal(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<1x2x32x16xf32> {{[^%]*}}, %[[K:[^:]*]]: tensor<1x2x32x16xf32>
// CHECK: attn.comm.rank ranks(2)
// CHECK: %[[S0:.*]]:8 = attn.overlap by streams {
// CHECK:   %[[Q0:.*]] = tensor.extract_slice %[[Q]][0, 0, 0, 0] [1, 2, 16, 16] [1, 1, 1, 1]
// CHECK:   %[[G00:.*]]:3 = attn.attention_grad ins(%[[Q0]], %[[K0:[^,]*]],
// CHECK:   %[[Q1:.*]] = tensor.extract_slice %[[Q]][0, 0, 16, 0] [1, 2, 16, 16] [1, 1, 1, 1]
// CHECK:   %[[G10:.*]]:3 = attn.attention_grad ins(%[[Q1]], %[[K0]],
// CHECK:   %[[K1:.*]] = tensor.extract_slice %[[K]][0, 0, 16, 0] [1, 2, 16, 16] [1, 1, 1, 1]
// CHECK:   %[[G11:.*]]:3 = attn.attention_grad ins(%[[Q1]], %[[K1]],
// CHECK:   %[[DQ1:.*]] = linalg.generic {{.*}} ins(%[[G11]]#0 : {{.*}}) outs(%[[G10]]#0 :
// CHECK:   %[[DK0:.*]] = linalg.generic {{.*}} ins(%[[G10]]#1 : {{.*}}) outs(%[[G00]]#1 :
// CHECK:   %[[DV0:.*]] = linalg.generic {{.*}} ins(%[[G10]]#2 : {{.*}}) outs(%[[G00]]#2 :
// CHECK:   attn.overlap_yield %[[G00]]#0, %[[DQ1]], %[[DK0]], %[[G11]]#1, %[[DV0]], %[[G11]]#2 :
// CHECK: } and {
// CHECK:   attn.comm.send_recv ins(%[[K]] : tensor<1x2x32x16xf32>)

// Gradients of both chunks travel together.
// CHECK: %[[DK:.*]] = tensor.insert_slice %[[S0]]#2 into %{{.*}}[0, 0, 0, 0] [1, 2, 16, 16] [1, 1, 1, 1]
// CHECK: %[[DV:.*]] = tensor.insert_slice %[[S0]]#4 into %{{.*}}[0, 0, 0, 0] [1, 2, 16, 16] [1, 1, 1, 1]
// CHECK: %[[DKS:.*]] = tensor.insert_slice %[[S0]]#3 into %[[DK]][0, 0, 16, 0] [1, 2, 16, 16] [1, 1, 1, 1]
// CHECK: %[[DVS:.*]] = tensor.insert_slice %[[S0]]#5 into %[[DV]][0, 0, 16, 0] [1, 2, 16, 16] [1, 1, 1, 1]
// CHECK: %[[S1:.*]]:8 = attn.overlap by streams {
// CHECK-COUNT-3: attn.attention_grad
// CHECK: } and {
// CHECK:   attn.comm.send_recv ins(%[[DKS]] : tensor<1x2x32x16xf32>)
// CHECK:   attn.comm.send_recv ins(%[[DVS]] : tensor<1x2x32x16xf32>)

// Each chunk of the gradients that arrive gets the part of this rank.
// CHECK: %[[OLD:.*]] = tensor.extract_slice %[[S1]]#6[0, 0, 0, 0] [1, 2, 16, 16] [1, 1, 1, 1]
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}} ins(%[[S1]]#2 : {{.*}}) outs(%[[OLD]] :
// CHECK: tensor.insert_slice %[[SUM]] into %[[S1]]#6[0, 0, 0, 0]
// CHECK: %[[RETURNED:.*]] = attn.comm.send_recv ins(%{{.*}} : tensor<1x2x32x16xf32>)
// CHECK: attn.comm.send_recv
// CHECK-NOT: attn.comm.send_recv
// CHECK: %[[DQ0:.*]] = tensor.insert_slice %[[S1]]#0 into %{{.*}}[0, 0, 0, 0] [1, 2, 16, 16] [1, 1, 1, 1]
// CHECK: %[[DQ:.*]] = tensor.insert_slice %[[S1]]#1 into %[[DQ0]][0, 0, 16, 0] [1, 2, 16, 16] [1, 1, 1, 1]
// CHECK: return %[[DQ]], %[[RETURNED]],
func.func @causal(%q: !t, %k: !t, %v: !t, %out: !t, %lse: !l, %dout: !t) -> (!t, !t, !t) {
  %e = tensor.empty() : !t
  %0:3 = attn.attention_grad ins(%q, %k, %v, %out, %lse, %dout : !t, !t, !t, !t, !l, !t)
      outs(%e, %e, %e : !t, !t, !t) mask(#attn.causal) -> !t, !t, !t
  return %0#0, %0#1, %0#2 : !t, !t, !t
}
