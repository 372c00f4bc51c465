// RUN: attn-opt %s --verify-roundtrip | FileCheck %s
// RUN: attn-opt %s --mlir-print-op-generic | attn-opt | FileCheck %s

// CHECK-LABEL: func @tensors
// CHECK: %[[RANK:.*]] = attn.comm.rank ranks(4)
// CHECK: attn.comm.send_recv ins(%{{.*}} : tensor<?x8xbf16>) to(%[[RANK]]) from(%arg3) outs(%arg1 : tensor<9x8xbf16>) ->
// CHECK-SAME: tensor<9x8xbf16>{{$}}
// CHECK: attn.comm.all_gather ins(%arg0 : tensor<?x8xbf16>) outs(%arg2 : tensor<4x?x8xbf16>) -> tensor<4x?x8xbf16>{{$}}
// CHECK: attn.comm.all_to_all ins(%{{.*}} : tensor<4x?x8xbf16>) outs(%arg2 : tensor<4x?x8xbf16>) ->
// CHECK-SAME: tensor<4x?x8xbf16>{{$}}
func.func @tensors(%a: tensor<?x8xbf16>, %b: tensor<9x8xbf16>, %all: tensor<4x?x8xbf16>, %from: index) {
  %rank = attn.comm.rank ranks(4)
  %0 = attn.comm.send_recv ins(%a : tensor<?x8xbf16>) to(%rank) from(%from) outs(%b : tensor<9x8xbf16>)
      -> tensor<9x8xbf16>
  %1 = attn.comm.all_gather ins(%a : tensor<?x8xbf16>) outs(%all : tensor<4x?x8xbf16>) -> tensor<4x?x8xbf16>
  %2 = attn.comm.all_to_all ins(%1 : tensor<4x?x8xbf16>) outs(%all : tensor<4x?x8xbf16>) -> tensor<4x?x8xbf16>
  return
}

// CHECK-LABEL: func @memrefs
// CHECK: attn.comm.send_recv ins(%{{.*}} : memref<i32>) to(%{{.*}}) from(%{{.*}}) outs(%{{.*}} : memref<?xi32>){{$}}
// CHECK: attn.comm.all_gather ins(%{{.*}} : memref<i32>) outs(%{{.*}} : memref<?xi32>){{$}}
// CHECK: attn.comm.all_to_all ins(%{{.*}} : memref<?xi32>) outs(%{{.*}} : memref<3xi32>){{$}}
func.func @memrefs(%a: memref<i32>, %b: memref<?xi32>, %c: memref<3xi32>, %to: index, %from: index) {
  attn.comm.send_recv ins(%a : memref<i32>) to(%to) from(%from) outs(%b : memref<?xi32>)
  attn.comm.all_gather ins(%a : memref<i32>) outs(%b : memref<?xi32>)
  attn.comm.all_to_all ins(%b : memref<?xi32>) outs(%c : memref<3xi32>)
  return
}
