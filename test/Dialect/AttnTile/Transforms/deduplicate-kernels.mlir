// RUN: attn-opt %s --attn-tile-deduplicate-kernels --split-input-file | FileCheck %s

// Kernels that differ in their names and the names of their values are equal. Launches of functions and of regions are
// of the first one.

// CHECK:     attn_tile.kernel @first(
// CHECK-NOT: attn_tile.kernel @second(
// CHECK:     attn_tile.kernel @other_constant(
// CHECK:     attn_tile.kernel @other_operands(
// CHECK:     attn_tile.kernel @other_type(
// CHECK:     attn_tile.kernel @other_schedule(
// CHECK-NOT: attn_tile.kernel @third(
attn_tile.kernel @first(%a: memref<4xf32>, %b: memref<4xf32>) {
  %c0 = arith.constant 0 : index
  scf.forall (%i) in (1) {
    %value = memref.load %a[%c0] : memref<4xf32>
    memref.store %value, %b[%c0] : memref<4xf32>
  }
  attn_tile.return
}
attn_tile.kernel @second(%in: memref<4xf32>, %out: memref<4xf32>) {
  %zero = arith.constant 0 : index
  scf.forall (%item) in (1) {
    %x = memref.load %in[%zero] : memref<4xf32>
    memref.store %x, %out[%zero] : memref<4xf32>
  }
  attn_tile.return
}
attn_tile.kernel @other_constant(%a: memref<4xf32>, %b: memref<4xf32>) {
  %c1 = arith.constant 1 : index
  scf.forall (%i) in (1) {
    %value = memref.load %a[%c1] : memref<4xf32>
    memref.store %value, %b[%c1] : memref<4xf32>
  }
  attn_tile.return
}
attn_tile.kernel @other_operands(%a: memref<4xf32>, %b: memref<4xf32>) {
  %c0 = arith.constant 0 : index
  scf.forall (%i) in (1) {
    %value = memref.load %b[%c0] : memref<4xf32>
    memref.store %value, %a[%c0] : memref<4xf32>
  }
  attn_tile.return
}
attn_tile.kernel @other_type(%a: memref<?xf32>, %b: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  scf.forall (%i) in (1) {
    %value = memref.load %a[%c0] : memref<?xf32>
    memref.store %value, %b[%c0] : memref<?xf32>
  }
  attn_tile.return
}
attn_tile.kernel @other_schedule(%a: memref<4xf32>, %b: memref<4xf32>)
    attributes {schedule = #attn_tile.sequential<query_tile = 16, key_tile = 16>} {
  %c0 = arith.constant 0 : index
  scf.forall (%i) in (1) {
    %value = memref.load %a[%c0] : memref<4xf32>
    memref.store %value, %b[%c0] : memref<4xf32>
  }
  attn_tile.return
}
attn_tile.kernel @third(%a: memref<4xf32>, %b: memref<4xf32>) {
  %c0 = arith.constant 0 : index
  scf.forall (%i) in (1) {
    %value = memref.load %a[%c0] : memref<4xf32>
    memref.store %value, %b[%c0] : memref<4xf32>
  }
  attn_tile.return
}

// CHECK-LABEL: func.func @layers(
// CHECK:         attn_tile.launch @first args(%arg0, %arg1
// CHECK:         attn_tile.launch @first args(%arg1, %arg0
// CHECK:         attn_tile.launch @other_constant
// CHECK:         attn_tile.launch @other_operands
// CHECK:         attn_tile.launch @other_schedule
func.func @layers(%a: memref<4xf32>, %b: memref<4xf32>) {
  attn_tile.launch @first args(%a, %b : memref<4xf32>, memref<4xf32>)
  attn_tile.launch @second args(%b, %a : memref<4xf32>, memref<4xf32>)
  attn_tile.launch @other_constant args(%a, %b : memref<4xf32>, memref<4xf32>)
  attn_tile.launch @other_operands args(%a, %b : memref<4xf32>, memref<4xf32>)
  attn_tile.launch @other_schedule args(%a, %b : memref<4xf32>, memref<4xf32>)
  return
}
// CHECK-LABEL: func.func @one(
// CHECK:         attn_tile.launch @first args(
func.func @one(%a: memref<4xf32>, %b: memref<4xf32>, %c: i1) {
  scf.if %c {
    attn_tile.launch @third args(%a, %b : memref<4xf32>, memref<4xf32>)
  }
  return
}
