// RUN: attn-opt %s --attn-decompose-linalg --split-input-file --verify-diagnostics | FileCheck %s

// A softmax becomes the operations that compute it, along its dimension.

// CHECK-DAG:   #[[ALL:.*]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG:   #[[ROW:.*]] = affine_map<(d0, d1) -> (d1)>
// CHECK-LABEL: func.func @columns(
// CHECK-SAME:    %[[X:.*]]: tensor<?x8xf32>, %[[O:.*]]: tensor<?x8xf32>)
// CHECK:         %[[MAX:.*]] = linalg.generic {indexing_maps = [#[[ALL]], #[[ROW]]], iterator_types = ["reduction", "parallel"]} ins(%[[X]]
// CHECK:           arith.maxnumf
// CHECK:         %[[E:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[MAX]]
// CHECK:           arith.subf
// CHECK:           math.exp
// CHECK:         %[[SUM:.*]] = linalg.generic {{.*}} iterator_types = ["reduction", "parallel"]} ins(%[[E]]
// CHECK:           arith.addf
// CHECK:         %[[R:.*]] = linalg.generic {{.*}} ins(%[[E]], %[[SUM]]
// CHECK:           arith.divf
// CHECK:         return %[[R]]
// CHECK-NOT:     linalg.softmax
func.func @columns(%x: tensor<?x8xf32>, %o: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %r = linalg.softmax dimension(0) ins(%x : tensor<?x8xf32>) outs(%o : tensor<?x8xf32>) -> tensor<?x8xf32>
  return %r : tensor<?x8xf32>
}

// -----

// Sums of bf16 would not get beyond a few hundred.

// CHECK-LABEL: func.func @narrow(
// CHECK-SAME:    %[[X:.*]]: tensor<4x?xbf16>,
// CHECK:         %[[WIDE:.*]] = linalg.generic {{.*}} ins(%[[X]] : tensor<4x?xbf16>) outs(%{{.*}} : tensor<4x?xf32>)
// CHECK:           arith.extf %{{.*}} : bf16 to f32
// CHECK:         linalg.generic {{.*}} ins(%[[WIDE]] : tensor<4x?xf32>)
// CHECK:           arith.addf %{{.*}} : f32
// CHECK:           arith.truncf %{{.*}} : f32 to bf16
func.func @narrow(%x: tensor<4x?xbf16>, %o: tensor<4x?xbf16>) -> tensor<4x?xbf16> {
  %r = linalg.softmax dimension(1) ins(%x : tensor<4x?xbf16>) outs(%o : tensor<4x?xbf16>) -> tensor<4x?xbf16>
  return %r : tensor<4x?xbf16>
}

// -----

// CHECK-LABEL: func.func @memrefs(
// CHECK-SAME:    %[[X:.*]]: memref<4x?xf32>, %[[O:.*]]: memref<4x?xf32>)
// CHECK:         %[[T:.*]] = bufferization.to_tensor %[[X]] restrict :
// CHECK:         linalg.generic {{.*}} ins(%[[T]]
// CHECK:           arith.divf
// CHECK:         bufferization.materialize_in_destination %{{.*}} in restrict writable %[[O]]
// CHECK-NOT:     linalg.softmax
func.func @memrefs(%x: memref<4x?xf32>, %o: memref<4x?xf32>) {
  linalg.softmax dimension(1) ins(%x : memref<4x?xf32>) outs(%o : memref<4x?xf32>)
  return
}

// -----

// CHECK-LABEL: func.func @into_memref(
// CHECK-SAME:    %[[X:.*]]: tensor<4x8xf32>, %[[O:.*]]: memref<4x8xf32>)
// CHECK:         linalg.generic {{.*}} ins(%[[X]]
// CHECK:         bufferization.materialize_in_destination %{{.*}} in restrict writable %[[O]]
// CHECK-NOT:     linalg.softmax
func.func @into_memref(%x: tensor<4x8xf32>, %o: memref<4x8xf32>) {
  linalg.softmax dimension(1) ins(%x : tensor<4x8xf32>) outs(%o : memref<4x8xf32>)
  return
}

// -----

func.func @integers(%x: tensor<4x8xi32>) -> tensor<4x8xi32> {
  // expected-error @below {{'linalg.softmax' op needs elements that are floats (were 'i32')}}
  %r = linalg.softmax dimension(1) ins(%x : tensor<4x8xi32>) outs(%x : tensor<4x8xi32>) -> tensor<4x8xi32>
  return %r : tensor<4x8xi32>
}

// -----

// CHECK-LABEL: func.func @reads_output(
// CHECK-SAME:    %[[X:.*]]: tensor<4x8xf32>, %[[O:.*]]: tensor<4x8xf32>)
// CHECK:         linalg.generic {{.*}} ins(%[[X]] : {{.*}}) outs(%[[O]] :
// CHECK-NEXT:    ^bb0(%[[IN:.*]]: f32, %[[OUT:.*]]: f32):
// CHECK-NEXT:      arith.divf %[[IN]], %[[OUT]] : f32
// CHECK-NOT:     linalg.map
func.func @reads_output(%x: tensor<4x8xf32>, %o: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %r = linalg.map ins(%x : tensor<4x8xf32>) outs(%o : tensor<4x8xf32>) (%in: f32, %out: f32) {
    %y = arith.divf %in, %out : f32
    linalg.yield %y : f32
  }
  return %r : tensor<4x8xf32>
}

// -----

// CHECK-LABEL: func.func @writes_output(
// CHECK:         linalg.map
func.func @writes_output(%x: tensor<4x8xf32>, %o: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %r = linalg.map { arith.negf } ins(%x : tensor<4x8xf32>) outs(%o : tensor<4x8xf32>)
  return %r : tensor<4x8xf32>
}

// -----

// A vector of scalars is computed by a loop, unless its elements are only read one by one.
// CHECK-LABEL: func @vector
// CHECK-SAME: (%[[A:.*]]: i32, %[[B:.*]]: i32)
// CHECK-NOT: tensor.from_elements
// CHECK: %[[VECTOR:.*]] = linalg.generic
// CHECK: %[[NUMBER:.*]] = linalg.index 0
// CHECK: %[[IS_FIRST:.*]] = arith.cmpi eq, %[[NUMBER]], %{{.*}}
// CHECK: %[[RESULT:.*]] = arith.select %[[IS_FIRST]], %[[A]], %[[B]]
// CHECK: linalg.yield %[[RESULT]]
// CHECK: return %[[VECTOR]], %[[B]]
func.func @vector(%a: i32, %b: i32) -> (tensor<2xi32>, i32) {
  %c1 = arith.constant 1 : index
  %0 = tensor.from_elements %a, %b : tensor<2xi32>
  %1 = tensor.from_elements %a, %b : tensor<2xi32>
  %2 = tensor.extract %1[%c1] : tensor<2xi32>
  return %0, %2 : tensor<2xi32>, i32
}
