// RUN: attn-opt %s --canonicalize --cse | FileCheck %s

// Ranks make the same calls in the same order: none is dropped, moved or made once.
// CHECK-LABEL: func @calls
// CHECK-SAME: (%[[A:.*]]: tensor<4xf32>, %[[E:.*]]: tensor<2x4xf32>
// CHECK: attn.comm.all_gather ins(%[[A]] : tensor<4xf32>)
// CHECK: attn.comm.all_gather ins(%[[A]] : tensor<4xf32>)
// CHECK: attn.comm.all_to_all
// CHECK: attn.comm.send_recv
func.func @calls(%a: tensor<4xf32>, %e: tensor<2x4xf32>, %i: index) {
  %0 = attn.comm.all_gather ins(%a : tensor<4xf32>) outs(%e : tensor<2x4xf32>) -> tensor<2x4xf32>
  %1 = attn.comm.all_gather ins(%a : tensor<4xf32>) outs(%e : tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = attn.comm.all_to_all ins(%0 : tensor<2x4xf32>) outs(%e : tensor<2x4xf32>) -> tensor<2x4xf32>
  %3 = attn.comm.send_recv ins(%a : tensor<4xf32>) to(%i) from(%i) outs(%a : tensor<4xf32>) -> tensor<4xf32>
  return
}

// The rank stays the same.
// CHECK-LABEL: func @rank
// CHECK: %[[RANK:.*]] = attn.comm.rank ranks(2)
// CHECK-NOT: attn.comm.rank
// CHECK: return %[[RANK]], %[[RANK]]
func.func @rank() -> (index, index) {
  %0 = attn.comm.rank ranks(2)
  %1 = attn.comm.rank ranks(2)
  return %0, %1 : index, index
}
