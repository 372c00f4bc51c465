// RUN: attn-opt %s --attn-results-to-arguments | FileCheck %s

// A result becomes a writable argument with the result's attributes.

// CHECK-LABEL: func.func @result(
// CHECK-SAME:    %[[A:[^ ]+]]: tensor<4xf32> {bufferization.writable = false},
// CHECK-SAME:    %[[O:[^ ]+]]: tensor<4xf32> {attn.name = "sum", attn.output, bufferization.writable = true}) -> tensor<4xf32>
func.func @result(%a: tensor<4xf32>) -> (tensor<4xf32> {attn.name = "sum"}) {
  %e = tensor.empty() : tensor<4xf32>
  // CHECK: %[[R:.*]] = linalg.add
  %r = linalg.add ins(%a, %a : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  // CHECK: %[[M:.*]] = bufferization.materialize_in_destination %[[R]] in %[[O]]
  // CHECK: return %[[M]]
  return %r : tensor<4xf32>
}

// An argument that is written and returned stays.

// CHECK-LABEL: func.func @destination(
// CHECK-SAME:    %{{[^ ]+}}: tensor<4xf32> {bufferization.writable = false},
// CHECK-SAME:    %{{[^ ]+}}: tensor<4xf32> {attn.output, bufferization.writable = true}) -> tensor<4xf32>
// CHECK-NOT:     materialize_in_destination
func.func @destination(%a: tensor<4xf32>, %o: tensor<4xf32>) -> tensor<4xf32> {
  %r = linalg.add ins(%a, %a : tensor<4xf32>, tensor<4xf32>) outs(%o : tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// Nor is anything copied that regions of an overlap write.

// CHECK-LABEL: func.func @overlap(
// CHECK-SAME:    %{{[^ ]+}}: tensor<4xf32> {bufferization.writable = false},
// CHECK-SAME:    %{{[^ ]+}}: tensor<4xf32> {attn.output, bufferization.writable = true},
// CHECK-SAME:    %{{[^ ]+}}: tensor<4xf32> {attn.output, bufferization.writable = true})
// CHECK-NOT:     materialize_in_destination
func.func @overlap(%a: tensor<4xf32>, %o: tensor<4xf32>, %p: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0:2 = attn.overlap by streams {
    %r = linalg.exp ins(%a : tensor<4xf32>) outs(%o : tensor<4xf32>) -> tensor<4xf32>
    attn.overlap_yield %r : tensor<4xf32>
  } and {
    %r = linalg.abs ins(%a : tensor<4xf32>) outs(%p : tensor<4xf32>) -> tensor<4xf32>
    attn.overlap_yield %r : tensor<4xf32>
  }  -> (tensor<4xf32>, tensor<4xf32>)
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xf32>
}

// Where an argument is read as well as written, the result is written to it
// if it cannot be computed in place.

// CHECK-LABEL: func.func @read_and_written(
// CHECK-SAME:    %[[A:[^ ]+]]: tensor<4x4xf32> {attn.output, bufferization.writable = true}) -> tensor<4x4xf32>
func.func @read_and_written(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // CHECK: %[[R:.*]] = linalg.matmul
  %r = linalg.matmul ins(%a, %a : tensor<4x4xf32>, tensor<4x4xf32>) outs(%a : tensor<4x4xf32>) -> tensor<4x4xf32>
  // CHECK: %[[M:.*]] = bufferization.materialize_in_destination %[[R]] in %[[A]]
  // CHECK: return %[[M]]
  return %r : tensor<4x4xf32>
}

// CHECK-LABEL: func.func private @private(%{{[^ ]+}}: tensor<4xf32>) -> tensor<4xf32>
func.func private @private(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}

// A function that an attribute of another one names is not called.

// CHECK-LABEL: func.func @named(
// CHECK-SAME:    %{{[^ ]+}}: tensor<4xf32> {attn.output, bufferization.writable = true})
func.func @named(%a: tensor<4xf32>) -> tensor<4xf32> {
  %r = linalg.exp ins(%a : tensor<4xf32>) outs(%a : tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

func.func @naming(%a: tensor<4xf32>) attributes {attn.forward = @named} {
  return
}
