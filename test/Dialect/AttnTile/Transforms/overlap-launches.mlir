// RUN: attn-opt %s -attn-tile-overlap-launches | FileCheck %s

// CHECK-LABEL: attn_tile.kernel @tiles(
// CHECK-NEXT:    attn_tile.allow_launches
// CHECK-NEXT:    attn_tile.await_launches
// CHECK:         memref.load
// CHECK-NOT:     attn_tile.{{allow|await}}_launches
attn_tile.kernel @tiles(%m: memref<8xf32>) {
  %c0 = arith.constant 0 : index
  %x = memref.load %m[%c0] : memref<8xf32>
  %tile = vector.broadcast %x : f32 to vector<64x64xf32>
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @small(
// CHECK-NEXT:    attn_tile.await_launches
// CHECK-NEXT:    attn_tile.allow_launches
// CHECK:         memref.load
// CHECK-NOT:     attn_tile.{{allow|await}}_launches
attn_tile.kernel @small(%m: memref<8xf32>) {
  %c0 = arith.constant 0 : index
  %x = memref.load %m[%c0] : memref<8xf32>
  attn_tile.return
}

// Only on the same stream, only if one of the two is small, and not if CTAs run together.
// CHECK-LABEL: func.func @launches
func.func @launches(%m: memref<8xf32>) {
  // CHECK:      attn_tile.launch @small args
  attn_tile.launch @small args(%m : memref<8xf32>)
  // CHECK-NEXT: attn_tile.launch @tiles early args
  attn_tile.launch @tiles args(%m : memref<8xf32>)
  // CHECK-NEXT: memref.alloc
  %a = memref.alloc() : memref<8xf32>
  // CHECK-NEXT: attn_tile.launch @small early args
  attn_tile.launch @small args(%m : memref<8xf32>)
  // CHECK-NEXT: attn_tile.launch @small early args
  attn_tile.launch @small args(%m : memref<8xf32>)
  // CHECK-NEXT: attn_tile.launch @tiles early args
  attn_tile.launch @tiles args(%m : memref<8xf32>)
  // CHECK-NEXT: attn_tile.launch @tiles args
  attn_tile.launch @tiles args(%m : memref<8xf32>)
  // CHECK-NEXT: call
  func.call @other(%m) : (memref<8xf32>) -> ()
  // CHECK-NEXT: attn_tile.launch @small args
  attn_tile.launch @small args(%m : memref<8xf32>)
  // CHECK-NEXT: attn_tile.launch @tiles early args
  attn_tile.launch @tiles args(%m : memref<8xf32>)
  // CHECK-NEXT: attn_tile.launch @small early args
  attn_tile.launch @small args(%m : memref<8xf32>)
  // CHECK-NEXT: attn_tile.launch @tiles together args
  attn_tile.launch @tiles together args(%m : memref<8xf32>)
  // CHECK-NEXT: attn_tile.fork_stream
  %side = attn_tile.fork_stream
  // CHECK-NEXT: attn_tile.launch @small on
  attn_tile.launch @small on(%side) args(%m : memref<8xf32>)
  attn_tile.join_stream %side
  memref.dealloc %a : memref<8xf32>
  return
}

func.func private @other(memref<8xf32>)
