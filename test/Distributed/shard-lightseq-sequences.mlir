// RUN: attn-opt %s --split-input-file --attn-shard-attention="method=lightseq ranks=4" \
// RUN:   --remarks-filter="attn-shard-.*" --remark-format=emitRemark --verify-diagnostics --canonicalize --cse \
// RUN:   | FileCheck %s

!t = tensor<1x2x64x16xbf16>
!cu = tensor<?xi32>

// In step 1, rank 0 attends with the queries of rank 3 to its own keys: it has the boundaries within the chunks of
// both, and so have the others with the keys of the rank before them. Rows of no sequence have results of no keys, and
// keep the contents of the destination in the end.
// CHECK-LABEL: func @causal(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<1x2x16x16xbf16> {{[^%]*}}, %[[K:[^:]*]]: tensor<1x2x16x16xbf16> {{[^%]*}},
// CHECK-SAME: %[[V:[^:]*]]: tensor<1x2x16x16xbf16> {{[^%]*}}, %[[OUT:[^:]*]]: tensor<1x2x16x16xbf16> {{[^%]*}},
// CHECK-SAME: %[[CU:[^:]*]]: tensor<?xi32>
// CHECK: %[[RANK:.*]] = attn.comm.rank ranks(4)
// CHECK: %[[OWN:.*]] = linalg.generic {{.*}} ins(%[[CU]] : tensor<?xi32>)
// CHECK: %[[S0:.*]]:5 = attn.overlap by streams {
// CHECK:   attn.attention ins(%[[Q]], %[[K]], %[[V]] : {{.*}} sequences packed(%[[OWN]], %[[OWN]] : {{.*}} mask(#attn.causal)
// CHECK: } -> (
// CHECK: %[[SUM:.*]] = arith.addi %[[RANK]], %c3
// CHECK: %[[BEFORE:.*]] = arith.remui %[[SUM]], %c4
// CHECK: %[[FIRST:.*]] = arith.muli %[[BEFORE]], %c16
// CHECK: %[[FIRST_WORD:.*]] = arith.index_cast %[[FIRST]]
// CHECK: %[[OTHER:.*]] = linalg.generic {{.*}} ins(%[[CU]] : tensor<?xi32>)
// CHECK:   arith.maxsi
// CHECK:   %[[BOUNDED:.*]] = arith.minsi
// CHECK:   arith.subi %[[BOUNDED]], %[[FIRST_WORD]]
// CHECK: attn.overlap by streams {
// CHECK:   scf.if
// CHECK:     attn.attention ins(%[[Q]], %[[S0]]#2, %[[S0]]#3 : {{.*}} state({{.*}} sequences packed(%[[OWN]], %[[OTHER]] : {{.*}}) ->
// CHECK:   scf.if
// CHECK:     %[[ZEROS:.*]] = linalg.fill
// CHECK:     %[[NOTHING:.*]] = linalg.fill
// CHECK:     attn.attention ins(%[[S0]]#4, %[[K]], %[[V]] : {{.*}} outs(%[[ZEROS]], %[[NOTHING]] :
// CHECK-SAME:  sequences packed(%[[OTHER]], %[[OWN]] : tensor<?xi32>, tensor<?xi32>) ->
// CHECK: %[[MERGED:.*]] = attn.merge
// CHECK: linalg.generic {{.*}} ins(%[[MERGED]], {{.*}}tensor<i32>, tensor<i32>) outs(%[[OUT]] :
// CHECK:   arith.select
func.func @causal(%q: !t, %k: !t, %v: !t, %out: !t, %cu: !cu) -> !t {
  // expected-remark @below {{balanced schedule of 4 ranks: 3 steps; of 16 pairs of chunks, ranks attend to 10, one of them to 3, and send keys 5 times, queries 1 times, results 1 times}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) sequences packed(%cu, %cu : !cu, !cu)
      mask(#attn.causal) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xbf16>
!l = tensor<1x2x64xf32>
!cu = tensor<?xi32>

// Keys of the rank before are in the window if they are of the same sequence. The region of a helper adds the positions
// of the first rows of the queries that it has received, and of its own keys.
// CHECK-LABEL: func @gradient(
// CHECK-SAME: %[[DQ:[^:]*]]: tensor<1x2x16x16xbf16> {attn.name = "dq"}, %[[DK:[^:]*]]: tensor<1x2x16x16xbf16> {attn.name = "dk"}
// CHECK-SAME: %[[CU:[^:]*]]: tensor<?xi32>
// CHECK: %[[OWN:.*]] = linalg.generic {{.*}} ins(%[[CU]] : tensor<?xi32>)
// CHECK: attn.attention_grad {{.*}} sequences packed(%[[OWN]], %[[OWN]] : {{.*}} mask(#attn.sliding_window<left = 40, right = 0>)
// CHECK: %[[OTHER:.*]] = linalg.generic {{.*}} ins(%[[CU]] : tensor<?xi32>)
// CHECK: %[[FIRST_OTHER:.*]] = linalg.generic {{.*}} ins(%[[CU]] : tensor<?xi32>)
// CHECK: %[[FIRST:.*]] = linalg.generic {{.*}} ins(%[[CU]] : tensor<?xi32>)
// CHECK: scf.if
// CHECK: attn.attention_grad {{.*}} sequences packed(%[[OWN]], %[[OTHER]] : tensor<?xi32>, tensor<?xi32>) ->
// CHECK: scf.if
// CHECK-COUNT-3: linalg.fill
// CHECK: attn.attention_grad {{.*}} sequences packed(%[[OTHER]], %[[OWN]] : {{.*}} mask_mod {
// CHECK:   tensor.extract %[[FIRST_OTHER]]
// CHECK:   tensor.extract %[[FIRST]]
// CHECK: linalg.generic {{.*}}tensor<i32>, tensor<i32>) outs(%[[DQ]] :
// CHECK: linalg.generic {{.*}}tensor<i32>, tensor<i32>) outs(%[[DK]] :
func.func @gradient(%q: !t, %k: !t, %v: !t, %out: !t, %lse: !l, %dout: !t, %dq: !t, %dk: !t, %dv: !t, %cu: !cu)
    -> (!t, !t, !t) {
  // expected-remark @below {{send keys 5 times, queries 1 times, results 6 times}}
  %0:3 = attn.attention_grad ins(%q, %k, %v, %out, %lse, %dout : !t, !t, !t, !t, !l, !t)
      outs(%dq, %dk, %dv : !t, !t, !t) sequences packed(%cu, %cu : !cu, !cu)
      mask(#attn.sliding_window<left = 40, right = 0>) -> !t, !t, !t
  return %0#0, %0#1, %0#2 : !t, !t, !t
}
