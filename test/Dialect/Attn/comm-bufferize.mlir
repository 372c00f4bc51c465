// RUN: attn-opt %s --one-shot-bufferize="bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map" \
// RUN:   | FileCheck %s
// RUN: attn-opt %s --one-shot-bufferize=bufferize-function-boundaries | FileCheck %s --check-prefix=STRIDED

// CHECK-LABEL: func @in_place
// CHECK-SAME: (%[[A:.*]]: memref<4x8xf32>, %[[E:.*]]: memref<2x4x8xf32>
// CHECK-NOT: memref.alloc
// CHECK: attn.comm.all_gather ins(%[[A]] : memref<4x8xf32>) outs(%[[E]] : memref<2x4x8xf32>){{$}}
// CHECK: return %[[E]]

// Buffers with other layouts are copied; the received one is not read.
// STRIDED-LABEL: func @in_place
// STRIDED-SAME: (%[[A:.*]]: memref<4x8xf32, strided<[?, ?], offset: ?>>, %[[E:.*]]: memref<2x4x8xf32, strided
// STRIDED: %[[SENT:.*]] = memref.alloc() {{.*}} : memref<4x8xf32>
// STRIDED: memref.copy %[[A]], %[[SENT]]
// STRIDED: %[[RECEIVED:.*]] = memref.alloc() {{.*}} : memref<2x4x8xf32>
// STRIDED-NOT: memref.copy
// STRIDED: attn.comm.all_gather ins(%[[SENT]] : memref<4x8xf32>) outs(%[[RECEIVED]] : memref<2x4x8xf32>){{$}}
// STRIDED: memref.copy %[[RECEIVED]], %[[E]]
// STRIDED: return %[[E]]
func.func @in_place(%a: tensor<4x8xf32>, %e: tensor<2x4x8xf32> {bufferization.writable = true}) -> tensor<2x4x8xf32> {
  %0 = attn.comm.all_gather ins(%a : tensor<4x8xf32>) outs(%e : tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  return %0 : tensor<2x4x8xf32>
}

// A rank that receives from none keeps the elements.
// STRIDED-LABEL: func @keeps
// STRIDED-SAME: (%[[A:.*]]: memref<?xf32, strided<[?], offset: ?>>, %[[E:.*]]: memref<?xf32, strided<[?], offset: ?>>
// STRIDED: memref.copy %[[A]], %[[SENT:.*]] : memref<?xf32, strided<[?], offset: ?>> to memref<?xf32>
// STRIDED: memref.copy %[[E]], %[[RECEIVED:.*]] : memref<?xf32, strided<[?], offset: ?>> to memref<?xf32>
// STRIDED: attn.comm.send_recv ins(%[[SENT]] : memref<?xf32>) to(%{{.*}}) from(%{{.*}}) outs(%[[RECEIVED]] : memref<?xf32>)
// STRIDED: memref.copy %[[RECEIVED]], %[[E]]
func.func @keeps(%a: tensor<?xf32>, %e: tensor<?xf32> {bufferization.writable = true}, %i: index) -> tensor<?xf32> {
  %0 = attn.comm.send_recv ins(%a : tensor<?xf32>) to(%i) from(%i) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// What is sent shares no memory with what is received.
// CHECK-LABEL: func @shared
// CHECK-SAME: (%[[A:.*]]: memref<2x4xf32>
// CHECK: %[[COPY:.*]] = memref.alloc() {{.*}} : memref<2x4xf32>
// CHECK: attn.comm.all_to_all ins(%[[A]] : memref<2x4xf32>) outs(%[[COPY]] : memref<2x4xf32>)
func.func @shared(%a: tensor<2x4xf32> {bufferization.writable = true}) -> tensor<2x4xf32> {
  %0 = attn.comm.all_to_all ins(%a : tensor<2x4xf32>) outs(%a : tensor<2x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}
