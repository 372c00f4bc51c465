// RUN: attn-opt %s --attn-raise-linalg --attn-differentiate="function=causal arguments=0,1,2 mode=backward" \
// RUN:   | FileCheck %s

// What was raised has the gradient of linear attention.

#all = affine_map<(h, i, j) -> (h, i, j)>

// CHECK-LABEL: func.func @causal_bwd(
// CHECK-NOT:     linalg.batch_matmul
// CHECK:         %[[GRADS:.*]]:3 = attn.linear_attention_grad
// CHECK-SAME:        log_decay({{.*}} : tensor<2xf32>) causal scale(1.000000e+00)
// CHECK-NOT:     linalg.batch_matmul
// CHECK:         return
func.func @causal(%q: tensor<2x32x8xf32>, %k: tensor<2x8x32xf32>, %v: tensor<2x32x8xf32>) -> tensor<2x32x8xf32> {
  %zero = arith.constant 0.0 : f32
  %rate = arith.constant -0.5 : f32
  %e = tensor.empty() : tensor<2x32x32xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x32x32xf32>) -> tensor<2x32x32xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x32x8xf32>, tensor<2x8x32xf32>)
      outs(%s0 : tensor<2x32x32xf32>) -> tensor<2x32x32xf32>
  %w = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%s : tensor<2x32x32xf32>) outs(%e : tensor<2x32x32xf32>) {
  ^bb0(%a: f32, %out: f32):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %c = arith.cmpi ule, %j, %i : index
    %i1 = arith.index_cast %i : index to i32
    %j1 = arith.index_cast %j : index to i32
    %d = arith.subi %i1, %j1 : i32
    %x = arith.sitofp %d : i32 to f32
    %y = arith.mulf %x, %rate : f32
    %p = math.exp %y : f32
    %0 = arith.mulf %a, %p : f32
    %1 = arith.select %c, %0, %zero : f32
    linalg.yield %1 : f32
  } -> tensor<2x32x32xf32>
  %oe = tensor.empty() : tensor<2x32x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%oe : tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
  %o = linalg.batch_matmul ins(%w, %v : tensor<2x32x32xf32>, tensor<2x32x8xf32>)
      outs(%o0 : tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
  return %o : tensor<2x32x8xf32>
}
