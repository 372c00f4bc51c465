// RUN: attn-opt %s --attn-pad-sequences --canonicalize --split-input-file | FileCheck %s

// Nine tokens of two sequences are in three chunks of eight rows: one that is whole, and one more for each sequence.
// CHECK-DAG: #[[ROWS:.*]] = affine_map<(d0, d1, d2, d3) -> (d2)>
// CHECK-LABEL: func @states
// CHECK-SAME: (%[[Q:[0-9a-z]+]]: tensor<1x4x9x16xbf16> {attn.name = "q"}, %[[C:[0-9a-z]+]]: tensor<3xi32> {attn.name = "sequences"}
// CHECK-SAME: %[[S:[0-9a-z]+]]: tensor<2x4x16x16xf32> {attn.name = "initial_state"}
// CHECK-DAG: %[[NONE:.*]] = arith.constant -1 : i32
// CHECK-DAG: %[[WRONG:.*]] = arith.constant -1 : index
// CHECK-DAG: %[[C0:.*]] = arith.constant 0 : index
// CHECK-DAG: %[[C1:.*]] = arith.constant 1 : index
// CHECK-DAG: %[[C2:.*]] = arith.constant 2 : index
// CHECK-DAG: %[[C24:.*]] = arith.constant 24 : index
// The sequence of a row is the last one that does not begin after it.
// CHECK: %[[TOKENS:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<24xi32>)
// CHECK: %[[ROW:.*]] = linalg.index 0
// CHECK: %[[FOUND:.*]]:2 = scf.while (%{{.*}} = %[[C0]], %{{.*}} = %[[C2]])
// CHECK: %[[SUM:.*]] = arith.addi
// CHECK: %[[MIDDLE:.*]] = arith.shrui %[[SUM]], %[[C1]]
// CHECK: tensor.extract %[[C]][%[[MIDDLE]]]
// CHECK: arith.cmpi sle, %{{.*}}, %[[ROW]]
// CHECK: tensor.extract %[[C]][%[[FOUND]]#0]
// CHECK: arith.select %{{.*}}, %{{.*}}, %[[NONE]] : i32
// A sequence whose boundaries are wrong begins at a negative row. No log-decays are made.
// CHECK: %[[STARTS:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<3xi32>)
// CHECK: %[[N:.*]] = linalg.index 0
// CHECK: %[[EXISTS:.*]] = arith.cmpi ult, %[[N]], %[[C2]]
// CHECK: scf.if %[[EXISTS]]
// CHECK: tensor.extract %[[C]][%[[N]]]
// CHECK: %[[FIRST:.*]] = arith.muli
// CHECK: arith.select %{{.*}}, %[[WRONG]], %[[FIRST]] : index
// CHECK: scf.yield %[[C24]]
// CHECK-NOT: tensor<1x4x24xf32>
// CHECK: %[[PADDED:.*]] = linalg.generic {indexing_maps = [#[[ROWS]], {{.*}} ins(%[[TOKENS]] : tensor<24xi32>) outs(%{{.*}} : tensor<1x4x24x16xbf16>)
// CHECK: scf.if
// CHECK: tensor.extract %[[Q]]
// CHECK: %[[R:.*]]:2 = attn.linear_attention ins(%[[PADDED]], %[[PADDED]], %[[PADDED]]
// CHECK-SAME: outs(%{{.*}}, %[[S]] : tensor<1x4x24x16xbf16>, tensor<2x4x16x16xf32>)
// CHECK-SAME: initial_state(%[[S]] : tensor<2x4x16x16xf32>) sequences(%[[STARTS]] : tensor<3xi32>) whole_chunks causal chunk(8)
// CHECK: %[[OF_TOKENS:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<9xi32>)
// CHECK: scf.while
// CHECK: %[[OUT:.*]] = linalg.generic {{.*}} ins(%[[OF_TOKENS]] : tensor<9xi32>) outs(%[[Q]] : tensor<1x4x9x16xbf16>)
// CHECK: tensor.extract %[[R]]#0
// CHECK: return %[[OUT]], %[[R]]#1
!q = tensor<1x4x9x16xbf16>
!s = tensor<2x4x16x16xf32>
func.func @states(%q: !q, %c: tensor<3xi32>, %s: !s) -> (!q, !s) {
  %r:2 = attn.linear_attention ins(%q, %q, %q : !q, !q, !q) outs(%q, %s : !q, !s) initial_state(%s : !s)
      sequences(%c : tensor<3xi32>) causal chunk(8) -> !q, !s
  return %r#0, %r#1 : !q, !s
}

// -----

// The numbers of tokens and sequences may be dynamic. There are rows for one chunk at least.
// CHECK-LABEL: func @dynamic
// CHECK-SAME: (%[[Q:[0-9a-z]+]]: tensor<1x4x?x16xf32>
// CHECK-SAME: %[[S:[0-9a-z]+]]: tensor<?x4x16x16xf32> {attn.name = "final_state"}
// CHECK-DAG: %[[C1:.*]] = arith.constant 1 : index
// CHECK-DAG: %[[C64:.*]] = arith.constant 64 : index
// CHECK: %[[LENGTH:.*]] = tensor.dim %[[Q]], %{{.*}}
// CHECK: %[[BOUNDARIES:.*]] = arith.maxui %{{.*}}, %[[C1]]
// CHECK: %[[COUNT:.*]] = arith.subi %[[BOUNDARIES]], %[[C1]]
// CHECK: %[[WHOLE:.*]] = arith.divui %[[LENGTH]], %[[C64]]
// CHECK: %[[LEAST:.*]] = arith.maxui %[[COUNT]], %[[C1]]
// CHECK: %[[CHUNKS:.*]] = arith.addi %[[WHOLE]], %[[LEAST]]
// CHECK: %[[ROWS:.*]] = arith.muli %[[CHUNKS]], %[[C64]]
// Kernels are given no more sequences than there are states. Tokens need a sequence.
// CHECK: %[[STATES:.*]] = tensor.dim %[[S]], %{{.*}}
// CHECK: %[[GIVEN:.*]] = arith.minui %[[COUNT]], %[[STATES]]
// CHECK: tensor.empty(%[[ROWS]]) : tensor<?xi32>
// CHECK: } -> tensor<?xi32>
// CHECK-DAG: %[[HAS_SEQUENCE:.*]] = arith.cmpi ne, %[[COUNT]], %{{.*}}
// CHECK-DAG: %[[HAS_NO_TOKENS:.*]] = arith.cmpi eq, %[[LENGTH]], %{{.*}}
// CHECK: %[[SOME:.*]] = arith.ori %[[HAS_SEQUENCE]], %[[HAS_NO_TOKENS]]
// CHECK: %[[ARE_ALL:.*]] = arith.cmpi eq, %{{.*}}, %[[COUNT]]
// CHECK: %[[CONSISTENT:.*]] = arith.andi %{{.*}}, %[[ARE_ALL]]
// CHECK: %[[NUM_STARTS:.*]] = arith.addi %[[GIVEN]], %[[C1]]
// CHECK: tensor.empty(%[[NUM_STARTS]]) : tensor<?xi32>
// CHECK: arith.select %[[CONSISTENT]], %{{.*}}, %{{.*}} : i32
// CHECK: attn.linear_attention {{.*}} log_decay(%{{.*}} : tensor<1x4x?x16xf32>) beta(%{{.*}} : tensor<1x4x?xf32>)
// CHECK-SAME: sequences(%{{.*}} : tensor<?xi32>) whole_chunks causal
!q = tensor<1x4x?x16xf32>
!s = tensor<?x4x16x16xf32>
func.func @dynamic(%q: !q, %g: !q, %b: tensor<1x4x?xf32>, %c: tensor<?xi32>, %s: !s) -> (!q, !s) {
  %r:2 = attn.linear_attention ins(%q, %q, %q : !q, !q, !q) outs(%q, %s : !q, !s) log_decay(%g : !q)
      beta(%b : tensor<1x4x?xf32>) sequences(%c : tensor<?xi32>) causal -> !q, !s
  return %r#0, %r#1 : !q, !s
}

// -----

// Gradients of log-decays of heads are sums over tokens, but not over rows without one. States have no rows.
// CHECK-LABEL: func @gradient
// CHECK-SAME: %[[G:[0-9a-z]+]]: tensor<4xf32> {attn.name = "log_decay"}
// CHECK: %[[DECAYS:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<1x4x192xf32>)
// CHECK: tensor.extract %[[G]]
// CHECK: %[[R:.*]]:5 = attn.linear_attention_grad
// CHECK-SAME: log_decay(%[[DECAYS]] : tensor<1x4x192xf32>)
// CHECK-SAME: sequences(%{{.*}} : tensor<3xi32>) whole_chunks dlog_decay(%{{.*}} : tensor<1x4x192xf32>)
// CHECK: tensor.extract %[[R]]#0
// CHECK: tensor.extract %[[R]]#1
// CHECK: tensor.extract %[[R]]#2
// CHECK: linalg.generic {{.*}}"parallel", "parallel", "reduction"{{.*}} ins(%[[R]]#3, %{{.*}} : tensor<1x4x192xf32>, tensor<192xi32>)
// CHECK: %[[IS_TOKEN:.*]] = arith.cmpi ne
// CHECK: arith.select %[[IS_TOKEN]], %{{.*}}, %{{.*}} : f32
// CHECK: return %{{.*}}, %[[R]]#4
!q = tensor<1x4x64x16xf32>
!s = tensor<2x4x16x16xf32>
!g = tensor<1x4xf32>
func.func @gradient(%q: !q, %g: tensor<4xf32>, %dg: !g, %c: tensor<3xi32>, %s: !s) -> (!g, !s, !q, !q, !q) {
  %r:5 = attn.linear_attention_grad ins(%q, %q, %q, %q : !q, !q, !q, !q) outs(%q, %q, %q : !q, !q, !q)
      log_decay(%g : tensor<4xf32>) initial_state(%s : !s) sequences(%c : tensor<3xi32>) dlog_decay(%dg : !g)
      dinitial_state(%s : !s) causal -> !q, !q, !q, !g, !s
  return %r#3, %r#4, %r#0, %r#1, %r#2 : !g, !s, !q, !q, !q
}

// -----

// A feature map makes other rows of zeros, so attn-decompose-linear-attention comes first.
// CHECK-LABEL: func @feature
// CHECK-NOT: linalg.generic
// CHECK: attn.linear_attention ins(%{{.*}}, %{{.*}}, %{{.*}} : tensor<1x4x64x16xf32>
// CHECK-NOT: whole_chunks
// CHECK: return
!q = tensor<1x4x64x16xf32>
!s = tensor<2x4x16x16xf32>
func.func @feature(%q: !q, %c: tensor<3xi32>, %s: !s) -> !q {
  %r = attn.linear_attention ins(%q, %q, %q : !q, !q, !q) outs(%q : !q) initial_state(%s : !s)
      sequences(%c : tensor<3xi32>) causal feature {
    ^bb0(%x: tensor<?x?x?x16xf32>):
      %e = math.exp %x : tensor<?x?x?x16xf32>
      attn.linear_yield %e : tensor<?x?x?x16xf32>
  } -> !q
  return %r : !q
}

// -----

// CHECK-LABEL: func @normalizer
// CHECK-NOT: linalg.generic
// CHECK: attn.linear_attention ins(%{{.*}}, %{{.*}}, %{{.*}} : tensor<1x4x64x16xf32>
// CHECK-NOT: whole_chunks
// CHECK: return
!q = tensor<1x4x64x16xf32>
!s = tensor<2x4x16x17xf32>
func.func @normalizer(%q: !q, %c: tensor<3xi32>, %s: !s) -> !q {
  %r = attn.linear_attention ins(%q, %q, %q : !q, !q, !q) outs(%q : !q) initial_state(%s : !s)
      sequences(%c : tensor<3xi32>) causal normalizer(eps = 1.0e-6) -> !q
  return %r : !q
}
