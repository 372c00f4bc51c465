// RUN: attn-opt %s --convert-launch-to-runtime | FileCheck %s

// Calls are ordered by the stream. Null is the legacy stream, since it stands for memory of the host. A call that fails
// ends the function.
// CHECK-LABEL: func @exchange
// CHECK-SAME: %[[A:[^:]*]]: memref<8xbf16>, %[[B:[^:]*]]: memref<8xbf16>, %[[C:[^:]*]]: memref<4x8xbf16>, %[[STREAM:[^:]*]]: !llvm.ptr) -> i32
// CHECK: %[[STATUS:.*]] = llvm.call @attnrtCommRank
// CHECK: %[[LOADED:.*]] = llvm.load
// CHECK: %[[RANK:.*]] = arith.index_cast %[[LOADED]]
// CHECK: llvm.icmp "eq" %[[STATUS]]
// CHECK: cf.cond_br
// CHECK: %[[TO:.*]] = arith.index_cast %[[RANK]]
// CHECK: %[[NULL:.*]] = llvm.mlir.zero
// CHECK: %[[IS_LEGACY:.*]] = llvm.icmp "eq" %[[STREAM]], %[[NULL]]
// CHECK: %[[ONE:.*]] = llvm.mlir.constant(1 : i64)
// CHECK: %[[LEGACY:.*]] = llvm.inttoptr %[[ONE]]
// CHECK: %[[GIVEN:.*]] = llvm.select %[[IS_LEGACY]], %[[LEGACY]], %[[STREAM]]
// CHECK: llvm.call @attnrtCommSendRecv(%{{.*}}, %{{.*}}, %[[TO]], %{{.*}}, %{{.*}}, %{{.*}}, %[[GIVEN]])
// CHECK: cf.cond_br
// CHECK: llvm.call @attnrtCommAllGather({{.*}}, %{{.*}})
// CHECK: cf.cond_br
func.func @exchange(%a: memref<8xbf16>, %b: memref<8xbf16>, %c: memref<4x8xbf16>) {
  %rank = attn.comm.rank ranks(4)
  attn.comm.send_recv ins(%a : memref<8xbf16>) to(%rank) from(%rank) outs(%b : memref<8xbf16>)
  attn.comm.all_gather ins(%b : memref<8xbf16>) outs(%c : memref<4x8xbf16>)
  return
}
