// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-tile-join-allocations,canonicalize,cse))' | FileCheck %s

attn_tile.kernel @kernel(%m: memref<?xf32>) {
  attn_tile.return
}
attn_tile.kernel @bits(%m: memref<?xi1>) {
  attn_tile.return
}
attn_tile.kernel @two(%m: memref<?xf32>, %n: memref<?x128xbf16>) {
  attn_tile.return
}

// Parts begin at multiples of 256 bytes.

// CHECK-LABEL: func.func @joined(
// CHECK-SAME:    %[[N:.*]]: index, %[[M:.*]]: index)
// CHECK-DAG:     %[[C0:.*]] = arith.constant 0 : index
// CHECK-DAG:     %[[C4:.*]] = arith.constant 4 : index
// CHECK-DAG:     %[[C255:.*]] = arith.constant 255 : index
// CHECK-DAG:     %[[MASK:.*]] = arith.constant -256 : index
// CHECK-DAG:     %[[C256:.*]] = arith.constant 256 : index
// CHECK:         %[[BYTES:.*]] = arith.muli %[[N]], %[[C4]]
// CHECK:         %[[MORE:.*]] = arith.addi %[[BYTES]], %[[C255]]
// CHECK:         %[[A_SIZE:.*]] = arith.andi %[[MORE]], %[[MASK]]
// CHECK:         %[[B_SIZE:.*]] = arith.muli %[[M]], %[[C256]]
// CHECK:         %[[C_AT:.*]] = arith.addi %[[A_SIZE]], %[[B_SIZE]]
// CHECK:         %[[TOTAL:.*]] = arith.addi %[[C_AT]], %[[C256]]
// CHECK:         %[[ALL:.*]] = memref.alloc(%[[TOTAL]]) {alignment = 256 : i64} : memref<?xi8>
// CHECK-NOT:     memref.alloc
// CHECK:         %[[A:.*]] = memref.view %[[ALL]][%[[C0]]][%[[N]]] : memref<?xi8> to memref<?xf32>
// CHECK:         %[[B:.*]] = memref.view %[[ALL]][%[[A_SIZE]]][%[[M]]] : memref<?xi8> to memref<?x128xbf16>
// CHECK:         %[[C:.*]] = memref.view %[[ALL]][%[[C_AT]]][] : memref<?xi8> to memref<60xf32>
// CHECK:         attn_tile.launch @two args(%[[A]], %[[B]]
// CHECK:         attn_tile.launch @kernel
// CHECK-NEXT:    memref.dealloc %[[ALL]]
// CHECK-NEXT:    return
func.func @joined(%n: index, %m: index) {
  %a = memref.alloc(%n) : memref<?xf32>
  %b = memref.alloc(%m) : memref<?x128xbf16>
  %c = memref.alloc() : memref<60xf32>
  attn_tile.launch @two args(%a, %b : memref<?xf32>, memref<?x128xbf16>)
  %cast = memref.cast %c : memref<60xf32> to memref<?xf32>
  attn_tile.launch @kernel args(%cast : memref<?xf32>)
  memref.dealloc %b : memref<?x128xbf16>
  memref.dealloc %c : memref<60xf32>
  memref.dealloc %a : memref<?xf32>
  return
}

// Lifetimes stay as they are: launches between allocations or between
// deallocations keep buffers apart.

// CHECK-LABEL: func.func @apart(
// CHECK-COUNT-3: memref.alloc(
// CHECK-COUNT-3: memref.dealloc
func.func @apart(%n: index) {
  %a = memref.alloc(%n) : memref<?xf32>
  attn_tile.launch @kernel args(%a : memref<?xf32>)
  %b = memref.alloc(%n) : memref<?x128xbf16>
  %c = memref.alloc(%n) : memref<?xf32>
  attn_tile.launch @two args(%a, %b : memref<?xf32>, memref<?x128xbf16>)
  memref.dealloc %a : memref<?xf32>
  memref.dealloc %b : memref<?x128xbf16>
  attn_tile.launch @kernel args(%c : memref<?xf32>)
  memref.dealloc %c : memref<?xf32>
  return
}

// A buffer that is used before the sizes of the next one are known, one that is
// freed elsewhere or nowhere, and one of padded elements.

// CHECK-LABEL: func.func @others(
// CHECK-COUNT-5: memref.alloc(
// CHECK-NOT:     memref.view
// CHECK:         return
func.func @others(%n: index, %last: i1) -> memref<?xf32> {
  %a = memref.alloc(%n) : memref<?xf32>
  %view = memref.reinterpret_cast %a to offset: [0], sizes: [8], strides: [1] : memref<?xf32> to memref<8xf32>
  %b = memref.alloc(%n) : memref<?xf32>
  %c = memref.alloc(%n) : memref<?xf32>
  %d = memref.alloc(%n) : memref<?xf32>
  %e = memref.alloc(%n) : memref<?xi1>
  %cast = memref.cast %view : memref<8xf32> to memref<?xf32>
  attn_tile.launch @kernel args(%cast : memref<?xf32>)
  attn_tile.launch @kernel args(%b : memref<?xf32>)
  attn_tile.launch @kernel args(%c : memref<?xf32>)
  attn_tile.launch @bits args(%e : memref<?xi1>)
  scf.if %last {
    memref.dealloc %c : memref<?xf32>
  }
  memref.dealloc %a : memref<?xf32>
  memref.dealloc %b : memref<?xf32>
  memref.dealloc %e : memref<?xi1>
  return %d : memref<?xf32>
}
