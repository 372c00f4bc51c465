// RUN: attn-opt %s --attn-shard-attention="method=striped ranks=2" --canonicalize --cse | FileCheck %s

!t = tensor<1x2x64x16xf32>
!l = tensor<1x2x64xf32>

// Each rank has a half of each pair of chunks: its own rows up to the diagonal, and, of the keys of the other rank, rank
// 0 the rows below it.
// CHECK-LABEL: func @causal(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<1x2x32x16xf32> {{[^%]*}}, %[[K:[^:]*]]: tensor<1x2x32x16xf32>
// CHECK: %[[RANK:.*]] = attn.comm.rank ranks(2)
// CHECK: %[[S0:.*]]:5 = attn.overlap by streams {
// CHECK:   attn.attention_grad ins(%[[Q]], %[[K]],
// CHECK-NOT: positions
// CHECK-SAME: mask(#attn.causal)
// CHECK: %[[S1:.*]]:5 = attn.overlap by streams {
// CHECK:   arith.cmpi ult, %[[RANK]],
// CHECK:   attn.attention_grad ins(%[[Q]], %[[S0]]#3,
// CHECK-SAME: positions(%{{.*}} : tensor<6xi32>) mask(#attn.causal)
// CHECK: attn.comm.send_recv
// CHECK: return
func.func @causal(%q: !t, %k: !t, %v: !t, %out: !t, %lse: !l, %dout: !t) -> (!t, !t, !t) {
  %e = tensor.empty() : !t
  %0:3 = attn.attention_grad ins(%q, %k, %v, %out, %lse, %dout : !t, !t, !t, !t, !l, !t)
      outs(%e, %e, %e : !t, !t, !t) mask(#attn.causal) -> !t, !t, !t
  return %0#0, %0#1, %0#2 : !t, !t, !t
}
