// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-tile-gather-allocations))' | FileCheck %s

attn_tile.kernel @kernel(%m: memref<?xf32>) {
  attn_tile.return
}

// Sizes move along, in their order.

// CHECK-LABEL: func.func @sizes(
// CHECK-SAME:    %[[M:.*]]: memref<?xf32>, %[[N:.*]]: index)
// CHECK:         %[[C0:.*]] = arith.constant 0
// CHECK-NEXT:    %[[A:.*]] = memref.alloc(%[[N]])
// CHECK-NEXT:    %[[D:.*]] = memref.dim %[[A]], %[[C0]]
// CHECK-NEXT:    %[[S:.*]] = arith.addi %[[D]], %[[N]]
// CHECK-NEXT:    %[[B:.*]] = memref.alloc(%[[S]])
// CHECK-NEXT:    attn_tile.launch @kernel args(%[[M]]
// CHECK-NEXT:    attn_tile.launch @kernel args(%[[A]]
// CHECK-NEXT:    attn_tile.launch @kernel args(%[[B]]
// CHECK-NEXT:    memref.dealloc %[[A]]
// CHECK-NEXT:    memref.dealloc %[[B]]
func.func @sizes(%m: memref<?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  attn_tile.launch @kernel args(%m : memref<?xf32>)
  %a = memref.alloc(%n) : memref<?xf32>
  attn_tile.launch @kernel args(%a : memref<?xf32>)
  %d = memref.dim %a, %c0 : memref<?xf32>
  %s = arith.addi %d, %n : index
  %b = memref.alloc(%s) : memref<?xf32>
  attn_tile.launch @kernel args(%b : memref<?xf32>)
  memref.dealloc %a : memref<?xf32>
  memref.dealloc %b : memref<?xf32>
  return
}

// Sizes that are read stay where they are, and so does what needs them.

// CHECK-LABEL: func.func @read(
// CHECK:         attn_tile.launch
// CHECK-NEXT:    %[[X:.*]] = memref.load
// CHECK-NEXT:    %[[A:.*]] = memref.alloc(%[[X]])
// CHECK-NEXT:    %[[D:.*]] = memref.dim %[[A]]
// CHECK-NEXT:    memref.alloc(%[[D]])
// CHECK-NEXT:    attn_tile.launch
func.func @read(%m: memref<?xf32>, %sizes: memref<index>) {
  %c0 = arith.constant 0 : index
  attn_tile.launch @kernel args(%m : memref<?xf32>)
  %x = memref.load %sizes[] : memref<index>
  %a = memref.alloc(%x) : memref<?xf32>
  %d = memref.dim %a, %c0 : memref<?xf32>
  %b = memref.alloc(%d) : memref<?xf32>
  attn_tile.launch @kernel args(%b : memref<?xf32>)
  return
}

// What is allocated when something else has been freed may need its memory.

// CHECK-LABEL: func.func @freed(
// CHECK-SAME:    %[[N:.*]]: index
// CHECK-NEXT:    %[[A:.*]] = memref.alloc
// CHECK-NEXT:    attn_tile.launch @kernel args(%[[A]]
// CHECK-NEXT:    memref.dealloc %[[A]]
// CHECK-NEXT:    %[[B:.*]] = memref.alloc
// CHECK-NEXT:    %[[C:.*]] = memref.alloc
// CHECK-NEXT:    attn_tile.launch @kernel args(%[[B]]
// CHECK-NEXT:    attn_tile.launch @kernel args(%[[C]]
func.func @freed(%n: index) {
  %a = memref.alloc(%n) : memref<?xf32>
  attn_tile.launch @kernel args(%a : memref<?xf32>)
  memref.dealloc %a : memref<?xf32>
  %b = memref.alloc(%n) : memref<?xf32>
  attn_tile.launch @kernel args(%b : memref<?xf32>)
  %c = memref.alloc(%n) : memref<?xf32>
  attn_tile.launch @kernel args(%c : memref<?xf32>)
  memref.dealloc %b : memref<?xf32>
  memref.dealloc %c : memref<?xf32>
  return
}

// Each block has its own first launch. What a branch or a loop gives stays.

// CHECK-LABEL: func.func @blocks(
// CHECK:         scf.if
// CHECK-NEXT:      %[[A:.*]] = memref.alloc
// CHECK-NEXT:      attn_tile.launch
// CHECK-NEXT:      attn_tile.launch @kernel args(%[[A]]
// CHECK:         attn_tile.launch
// CHECK-NEXT:    %[[S:.*]] = scf.if
// CHECK:         memref.alloc(%[[S]])
func.func @blocks(%m: memref<?xf32>, %n: index, %flag: i1) {
  scf.if %flag {
    attn_tile.launch @kernel args(%m : memref<?xf32>)
    %a = memref.alloc(%n) : memref<?xf32>
    attn_tile.launch @kernel args(%a : memref<?xf32>)
    memref.dealloc %a : memref<?xf32>
  }
  attn_tile.launch @kernel args(%m : memref<?xf32>)
  %s = scf.if %flag -> index {
    scf.yield %n : index
  } else {
    %c1 = arith.constant 1 : index
    scf.yield %c1 : index
  }
  %b = memref.alloc(%s) : memref<?xf32>
  attn_tile.launch @kernel args(%b : memref<?xf32>)
  return
}
