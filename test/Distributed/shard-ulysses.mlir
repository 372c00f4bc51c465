// RUN: attn-opt %s --split-input-file --attn-shard-attention="method=ulysses ranks=4" --canonicalize --cse | FileCheck %s

!q = tensor<2x8x256x64xbf16>
!k = tensor<2x2x512x64xbf16>
!v = tensor<2x2x512x32xbf16>
!o = tensor<2x8x256x32xbf16>

// Ranks exchange heads for positions. Two ranks get the same head of keys and values, of which there are two.
// CHECK-LABEL: func @attention(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<2x8x64x64xbf16> {attn.name = "q"},
// CHECK-SAME: %[[K:[^:]*]]: tensor<2x2x128x64xbf16> {attn.name = "k"},
// CHECK-SAME: %[[V:[^:]*]]: tensor<2x2x128x32xbf16> {attn.name = "v"},
// CHECK-SAME: %[[SINKS:[^:]*]]: tensor<8xf32> {attn.name = "sinks"}) -> tensor<2x8x64x32xbf16> {
// CHECK: %[[RANK:.*]] = attn.comm.rank ranks(4)
// CHECK: %[[OF_RANKS:.*]] = tensor.expand_shape %[[Q]] {{\[}}[0], [1, 2], [3], [4]]
// CHECK-SAME: into tensor<2x4x2x64x64xbf16>
// CHECK: %[[SENT:.*]] = linalg.transpose ins(%[[OF_RANKS]] {{.*}} permutation = [1, 0, 2, 3, 4]
// CHECK: %[[RECEIVED:.*]] = attn.comm.all_to_all ins(%[[SENT]] {{.*}} -> tensor<4x2x2x64x64xbf16>
// CHECK: %[[ORDERED:.*]] = linalg.transpose ins(%[[RECEIVED]] {{.*}} permutation = [1, 2, 0, 3, 4]
// CHECK: %[[QUERY:.*]] = tensor.collapse_shape %[[ORDERED]] {{\[}}[0], [1], [2, 3], [4]]
// CHECK-SAME: into tensor<2x2x256x64xbf16>
// CHECK: %[[COPIES:.*]] = linalg.generic {{.*}} ins(%[[K]] : {{.*}} outs(%{{.*}} : tensor<2x2x2x128x64xbf16>)
// CHECK: %[[PARTS:.*]] = tensor.collapse_shape %[[COPIES]] {{\[}}[0, 1], [2], [3], [4]] {{.*}} into tensor<4x2x128x64xbf16>
// CHECK: %[[SENT_KEYS:.*]] = tensor.expand_shape %[[PARTS]] {{.*}} into tensor<4x2x1x128x64xbf16>
// CHECK: attn.comm.all_to_all ins(%[[SENT_KEYS]]
// CHECK: %[[KEY:.*]] = tensor.collapse_shape {{.*}} into tensor<2x1x512x64xbf16>
// CHECK: linalg.generic {{.*}} ins(%[[V]] :
// CHECK: attn.comm.all_to_all {{.*}} -> tensor<4x2x1x128x32xbf16>
// CHECK: %[[VALUE:.*]] = tensor.collapse_shape {{.*}} into tensor<2x1x512x32xbf16>
// CHECK: %[[FIRST:.*]] = arith.muli %[[RANK]], %{{.*}} : index
// CHECK: %[[OF_HEADS:.*]] = tensor.extract_slice %[[SINKS]][%[[FIRST]]] [2] [1]
// CHECK: %[[OUT:.*]] = attn.attention ins(%[[QUERY]], %[[KEY]], %[[VALUE]] : {{.*}} sinks(%[[OF_HEADS]] : tensor<2xf32>)
// CHECK-NOT: positions
// CHECK-SAME: mask(#attn.causal) -> tensor<2x2x256x32xbf16>
// CHECK: %[[CHUNKS:.*]] = tensor.expand_shape %[[OUT]] {{\[}}[0], [1], [2, 3], [4]]
// CHECK-SAME: into tensor<2x2x4x64x32xbf16>
// CHECK: %[[SENT_CHUNKS:.*]] = linalg.transpose ins(%[[CHUNKS]] {{.*}} permutation = [2, 0, 1, 3, 4]
// CHECK: %[[HEADS:.*]] = attn.comm.all_to_all ins(%[[SENT_CHUNKS]] {{.*}} -> tensor<4x2x2x64x32xbf16>
// CHECK: %[[BY_HEAD:.*]] = linalg.transpose ins(%[[HEADS]] {{.*}} permutation = [1, 0, 2, 3, 4]
// CHECK: %[[RESULT:.*]] = tensor.collapse_shape %[[BY_HEAD]] {{\[}}[0], [1, 2], [3], [4]]
// CHECK: return %[[RESULT]] : tensor<2x8x64x32xbf16>
func.func @attention(%q: !q, %k: !k, %v: !v, %sinks: tensor<8xf32>) -> !o {
  %e = tensor.empty() : !o
  %0 = attn.attention ins(%q, %k, %v : !q, !k, !v) outs(%e : !o) sinks(%sinks : tensor<8xf32>) mask(#attn.causal) -> !o
  return %0 : !o
}

// -----

!t = tensor<1x8x?x64xf32>
!l = tensor<1x8x?xf32>

// Where the batch has one entry, nothing is copied before the exchange, and lengths may be dynamic. Regions and dropout
// see heads of the whole. Destinations with contents get the results.
// CHECK-LABEL: func @regions(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<1x8x?x64xf32> {attn.name = "q"},
// CHECK-SAME: %[[OUT:[^:]*]]: tensor<1x8x?x64xf32> {attn.name = "out"}, %[[LSE:[^:]*]]: tensor<1x8x?xf32> {attn.name = "lse"}
// CHECK-DAG: %[[ZERO:.*]] = arith.constant 0 : i32
// CHECK: %[[RANK:.*]] = attn.comm.rank ranks(4)
// CHECK-NOT: linalg.transpose
// CHECK: attn.comm.all_to_all
// CHECK: %[[FIRST:.*]] = arith.muli %[[RANK]], %{{.*}} : index
// CHECK: %[[HEAD:.*]] = arith.index_cast %[[FIRST]] : index to i32
// CHECK: %[[POSITIONS:.*]] = tensor.from_elements %[[ZERO]], %[[ZERO]], %[[ZERO]], %[[HEAD]], %{{.*}}, %{{.*}} :
// CHECK: attn.attention {{.*}} positions(%[[POSITIONS]] : tensor<6xi32>) score_mod
// CHECK: bufferization.materialize_in_destination %{{.*}} in %[[OUT]]
// CHECK: bufferization.materialize_in_destination %{{.*}} in %[[LSE]]
func.func @regions(%q: !t, %k: !t, %v: !t, %out: !t, %lse: !l) -> (!t, !l) {
  %0:2 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out, %lse : !t, !l)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %w = arith.index_cast %h : index to i32
        %f = arith.sitofp %w : i32 to f32
        %r = arith.addf %s, %f : f32
        attn.yield %r : f32
      } -> !t, !l
  return %0#0, %0#1 : !t, !l
}

// -----

!q = tensor<1x8x256x64xbf16>
!k = tensor<1x2x256x64xbf16>
!l = tensor<1x8x256xf32>

// The gradient of a head of keys that two ranks have is the sum of theirs, in f32.
// CHECK-LABEL: func @gradient(
// CHECK: %[[GRADS:.*]]:3 = attn.attention_grad ins(
// CHECK-SAME: tensor<1x2x256x64xbf16>, tensor<1x1x256x64xbf16>, tensor<1x1x256x64xbf16>, tensor<1x2x256x64xbf16>, tensor<1x2x256xf32>, tensor<1x2x256x64xbf16>)
// CHECK-SAME: outs(%{{.*}} : tensor<1x2x256x64xbf16>, tensor<1x1x256x64xf32>, tensor<1x1x256x64xf32>)
// CHECK: %[[QUERIES:.*]] = attn.comm.all_to_all {{.*}} -> tensor<4x1x2x64x64xbf16>
// CHECK: %[[KEYS:.*]] = attn.comm.all_to_all {{.*}} -> tensor<4x1x1x64x64xf32>
// CHECK: %[[BY_HEAD:.*]] = tensor.expand_shape %[[KEYS]] {{.*}} into tensor<2x2x1x1x64x64xf32>
// CHECK: linalg.generic {{.*}} iterator_types = ["reduction", "parallel", "parallel", "parallel", "parallel", "parallel"]
// CHECK: arith.truncf %{{.*}} : f32 to bf16
// CHECK: return {{.*}} : tensor<1x8x64x64xbf16>, tensor<1x2x64x64xbf16>, tensor<1x2x64x64xbf16>
func.func @gradient(%q: !q, %k: !k, %v: !k, %out: !q, %lse: !l, %dout: !q) -> (!q, !k, !k) {
  %dq = tensor.empty() : !q
  %dk = tensor.empty() : !k
  %dv = tensor.empty() : !k
  %0:3 = attn.attention_grad ins(%q, %k, %v, %out, %lse, %dout : !q, !k, !k, !q, !l, !q)
      outs(%dq, %dk, %dv : !q, !k, !k) -> !q, !k, !k
  return %0#0, %0#1, %0#2 : !q, !k, !k
}

// -----

!t = tensor<2x4x64x16xf32>

// Lengths are the ones of all positions. Rows of no sequence keep the contents of the destination.
// CHECK-LABEL: func @padded(
// CHECK-SAME: %[[OUT:[^:]*]]: tensor<2x4x16x16xf32> {attn.name = "out"}, %[[LENGTHS:[^:]*]]: tensor<2xi32>
// CHECK: attn.attention {{.*}} sequences padded(%[[LENGTHS]], %[[LENGTHS]] : tensor<2xi32>, tensor<2xi32>) mask(#attn.causal)
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[LENGTHS]] : tensor<2x4x16x16xf32>, tensor<2xi32>) outs(%[[OUT]]
func.func @padded(%q: !t, %k: !t, %v: !t, %out: !t, %lengths: tensor<2xi32>) -> !t {
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t)
      sequences padded(%lengths, %lengths : tensor<2xi32>, tensor<2xi32>) mask(#attn.causal) -> !t
  return %0 : !t
}
