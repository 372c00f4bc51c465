// RUN: attn-opt %s --attn-return-statuses --split-input-file --verify-diagnostics | FileCheck %s

llvm.func @attnrtParallelFor(i64, !llvm.ptr, !llvm.ptr) -> i32

// CHECK-LABEL: func.func private @kernel
// CHECK-SAME:    -> i32
// CHECK:         %[[SLOT:.*]] = memref.alloca() : memref<i32>
// CHECK:         %[[ZERO:.*]] = arith.constant 0 : i32
// CHECK:         memref.store %[[ZERO]], %[[SLOT]][]
// CHECK:         %[[BEFORE:.*]] = memref.load %[[SLOT]][]
// CHECK:         %[[OK:.*]] = arith.cmpi eq, %[[BEFORE]]
// CHECK:         scf.if %[[OK]] {
// CHECK-NEXT:      %[[CALLED:.*]] = llvm.call @attnrtParallelFor
// CHECK-NEXT:      memref.store %[[CALLED]], %[[SLOT]][]
// CHECK:         %[[AFTER:.*]] = memref.load %[[SLOT]][]
// CHECK:         return %[[AFTER]] : i32
func.func private @kernel(%n: i64, %body: !llvm.ptr, %context: !llvm.ptr) {
  %0 = llvm.call @attnrtParallelFor(%n, %body, %context) : (i64, !llvm.ptr, !llvm.ptr) -> i32
  return
}

// Callers return what they were returned, and free what they have allocated.

// CHECK-LABEL: func.func @f
// CHECK-SAME:    -> (i32, f32)
// CHECK:         %[[SLOT:.*]] = memref.alloca() : memref<i32>
// CHECK:         %[[BUFFER:.*]] = memref.alloc
// CHECK:         scf.for
// CHECK:           %[[OK:.*]] = arith.cmpi eq
// CHECK:           scf.if %[[OK]] {
// CHECK-NEXT:        %[[CALLED:.*]] = func.call @kernel({{.*}}) : (i64, !llvm.ptr, !llvm.ptr) -> i32
// CHECK-NEXT:        memref.store %[[CALLED]], %[[SLOT]][]
// CHECK:         memref.dealloc %[[BUFFER]]
// CHECK:         return %{{.*}}, %{{.*}} : i32, f32
func.func @f(%n: i64, %body: !llvm.ptr, %context: !llvm.ptr) -> f32 {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %value = arith.constant 1.0 : f32
  %buffer = memref.alloc() : memref<8xf32>
  scf.for %i = %zero to %two step %one {
    func.call @kernel(%n, %body, %context) : (i64, !llvm.ptr, !llvm.ptr) -> ()
  }
  memref.dealloc %buffer : memref<8xf32>
  return %value : f32
}

// CHECK-LABEL: func.func @g
// CHECK-SAME:    -> (i32, f32)
// CHECK:         %[[IF:.*]] = scf.if
// CHECK-NEXT:      %[[CALLED:.*]]:2 = func.call @f
// CHECK-NEXT:      memref.store %[[CALLED]]#0
// CHECK-NEXT:      scf.yield %[[CALLED]]#1 : f32
// CHECK-NEXT:    } else {
// CHECK-NEXT:      %[[POISON:.*]] = ub.poison : f32
// CHECK-NEXT:      scf.yield %[[POISON]] : f32
// CHECK:         return %{{.*}}, %[[IF]] : i32, f32
func.func @g(%n: i64, %body: !llvm.ptr, %context: !llvm.ptr) -> f32 {
  %0 = func.call @f(%n, %body, %context) : (i64, !llvm.ptr, !llvm.ptr) -> f32
  return %0 : f32
}

// A status that is used, and functions that cannot fail, stay as they are.

// CHECK-LABEL: func.func @checked
// CHECK-SAME:    -> i32 {
// CHECK-NEXT:    %[[STATUS:.*]] = llvm.call @attnrtParallelFor
// CHECK-NEXT:    return %[[STATUS]]
func.func @checked(%n: i64, %body: !llvm.ptr, %context: !llvm.ptr) -> i32 {
  %0 = llvm.call @attnrtParallelFor(%n, %body, %context) : (i64, !llvm.ptr, !llvm.ptr) -> i32
  return %0 : i32
}

// -----

llvm.func @attnrtParallelFor(i64, !llvm.ptr, !llvm.ptr) -> i32

func.func private @items(%n: i64, %body: !llvm.ptr, %context: !llvm.ptr) {
  // expected-error @+1 {{'llvm.call' op can fail, but iterations of parallel loops cannot return its status}}
  %0 = llvm.call @attnrtParallelFor(%n, %body, %context) : (i64, !llvm.ptr, !llvm.ptr) -> i32
  return
}

func.func @f() -> ((i64, !llvm.ptr, !llvm.ptr) -> ()) {
  // expected-note @+1 {{the loop runs here}}
  %0 = func.constant @items : (i64, !llvm.ptr, !llvm.ptr) -> ()
  return %0 : (i64, !llvm.ptr, !llvm.ptr) -> ()
}
