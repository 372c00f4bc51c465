// RUN: attn-opt %s --split-input-file --attn-shard-attention="method=allgather ranks=4" --canonicalize --cse | FileCheck %s

!q = tensor<1x8x256x64xbf16>
!k = tensor<1x2x512x64xbf16>
!v = tensor<1x2x512x32xbf16>
!o = tensor<1x8x256x32xbf16>
!l = tensor<1x8x256xf32>

// The attention and its gradient gather the same keys. The gradients of all keys go to their owners, which add them up
// in the order of the ranks.
// CHECK-LABEL: func @attention_grad(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<1x8x64x64xbf16> {attn.name = "q"}, %[[K:[^:]*]]: tensor<1x2x128x64xbf16> {attn.name = "k"},
// CHECK-SAME: %[[V:[^:]*]]: tensor<1x2x128x32xbf16> {attn.name = "v"},
// CHECK-SAME: %[[DOUT:[^:]*]]: tensor<1x8x64x32xbf16> {attn.name = "dout"})
// CHECK-SAME: -> (tensor<1x8x64x32xbf16>, tensor<1x8x64x64xbf16>, tensor<1x2x128x64xbf16>, tensor<1x2x128x32xbf16>) {
// CHECK-COUNT-2: attn.comm.all_gather
// CHECK: %[[VALUES:.*]] = tensor.collapse_shape
// CHECK-NOT: attn.comm.all_gather
// CHECK: %[[A:.*]]:2 = attn.attention ins(%[[Q]], %[[KEYS:[^,]*]], %[[VALUES]] :
// CHECK-SAME: -> tensor<1x8x64x32xbf16>, tensor<1x8x64xf32>
// CHECK: %[[G:.*]]:3 = attn.attention_grad ins(%[[Q]], %[[KEYS]], %[[VALUES]], %[[A]]#0, %[[A]]#1, %[[DOUT]] :
// CHECK-SAME: outs({{.*}} : tensor<1x8x64x64xbf16>, tensor<1x2x512x64xf32>, tensor<1x2x512x32xf32>) positions(
// CHECK: %[[SPLIT:.*]] = tensor.expand_shape %[[G]]#1 {{\[}}[0], [1], [2, 3], [4]] output_shape [1, 2, 4, 128, 64]
// CHECK: %[[PARTS:.*]] = linalg.transpose ins(%[[SPLIT]] {{.*}} outs(%{{.*}} : tensor<4x1x2x128x64xf32>)
// CHECK-SAME: permutation = [2, 0, 1, 3, 4]
// CHECK: %[[RECEIVED:.*]] = attn.comm.all_to_all ins(%[[PARTS]] : tensor<4x1x2x128x64xf32>)
// CHECK: %[[ZEROS:.*]] = linalg.fill ins({{.*}} : f32) outs({{.*}} : tensor<1x2x128x64xf32>)
// CHECK: %[[DK:.*]] = linalg.generic {{.*}} iterator_types = ["reduction", "parallel", "parallel", "parallel", "parallel"]}
// CHECK-SAME: ins(%[[RECEIVED]] : tensor<4x1x2x128x64xf32>) outs(%[[ZEROS]] : tensor<1x2x128x64xf32>)
// CHECK:   arith.addf
// CHECK: attn.comm.all_to_all ins({{.*}} : tensor<4x1x2x128x32xf32>)
// CHECK: %[[DV:.*]] = linalg.generic
// CHECK: %[[RDK:.*]] = linalg.generic {{.*}} ins(%[[DK]] : tensor<1x2x128x64xf32>) outs({{.*}} : tensor<1x2x128x64xbf16>)
// CHECK: %[[RDV:.*]] = linalg.generic {{.*}} ins(%[[DV]] : tensor<1x2x128x32xf32>) outs({{.*}} : tensor<1x2x128x32xbf16>)
// CHECK: return %[[A]]#0, %[[G]]#0, %[[RDK]], %[[RDV]]
func.func @attention_grad(%q: !q, %k: !k, %v: !v, %dout: !o) -> (!o, !q, !k, !v) {
  %e = tensor.empty() : !o
  %el = tensor.empty() : !l
  %0:2 = attn.attention ins(%q, %k, %v : !q, !k, !v) outs(%e, %el : !o, !l) mask(#attn.causal) -> !o, !l
  %eq = tensor.empty() : !q
  %ek = tensor.empty() : !k
  %ev = tensor.empty() : !v
  %1:3 = attn.attention_grad ins(%q, %k, %v, %0#0, %0#1, %dout : !q, !k, !v, !o, !l, !o)
      outs(%eq, %ek, %ev : !q, !k, !v) mask(#attn.causal) -> !q, !k, !v
  return %0#0, %1#0, %1#1, %1#2 : !o, !q, !k, !v
}

// -----

!t = tensor<?x4x?x32xf32>
!l = tensor<?x4x?xf32>

// Sizes are sizes of chunks.
// CHECK-LABEL: func @dynamic(
// CHECK-DAG: %[[RANKS:.*]] = arith.constant 4 : index
// CHECK-DAG: %[[C2:.*]] = arith.constant 2 : index
// CHECK: %[[KEYS:.*]] = tensor.collapse_shape
// CHECK: %[[WHOLE:.*]] = tensor.dim %[[KEYS]], %[[C2]]
// CHECK: attn.attention_grad {{.*}} outs({{.*}} : tensor<?x4x?x32xf32>, tensor<?x4x?x32xf32>, tensor<?x4x?x32xf32>)
// CHECK: %[[N:.*]] = arith.divui %[[WHOLE]], %[[RANKS]]
// CHECK: tensor.expand_shape {{.*}} output_shape [%{{.*}}, 4, 4, %[[N]], 32]
// CHECK-SAME: tensor<?x4x?x32xf32> into tensor<?x4x4x?x32xf32>
// CHECK: attn.comm.all_to_all {{.*}} -> tensor<4x?x4x?x32xf32>
func.func @dynamic(%q: !t, %k: !t, %v: !t, %out: !t, %lse: !l, %dout: !t, %dq: !t, %dk: !t, %dv: !t) -> (!t, !t, !t) {
  %0:3 = attn.attention_grad ins(%q, %k, %v, %out, %lse, %dout : !t, !t, !t, !t, !l, !t)
      outs(%dq, %dk, %dv : !t, !t, !t) -> !t, !t, !t
  return %0#0, %0#1, %0#2 : !t, !t, !t
}
