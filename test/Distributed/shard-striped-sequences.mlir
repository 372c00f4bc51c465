// RUN: attn-opt %s --split-input-file --attn-shard-attention="method=striped ranks=3" --remarks-filter="attn-shard-.*" \
// RUN:   --remark-format=emitRemark --verify-diagnostics --canonicalize --cse | FileCheck %s

!t = tensor<1x2x96x16xf32>
!cu = tensor<?xi32>

// Row i of a rank is row i * 3 + rank of the whole. Before a boundary, there are (boundary + 2 - rank) / 3 rows, rounded
// down also if that is negative: 2^31 rows more are taken off again. Queries and keys of a rank have the same rows, so that
// the mask stays as it is. In step 1, a sequence whose first row of the queries is before its first row of the keys has
// keys from number 1 on: its queries attend to keys before their own row alone.
// CHECK-LABEL: func @causal(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<1x2x32x16xf32> {{[^%]*}}, %[[K:[^:]*]]: tensor<1x2x32x16xf32>
// CHECK-SAME: %[[OUT:[^:]*]]: tensor<1x2x32x16xf32> {attn.name = "out"}, %[[CU:[^:]*]]: tensor<?xi32>
// CHECK-DAG: %[[MOST:.*]] = arith.constant 6442450946 : i64
// CHECK-DAG: %[[BEFORE:.*]] = arith.constant 2147483648 : i64
// CHECK-DAG: %[[STRIDE:.*]] = arith.constant 3 : i64
// CHECK-DAG: %[[LAST:.*]] = arith.constant 2 : i64
// CHECK: %[[RANK:.*]] = attn.comm.rank ranks(3)
// CHECK: %[[RANK_WORD:.*]] = arith.index_cast %[[RANK]] : index to i64
// CHECK: %[[OFFSET:.*]] = arith.subi %[[MOST]], %[[RANK_WORD]]
// CHECK: %[[OWN:.*]] = linalg.generic {{.*}} ins(%[[CU]] : tensor<?xi32>)
// CHECK:   %[[BOUNDARY:.*]] = arith.extsi
// CHECK:   %[[SHIFTED:.*]] = arith.addi %[[BOUNDARY]], %[[OFFSET]]
// CHECK:   %[[NUMBER:.*]] = arith.divui %[[SHIFTED]], %[[STRIDE]]
// CHECK:   arith.subi %[[NUMBER]], %[[BEFORE]]
// CHECK: attn.overlap by streams {
// CHECK:   attn.attention ins(%[[Q]], %[[K]], {{.*}} sequences packed(%[[OWN]], %[[OWN]] : {{.*}} mask(#attn.causal)
// CHECK: %[[SKIPPED:.*]] = linalg.generic {{.*}} ins(%[[CU]] : tensor<?xi32>)
// CHECK:   %[[REST:.*]] = arith.remui %{{.*}}, %[[STRIDE]]
// CHECK:   %[[OF_QUERIES:.*]] = arith.subi %[[LAST]], %[[REST]]
// CHECK:   %[[FIRST_QUERY:.*]] = arith.trunci %[[OF_QUERIES]]
// CHECK:   %[[REST:.*]] = arith.remui %{{.*}}, %[[STRIDE]]
// CHECK:   %[[OF_KEYS:.*]] = arith.subi %[[LAST]], %[[REST]]
// CHECK:   %[[FIRST_KEY:.*]] = arith.trunci %[[OF_KEYS]]
// CHECK:   arith.cmpi ult, %[[FIRST_QUERY]], %[[FIRST_KEY]]
// CHECK: %[[OTHER:.*]] = linalg.generic {{.*}} ins(%[[CU]] : tensor<?xi32>)
// CHECK: attn.attention ins(%[[Q]], {{.*}} sequences packed(%[[OWN]], %[[OTHER]] : {{.*}} mask_mod {
// CHECK: ^bb0(%[[B:.*]]: index, %{{.*}}: index, %[[I:.*]]: index, %[[J:.*]]: index):
// CHECK:   tensor.extract %[[SKIPPED]][%[[B]]]
// CHECK:   %[[KEY:.*]] = arith.addi %[[J]],
// CHECK:   arith.cmpi sle, %[[KEY]],
// CHECK: attn.attention {{.*}} outs(%[[OUT]] : {{.*}} mask_mod {
func.func @causal(%q: !t, %k: !t, %v: !t, %out: !t, %cu: !cu) -> !t {
  // expected-remark @below {{ring of 3 ranks: 3 of 3 steps; of 9 pairs of chunks, ranks attend to 9, one of them to 3, and send their keys 6 times}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) sequences packed(%cu, %cu : !cu, !cu)
      mask(#attn.causal) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x96x16xf32>
!cu = tensor<?xi32>

// Keys of the last step are one or two positions from a query of their sequence, of which the window has none.
// CHECK-LABEL: func @window(
// CHECK: attn.attention {{.*}} mask(#attn.sliding_window<left = 0, right = 0>)
// CHECK: attn.attention {{.*}} mask_mod {
// CHECK-NOT: attn.attention
func.func @window(%q: !t, %k: !t, %v: !t, %out: !t, %cu: !cu) -> !t {
  // expected-remark @below {{ring of 3 ranks: 2 of 3 steps; of 9 pairs of chunks, ranks attend to 6, one of them to 2, and send their keys 3 times}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) sequences packed(%cu, %cu : !cu, !cu)
      mask(#attn.sliding_window<left = 1, right = 0>) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x96x16xf32>
!l = tensor<1x2x96xf32>
!cu = tensor<?xi32>

// Boundaries that differ say nothing of distances: masks see positions within whole sequences, of which neighboring rows
// are three apart. Rows of no sequence keep the contents of the destination, by their positions in the whole.
// CHECK-LABEL: func @gradient(
// CHECK-SAME: %[[DQ:[^:]*]]: tensor<1x2x32x16xf32> {attn.name = "dq"}
// CHECK-SAME: %[[CU_Q:[^:]*]]: tensor<?xi32> {attn.name = "q_sequences"}, %[[CU_K:[^:]*]]: tensor<?xi32>
// CHECK: %[[THREE:.*]] = arith.constant 3 : index
// CHECK: linalg.generic {{.*}} ins(%[[CU_Q]] : tensor<?xi32>)
// CHECK: %[[FIRST_QUERIES:.*]] = linalg.generic {{.*}} ins(%[[CU_Q]] : tensor<?xi32>)
// CHECK: linalg.generic {{.*}} ins(%[[CU_K]] : tensor<?xi32>)
// CHECK: %[[FIRST_KEYS:.*]] = linalg.generic {{.*}} ins(%[[CU_K]] : tensor<?xi32>)
// CHECK: attn.attention_grad {{.*}} mask_mod {
// CHECK: ^bb0(%[[B:.*]]: index, %{{.*}}: index, %[[I:.*]]: index, %[[J:.*]]: index):
// CHECK:   %[[ROW:.*]] = arith.muli %[[I]], %[[THREE]]
// CHECK:   tensor.extract %[[FIRST_QUERIES]][%[[B]]]
// CHECK:   arith.addi %[[ROW]],
// CHECK:   %[[COLUMN:.*]] = arith.muli %[[J]], %[[THREE]]
// CHECK:   tensor.extract %[[FIRST_KEYS]][%[[B]]]
// CHECK:   %[[KEY:.*]] = arith.addi %[[COLUMN]],
// CHECK:   arith.cmpi sle, %[[KEY]],
// CHECK: linalg.generic {{.*}}tensor<i32>, tensor<i32>) outs(%[[DQ]] :
// CHECK:   %[[INDEX:.*]] = linalg.index 2
// CHECK:   %[[WORD:.*]] = arith.index_cast %[[INDEX]] : index to i32
// CHECK:   %[[SCALED:.*]] = arith.muli %[[WORD]], %{{.*}} : i32
// CHECK:   arith.addi %[[SCALED]],
// CHECK:   arith.select
func.func @gradient(%q: !t, %k: !t, %v: !t, %out: !t, %lse: !l, %dout: !t, %dq: !t, %dk: !t, %dv: !t, %cu_q: !cu,
                    %cu_k: !cu) -> (!t, !t, !t) {
  // expected-remark @below {{ring of 3 ranks: 3 of 3 steps}}
  %0:3 = attn.attention_grad ins(%q, %k, %v, %out, %lse, %dout : !t, !t, !t, !t, !l, !t)
      outs(%dq, %dk, %dv : !t, !t, !t) sequences packed(%cu_q, %cu_k : !cu, !cu) mask(#attn.causal) -> !t, !t, !t
  return %0#0, %0#1, %0#2 : !t, !t, !t
}
