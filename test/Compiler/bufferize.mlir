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

// An argument that is an input, too, is written when it is read no more.

// CHECK-LABEL: func.func @input_and_output(
// CHECK-SAME:    %[[A:[^ ]+]]: memref<4x4xf32, strided<[?, 1], offset: ?>>
// CHECK:         %[[T:.*]] = memref.alloc() {{.*}}: memref<4x4xf32>
// CHECK:         linalg.matmul ins(%[[A]], %[[A]] : {{.*}}) outs(%[[T]] : memref<4x4xf32>)
// CHECK-NEXT:    linalg.copy ins(%[[T]] : {{.*}}) outs(%[[A]] :
// CHECK-NEXT:    memref.dealloc %[[T]]
// CHECK-NEXT:    return
func.func @input_and_output(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %zero = arith.constant 0.0 : f32
  %z = linalg.fill ins(%zero : f32) outs(%a : tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = linalg.matmul ins(%a, %a : tensor<4x4xf32>, tensor<4x4xf32>) outs(%z : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// CHECK-LABEL: func.func @dynamic_input_and_output(
// CHECK-SAME:    %[[A:[^ ]+]]: memref<1x2x?x8xf32, strided<[?, ?, ?, 1], offset: ?>>
// CHECK:         %[[T:.*]] = memref.alloc(%{{.*}}) {{.*}}: memref<1x2x?x8xf32>
// CHECK:         attn.attention ins(%[[A]], %[[A]], %[[A]] : {{.*}}) outs(%[[T]] : memref<1x2x?x8xf32>)
// CHECK-NEXT:    linalg.copy ins(%[[T]] : {{.*}}) outs(%[[A]] :
// CHECK-NEXT:    memref.dealloc %[[T]]
func.func @dynamic_input_and_output(%a: tensor<1x2x?x8xf32>) -> tensor<1x2x?x8xf32> {
  %r = attn.attention ins(%a, %a, %a : tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32>)
      outs(%a : tensor<1x2x?x8xf32>) -> tensor<1x2x?x8xf32>
  return %r : tensor<1x2x?x8xf32>
}

// What can be computed in place is, also if its size is asked for.

// CHECK-LABEL: func.func @elementwise(
// CHECK-SAME:    %[[A:[^ ]+]]: memref<?x4xf32, strided<[?, 1], offset: ?>>
// CHECK-NOT:     memref.alloc
// CHECK-NOT:     linalg.copy
// CHECK:         linalg.exp ins(%[[A]] : {{.*}}) outs(%[[A]]
// CHECK-NEXT:    return
func.func @elementwise(%a: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %r = linalg.exp ins(%a : tensor<?x4xf32>) outs(%a : tensor<?x4xf32>) -> tensor<?x4xf32>
  return %r : tensor<?x4xf32>
}

// What is copied from an argument is copied before that is written.

// CHECK-LABEL: func.func @both(
// CHECK:         linalg.exp ins(%[[A:[^ ]*]] : {{.*}}) outs(%[[O:[^ ]*]] :
// CHECK:         %[[T:.*]] = memref.alloc()
// CHECK:         linalg.matmul ins(%[[O]], %[[A]] : {{.*}}) outs(%[[T]] :
// CHECK-NEXT:    linalg.copy ins(%[[O]] : {{.*}}) outs(%[[P:[^ ]*]] :
// CHECK-NEXT:    linalg.copy ins(%[[T]] : {{.*}}) outs(%[[O]] :
// CHECK-NEXT:    memref.dealloc %[[T]]
func.func @both(%a: tensor<4x4xf32>, %o: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = linalg.exp ins(%a : tensor<4x4xf32>) outs(%o : tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = linalg.matmul ins(%0, %a : tensor<4x4xf32>, tensor<4x4xf32>) outs(%0 : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %1, %0 : tensor<4x4xf32>, tensor<4x4xf32>
}

// Branches run at most once: buffers that they yield are of the block around
// them.

// CHECK-LABEL: func.func @branch(
// CHECK:         %[[X:.*]] = memref.alloc() {{.*}} : memref<4x4xf32>
// CHECK-NEXT:    scf.if
// CHECK:           %[[T:.*]] = memref.alloc()
// CHECK:           linalg.exp {{.*}} outs(%[[T]] :
// CHECK:           linalg.log ins(%[[T]] : {{.*}} outs(%[[X]] :
// CHECK:           memref.dealloc %[[T]]
// CHECK:         linalg.matmul
// CHECK:         memref.dealloc %[[X]]
// CHECK-NEXT:    return
func.func @branch(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>, %t: tensor<i1>) -> tensor<4x4xf32> {
  %c = tensor.extract %t[] : tensor<i1>
  %x = scf.if %c -> tensor<4x4xf32> {
    %e = tensor.empty() : tensor<4x4xf32>
    %0 = linalg.exp ins(%a : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
    %f = tensor.empty() : tensor<4x4xf32>
    %1 = linalg.log ins(%0 : tensor<4x4xf32>) outs(%f : tensor<4x4xf32>) -> tensor<4x4xf32>
    scf.yield %1 : tensor<4x4xf32>
  } else {
    scf.yield %a : tensor<4x4xf32>
  }
  %r = linalg.matmul ins(%x, %a : tensor<4x4xf32>, tensor<4x4xf32>) outs(%b : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// With the size that it computes.

// CHECK-LABEL: func.func @branch_of_dynamic_size(
// CHECK-SAME:    %[[A:[^ ]+]]: memref<?xf32
// CHECK:         %[[N:.*]] = memref.dim %[[A]], %{{.*}}
// CHECK:         %[[X:.*]] = memref.alloc(%[[N]])
// CHECK:         scf.if
// CHECK:           linalg.exp {{.*}} outs(%[[X]] :
// CHECK:         memref.dealloc %[[X]]
func.func @branch_of_dynamic_size(%a: tensor<?xf32>, %b: tensor<?xf32>, %t: tensor<i1>) -> tensor<?xf32> {
  %c = tensor.extract %t[] : tensor<i1>
  %x = scf.if %c -> tensor<?xf32> {
    %c0 = arith.constant 0 : index
    %n = tensor.dim %a, %c0 : tensor<?xf32>
    %e = tensor.empty(%n) : tensor<?xf32>
    %0 = linalg.exp ins(%a : tensor<?xf32>) outs(%e : tensor<?xf32>) -> tensor<?xf32>
    scf.yield %0 : tensor<?xf32>
  } else {
    scf.yield %a : tensor<?xf32>
  }
  %r = linalg.log ins(%x : tensor<?xf32>) outs(%b : tensor<?xf32>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}

// Values that are begun from the same empty tensor have buffers of their own,
// which may share memory later.

// CHECK-LABEL: func.func @empty_static(
// CHECK:         %[[B:.*]] = memref.alloc() {{.*}} : memref<8xf32>
// CHECK-NEXT:    %[[A:.*]] = memref.alloc() {{.*}} : memref<8xf32>
// CHECK-NEXT:    linalg.exp ins(%{{.*}}) outs(%[[A]]
// CHECK-NEXT:    linalg.exp ins(%[[A]]
// CHECK-NEXT:    linalg.abs ins(%{{.*}}) outs(%[[B]]
// CHECK-NEXT:    linalg.abs ins(%[[B]]
// CHECK-LABEL: func.func @empty_dynamic(
// CHECK-COUNT-2: memref.alloc(
// CHECK-NOT:     memref.alloc(
// CHECK:         return
func.func @empty_static(%x: tensor<8xf32>, %y: tensor<8xf32>, %z: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %e = tensor.empty() : tensor<8xf32>
  %a = linalg.exp ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  %r = linalg.exp ins(%a : tensor<8xf32>) outs(%y : tensor<8xf32>) -> tensor<8xf32>
  %b = linalg.abs ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  %s = linalg.abs ins(%b : tensor<8xf32>) outs(%z : tensor<8xf32>) -> tensor<8xf32>
  return %r, %s : tensor<8xf32>, tensor<8xf32>
}
func.func @empty_dynamic(%x: tensor<?xf32>, %y: tensor<?xf32>, %z: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %e = tensor.empty(%n) : tensor<?xf32>
  %a = linalg.exp ins(%x : tensor<?xf32>) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %r = linalg.exp ins(%a : tensor<?xf32>) outs(%y : tensor<?xf32>) -> tensor<?xf32>
  %b = linalg.abs ins(%x : tensor<?xf32>) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %s = linalg.abs ins(%b : tensor<?xf32>) outs(%z : tensor<?xf32>) -> tensor<?xf32>
  return %r, %s : tensor<?xf32>, tensor<?xf32>
}

// In a nested block they would be needed for as long as that runs.

// CHECK-LABEL: func.func @empty_nested(
// CHECK:         %[[A:.*]] = memref.alloc()
// CHECK:         %[[S:.*]] = memref.alloc()
// CHECK-NOT:     memref.alloc()
// CHECK:         scf.for
// CHECK-NEXT:      linalg.exp ins(%[[S]] : {{.*}}) outs(%[[A]]
// CHECK-NEXT:      linalg.abs ins(%[[A]] : {{.*}}) outs(%[[S]]
// CHECK-NEXT:      linalg.exp ins(%[[S]] : {{.*}}) outs(%[[A]]
func.func @empty_nested(%x: tensor<8xf32>, %n: tensor<?xf32>) -> tensor<8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %d = tensor.dim %n, %c0 : tensor<?xf32>
  %e = tensor.empty() : tensor<8xf32>
  %r = scf.for %i = %c0 to %d step %c1 iter_args(%s = %x) -> tensor<8xf32> {
    %a = linalg.exp ins(%s : tensor<8xf32>) outs(%e : tensor<8xf32>) -> tensor<8xf32>
    %b = linalg.abs ins(%a : tensor<8xf32>) outs(%s : tensor<8xf32>) -> tensor<8xf32>
    %t = linalg.exp ins(%b : tensor<8xf32>) outs(%e : tensor<8xf32>) -> tensor<8xf32>
    %u = linalg.abs ins(%t : tensor<8xf32>) outs(%b : tensor<8xf32>) -> tensor<8xf32>
    scf.yield %u : tensor<8xf32>
  }
  return %r : tensor<8xf32>
}

// Both branches of a condition write the destination of the result: nothing is copied.

// CHECK-LABEL: func.func @branches_to_destination(
// CHECK-NOT:     -> memref
// CHECK-NOT:     memref.alloc
// CHECK:         scf.if
// CHECK-NOT:     memref.alloc
// CHECK-NOT:     linalg.copy
// CHECK:         return{{$}}
func.func @branches_to_destination(%a: tensor<4xf32>, %o: tensor<4xf32>, %flag: tensor<i1>) -> tensor<4xf32> {
  %c = tensor.extract %flag[] : tensor<i1>
  %0 = scf.if %c -> (tensor<4xf32>) {
    %r = linalg.exp ins(%a : tensor<4xf32>) outs(%o : tensor<4xf32>) -> tensor<4xf32>
    scf.yield %r : tensor<4xf32>
  } else {
    %r = linalg.abs ins(%a : tensor<4xf32>) outs(%o : tensor<4xf32>) -> tensor<4xf32>
    scf.yield %r : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// The same with a new result, which becomes an argument.

// CHECK-LABEL: func.func @branches_to_new_destination(
// CHECK-NOT:     -> memref
// CHECK-NOT:     memref.alloc
// CHECK:         scf.if
// CHECK:           linalg.exp ins(%arg0 : {{.*}}) outs(%arg2 :
// CHECK:           linalg.abs ins(%arg0 : {{.*}}) outs(%arg2 :
// CHECK-NOT:     linalg.copy
// CHECK:         return{{$}}
func.func @branches_to_new_destination(%a: tensor<4xf32>, %flag: tensor<i1>) -> tensor<4xf32> {
  %c = tensor.extract %flag[] : tensor<i1>
  %o = tensor.empty() : tensor<4xf32>
  %0 = scf.if %c -> (tensor<4xf32>) {
    %r = linalg.exp ins(%a : tensor<4xf32>) outs(%o : tensor<4xf32>) -> tensor<4xf32>
    scf.yield %r : tensor<4xf32>
  } else {
    %r = linalg.abs ins(%a : tensor<4xf32>) outs(%o : tensor<4xf32>) -> tensor<4xf32>
    scf.yield %r : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}
