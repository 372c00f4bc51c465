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

// A scalar, which upstream's pattern does not survive.
// CHECK-LABEL: func.func @rsqrt(
// CHECK-SAME:    %[[X:.*]]: f32, %[[Y:.*]]: vector<7xf32>)
// CHECK-DAG:     %[[ROOT:.*]] = math.sqrt %[[X]] : f32
// CHECK-DAG:     arith.divf %{{.*}}, %[[ROOT]] : f32
// CHECK-DAG:     math.sqrt %[[Y]] : vector<7xf32>
// CHECK-NOT:     math.rsqrt
func.func @rsqrt(%x: f32, %y: vector<7xf32>) -> (f32, vector<7xf32>) {
  %0 = math.rsqrt %x : f32
  %1 = math.rsqrt %y : vector<7xf32>
  return %0, %1 : f32, vector<7xf32>
}

// The argument is reduced in f64.
// CHECK-LABEL: func.func @sin_cos(
// CHECK-SAME:    %[[X:.*]]: vector<8xf32>, %[[Y:.*]]: f32)
// CHECK-DAG:     arith.extf %[[X]] : vector<8xf32> to vector<8xf64>
// CHECK-DAG:     arith.extf %[[Y]] : f32 to f64
// CHECK-NOT:     math.sin
// CHECK-NOT:     math.cos
func.func @sin_cos(%x: vector<8xf32>, %y: f32) -> (vector<8xf32>, f32) {
  %0 = math.sin %x : vector<8xf32>
  %1 = math.cos %y : f32
  return %0, %1 : vector<8xf32>, f32
}
