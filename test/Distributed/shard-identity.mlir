// RUN: attn-opt %s --attn-shard-attention="method=ring ranks=4" --canonicalize --cse | FileCheck %s
// RUN: attn-opt %s --attn-shard-attention="method=striped ranks=1" --canonicalize --cse | FileCheck %s --check-prefix=ONE

!q = tensor<1x4x64x16xbf16>
!v = tensor<1x2x64x16xbf16>
!l = tensor<1x4x64xf32>

// CHECK-DAG: #[[ROWS:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
// CHECK-DAG: #[[HEADS:.*]] = affine_map<(d0, d1, d2, d3) -> (d1)>
// CHECK-DAG: #[[VALUES:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1 floordiv 2, d2, d3)>

// The value of a row is on the rank of the row. The output is rounded when it is mixed.
// CHECK-LABEL: func @attention(
// CHECK-SAME: %[[V:[^:]*]]: tensor<1x2x16x16xbf16> {attn.name = "v"}, %[[OUT:[^:]*]]: tensor<1x4x16x16xbf16>
// CHECK-SAME: %[[U:[^:]*]]: tensor<4xf32>
// CHECK-NOT: identity
// CHECK: attn.attention {{.*}} state({{.*}} -> tensor<1x4x16x16xf32>
// CHECK: %[[MIXED:.*]] = linalg.generic {indexing_maps = [#[[ROWS]], #[[HEADS]], #[[VALUES]], #[[ROWS]]],
// CHECK-SAME: ins(%{{.*}}, %[[U]], %[[V]] : tensor<1x4x16x16xf32>,
// CHECK: %[[RESULT:.*]] = bufferization.materialize_in_destination %[[MIXED]] in %[[OUT]]
// CHECK: return %[[RESULT]]
// ONE-LABEL: func @attention(
// ONE: attn.attention
// ONE-NOT: identity
func.func @attention(%q: !q, %k: !v, %v: !v, %out: !q, %u: tensor<4xf32>) -> !q {
  %0 = attn.attention ins(%q, %k, %v : !q, !v, !v) outs(%out : !q) identity(%u : tensor<4xf32>) mask(#attn.causal) -> !q
  return %0 : !q
}

// The gradients of values get the gradients of the outputs of their query heads, number 0 and then number 1 of two.
// CHECK-LABEL: func @gradient(
// CHECK: attn.attention_grad
// CHECK-NOT: identity
// CHECK: tensor.extract_slice %{{.*}}[0, 0, 0, 0] [1, 2, 16, 16] [1, 2, 1, 1]
// CHECK: tensor.extract_slice %{{.*}}[0, 1, 0, 0] [1, 2, 16, 16] [1, 2, 1, 1]
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<1x2x16x16xbf16>)
func.func @gradient(%q: !q, %k: !v, %v: !v, %o: !q, %lse: !l, %dout: !q, %u: tensor<4xf32>) -> (!q, !v, !v) {
  %dq = tensor.empty() : !q
  %dk = tensor.empty() : !v
  %0:3 = attn.attention_grad ins(%q, %k, %v, %o, %lse, %dout : !q, !v, !v, !q, !l, !q)
      outs(%dq, %dk, %dk : !q, !v, !v) identity(%u : tensor<4xf32>) mask(#attn.causal) -> !q, !v, !v
  return %0#0, %0#1, %0#2 : !q, !v, !v
}
