// RUN: attn-opt %s --attn-shard-attention="method=allgather ranks=4" | FileCheck %s

!t = tensor<1x2x64x16xf32>
!d = tensor<1x2x?x16xf32>
!h = tensor<1x2x64x8xf32>
!r = tensor<1x2x64xf32>

// Casts, concatenations, softmax and slices of rows, of static and of dynamic lengths.
// CHECK-LABEL: func @moves(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<1x2x16x16xf32>
// CHECK-DAG: %[[SLICE:.*]] = tensor.extract_slice %[[Q]][0, 0, 0, 8] [1, 2, 16, 8] [1, 1, 1, 1] : tensor<1x2x16x16xf32> to tensor<1x2x16x8xf32>
// CHECK: %[[BOTH:.*]] = tensor.concat dim(3) %[[SLICE]], %[[SLICE]] : (tensor<1x2x16x8xf32>, tensor<1x2x16x8xf32>) -> tensor<1x2x16x16xf32>
// CHECK: %[[SOFTMAX:.*]] = linalg.softmax dimension(3) ins(%[[BOTH]] : tensor<1x2x16x16xf32>)
// CHECK: %[[CAST:.*]] = tensor.cast %[[SOFTMAX]] : tensor<1x2x16x16xf32> to tensor<1x2x?x16xf32>
// CHECK: %[[C16:.*]] = arith.constant 16 : index
// CHECK: %[[COLUMN:.*]] = tensor.extract_slice %[[CAST]][0, 0, 0, 0] [1, 2, %[[C16]], 1] [1, 1, 1, 1] : tensor<1x2x?x16xf32> to tensor<1x2x?xf32>
// CHECK: %[[STATIC:.*]] = tensor.cast %[[COLUMN]] : tensor<1x2x?xf32> to tensor<1x2x16xf32>
// CHECK: %[[NEW:.*]] = tensor.empty() : tensor<1x2x16x16xf32>
// CHECK: %[[INSERTED:.*]] = tensor.insert_slice %[[STATIC]] into %[[NEW]][0, 0, 0, 3] [1, 2, 16, 1] [1, 1, 1, 1]
// CHECK-SAME: : tensor<1x2x16xf32> into tensor<1x2x16x16xf32>
// CHECK: attn.attention ins(%[[INSERTED]],
func.func @moves(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  %slice = tensor.extract_slice %q[0, 0, 0, 8] [1, 2, 64, 8] [1, 1, 1, 1] : !t to !h
  %both = tensor.concat dim(3) %slice, %slice : (!h, !h) -> !t
  %e = tensor.empty() : !t
  %softmax = linalg.softmax dimension(3) ins(%both : !t) outs(%e : !t) -> !t
  %cast = tensor.cast %softmax : !t to !d
  %c64 = arith.constant 64 : index
  %column = tensor.extract_slice %cast[0, 0, 0, 0] [1, 2, %c64, 1] [1, 1, 1, 1] : !d to tensor<1x2x?xf32>
  %static = tensor.cast %column : tensor<1x2x?xf32> to !r
  %new = tensor.empty() : !t
  %inserted = tensor.insert_slice %static into %new[0, 0, 0, 3] [1, 2, 64, 1] [1, 1, 1, 1] : !r into !t
  %0 = attn.attention ins(%inserted, %k, %v : !t, !t, !t) outs(%out : !t) -> !t
  return %0 : !t
}
