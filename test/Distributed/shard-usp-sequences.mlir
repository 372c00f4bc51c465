// RUN: attn-opt %s --attn-shard-attention="method=usp ranks=4 ulysses-degree=2" --canonicalize --cse | FileCheck %s

!t = tensor<1x4x64x16xf32>
!l = tensor<1x4x64xf32>
!cu = tensor<?xi32>

// Boundaries are the ones within the chunks of a group: of four chunks, group 0 has 0 and 3, and group 1 has 1 and 2.
// Rows of no sequence keep the contents of the destination: rank 0 has the rows of chunk 0, rank 1 of chunk 3, and so on.
// CHECK-LABEL: func @attention(
// CHECK-SAME: %[[OUT:[^:]*]]: tensor<1x4x16x16xf32> {attn.name = "out"}, %[[CU:[^:]*]]: tensor<?xi32>
// CHECK-DAG: %[[TWO:.*]] = arith.constant 2 : index
// CHECK-DAG: %[[LENGTH:.*]] = arith.constant 16 : index
// CHECK: %[[RANK:.*]] = attn.comm.rank ranks(4)
// CHECK: %[[MEMBER:.*]] = arith.remui %[[RANK]], %[[TWO]] : index
// CHECK: %[[HEAD:.*]] = arith.muli %[[MEMBER]], %[[TWO]] : index
// CHECK: %[[GROUP:.*]] = arith.divui %[[RANK]], %[[TWO]] : index
// CHECK: %[[FIRST:.*]] = arith.muli %[[GROUP]], %[[LENGTH]] : index
// CHECK: %[[LOCAL:.*]] = linalg.generic {{.*}} ins(%[[CU]] : tensor<?xi32>)
// CHECK: attn.overlap by streams
// CHECK: attn.attention
// CHECK-SAME: sequences packed(%[[LOCAL]], %[[LOCAL]] : tensor<?xi32>, tensor<?xi32>) mask(#attn.causal)
// CHECK: score_mod {
// CHECK-NEXT: ^bb0(%{{.*}}: f32, %[[B:.*]]: index, %[[H:.*]]: index, %{{.*}}: index, %{{.*}}: index):
// CHECK-NEXT: %[[OF_WHOLE:.*]] = arith.addi %[[H]], %[[HEAD]] : index
// CHECK-NEXT: tensor.extract %{{.*}}[%[[B]], %[[OF_WHOLE]]]
// CHECK: attn.comm.send_recv {{.*}} -> tensor<1x2x32x16xf32>
// CHECK: linalg.generic {{.*}} outs(%[[OUT]] : tensor<1x4x16x16xf32>)
// CHECK: %[[ROW:.*]] = linalg.index 2
// CHECK: %[[WORD:.*]] = arith.index_cast %[[ROW]]
// CHECK: %[[IS_FIRST:.*]] = arith.cmpi slt, %[[WORD]],
// CHECK: arith.select %[[IS_FIRST]],
func.func @attention(%q: !t, %k: !t, %v: !t, %out: !t, %cu: !cu, %bias: tensor<?x4xf32>) -> !t {
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) sequences packed(%cu, %cu : !cu, !cu)
      mask(#attn.causal)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %x = tensor.extract %bias[%b, %h] : tensor<?x4xf32>
        %y = arith.addf %s, %x : f32
        attn.yield %y : f32
      } -> !t
  return %0 : !t
}

// CHECK-LABEL: func @gradient(
// CHECK: attn.attention_grad
// CHECK-SAME: sequences packed(
// CHECK: attn.attention_grad
func.func @gradient(%q: !t, %k: !t, %v: !t, %o: !t, %lse: !l, %dout: !t, %cu: !cu) -> (!t, !t, !t) {
  %e = tensor.empty() : !t
  %0:3 = attn.attention_grad ins(%q, %k, %v, %o, %lse, %dout : !t, !t, !t, !t, !l, !t) outs(%e, %e, %e : !t, !t, !t)
      sequences packed(%cu, %cu : !cu, !cu) mask(#attn.causal) -> !t, !t, !t
  return %0#0, %0#1, %0#2 : !t, !t, !t
}
