// RUN: attn-opt %s --split-input-file --attn-shard-attention="method=allgather ranks=4" | FileCheck %s

!q = tensor<1x8x256x64xbf16>
!k = tensor<1x2x512x64xbf16>
!v = tensor<1x2x512x32xbf16>
!o = tensor<1x8x256x32xbf16>

// Keys and values of all ranks become one tensor, in the order of positions.
// CHECK-LABEL: func @attention(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<1x8x64x64xbf16> {attn.name = "q"},
// CHECK-SAME: %[[K:[^:]*]]: tensor<1x2x128x64xbf16> {attn.name = "k"},
// CHECK-SAME: %[[V:[^:]*]]: tensor<1x2x128x32xbf16> {attn.name = "v"},
// CHECK-SAME: %[[SINKS:[^:]*]]: tensor<8xf32> {attn.name = "sinks"}) -> tensor<1x8x64x32xbf16> {
// CHECK: %[[RANK:.*]] = attn.comm.rank ranks(4)
// CHECK: %[[OUT:.*]] = tensor.empty() : tensor<1x8x64x32xbf16>
// CHECK: %[[PARTS:.*]] = attn.comm.all_gather ins(%[[K]] : tensor<1x2x128x64xbf16>)
// CHECK-SAME: -> tensor<4x1x2x128x64xbf16>
// CHECK: %[[ORDERED:.*]] = linalg.transpose ins(%[[PARTS]] {{.*}} outs(%{{.*}} : tensor<1x2x4x128x64xbf16>)
// CHECK-SAME: permutation = [1, 2, 0, 3, 4]
// CHECK: %[[KEYS:.*]] = tensor.collapse_shape %[[ORDERED]] {{\[}}[0], [1], [2, 3], [4]]
// CHECK-SAME: into tensor<1x2x512x64xbf16>
// CHECK: attn.comm.all_gather ins(%[[V]]
// CHECK: %[[VALUES:.*]] = tensor.collapse_shape {{.*}} into tensor<1x2x512x32xbf16>
// CHECK-DAG: %[[LENGTH:.*]] = arith.constant 64 : index
// CHECK-DAG: %[[ZERO:.*]] = arith.constant 0 : i32
// CHECK-DAG: %[[QUERIES:.*]] = arith.constant 256 : i32
// CHECK-DAG: %[[NUM_KEYS:.*]] = arith.constant 512 : i32
// CHECK-DAG: %[[FIRST:.*]] = arith.muli %[[RANK]], %[[LENGTH]] : index
// CHECK-DAG: %[[WORD:.*]] = arith.index_cast %[[FIRST]] : index to i32
// CHECK: %[[POSITIONS:.*]] = tensor.from_elements %[[WORD]], %{{.*}}, %{{.*}}, %{{.*}}, %[[QUERIES]], %[[NUM_KEYS]]
// CHECK: %[[RESULT:.*]] = attn.attention ins(%[[Q]], %[[KEYS]], %[[VALUES]] : {{.*}} outs(%[[OUT]] :
// CHECK-SAME: sinks(%[[SINKS]] {{.*}} positions(%[[POSITIONS]] : tensor<6xi32>) mask(#attn.causal)
// CHECK: return %[[RESULT]] : tensor<1x8x64x32xbf16>
func.func @attention(%q: !q, %k: !k, %v: !v, %sinks: tensor<8xf32>) -> !o {
  %e = tensor.empty() : !o
  %0 = attn.attention ins(%q, %k, %v : !q, !k, !v) outs(%e : !o) sinks(%sinks : tensor<8xf32>) mask(#attn.causal) -> !o
  return %0 : !o
}

// -----

!t = tensor<?x4x?x32xf32>
!l = tensor<?x4x?xf32>

// Two layers with the same keys, which are gathered once. Sizes are sizes of chunks.
// CHECK-LABEL: func @layers(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<?x4x?x32xf32> {attn.name = "q"},
// CHECK-SAME: %[[K:[^:]*]]: tensor<?x4x?x32xf32> {attn.name = "keys"}, %[[OUT:[^:]*]]: tensor<?x4x?x32xf32> {attn.name = "result"}
// CHECK-COUNT-1: attn.comm.all_gather
// CHECK-NOT: attn.comm.all_gather
// CHECK: %[[FIRST:.*]] = attn.attention ins(%[[Q]]
// CHECK: %[[SECOND:.*]]:2 = attn.attention ins(%[[FIRST]], {{.*}} outs(%[[OUT]], %{{.*}} : tensor<?x4x?x32xf32>,
// CHECK: return %[[SECOND]]#0, %[[SECOND]]#1
func.func @layers(%q: !t, %k: !t {attn.name = "keys"}, %out: !t {attn.name = "result"}) -> (!t, !l) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %b = tensor.dim %q, %c0 : !t
  %n = tensor.dim %q, %c2 : !t
  %e = tensor.empty(%b, %n) : !t
  %lse = tensor.empty(%b, %n) : !l
  %0 = attn.attention ins(%q, %k, %k : !t, !t, !t) outs(%e : !t) -> !t
  %1:2 = attn.attention ins(%0, %k, %k : !t, !t, !t) outs(%out, %lse : !t, !l) -> !t, !l
  return %1#0, %1#1 : !t, !l
}

// -----

// Results keep the sizes that their types state.
// CHECK-LABEL: func @sizes(
// CHECK-SAME: -> (tensor<1x4x16x32xf32>, tensor<1x4x16xf32>)
// CHECK: attn.attention {{.*}} -> tensor<1x4x16x32xf32>, tensor<1x4x16xf32>
func.func @sizes(%q: tensor<?x4x?x32xf32>, %k: tensor<?x4x?x32xf32>) -> (tensor<1x4x64x32xf32>, tensor<1x4x64xf32>) {
  %e = tensor.empty() : tensor<1x4x64x32xf32>
  %lse = tensor.empty() : tensor<1x4x64xf32>
  %0:2 = attn.attention ins(%q, %k, %k : tensor<?x4x?x32xf32>, tensor<?x4x?x32xf32>, tensor<?x4x?x32xf32>)
      outs(%e, %lse : tensor<1x4x64x32xf32>, tensor<1x4x64xf32>) -> tensor<1x4x64x32xf32>, tensor<1x4x64xf32>
  return %0#0, %0#1 : tensor<1x4x64x32xf32>, tensor<1x4x64xf32>
}

// -----

// Functions without attention stay as they are.
// CHECK-LABEL: func @other(%{{.*}}: tensor<7xf32>) -> tensor<7xf32>
// CHECK-NOT: attn.comm.rank
func.func @other(%a: tensor<7xf32>) -> tensor<7xf32> {
  return %a : tensor<7xf32>
}
