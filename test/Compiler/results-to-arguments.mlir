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

// Nor is anything copied that both branches of a condition write.

// CHECK-LABEL: func.func @branch(
// CHECK-SAME:    %{{[^ ]+}}: tensor<4xf32> {bufferization.writable = false},
// CHECK-SAME:    %{{[^ ]+}}: tensor<4xf32> {attn.output, bufferization.writable = true}, %{{[^ ]+}}: i1) -> tensor<4xf32>
// CHECK-NOT:     materialize_in_destination
func.func @branch(%a: tensor<4xf32>, %o: tensor<4xf32>, %c: i1) -> tensor<4xf32> {
  %0 = scf.if %c -> (tensor<4xf32>) {
    %r = linalg.exp ins(%a : tensor<4xf32>) outs(%o : tensor<4xf32>) -> tensor<4xf32>
    scf.yield %r : tensor<4xf32>
  } else {
    %r = linalg.abs ins(%a : tensor<4xf32>) outs(%o : tensor<4xf32>) -> tensor<4xf32>
    scf.yield %r : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// Branches that write different arguments give a result of its own.

// CHECK-LABEL: func.func @branches(
// CHECK-SAME:    tensor<4xf32> {attn.output, bufferization.writable = true}) -> tensor<4xf32>
// CHECK:         bufferization.materialize_in_destination
func.func @branches(%a: tensor<4xf32>, %o: tensor<4xf32>, %p: tensor<4xf32>, %c: i1) -> tensor<4xf32> {
  %0 = scf.if %c -> (tensor<4xf32>) {
    %r = linalg.exp ins(%a : tensor<4xf32>) outs(%o : tensor<4xf32>) -> tensor<4xf32>
    scf.yield %r : tensor<4xf32>
  } else {
    %r = linalg.abs ins(%a : tensor<4xf32>) outs(%p : tensor<4xf32>) -> tensor<4xf32>
    scf.yield %r : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
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

// An expanded argument cannot be collapsed to more than leading units and one other dimension: its strides are unknown.
// Nor can ranks receive into memory that is not contiguous. Such results are copied.

// CHECK-LABEL: func.func @collapsed(
// CHECK-SAME:    %{{[^ ]+}}: tensor<2x3x4x8xf32> {bufferization.writable = false},
// CHECK-SAME:    %[[O:[^ ]+]]: tensor<6x4x8xf32> {attn.output, bufferization.writable = true}) -> tensor<6x4x8xf32>
func.func @collapsed(%a: tensor<2x3x4x8xf32>) -> tensor<6x4x8xf32> {
  %e = tensor.empty() : tensor<2x3x4x8xf32>
  // CHECK: %[[R:.*]] = linalg.exp
  %r = linalg.exp ins(%a : tensor<2x3x4x8xf32>) outs(%e : tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  // CHECK: %[[C:.*]] = tensor.collapse_shape %[[R]]
  %c = tensor.collapse_shape %r [[0, 1], [2], [3]] : tensor<2x3x4x8xf32> into tensor<6x4x8xf32>
  // CHECK: %[[M:.*]] = bufferization.materialize_in_destination %[[C]] in %[[O]]
  // CHECK: return %[[M]]
  return %c : tensor<6x4x8xf32>
}

// CHECK-LABEL: func.func @collapsed_units(
// CHECK-SAME:    %[[O:[^ ]+]]: tensor<3x32xf32> {attn.output, bufferization.writable = true}) -> tensor<3x32xf32>
func.func @collapsed_units(%a: tensor<1x3x4x8xf32>) -> tensor<3x32xf32> {
  %e = tensor.empty() : tensor<1x3x4x8xf32>
  // CHECK: %[[E:.*]] = tensor.expand_shape %[[O]] {{\[}}[0, 1], [2, 3]]
  // CHECK: linalg.exp {{.*}} outs(%[[E]] :
  %r = linalg.exp ins(%a : tensor<1x3x4x8xf32>) outs(%e : tensor<1x3x4x8xf32>) -> tensor<1x3x4x8xf32>
  // CHECK-NOT: materialize_in_destination
  %c = tensor.collapse_shape %r [[0, 1], [2, 3]] : tensor<1x3x4x8xf32> into tensor<3x32xf32>
  return %c : tensor<3x32xf32>
}

// CHECK-LABEL: func.func @received(
// CHECK-SAME:    %[[O:[^ ]+]]: tensor<4x8xf32> {attn.output, bufferization.writable = true}) -> tensor<4x8xf32>
func.func @received(%a: tensor<1x4x8xf32>) -> tensor<4x8xf32> {
  // CHECK: %[[E:.*]] = tensor.empty()
  %e = tensor.empty() : tensor<1x4x8xf32>
  // CHECK: attn.comm.all_to_all {{.*}} outs(%[[E]] :
  %r = attn.comm.all_to_all ins(%a : tensor<1x4x8xf32>) outs(%e : tensor<1x4x8xf32>) -> tensor<1x4x8xf32>
  // CHECK: %[[C:.*]] = tensor.collapse_shape
  %c = tensor.collapse_shape %r [[0, 1], [2]] : tensor<1x4x8xf32> into tensor<4x8xf32>
  // CHECK: bufferization.materialize_in_destination %[[C]] in %[[O]]
  return %c : tensor<4x8xf32>
}

// A tensor that is returned again is copied, also as a view, before its memory becomes that of a result.

// CHECK-LABEL: func.func @again(
// CHECK-SAME:    %[[A:[^ ]+]]: tensor<2x4xf32>
// CHECK-SAME:    %[[O:[^ ]+]]: tensor<2x4xf32> {attn.output, bufferization.writable = true},
// CHECK-SAME:    %[[P:[^ ]+]]: tensor<2x4xf32> {attn.output, bufferization.writable = true},
// CHECK-SAME:    %[[Q:[^ ]+]]: tensor<8xf32> {attn.output, bufferization.writable = true})
func.func @again(%a: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<8xf32>) {
  %e = tensor.empty() : tensor<2x4xf32>
  // CHECK: %[[R:.*]] = linalg.exp
  %r = linalg.exp ins(%a : tensor<2x4xf32>) outs(%e : tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: %[[V:.*]] = tensor.collapse_shape %[[R]]
  %v = tensor.collapse_shape %r [[0, 1]] : tensor<2x4xf32> into tensor<8xf32>
  // CHECK: %[[C:.*]] = linalg.copy ins(%[[R]] : {{.*}}) outs(%[[P]]
  // CHECK: %[[D:.*]] = linalg.copy ins(%[[V]] : {{.*}}) outs(%[[Q]]
  // CHECK: %[[M:.*]] = bufferization.materialize_in_destination %[[R]] in %[[O]]
  // CHECK: return %[[M]], %[[C]], %[[D]]
  return %r, %r, %v : tensor<2x4xf32>, tensor<2x4xf32>, tensor<8xf32>
}

// An input that is returned is copied.

// CHECK-LABEL: func.func @input(
// CHECK-SAME:    %[[A:[^ ]+]]: tensor<4xf32> {bufferization.writable = false},
// CHECK-SAME:    %[[O:[^ ]+]]: tensor<4xf32> {attn.output, bufferization.writable = true})
func.func @input(%a: tensor<4xf32> {bufferization.writable = false}) -> tensor<4xf32> {
  // CHECK: bufferization.materialize_in_destination %[[A]] in %[[O]]
  return %a : tensor<4xf32>
}
