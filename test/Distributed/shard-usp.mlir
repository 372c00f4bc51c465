// RUN: attn-opt %s --split-input-file --attn-shard-attention="method=usp ranks=4 ulysses-degree=2" --canonicalize --cse | FileCheck %s
// RUN: attn-opt %s --split-input-file --attn-shard-attention="method=usp ranks=8 ulysses-degree=4" --canonicalize --cse | FileCheck %s --check-prefix=FEW
// RUN: attn-opt %s --split-input-file --attn-shard-attention="method=usp ranks=4 ulysses-degree=4" --canonicalize --cse | FileCheck %s --check-prefix=ULYSSES
// RUN: attn-opt %s --split-input-file --attn-shard-attention="method=usp ranks=4 ulysses-degree=1" --canonicalize --cse | FileCheck %s --check-prefix=ZIGZAG

!q = tensor<2x8x256x64xbf16>
!k = tensor<2x2x512x64xbf16>
!v = tensor<2x2x512x32xbf16>
!o = tensor<2x8x256x32xbf16>

// Two ranks of a group exchange heads for positions: each gets half of the heads, with the positions of both. Then each
// attends to the keys of its group, and to the ones that the same member of the other group sends meanwhile.
// CHECK-LABEL: func @attention(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<2x8x64x64xbf16> {attn.name = "q"},
// CHECK-SAME: %[[K:[^:]*]]: tensor<2x2x128x64xbf16> {attn.name = "k"},
// CHECK-SAME: %[[V:[^:]*]]: tensor<2x2x128x32xbf16> {attn.name = "v"},
// CHECK-SAME: %[[SINKS:[^:]*]]: tensor<8xf32> {attn.name = "sinks"}) -> tensor<2x8x64x32xbf16> {
// CHECK: %[[RANK:.*]] = attn.comm.rank ranks(4)
// CHECK: %[[MEMBER:.*]] = arith.remui %[[RANK]], %[[TWO:.*]] : index
// CHECK: %[[FIRST:.*]] = arith.subi %[[RANK]], %[[MEMBER]]
// CHECK: %[[HEAD:.*]] = arith.muli %[[MEMBER]], %{{.*}} : index
// CHECK: %[[OWN:.*]] = tensor.extract_slice %[[Q]][0, %[[HEAD]], 0, 0] [2, 4, 64, 64]
// CHECK: %[[POSITION:.*]] = arith.muli %[[MEMBER]], %{{.*}} : index
// CHECK: %[[WITH_OWN:.*]] = tensor.insert_slice %[[OWN]] into %{{.*}}[0, 0, %[[POSITION]], 0] [2, 4, 64, 64]
// CHECK: %[[OTHER:.*]] = arith.remui %{{.*}}, %[[TWO]] : index
// CHECK: %[[OTHER_HEAD:.*]] = arith.muli %[[OTHER]], %{{.*}} : index
// CHECK: %[[SENT:.*]] = tensor.extract_slice %[[Q]][0, %[[OTHER_HEAD]], 0, 0] [2, 4, 64, 64]
// CHECK: %[[PEER:.*]] = arith.addi %[[FIRST]], %[[OTHER]] : index
// CHECK: %[[RECEIVED:.*]] = attn.comm.send_recv ins(%[[SENT]] : {{.*}} to(%[[PEER]]) from(%[[PEER]])
// CHECK: %[[QUERY:.*]] = tensor.insert_slice %[[RECEIVED]] into %[[WITH_OWN]]{{.*}} into tensor<2x4x128x64xbf16>
// CHECK: attn.comm.send_recv {{.*}} -> tensor<2x1x128x64xbf16>
// CHECK: %[[KEY:.*]] = tensor.insert_slice {{.*}} into tensor<2x1x256x64xbf16>
// CHECK: attn.comm.send_recv {{.*}} -> tensor<2x1x128x32xbf16>
// CHECK: %[[VALUE:.*]] = tensor.insert_slice {{.*}} into tensor<2x1x256x32xbf16>
// CHECK: %[[OF_HEADS:.*]] = tensor.extract_slice %[[SINKS]][%[[HEAD]]] [4] [1]
// CHECK: %[[GROUP:.*]] = arith.divui %[[RANK]], %[[TWO]] : index
// CHECK: attn.overlap by streams
// CHECK: tensor.extract_slice %[[QUERY]][0, 0, 0, 0] [2, 4, 64, 64]
// CHECK: tensor.extract_slice %[[KEY]][0, 0, 0, 0] [2, 1, 128, 64]
// CHECK: %[[FIRST_QUERY:.*]] = arith.muli %[[GROUP]], %{{.*}} : index
// CHECK: %[[QUERY_WORD:.*]] = arith.index_cast %[[FIRST_QUERY]]
// CHECK: %[[HEAD_WORD:.*]] = arith.index_cast %[[HEAD]]
// CHECK: %[[POSITIONS:.*]] = tensor.from_elements %[[QUERY_WORD]], %{{.*}}, %{{.*}}, %[[HEAD_WORD]], %c256_i32, %c512_i32
// CHECK: attn.attention {{.*}} sinks(%[[OF_HEADS]] : tensor<4xf32>) positions(%[[POSITIONS]] : tensor<6xi32>) mask(#attn.causal)
// CHECK-NOT: attn.merge
// CHECK: scf.if
// CHECK: attn.attention {{.*}} state(
// CHECK: } and {
// CHECK: %[[NEXT:.*]] = arith.remui %{{.*}}, %[[TWO]]
// CHECK: %[[NEXT_FIRST:.*]] = arith.muli %[[NEXT]], %[[TWO]]
// CHECK: %[[TO:.*]] = arith.addi %[[NEXT_FIRST]], %[[MEMBER]]
// CHECK: attn.comm.send_recv ins(%[[KEY]] : {{.*}} to(%[[TO]]) from(%[[TO]])
// CHECK: attn.comm.send_recv ins(%[[VALUE]] : {{.*}} to(%[[TO]]) from(%[[TO]])
// CHECK-NOT: attn.merge
// CHECK: tensor.insert_slice {{.*}} into tensor<2x4x128x32xbf16>
// CHECK-NOT: attn.merge
// CHECK: %[[RESULTS:.*]] = tensor.insert_slice {{.*}} into tensor<2x4x128x32xbf16>
// CHECK: tensor.extract_slice %[[RESULTS]][0, 0, %[[POSITION]], 0] [2, 4, 64, 32]
// CHECK: tensor.insert_slice {{.*}}[0, %[[HEAD]], 0, 0] [2, 4, 64, 32] {{.*}} into tensor<2x8x64x32xbf16>
// CHECK: attn.comm.send_recv {{.*}} to(%[[PEER]]) from(%[[PEER]])
// CHECK: %[[CHUNK:.*]] = tensor.insert_slice {{.*}}[0, %[[OTHER_HEAD]], 0, 0] [2, 4, 64, 32]
// CHECK: return %[[CHUNK]] : tensor<2x8x64x32xbf16>

// Each of four ranks has a part of two key heads: members 0 and 1 get the first one.
// FEW-LABEL: func @attention(
// FEW-SAME: %[[Q:[^:]*]]: tensor<2x8x32x64xbf16>
// FEW-SAME: %[[K:[^:]*]]: tensor<2x2x64x64xbf16>
// FEW: %[[MEMBER:.*]] = arith.remui %{{.*}}, %{{.*}} : index
// FEW-COUNT-3: attn.comm.send_recv {{.*}} -> tensor<2x2x32x64xbf16>
// FEW: %[[KEY_HEAD:.*]] = arith.divui %[[MEMBER]], %{{.*}} : index
// FEW: tensor.extract_slice %[[K]][0, %[[KEY_HEAD]], 0, 0] [2, 1, 64, 64]
// FEW-COUNT-3: attn.comm.send_recv {{.*}} -> tensor<2x1x64x64xbf16>
// FEW-COUNT-3: attn.comm.send_recv {{.*}} -> tensor<2x1x64x32xbf16>
// FEW: attn.comm.send_recv {{.*}} -> tensor<2x1x256x64xbf16>

// ULYSSES-LABEL: func @attention(
// ULYSSES: attn.comm.all_to_all
// ULYSSES-NOT: attn.comm.send_recv
// ULYSSES: return

// ZIGZAG-LABEL: func @attention(
// ZIGZAG-NOT: arith.remui %{{.*}}, %c1
// ZIGZAG: attn.overlap by streams
// ZIGZAG: attn.comm.send_recv {{.*}} -> tensor<2x2x128x64xbf16>
func.func @attention(%q: !q, %k: !k, %v: !v, %sinks: tensor<8xf32>) -> !o {
  %e = tensor.empty() : !o
  %0 = attn.attention ins(%q, %k, %v : !q, !k, !v) outs(%e : !o) sinks(%sinks : tensor<8xf32>) mask(#attn.causal) -> !o
  return %0 : !o
}

// -----

!t = tensor<?x4x64x16xf32>
!l = tensor<?x4x64xf32>

// The batch may be dynamic. Destinations with contents get the results.
// CHECK-LABEL: func @destinations(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<?x4x16x16xf32>
// CHECK-SAME: %[[OUT:[^:]*]]: tensor<?x4x16x16xf32> {attn.name = "out"}, %[[LSE:[^:]*]]: tensor<?x4x16xf32> {attn.name = "lse"}
// CHECK: attn.comm.send_recv {{.*}} -> tensor<?x2x16x16xf32>
// CHECK: attn.attention {{.*}} state(
// CHECK: attn.comm.send_recv {{.*}} -> tensor<?x2x16x16xf32>
// CHECK: bufferization.materialize_in_destination %{{.*}} in %[[OUT]]
// CHECK: attn.comm.send_recv {{.*}} -> tensor<?x2x16xf32>
// CHECK: bufferization.materialize_in_destination %{{.*}} in %[[LSE]]
func.func @destinations(%q: !t, %k: !t, %v: !t, %out: !t, %lse: !l) -> (!t, !l) {
  %0:2 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out, %lse : !t, !l) -> !t, !l
  return %0#0, %0#1 : !t, !l
}

// -----

!q = tensor<1x4x256x64xbf16>
!k = tensor<1x2x256x64xbf16>
!l = tensor<1x4x256xf32>

// Gradients of keys and values follow them in the ring, and go to the ranks of the positions then.
// CHECK-LABEL: func @gradient(
// CHECK: attn.overlap by streams
// CHECK: attn.attention_grad ins(
// CHECK-SAME: tensor<1x2x64x64xbf16>, tensor<1x1x64x64xbf16>, tensor<1x1x64x64xbf16>, tensor<1x2x64x64xbf16>, tensor<1x2x64xf32>, tensor<1x2x64x64xbf16>)
// CHECK: attn.comm.send_recv {{.*}} -> tensor<1x1x128x64xbf16>
// CHECK: attn.comm.send_recv {{.*}} -> tensor<1x1x128x64xf32>
// CHECK: arith.truncf %{{.*}} : f32 to bf16
// CHECK: attn.comm.send_recv {{.*}} -> tensor<1x2x64x64xbf16>
// CHECK: attn.comm.send_recv {{.*}} -> tensor<1x1x64x64xbf16>
// CHECK: return {{.*}} : tensor<1x4x64x64xbf16>, tensor<1x2x64x64xbf16>, tensor<1x2x64x64xbf16>

// Two ranks of a group have parts of the gradient of a key head: f32 until they are added up in the order of ranks.
// FEW-LABEL: func @gradient(
// FEW: attn.attention_grad
// FEW: attn.comm.send_recv {{.*}} -> tensor<1x1x128x64xf32>
// FEW-COUNT-3: attn.comm.send_recv {{.*}} -> tensor<1x1x32x64xf32>
// FEW: %[[PARTS:.*]] = tensor.insert_slice {{.*}} into tensor<4x1x1x32x64xf32>
// FEW: %[[BY_HEAD:.*]] = tensor.expand_shape %[[PARTS]] {{.*}} into tensor<2x2x1x1x32x64xf32>
// FEW: linalg.generic {{.*}} iterator_types = ["reduction", "parallel", "parallel", "parallel", "parallel", "parallel"]
// FEW: arith.truncf %{{.*}} : f32 to bf16
// FEW: return {{.*}} : tensor<1x4x32x64xbf16>, tensor<1x2x32x64xbf16>, tensor<1x2x32x64xbf16>
func.func @gradient(%q: !q, %k: !k, %v: !k, %out: !q, %lse: !l, %dout: !q) -> (!q, !k, !k) {
  %dq = tensor.empty() : !q
  %dk = tensor.empty() : !k
  %dv = tensor.empty() : !k
  %0:3 = attn.attention_grad ins(%q, %k, %v, %out, %lse, %dout : !q, !k, !k, !q, !l, !q)
      outs(%dq, %dk, %dv : !q, !k, !k) mask(#attn.causal) -> !q, !k, !k
  return %0#0, %0#1, %0#2 : !q, !k, !k
}

// -----

#all = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
!t = tensor<1x4x64x16xf32>
// Operations on rows read positions in the whole: groups have chunks g and 3 - g of 16 rows, and member u of a group the
// rows from 8 u on.
// FEW-LABEL: func @position(
// FEW: %[[RANK:.*]] = attn.comm.rank ranks(8)
// FEW: %[[MEMBER:.*]] = arith.divui %[[RANK]], %c4
// FEW: %[[NUMBER:.*]] = arith.remui %[[RANK]], %c4
// FEW: %[[ROWS:.*]] = arith.muli %[[NUMBER]], %c8
// FEW: linalg.generic
// FEW:   %[[ROW:.*]] = linalg.index 2
// FEW:   %[[OF_GROUP:.*]] = arith.addi %[[ROW]], %[[ROWS]]
// FEW:   %[[IS_FIRST:.*]] = arith.cmpi ult, %[[OF_GROUP]], %c16
// FEW:   %[[OFFSET:.*]] = arith.select %[[IS_FIRST]]
// FEW:   %[[POSITION:.*]] = arith.addi %[[OF_GROUP]], %[[OFFSET]]
// FEW:   arith.index_cast %[[POSITION]]
func.func @position(%q: !t, %k: !t, %v: !t, %out: !t, %e: !t) -> !t {
  %1 = linalg.generic {indexing_maps = [#all, #all],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%q : !t) outs(%e : !t) {
  ^bb0(%x: f32, %old: f32):
    %i = linalg.index 2 : index
    %n = arith.index_cast %i : index to i32
    %f = arith.sitofp %n : i32 to f32
    %y = arith.addf %x, %f : f32
    linalg.yield %y : f32
  } -> !t
  %0 = attn.attention ins(%1, %k, %v : !t, !t, !t) outs(%out : !t) -> !t
  return %0 : !t
}
