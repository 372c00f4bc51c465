// RUN: attn-opt %s --attn-lower-overlap=target=sm_90a | FileCheck %s
// RUN: attn-opt %s --attn-lower-overlap=target=host | FileCheck %s --check-prefix=HOST

// Communication is on the caller's stream and starts first; kernels are on another one. Buffers are allocated before
// and freed after both, also those of branches.
// CHECK-LABEL: func @ring
// CHECK: %[[BUFFER:.*]] = memref.alloc() : memref<8xf32>
// CHECK: %[[SIDE:.*]] = attn_tile.fork_stream
// CHECK-NEXT: attn.comm.send_recv ins(%arg0
// CHECK-NEXT: attn_tile.launch @first on(%[[SIDE]])
// CHECK-NEXT: scf.if
// CHECK-NEXT: attn_tile.launch @second on(%[[SIDE]]) {{.*}}args(%[[BUFFER]]
// CHECK-NOT: memref.dealloc
// CHECK: } else {
// CHECK-NEXT: attn_tile.launch @first on(%[[SIDE]])
// CHECK: attn_tile.join_stream %[[SIDE]]
// CHECK-NEXT: memref.dealloc %[[BUFFER]]
// CHECK-NEXT: return

// HOST-LABEL: func @ring
// HOST: attn_tile.launch @first
// HOST: scf.if
// HOST: memref.alloc
// HOST: attn.comm.send_recv
func.func @ring(%a: memref<8xf32>, %b: memref<8xf32>, %c: memref<8xf32>, %to: index, %attends: i1) {
  %c1 = arith.constant 1 : index
  attn.overlap by streams {
    attn_tile.launch @first grid(%c1, %c1, %c1) args(%c : memref<8xf32>)
    scf.if %attends {
      %buffer = memref.alloc() : memref<8xf32>
      attn_tile.launch @second grid(%c1, %c1, %c1) args(%buffer : memref<8xf32>)
      memref.dealloc %buffer : memref<8xf32>
    } else {
      attn_tile.launch @first grid(%c1, %c1, %c1) args(%c : memref<8xf32>)
    }
    attn.overlap_yield
  } and {
    attn.comm.send_recv ins(%a : memref<8xf32>) to(%to) from(%to) outs(%b : memref<8xf32>)
    attn.overlap_yield
  }
  return
}

// A buffer whose size is known in a branch alone is allocated there: regions run one after another.
// CHECK-LABEL: func @size_of_a_branch
// CHECK-NOT: fork_stream
// CHECK: scf.if
// CHECK: memref.alloc
// CHECK: attn.comm.send_recv
func.func @size_of_a_branch(%a: memref<8xf32>, %b: memref<8xf32>, %to: index, %attends: i1) {
  %c1 = arith.constant 1 : index
  attn.overlap by streams {
    scf.if %attends {
      %size = arith.addi %to, %c1 : index
      %buffer = memref.alloc(%size) : memref<?xf32>
      attn_tile.launch @third grid(%c1, %c1, %c1) args(%buffer : memref<?xf32>)
      memref.dealloc %buffer : memref<?xf32>
    }
    attn.overlap_yield
  } and {
    attn.comm.send_recv ins(%a : memref<8xf32>) to(%to) from(%to) outs(%b : memref<8xf32>)
    attn.overlap_yield
  }
  return
}

attn_tile.kernel @first(%a: memref<8xf32>) {
  attn_tile.return
}
attn_tile.kernel @second(%a: memref<8xf32>) {
  attn_tile.return
}
attn_tile.kernel @third(%a: memref<?xf32>) {
  attn_tile.return
}
