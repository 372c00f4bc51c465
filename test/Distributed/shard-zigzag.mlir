// RUN: attn-opt %s --split-input-file --attn-shard-attention="method=zigzag ranks=2" --remarks-filter="attn-shard-.*" \
// RUN:   --remark-format=emitRemark --verify-diagnostics --canonicalize --cse | FileCheck %s --implicit-check-not=attn.merge

!t = tensor<1x2x64x16xf32>
!l = tensor<1x2x64xf32>

// Of 4 chunks, rank 0 has 0 and 3, and rank 1 has 1 and 2. With their own keys, queries of the second chunk attend to
// both chunks. Then rank 1 attends to chunk 0 with both, and rank 0 to chunks 1 and 2 with the second one. Each chunk
// of queries has results of its own, from which attention goes on.
// CHECK-LABEL: func @causal(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<1x2x32x16xf32> {{[^%]*}}, %[[K:[^:]*]]: tensor<1x2x32x16xf32> {{[^%]*}},
// CHECK-SAME: %[[V:[^:]*]]: tensor<1x2x32x16xf32> {{[^%]*}}, %[[OUT:[^:]*]]: tensor<1x2x32x16xf32> {{[^%]*}},
// CHECK-SAME: %[[LSE:[^:]*]]: tensor<1x2x32xf32>
// CHECK-DAG: %[[LAST:.*]] = arith.constant 3 : index
// CHECK-DAG: %[[LENGTH:.*]] = arith.constant 16 : index
// CHECK: %[[RANK:.*]] = attn.comm.rank ranks(2)
// CHECK: %[[S0:.*]]:6 = attn.overlap by streams {
// CHECK:   %[[Q0:.*]] = tensor.extract_slice %[[Q]][0, 0, 0, 0] [1, 2, 16, 16] [1, 1, 1, 1]
// CHECK:   %[[K0:.*]] = tensor.extract_slice %[[K]][0, 0, 0, 0] [1, 2, 16, 16] [1, 1, 1, 1]
// CHECK:   %[[FIRST:.*]] = arith.muli %[[RANK]], %[[LENGTH]] : index
// CHECK:   %[[WORD:.*]] = arith.index_cast %[[FIRST]] : index to i32
// CHECK:   tensor.from_elements %[[WORD]], %[[WORD]]
// CHECK:   %[[A00:.*]]:2 = attn.attention ins(%[[Q0]], %[[K0]],
// CHECK:   %[[Q1:.*]] = tensor.extract_slice %[[Q]][0, 0, 16, 0] [1, 2, 16, 16] [1, 1, 1, 1]
// CHECK:   %[[K1:.*]] = tensor.extract_slice %[[K]][0, 0, 16, 0] [1, 2, 16, 16] [1, 1, 1, 1]
// CHECK:   %[[CHUNK:.*]] = arith.subi %[[LAST]], %[[RANK]] : index
// CHECK:   arith.muli %[[CHUNK]], %[[LENGTH]] : index
// CHECK:   %[[A11:.*]]:2 = attn.attention ins(%[[Q1]], %[[K1]],
// CHECK:   %[[A10:.*]]:2 = attn.attention ins(%[[Q1]], %[[K0]], {{.*}} state(%[[A11]]#0, %[[A11]]#1 :
// CHECK:   attn.overlap_yield %[[A00]]#0, %[[A00]]#1, %[[A10]]#0, %[[A10]]#1
// CHECK: } and {
// CHECK:   attn.comm.send_recv ins(%[[K]] : tensor<1x2x32x16xf32>)
// CHECK:   attn.comm.send_recv ins(%[[V]] : tensor<1x2x32x16xf32>)
// CHECK: %[[OUT0:.*]] = tensor.extract_slice %[[OUT]][0, 0, 0, 0] [1, 2, 16, 16] [1, 1, 1, 1]
// CHECK: %[[IS_BEHIND:.*]] = arith.cmpi uge, %[[RANK]],
// CHECK: %[[R0:.*]]:2 = scf.if %[[IS_BEHIND]]
// CHECK:   attn.attention {{.*}} outs(%[[OUT0]], {{.*}} state(%[[S0]]#0, %[[S0]]#1 :
// CHECK:   bufferization.materialize_in_destination %[[S0]]#0 in %[[OUT0]]
// CHECK: %[[WITH0:.*]] = tensor.insert_slice %[[R0]]#0 into %[[OUT]][0, 0, 0, 0]
// CHECK: %[[LSE0:.*]] = tensor.insert_slice %[[R0]]#1 into %[[LSE]][0, 0, 0]
// CHECK: %[[IS_BEFORE:.*]] = arith.cmpi ult, %[[RANK]],
// CHECK: %[[P11:.*]]:2 = scf.if %[[IS_BEFORE]]
// CHECK:   attn.attention {{.*}} state(%[[S0]]#2, %[[S0]]#3 :
// CHECK: %[[R1:.*]]:2 = attn.attention {{.*}} state(%[[P11]]#0, %[[P11]]#1 :
// CHECK: %[[RESULT:.*]] = tensor.insert_slice %[[R1]]#0 into %[[WITH0]][0, 0, 16, 0]
// CHECK: %[[RESULT_LSE:.*]] = tensor.insert_slice %[[R1]]#1 into %[[LSE0]][0, 0, 16]
// CHECK: return %[[RESULT]], %[[RESULT_LSE]]
func.func @causal(%q: !t, %k: !t, %v: !t, %out: !t, %lse: !l) -> (!t, !l) {
  // expected-remark @below {{ring of 2 ranks: 2 of 2 steps; of 16 pairs of chunks, ranks attend to 10, one of them to 5, and send their keys 2 times}}
  %0:2 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out, %lse : !t, !l) mask(#attn.causal) -> !t, !l
  return %0#0, %0#1 : !t, !l
}

// -----

!t = tensor<1x2x64x16xf32>

// The ends of a chunk in the middle are all that ranks need of each other: chunk 1 attends to chunk 0, and chunk 3 to 2.
// The queries of the second slot of rank 1 have all they need before.
// CHECK-LABEL: func @window(
// CHECK: %[[S0:.*]]:6 = attn.overlap
// CHECK-NOT: attn.merge
// CHECK: scf.if
// CHECK: attn.attention {{.*}} state(%[[S0]]#0, %[[S0]]#1 :
// CHECK: scf.if
// CHECK: attn.attention {{.*}} state(%[[S0]]#2, %[[S0]]#3 :
// CHECK: tensor.insert_slice
func.func @window(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  // expected-remark @below {{ring of 2 ranks: 2 of 2 steps; of 16 pairs of chunks, ranks attend to 7, one of them to 4, and send their keys 2 times}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) mask(#attn.sliding_window<left = 3, right = 0>) -> !t
  return %0 : !t
}

// -----

#all = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
!t = tensor<1x2x64x16xf32>
// Operations on rows read positions in the whole: rank r has chunks r and 3 - r of 16 rows.
// CHECK-LABEL: func @position(
// CHECK: %[[RANK:.*]] = attn.comm.rank ranks(2)
// CHECK: %[[BEFORE:.*]] = arith.subi %c2, %[[RANK]]
// CHECK: %[[SECOND:.*]] = arith.muli %[[BEFORE]], %c16
// CHECK: linalg.generic
// CHECK:   %[[ROW:.*]] = linalg.index 2
// CHECK:   %[[IS_FIRST:.*]] = arith.cmpi ult, %[[ROW]], %c16
// CHECK:   %[[OFFSET:.*]] = arith.select %[[IS_FIRST]], %{{.*}}, %[[SECOND]]
// CHECK:   %[[POSITION:.*]] = arith.addi %[[ROW]], %[[OFFSET]]
// CHECK:   arith.index_cast %[[POSITION]]
func.func @position(%q: !t, %k: !t, %v: !t, %out: !t, %e: !t) -> (!t, !t) {
  // expected-remark @below {{send their keys 2 times}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) -> !t
  %1 = linalg.generic {indexing_maps = [#all, #all],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%0 : !t) outs(%e : !t) {
  ^bb0(%x: f32, %old: f32):
    %i = linalg.index 2 : index
    %n = arith.index_cast %i : index to i32
    %f = arith.sitofp %n : i32 to f32
    %y = arith.mulf %x, %f : f32
    linalg.yield %y : f32
  } -> !t
  return %0, %1 : !t, !t
}
