// RUN: attn-opt %s --attn-shard-attention="method=ulysses ranks=2" --canonicalize --cse | FileCheck %s

!t = tensor<1x4x64x16xf32>
!l = tensor<1x4x64xf32>
!cu = tensor<?xi32>

// Random numbers depend on the sequence, the head and the positions within the sequence, of which a rank has all but the
// heads of the other one.
// CHECK-LABEL: func @attention(
// CHECK-SAME: %[[CU:[^:]*]]: tensor<?xi32>
// CHECK: %[[RANK:.*]] = attn.comm.rank ranks(2)
// CHECK: %[[HEAD:.*]] = arith.muli %[[RANK]], %c2
// CHECK: %[[WORD:.*]] = arith.index_cast %[[HEAD]] : index to i32
// CHECK: %[[POSITIONS:.*]] = tensor.from_elements %c0_i32, %c0_i32, %c0_i32, %[[WORD]],
// CHECK: attn.attention {{.*}} sequences packed(%[[CU]], %[[CU]] : tensor<?xi32>, tensor<?xi32>)
// CHECK-SAME: positions(%[[POSITIONS]] : tensor<6xi32>) dropout_only mask(#attn.causal) dropout(
func.func @attention(%q: !t, %k: !t, %v: !t, %out: !t, %cu: !cu, %seed: i64) -> !t {
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) sequences packed(%cu, %cu : !cu, !cu)
      mask(#attn.causal) dropout(#attn.dropout<p = 0.125, rng = #attn.philox<rounds = 7>>, %seed, %seed : i64, i64) -> !t
  return %0 : !t
}

// CHECK-LABEL: func @gradient(
// CHECK: attn.attention_grad
// CHECK-SAME: positions(%{{.*}} : tensor<6xi32>) dropout_only mask(#attn.causal) dropout(
func.func @gradient(%q: !t, %k: !t, %v: !t, %o: !t, %lse: !l, %dout: !t, %cu: !cu, %seed: i64) -> (!t, !t, !t) {
  %e = tensor.empty() : !t
  %0:3 = attn.attention_grad ins(%q, %k, %v, %o, %lse, %dout : !t, !t, !t, !t, !l, !t) outs(%e, %e, %e : !t, !t, !t)
      sequences packed(%cu, %cu : !cu, !cu) mask(#attn.causal)
      dropout(#attn.dropout<p = 0.125, rng = #attn.philox<rounds = 7>>, %seed, %seed : i64, i64) -> !t, !t, !t
  return %0#0, %0#1, %0#2 : !t, !t, !t
}
