// RUN: attn-opt %s --attn-outline-parallel | FileCheck %s

// CHECK: llvm.func @attnrtParallelFor(i64, !llvm.ptr, !llvm.ptr) -> i32

// CHECK-LABEL: func.func private @fill_work_items(
// CHECK-SAME:    %[[BEGIN:.*]]: i64, %[[END:.*]]: i64, %[[CONTEXT:.*]]: !llvm.ptr)
// CHECK:         %[[VALUE:.*]] = arith.constant 1.000000e+00 : f32
// CHECK:         %[[ADDRESS:.*]] = llvm.getelementptr %[[CONTEXT]][0, 0]
// CHECK:         llvm.load %[[ADDRESS]]
// CHECK:         %[[B:.*]] = arith.index_cast %[[BEGIN]]
// CHECK:         %[[E:.*]] = arith.index_cast %[[END]]
// The buffer is made once for all work items.
// CHECK:         memref.alloca() : memref<4xf32>
// CHECK:         scf.for %[[WORK_ITEM:.*]] = %[[B]] to %[[E]]
// CHECK:           %[[J:.*]] = arith.remui %[[WORK_ITEM]], %{{.*}}
// CHECK:           %[[I:.*]] = arith.divui %[[WORK_ITEM]], %{{.*}}
// CHECK:           memref.store %[[VALUE]], %{{.*}}[%[[I]], %[[J]]]

// CHECK-LABEL: func.func @fill(
// CHECK-SAME:    %[[OUT:.*]]: memref<?x?xf32>, %[[M:.*]]: index, %[[N:.*]]: index)
// CHECK-NOT:     scf.forall
// CHECK:         %[[COUNT:.*]] = arith.muli %[[M]], %[[N]]
// CHECK:         %[[COUNT64:.*]] = arith.index_cast %[[COUNT]] : index to i64
// CHECK:         %[[CTX:.*]] = llvm.alloca
// CHECK:         llvm.store
// CHECK:         %[[F:.*]] = constant @fill_work_items
// CHECK:         %[[P:.*]] = builtin.unrealized_conversion_cast %[[F]]
// CHECK:         llvm.call @attnrtParallelFor(%[[COUNT64]], %[[P]], %[[CTX]])
func.func @fill(%out: memref<?x?xf32>, %m: index, %n: index) {
  %value = arith.constant 1.0 : f32
  %c0 = arith.constant 0 : index
  scf.forall (%i, %j) in (%m, %n) {
    %buffer = memref.alloca() : memref<4xf32>
    memref.store %value, %buffer[%c0] : memref<4xf32>
    memref.store %value, %out[%i, %j] : memref<?x?xf32>
  }
  return
}
