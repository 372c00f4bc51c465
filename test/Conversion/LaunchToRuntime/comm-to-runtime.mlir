// RUN: attn-opt %s --convert-comm-to-runtime | FileCheck %s
// RUN: attn-opt %s --convert-comm-to-runtime --attn-return-statuses | FileCheck %s --check-prefix=STATUS

// CHECK-LABEL: func @rank
// CHECK: %[[SLOT:.*]] = llvm.alloca %{{.*}} x i64
// CHECK: llvm.store %{{.*}}, %[[SLOT]] : i64
// CHECK: %[[RANKS:.*]] = llvm.mlir.constant(4 : i64)
// CHECK: llvm.call @attnrtCommRank(%[[RANKS]], %[[SLOT]]) : (i64, !llvm.ptr) -> i32
// CHECK: %[[LOADED:.*]] = llvm.load %[[SLOT]]
// CHECK: %[[RANK:.*]] = arith.index_cast %[[LOADED]] : i64 to index
// CHECK: memref.store %[[RANK]]
func.func @rank(%out: memref<index>) {
  %rank = attn.comm.rank ranks(4)
  memref.store %rank, %out[] : memref<index>
  return
}

// CHECK-LABEL: func @send_recv
// CHECK-SAME: (%[[A:.*]]: memref<?x8xbf16>, %[[B:.*]]: memref<4x8xbf16>, %[[TO:.*]]: index, %[[FROM:.*]]: index)
// CHECK: memref.extract_aligned_pointer_as_index %[[A]]
// CHECK: %[[SENT:.*]] = llvm.inttoptr
// CHECK: memref.dim %[[A]]
// CHECK: %[[ROW:.*]] = llvm.mlir.constant(16 : i64)
// CHECK: %[[BYTES:.*]] = arith.muli %{{.*}}, %[[ROW]] : i64
// CHECK: %[[TO64:.*]] = arith.index_cast %[[TO]]
// CHECK: memref.extract_aligned_pointer_as_index %[[B]]
// CHECK: %[[RECEIVED:.*]] = llvm.inttoptr
// CHECK: %[[STATIC:.*]] = llvm.mlir.constant(64 : i64)
// CHECK: %[[FROM64:.*]] = arith.index_cast %[[FROM]]
// CHECK: %[[STREAM:.*]] = llvm.mlir.zero : !llvm.ptr
// CHECK: llvm.call @attnrtCommSendRecv(%[[SENT]], %[[BYTES]], %[[TO64]], %[[RECEIVED]], %[[STATIC]], %[[FROM64]],
// CHECK-SAME: %[[STREAM]]) : (!llvm.ptr, i64, i64, !llvm.ptr, i64, i64, !llvm.ptr) -> i32
func.func @send_recv(%a: memref<?x8xbf16>, %b: memref<4x8xbf16>, %to: index, %from: index) {
  attn.comm.send_recv ins(%a : memref<?x8xbf16>) to(%to) from(%from) outs(%b : memref<4x8xbf16>)
  return
}

// Statuses are checked: after the first failure, nothing is called.
// CHECK-LABEL: func @collectives
// CHECK: %[[RANKS:.*]] = llvm.mlir.constant(3 : i64)
// CHECK: %[[PART:.*]] = llvm.mlir.constant(24 : i64)
// CHECK: llvm.call @attnrtCommAllGather(%{{.*}}, %{{.*}}, %[[RANKS]], %[[PART]], %{{.*}})
// CHECK: memref.dim
// CHECK: %[[DYNAMIC:.*]] = arith.index_cast
// CHECK: %[[PART:.*]] = llvm.mlir.constant(24 : i64)
// CHECK: llvm.call @attnrtCommAllToAll(%{{.*}}, %{{.*}}, %[[DYNAMIC]], %[[PART]], %{{.*}})

// STATUS-LABEL: func @collectives
// STATUS-SAME: -> i32
// STATUS: scf.if
// STATUS: %[[FIRST:.*]] = llvm.call @attnrtCommAllGather
// STATUS: memref.store %[[FIRST]], %[[SLOT:.*]][]
// STATUS: memref.load %[[SLOT]][]
// STATUS: scf.if
// STATUS: %[[SECOND:.*]] = llvm.call @attnrtCommAllToAll
// STATUS: memref.store %[[SECOND]], %[[SLOT]][]
func.func @collectives(%a: memref<6xf32>, %b: memref<3x6xf32>, %c: memref<?x6xf32>) {
  attn.comm.all_gather ins(%a : memref<6xf32>) outs(%b : memref<3x6xf32>)
  attn.comm.all_to_all ins(%b : memref<3x6xf32>) outs(%c : memref<?x6xf32>)
  return
}
