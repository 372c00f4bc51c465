// RUN: attn-opt %s --attn-bufferize | FileCheck %s

// A whole buffer may be expanded to several dimensions of dynamic size, by a cast.

// CHECK-LABEL: func @memref
// CHECK-SAME: (%[[X:.*]]: memref<?x4xf32>
// CHECK: %[[M:.*]] = memref.dim
// CHECK: %[[N:.*]] = memref.dim
// CHECK: %[[STRIDE:.*]] = arith.muli %{{.*}}, %[[N]] : index
// CHECK: memref.reinterpret_cast %[[X]] to offset: [0], sizes: [%[[M]], %[[N]], 4], strides: [%[[STRIDE]], 4, 1]
// CHECK-SAME: memref<?x4xf32> to memref<?x?x4xf32>
// CHECK-NOT: expand_shape
func.func @memref(%x: memref<?x4xf32>, %y: memref<?x?x4xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = memref.dim %y, %c0 : memref<?x?x4xf32>
  %n = memref.dim %y, %c1 : memref<?x?x4xf32>
  %e = memref.expand_shape %x [[0, 1], [2]] output_shape [%m, %n, 4] : memref<?x4xf32> into memref<?x?x4xf32>
  memref.copy %e, %y : memref<?x?x4xf32> to memref<?x?x4xf32>
  return
}
