// RUN: attn-opt %s --attn-bufferization-pipeline | FileCheck %s

// The result is written in place, with any strides but the last.

// CHECK-LABEL: func.func @in_place(
// CHECK-SAME:    %[[A:[^ ]+]]: memref<?x4xf32, strided<[?, 1], offset: ?>>
// CHECK-SAME:    %[[O:[^ ]+]]: memref<?x4xf32, strided<[?, 1], offset: ?>>
// CHECK-NOT:     memref.alloc
// CHECK-NOT:     memref.copy
// CHECK:         linalg.exp ins(%[[A]] : {{.*}}) outs(%[[O]]
// CHECK-NEXT:    return
func.func @in_place(%a: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %a, %c0 : tensor<?x4xf32>
  %e = tensor.empty(%n) : tensor<?x4xf32>
  %r = linalg.exp ins(%a : tensor<?x4xf32>) outs(%e : tensor<?x4xf32>) -> tensor<?x4xf32>
  return %r : tensor<?x4xf32>
}

// Temporary buffers are freed.

// CHECK-LABEL: func.func @temporary(
// CHECK:         %[[T:.*]] = memref.alloc
// CHECK:         linalg.exp
// CHECK:         linalg.matmul
// CHECK:         memref.dealloc %[[T]]
// CHECK-NEXT:    return
func.func @temporary(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %e = tensor.empty() : tensor<4x4xf32>
  %x = linalg.exp ins(%a : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = linalg.matmul ins(%x, %x : tensor<4x4xf32>, tensor<4x4xf32>) outs(%b : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// Buffers that regions yield to the block around them are of that block.

// CHECK-LABEL: func.func @nested(
// CHECK-COUNT-2: memref.alloc
// CHECK:         attn.overlap {
// CHECK:         linalg.matmul
// CHECK:         memref.dealloc %{{.*}}
// CHECK-NEXT:    memref.dealloc %{{.*}}
// CHECK-NEXT:    return
func.func @nested(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %e = tensor.empty() : tensor<4x4xf32>
  %f = tensor.empty() : tensor<4x4xf32>
  %x:2 = attn.overlap {
    %0 = linalg.exp ins(%a : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
    attn.overlap_yield %0 : tensor<4x4xf32>
  } and {
    %0 = linalg.log ins(%a : tensor<4x4xf32>) outs(%f : tensor<4x4xf32>) -> tensor<4x4xf32>
    attn.overlap_yield %0 : tensor<4x4xf32>
  } -> (tensor<4x4xf32>, tensor<4x4xf32>)
  %r = linalg.matmul ins(%x#0, %x#1 : tensor<4x4xf32>, tensor<4x4xf32>) outs(%b : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
