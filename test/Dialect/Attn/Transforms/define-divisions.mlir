// RUN: attn-opt %s --attn-define-divisions | FileCheck %s

// Quotients by zero are the dividend.

// CHECK-LABEL: func.func @unsigned(
// CHECK-SAME:    %[[X:.*]]: i32, %[[Y:.*]]: i32)
// CHECK:         %[[ZERO:.*]] = arith.constant 0 : i32
// CHECK:         %[[IS_ZERO:.*]] = arith.cmpi eq, %[[Y]], %[[ZERO]] : i32
// CHECK:         %[[ONE:.*]] = arith.constant 1 : i32
// CHECK:         %[[DIVISOR:.*]] = arith.select %[[IS_ZERO]], %[[ONE]], %[[Y]] : i32
// CHECK:         %[[R:.*]] = arith.divui %[[X]], %[[DIVISOR]] : i32
// CHECK:         return %[[R]]
func.func @unsigned(%x: i32, %y: i32) -> i32 {
  %r = arith.divui %x, %y : i32
  return %r : i32
}

// Remainders of a division by zero are the dividend, too, and quotients that
// overflow wrap around.

// CHECK-LABEL: func.func @remainder(
// CHECK-SAME:    %[[X:.*]]: i64, %[[Y:.*]]: i64)
// CHECK-DAG:     %[[IS_ZERO:.*]] = arith.cmpi eq, %[[Y]], %{{.*}} : i64
// CHECK-DAG:     %[[MIN:.*]] = arith.constant -9223372036854775808 : i64
// CHECK-DAG:     %[[IS_MIN:.*]] = arith.cmpi eq, %[[X]], %[[MIN]] : i64
// CHECK-DAG:     %[[MINUS_ONE:.*]] = arith.constant -1 : i64
// CHECK-DAG:     %[[IS_MINUS_ONE:.*]] = arith.cmpi eq, %[[Y]], %[[MINUS_ONE]] : i64
// CHECK:         %[[OVERFLOWS:.*]] = arith.andi
// CHECK:         %[[UNDEFINED:.*]] = arith.ori %[[IS_ZERO]], %[[OVERFLOWS]]
// CHECK:         %[[DIVISOR:.*]] = arith.select %[[UNDEFINED]], %{{.*}}, %[[Y]] : i64
// CHECK:         %[[REMAINDER:.*]] = arith.remsi %[[X]], %[[DIVISOR]] : i64
// CHECK:         %[[R:.*]] = arith.select %[[IS_ZERO]], %[[X]], %[[REMAINDER]] : i64
// CHECK:         return %[[R]]
func.func @remainder(%x: i64, %y: i64) -> i64 {
  %r = arith.remsi %x, %y : i64
  return %r : i64
}

// CHECK-LABEL: func.func @rounded(
// CHECK:         arith.select
// CHECK:         arith.floordivsi
// CHECK:         arith.select
// CHECK:         arith.ceildivsi
// CHECK:         arith.select
// CHECK:         arith.ceildivui
// CHECK:         arith.select
// CHECK:         index.divs
func.func @rounded(%x: index, %y: index) -> (index, index, index, index) {
  %0 = arith.floordivsi %x, %y : index
  %1 = arith.ceildivsi %x, %y : index
  %2 = arith.ceildivui %x, %y : index
  %3 = index.divs %x, %y
  return %0, %1, %2, %3 : index, index, index, index
}

// One bit has no one but minus one.

// CHECK-LABEL: func.func @bits(
// CHECK-SAME:    %[[X:.*]]: i1, %[[Y:.*]]: i1)
// CHECK:         %[[R:.*]] = arith.select %[[Y]], %{{.*}}, %[[X]] : i1
// CHECK:         return %[[X]], %[[R]]
func.func @bits(%x: i1, %y: i1) -> (i1, i1) {
  %0 = arith.divsi %x, %y : i1
  %1 = arith.remui %x, %y : i1
  return %0, %1 : i1, i1
}

// CHECK-LABEL: func.func @shifts(
// CHECK-SAME:    %[[X:.*]]: i32, %[[N:.*]]: i32)
// CHECK:         %[[LAST:.*]] = arith.constant 31 : i32
// CHECK:         %[[AMOUNT:.*]] = arith.minui %[[N]], %[[LAST]] : i32
// CHECK:         %[[LEFT:.*]] = arith.shli %[[X]], %[[AMOUNT]] : i32
// CHECK:         %[[IS_ALL:.*]] = arith.cmpi ugt, %[[N]], %[[LAST]] : i32
// CHECK:         arith.select %[[IS_ALL]], %{{.*}}, %[[LEFT]] : i32
// CHECK:         %[[AMOUNT:.*]] = arith.minui
// CHECK-NEXT:    arith.shrsi %[[X]], %[[AMOUNT]] : i32
func.func @shifts(%x: i32, %n: i32) -> (i32, i32) {
  %0 = arith.shli %x, %n : i32
  %1 = arith.shrsi %x, %n : i32
  return %0, %1 : i32, i32
}

// Zero as a constant is no exception.

// CHECK-LABEL: func.func @by_zero(
// CHECK:         arith.select
// CHECK:         arith.divsi
func.func @by_zero(%x: i32) -> i32 {
  %zero = arith.constant 0 : i32
  %r = arith.divsi %x, %zero : i32
  return %r : i32
}

// Ranges prove that nothing needs a check: constants, positions, absolute
// values beyond zero, casts of fewer bits, and a check that is there.

// CHECK-LABEL: func.func @proven(
// CHECK-NOT:     arith.minui
// CHECK:         arith.select
// CHECK-NOT:     arith.select
// CHECK:         return
func.func @proven(%q: tensor<1x1x8x8xf32>, %data: tensor<8xi32>, %x: i64, %y: i64) -> tensor<1x1x8x8xf32> {
  %r = attn.attention
      ins(%q, %q, %q : tensor<1x1x8x8xf32>, tensor<1x1x8x8xf32>, tensor<1x1x8x8xf32>)
      outs(%q : tensor<1x1x8x8xf32>) mask_mod {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c_1 = arith.constant -1 : index
    %0 = arith.divui %i, %c2 : index
    %1 = arith.floordivsi %i, %c_1 : index
    %j1 = arith.addi %j, %c1 : index
    %2 = arith.remui %i, %j1 : index
    %3 = arith.divsi %i, %j1 : index
    %d = tensor.extract %data[%i] : tensor<8xi32>
    %wide = arith.index_cast %d : i32 to index
    %isZero = arith.cmpi eq, %wide, %c0 : index
    %notZero = arith.select %isZero, %c1, %wide : index
    %4 = arith.floordivsi %wide, %notZero : index
    %5 = arith.shrsi %i, %c2 : index
    %6 = arith.addi %0, %1 : index
    %7 = arith.addi %2, %3 : index
    %8 = arith.addi %4, %5 : index
    %9 = arith.addi %6, %7 : index
    %10 = arith.addi %8, %9 : index
    %k = arith.cmpi sge, %10, %c0 : index
    attn.yield %k : i1
  } -> tensor<1x1x8x8xf32>
  return %r : tensor<1x1x8x8xf32>
}
