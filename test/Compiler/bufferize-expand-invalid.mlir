// RUN: attn-opt %s --attn-bufferize -split-input-file -verify-diagnostics

func.func @tensor(%x: tensor<64x?xf32>, %sizes: tensor<?x?xf32>) -> tensor<64x?x2x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = tensor.dim %sizes, %c0 : tensor<?x?xf32>
  %n = tensor.dim %sizes, %c1 : tensor<?x?xf32>
  // expected-error @below {{dimension 1 is expanded to 2 dimensions of dynamic size, and at most one may be; make the other sizes static}}
  %e = tensor.expand_shape %x [[0], [1, 2, 3]] output_shape [64, %m, 2, %n] : tensor<64x?xf32> into tensor<64x?x2x?xf32>
  return %e : tensor<64x?x2x?xf32>
}

// -----

func.func @memref(%x: memref<?xf32, strided<[2]>>, %y: memref<?x?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = memref.dim %y, %c0 : memref<?x?xf32>
  %n = memref.dim %y, %c1 : memref<?x?xf32>
  // expected-error @below {{dimension 0 is expanded to 2 dimensions of dynamic size}}
  %e = memref.expand_shape %x [[0, 1]] output_shape [%m, %n] : memref<?xf32, strided<[2]>> into memref<?x?xf32, strided<[?, 2]>>
  memref.copy %e, %y : memref<?x?xf32, strided<[?, 2]>> to memref<?x?xf32>
  return
}

// -----

// One dynamic size in each group is fine.
func.func @several_groups(%x: memref<?x?xf32>, %y: memref<?x2x4x?xf32>) {
  %c0 = arith.constant 0 : index
  %c3 = arith.constant 3 : index
  %m = memref.dim %y, %c0 : memref<?x2x4x?xf32>
  %n = memref.dim %y, %c3 : memref<?x2x4x?xf32>
  %e = memref.expand_shape %x [[0, 1], [2, 3]] output_shape [%m, 2, 4, %n] : memref<?x?xf32> into memref<?x2x4x?xf32>
  memref.copy %e, %y : memref<?x2x4x?xf32> to memref<?x2x4x?xf32>
  return
}
