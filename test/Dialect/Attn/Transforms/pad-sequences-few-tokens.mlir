// RUN: attn-opt %s --attn-pad-sequences=recurrent-tokens=8 --canonicalize --split-input-file | FileCheck %s

// Sequences of at most eight tokens on average are not padded.
// CHECK-LABEL: func @dynamic
// CHECK-SAME: %[[Q:[0-9a-z]+]]: tensor<1x4x?x16xf32>
// CHECK-SAME: %[[C:[0-9a-z]+]]: tensor<?xi32>
// CHECK-SAME: %[[S:[0-9a-z]+]]: tensor<?x4x16x16xf32>
// CHECK-DAG: %[[C1:.*]] = arith.constant 1 : index
// CHECK-DAG: %[[C8:.*]] = arith.constant 8 : index
// CHECK-DAG: %[[TOKENS:.*]] = tensor.dim %[[Q]], %{{.*}}
// CHECK-DAG: %[[BOUNDARIES:.*]] = tensor.dim %[[C]], %{{.*}}
// CHECK: %[[SOME:.*]] = arith.maxui %[[BOUNDARIES]], %[[C1]]
// CHECK: %[[COUNT:.*]] = arith.subi %[[SOME]], %[[C1]]
// CHECK: %[[BOUND:.*]] = arith.muli %[[COUNT]], %[[C8]]
// CHECK: %[[HAS_FEW:.*]] = arith.cmpi ule, %[[TOKENS]], %[[BOUND]]
// CHECK: %[[R:.*]]:2 = scf.if %[[HAS_FEW]]
// CHECK: %[[KEPT:.*]]:2 = attn.linear_attention ins(%[[Q]], %[[Q]], %[[Q]]
// CHECK-SAME: outs(%[[Q]], %[[S]] : {{.*}} sequences(%[[C]] : tensor<?xi32>) causal
// CHECK-NEXT: scf.yield %[[KEPT]]#0, %[[KEPT]]#1
// CHECK: } else {
// CHECK: %[[PADDED:.*]]:2 = attn.linear_attention {{.*}} whole_chunks causal
// CHECK: scf.yield %{{.*}}, %[[PADDED]]#1
// CHECK: return %[[R]]#0, %[[R]]#1
!q = tensor<1x4x?x16xf32>
!s = tensor<?x4x16x16xf32>
func.func @dynamic(%q: !q, %c: tensor<?xi32>, %s: !s) -> (!q, !s) {
  %r:2 = attn.linear_attention ins(%q, %q, %q : !q, !q, !q) outs(%q, %s : !q, !s)
      initial_state(%s : !s) sequences(%c : tensor<?xi32>) causal -> !q, !s
  return %r#0, %r#1 : !q, !s
}

// -----

// Sixteen tokens of two sequences are few.
// CHECK-LABEL: func @few
// CHECK-NOT: linalg.generic
// CHECK-NOT: scf.if
// CHECK: attn.linear_attention
// CHECK-NOT: whole_chunks
// CHECK: return
!q = tensor<1x4x16x16xf32>
!s = tensor<2x4x16x16xf32>
func.func @few(%q: !q, %c: tensor<3xi32>, %s: !s) -> !q {
  %r = attn.linear_attention ins(%q, %q, %q : !q, !q, !q) outs(%q : !q) initial_state(%s : !s)
      sequences(%c : tensor<3xi32>) causal -> !q
  return %r : !q
}

// -----

// Seventeen are not.
// CHECK-LABEL: func @many
// CHECK-NOT: attn.linear_attention ins({{.*}} sequences(%{{[a-z0-9]+}} : tensor<3xi32>) causal
// CHECK: attn.linear_attention {{.*}} whole_chunks
// CHECK-NOT: attn.linear_attention
// CHECK: return
!q = tensor<1x4x17x16xf32>
!s = tensor<2x4x16x16xf32>
func.func @many(%q: !q, %c: tensor<3xi32>, %s: !s) -> !q {
  %r = attn.linear_attention ins(%q, %q, %q : !q, !q, !q) outs(%q : !q) initial_state(%s : !s)
      sequences(%c : tensor<3xi32>) causal -> !q
  return %r : !q
}

// -----

// A schedule that was given may be one for whole chunks.
// CHECK-LABEL: func @scheduled
// CHECK: attn.linear_attention {{.*}} whole_chunks {{.*}} schedule(#attn_tile.scalar)
// CHECK-NOT: attn.linear_attention
// CHECK: return
!q = tensor<1x4x16x16xf32>
!s = tensor<2x4x16x16xf32>
func.func @scheduled(%q: !q, %c: tensor<3xi32>, %s: !s) -> !q {
  %r = attn.linear_attention ins(%q, %q, %q : !q, !q, !q) outs(%q : !q) initial_state(%s : !s)
      sequences(%c : tensor<3xi32>) causal schedule(#attn_tile.scalar) -> !q
  return %r : !q
}

// -----

// Gradients go through chunks.
// CHECK-LABEL: func @gradient
// CHECK: attn.linear_attention_grad {{.*}} whole_chunks
// CHECK-NOT: attn.linear_attention_grad
// CHECK: return
!q = tensor<1x4x16x16xf32>
!s = tensor<2x4x16x16xf32>
func.func @gradient(%q: !q, %c: tensor<3xi32>, %s: !s) -> !q {
  %r:3 = attn.linear_attention_grad ins(%q, %q, %q, %q : !q, !q, !q, !q) outs(%q, %q, %q : !q, !q, !q)
      initial_state(%s : !s) sequences(%c : tensor<3xi32>) causal -> !q, !q, !q
  return %r#0 : !q
}
