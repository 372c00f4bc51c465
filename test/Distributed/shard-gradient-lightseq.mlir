// RUN: attn-opt %s --split-input-file --attn-shard-attention="method=lightseq ranks=3" \
// RUN:   --remarks-filter="attn-shard-.*" --remark-format=emitRemark --verify-diagnostics --canonicalize --cse \
// RUN:   | FileCheck %s

!t = tensor<1x4x48x16xbf16>
!k = tensor<1x2x48x16xbf16>
!l = tensor<1x4x48xf32>

// In step 1, ranks 1 and 2 return gradients of keys to ranks 0 and 1, and rank 0 returns a gradient of queries to rank 2.
// CHECK-LABEL: func @causal(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<1x4x16x16xbf16> {attn.name = "q"}, %[[K:[^:]*]]: tensor<1x2x16x16xbf16> {attn.name = "k"},
// CHECK-SAME: %[[V:[^:]*]]: tensor<1x2x16x16xbf16> {{[^%]*}}, %[[OUT:[^:]*]]: tensor<1x4x16x16xbf16> {{[^%]*}},
// CHECK-SAME: %[[LSE:[^:]*]]: tensor<1x4x16xf32> {{[^%]*}}, %[[DOUT:[^:]*]]: tensor<1x4x16x16xbf16> {{[^%]*}},
// CHECK-SAME: %[[DLSE:[^:]*]]: tensor<1x4x16xf32> {{[^%]*}}, %[[DQ:[^:]*]]: tensor<1x4x16x16xbf16> {{[^%]*}},
// CHECK-SAME: %[[DK:[^:]*]]: tensor<1x2x16x16xbf16> {{[^%]*}}, %[[DV:[^:]*]]: tensor<1x2x16x16xbf16>
// CHECK: %[[S0:.*]]:10 = attn.overlap by streams {
// CHECK:   attn.attention_grad ins(%[[Q]], %[[K]], %[[V]], %[[OUT]], %[[LSE]], %[[DOUT]], %[[DLSE]] :
// CHECK-SAME: outs({{.*}} : tensor<1x4x16x16xf32>, tensor<1x2x16x16xf32>, tensor<1x2x16x16xf32>)
// CHECK-SAME: positions({{.*}} : tensor<6xi32>) mask(#attn.causal) deterministic
// CHECK: } and {
// CHECK:   attn.comm.send_recv ins(%[[K]] : {{.*}}) to(%[[TO:.*]]) from(%[[FROM:.*]]) outs(
// CHECK:   attn.comm.send_recv ins(%[[V]] : {{.*}}) to(%[[TO]]) from(%[[FROM]]) outs(
// CHECK:   attn.comm.send_recv ins(%[[Q]] : {{.*}}) to(%[[HELPER:.*]]) from(%[[HELPED:.*]]) outs(
// CHECK:   attn.comm.send_recv ins(%[[OUT]] : {{.*}}) to(%[[HELPER]]) from(%[[HELPED]]) outs(
// CHECK:   attn.comm.send_recv ins(%[[LSE]] : {{.*}}) to(%[[HELPER]]) from(%[[HELPED]]) outs(
// CHECK:   attn.comm.send_recv ins(%[[DOUT]] : {{.*}}) to(%[[HELPER]]) from(%[[HELPED]]) outs(
// CHECK:   attn.comm.send_recv ins(%[[DLSE]] : {{.*}}) to(%[[HELPER]]) from(%[[HELPED]]) outs(
// CHECK-NOT: attn.comm.send_recv

// CHECK: %[[OWN:.*]]:3 = scf.if
// CHECK:   attn.attention_grad ins(%[[Q]], %[[S0]]#3, %[[S0]]#4, %[[OUT]], %[[LSE]], %[[DOUT]], %[[DLSE]] :
// CHECK: } else {
// CHECK-COUNT-3: linalg.fill
// CHECK: %[[HELP:.*]]:3 = scf.if
// CHECK:   attn.attention_grad ins(%[[S0]]#5, %[[K]], %[[V]], %[[S0]]#6, %[[S0]]#7, %[[S0]]#8, %[[S0]]#9 :
// CHECK: } else {
// CHECK-COUNT-3: linalg.fill
// CHECK: %[[NO_DQ:.*]] = linalg.fill
// CHECK: %[[NO_DK:.*]] = linalg.fill
// CHECK: %[[NO_DV:.*]] = linalg.fill
// CHECK: %[[DQ2:.*]] = attn.comm.send_recv ins(%[[HELP]]#0 : {{.*}} outs(%[[NO_DQ]] :
// CHECK: %[[DK2:.*]] = attn.comm.send_recv ins(%[[OWN]]#1 : {{.*}} outs(%[[NO_DK]] :
// CHECK: %[[DV2:.*]] = attn.comm.send_recv ins(%[[OWN]]#2 : {{.*}} outs(%[[NO_DV]] :
// CHECK: %[[SUM_DQ:.*]] = linalg.generic {{.*}} ins(%[[OWN]]#0, %[[DQ2]] : {{.*}}) outs(%[[S0]]#0 :
// CHECK: %[[SUM_DK:.*]] = linalg.generic {{.*}} ins(%[[HELP]]#1, %[[DK2]] : {{.*}}) outs(%[[S0]]#1 :
// CHECK: %[[SUM_DV:.*]] = linalg.generic {{.*}} ins(%[[HELP]]#2, %[[DV2]] : {{.*}}) outs(%[[S0]]#2 :
// CHECK: linalg.generic {{.*}} ins(%[[SUM_DQ]] : {{.*}}) outs(%[[DQ]] :
// CHECK: linalg.generic {{.*}} ins(%[[SUM_DK]] : {{.*}}) outs(%[[DK]] :
// CHECK: linalg.generic {{.*}} ins(%[[SUM_DV]] : {{.*}}) outs(%[[DV]] :
func.func @causal(%q: !t, %k: !k, %v: !k, %o: !t, %lse: !l, %do: !t, %dlse: !l, %dq: !t, %dk: !k, %dv: !k)
    -> (!t, !k, !k) {
  // expected-remark @below {{balanced schedule of 3 ranks: 2 steps; of 9 pairs of chunks, ranks attend to 6, one of them to 2, and send keys 2 times, queries 1 times, results 3 times}}
  %0:3 = attn.attention_grad ins(%q, %k, %v, %o, %lse, %do, %dlse : !t, !k, !k, !t, !l, !t, !l)
      outs(%dq, %dk, %dv : !t, !k, !k) mask(#attn.causal) deterministic -> !t, !k, !k
  return %0#0, %0#1, %0#2 : !t, !k, !k
}

// -----

!t = tensor<1x2x48x16xf32>
!l = tensor<1x2x48xf32>

// Without a mask, gradients of keys go to their owners one step behind, and all ranks do the same.
// CHECK-LABEL: func @all(
// CHECK-NOT: scf.if
// CHECK: attn.overlap by streams
// CHECK-COUNT-2: attn.comm.send_recv
// CHECK: attn.overlap by streams
// CHECK-COUNT-2: attn.comm.send_recv
// CHECK: attn.overlap by streams
// CHECK-COUNT-2: attn.comm.send_recv {{.*}}tensor<1x2x16x16xf32>
// CHECK: } -> (
// CHECK-COUNT-2: attn.comm.send_recv {{.*}}tensor<1x2x16x16xf32>
// CHECK-NOT: attn.comm.send_recv
func.func @all(%q: !t, %k: !t, %v: !t, %o: !t, %lse: !l, %do: !t) -> (!t, !t, !t) {
  %e = tensor.empty() : !t
  // expected-remark @below {{balanced schedule of 3 ranks: 3 steps; of 9 pairs of chunks, ranks attend to 9, one of them to 3, and send keys 6 times, queries 0 times, results 6 times}}
  %0:3 = attn.attention_grad ins(%q, %k, %v, %o, %lse, %do : !t, !t, !t, !t, !l, !t) outs(%e, %e, %e : !t, !t, !t)
      -> !t, !t, !t
  return %0#0, %0#1, %0#2 : !t, !t, !t
}

// -----

!t = tensor<1x2x48x16xf32>
!l = tensor<1x2x48xf32>

// CHECK-LABEL: func @local(
// CHECK-NOT: attn.comm.send_recv
// CHECK: attn.attention_grad
// CHECK-NOT: attn.comm.send_recv
// CHECK: return
func.func @local(%q: !t, %k: !t, %v: !t, %o: !t, %lse: !l, %do: !t) -> (!t, !t, !t) {
  %e = tensor.empty() : !t
  // expected-remark @below {{balanced schedule of 3 ranks: 1 steps; of 9 pairs of chunks, ranks attend to 3, one of them to 1, and send keys 0 times, queries 0 times, results 0 times}}
  %0:3 = attn.attention_grad ins(%q, %k, %v, %o, %lse, %do : !t, !t, !t, !t, !l, !t) outs(%e, %e, %e : !t, !t, !t)
      mask(#attn.sliding_window<left = 0, right = 0>) -> !t, !t, !t
  return %0#0, %0#1, %0#2 : !t, !t, !t
}
