// RUN: attn-opt %s --attn-approximate-math | FileCheck %s

// CHECK-LABEL: func.func @exp2(
// CHECK-SAME:    %[[X:.*]]: vector<16xf32>
// CHECK:         %[[SHIFTED:.*]] = arith.addf %[[X]]
// CHECK:         %[[N:.*]] = arith.subf %[[SHIFTED]]
// CHECK:         arith.subf %[[X]], %[[N]]
// CHECK-COUNT-6: math.fma
// CHECK:         arith.shli
// CHECK:         arith.addi
// CHECK:         arith.cmpf olt, %[[X]]
// CHECK:         arith.cmpf oge, %[[X]]
// CHECK-NOT:     math.exp2
func.func @exp2(%x: vector<16xf32>) -> vector<16xf32> {
  %y = math.exp2 %x : vector<16xf32>
  return %y : vector<16xf32>
}

// CHECK-LABEL: func.func @scalar(
// CHECK-NOT:     math.exp2
// CHECK-NOT:     math.tanh
func.func @scalar(%x: f32) -> f32 {
  %y = math.exp2 %x : f32
  %z = math.tanh %y : f32
  return %z : f32
}

// Not on f64.
// CHECK-LABEL: func.func @double(
// CHECK:         math.exp2
func.func @double(%x: f64) -> f64 {
  %y = math.exp2 %x : f64
  return %y : f64
}
