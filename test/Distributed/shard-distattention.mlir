// RUN: attn-opt %s --split-input-file --attn-shard-attention="method=distattention ranks=3" --canonicalize --cse | FileCheck %s

!q = tensor<1x8x1x64xbf16>
!k = tensor<1x2x384x64xbf16>

// All ranks have the query. A query that is alone attends to all keys, wherever they are. A sink counts once.
// CHECK-LABEL: func @one_query(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<1x8x1x64xbf16> {attn.name = "q"},
// CHECK-SAME: %[[K:[^:]*]]: tensor<1x2x128x64xbf16> {attn.name = "k"},
// CHECK-SAME: %[[V:[^:]*]]: tensor<1x2x128x64xbf16> {attn.name = "v"},
// CHECK-SAME: %[[SINKS:[^:]*]]: tensor<8xf32> {attn.name = "sinks"}) -> tensor<1x8x1x64xbf16> {
// CHECK-DAG: %[[INIT:.*]] = tensor.empty() : tensor<1x8x1x64xbf16>
// CHECK: %[[PARTIAL:.*]]:2 = attn.attention ins(%[[Q]], %[[K]], %[[V]] :
// CHECK-SAME: outs(%{{.*}}, %{{.*}} : tensor<1x8x1x64xf32>, tensor<1x8x1xf32>) ->
// CHECK: %[[OUTS:.*]] = attn.comm.all_gather ins(%[[PARTIAL]]#0 : {{.*}} -> tensor<3x1x8x1x64xf32>
// CHECK: %[[LSES:.*]] = attn.comm.all_gather ins(%[[PARTIAL]]#1 : {{.*}} -> tensor<3x1x8x1xf32>
// CHECK: %[[OUT0:.*]] = tensor.extract_slice %[[OUTS]][0, 0, 0, 0, 0]
// CHECK: %[[LSE0:.*]] = tensor.extract_slice %[[LSES]][0, 0, 0, 0]
// CHECK: %[[OUT1:.*]] = tensor.extract_slice %[[OUTS]][1, 0, 0, 0, 0]
// CHECK: %[[LSE1:.*]] = tensor.extract_slice %[[LSES]][1, 0, 0, 0]
// CHECK: %[[OUT2:.*]] = tensor.extract_slice %[[OUTS]][2, 0, 0, 0, 0]
// CHECK: %[[LSE2:.*]] = tensor.extract_slice %[[LSES]][2, 0, 0, 0]
// CHECK: %[[ZEROS:.*]] = linalg.fill
// CHECK: %[[OF_SINKS:.*]] = linalg.generic {{.*}} ins(%[[SINKS]] : tensor<8xf32>)
// CHECK: %[[RESULT:.*]] = attn.merge ins(%[[OUT0]], %[[OUT1]], %[[OUT2]], %[[ZEROS]] :
// CHECK-SAME: lses(%[[LSE0]], %[[LSE1]], %[[LSE2]], %[[OF_SINKS]] : {{.*}} outs(%[[INIT]] :
// CHECK: return %[[RESULT]]
func.func @one_query(%q: !q, %k: !k, %v: !k, %sinks: tensor<8xf32>) -> !q {
  %e = tensor.empty() : !q
  %0 = attn.attention ins(%q, %k, %v : !q, !k, !k) outs(%e : !q) sinks(%sinks : tensor<8xf32>) mask(#attn.causal) -> !q
  return %0 : !q
}

// -----

!q = tensor<?x8x4x64xf32>
!l = tensor<?x8x4xf32>
!k = tensor<?x2x?x64xf32>

// Other masks see the positions of the whole.
// CHECK-LABEL: func @positions(
// CHECK-SAME: %[[Q:[^:]*]]: {{[^%]*}}, %[[K:[^:]*]]: tensor<?x2x?x64xf32> {attn.name = "k"}
// CHECK-DAG: %[[ZERO:.*]] = arith.constant 0 : i32
// CHECK-DAG: %[[FOUR:.*]] = arith.constant 4 : i32
// CHECK-DAG: %[[RANKS:.*]] = arith.constant 3 : index
// CHECK-DAG: %[[C2:.*]] = arith.constant 2 : index
// CHECK: %[[RANK:.*]] = attn.comm.rank ranks(3)
// CHECK: %[[N:.*]] = tensor.dim %[[K]], %[[C2]]
// CHECK: %[[FIRST:.*]] = arith.muli %[[RANK]], %[[N]]
// CHECK: %[[KEYS:.*]] = arith.muli %[[N]], %[[RANKS]]
// CHECK: %[[FIRST_KEY:.*]] = arith.index_cast %[[FIRST]]
// CHECK: %[[NUM_KEYS:.*]] = arith.index_cast %[[KEYS]]
// CHECK: %[[POSITIONS:.*]] = tensor.from_elements %[[ZERO]], %[[FIRST_KEY]], %[[ZERO]], %[[ZERO]], %[[FOUR]], %[[NUM_KEYS]]
// CHECK: attn.attention {{.*}} positions(%[[POSITIONS]] : tensor<6xi32>) mask(#attn.causal)
func.func @positions(%q: !q, %k: !k, %v: !k, %out: !q, %lse: !l) -> (!q, !l) {
  %0:2 = attn.attention ins(%q, %k, %v : !q, !k, !k) outs(%out, %lse : !q, !l) mask(#attn.causal) -> !q, !l
  return %0#0, %0#1 : !q, !l
}

// -----

!q = tensor<2x8x3x64xf16>
!k = tensor<2x2x384x64xf16>

// Each rank counts the keys that it has of a sequence. Wrong lengths are seen by the first or the last rank.
// CHECK-LABEL: func @cache(
// CHECK-SAME: %[[LENGTHS:[^:]*]]: tensor<2xi32> {attn.name = "key_lengths"})
// CHECK-DAG: %[[MOST_POSSIBLE:.*]] = arith.constant 2147483647 : i32
// CHECK-DAG: %[[LEAST_POSSIBLE:.*]] = arith.constant -2147483648 : i32
// CHECK-DAG: %[[CAPACITY:.*]] = arith.constant 128 : i32
// CHECK: %[[RANK:.*]] = attn.comm.rank ranks(3)
// CHECK: %[[FIRST:.*]] = arith.index_cast %{{.*}} : index to i32
// CHECK: %[[LEAST:.*]] = arith.select %{{.*}}, %[[LEAST_POSSIBLE]], %{{.*}} : i32
// CHECK: %[[MOST:.*]] = arith.select %{{.*}}, %[[MOST_POSSIBLE]], %[[CAPACITY]] : i32
// CHECK: %[[OF_RANK:.*]] = linalg.generic {{.*}} ins(%[[LENGTHS]] : tensor<2xi32>)
// CHECK: %[[REST:.*]] = arith.subi %{{.*}}, %[[FIRST]] : i32
// CHECK: %[[HAS:.*]] = arith.maxsi %[[REST]], %[[LEAST]] : i32
// CHECK: arith.minsi %[[HAS]], %[[MOST]] : i32
// CHECK: attn.attention {{.*}} key_lengths(%[[OF_RANK]] : tensor<2xi32>) score_mod
// CHECK: attn.merge
func.func @cache(%q: !q, %k: !k, %v: !k, %lengths: tensor<2xi32>) -> !q {
  %e = tensor.empty() : !q
  %0 = attn.attention ins(%q, %k, %v : !q, !k, !k) outs(%e : !q) key_lengths(%lengths : tensor<2xi32>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %r = math.tanh %s : f32
        attn.yield %r : f32
      } -> !q
  return %0 : !q
}
