// RUN: attn-opt %s --attn-expand-float8 --canonicalize | FileCheck %s
// RUN: attn-opt %s --attn-expand-float8=scalars --canonicalize | FileCheck %s --check-prefix=SCALARS

// test/python/test_float8.py compares all values with the conversions of PyTorch.

// The exponent of a normal number gets 120 more; 8 is the least normal number, 126 the largest finite one.
// CHECK-LABEL: func.func @extend_e4m3(
// CHECK-SAME:    %[[X:.*]]: vector<8xf8E4M3FN>
// CHECK-DAG:     %[[SEVEN_BITS:.*]] = arith.constant dense<127> : vector<8xi32>
// CHECK-DAG:     %[[UNIT:.*]] = arith.constant dense<0.001953125> : vector<8xf32>
// CHECK-DAG:     %[[BIAS:.*]] = arith.constant dense<1006632960> : vector<8xi32>
// CHECK:         %[[BYTE:.*]] = arith.bitcast %[[X]] : vector<8xf8E4M3FN> to vector<8xi8>
// CHECK:         %[[BITS:.*]] = arith.extui %[[BYTE]] : vector<8xi8> to vector<8xi32>
// CHECK:         %[[MAGNITUDE:.*]] = arith.andi %[[BITS]], %[[SEVEN_BITS]]
// CHECK:         %[[WIDE:.*]] = arith.shli %[[MAGNITUDE]]
// CHECK:         arith.addi %[[WIDE]], %[[BIAS]]
// CHECK:         %[[COUNT:.*]] = arith.uitofp %[[MAGNITUDE]]
// CHECK:         arith.mulf %[[COUNT]], %[[UNIT]]
// CHECK:         arith.cmpi ult, %[[MAGNITUDE]]
// CHECK:         arith.cmpi ule, %[[MAGNITUDE]]
// CHECK-NOT:     arith.extf
// CHECK:         return {{.*}} : vector<8xf32>
func.func @extend_e4m3(%x: vector<8xf8E4M3FN>) -> vector<8xf32> {
  %y = arith.extf %x : vector<8xf8E4M3FN> to vector<8xf32>
  return %y : vector<8xf32>
}

// CHECK-LABEL: func.func @extend_to_other_types(
// CHECK:         arith.truncf %{{.*}} : f32 to bf16
// CHECK:         arith.extf %{{.*}} : f32 to f64
func.func @extend_to_other_types(%x: f8E5M2) -> (bf16, f64) {
  %y = arith.extf %x : f8E5M2 to bf16
  %z = arith.extf %x : f8E5M2 to f64
  return %y, %z : bf16, f64
}

// A number beyond 448 becomes 127, a NaN.
// CHECK-LABEL: func.func @truncate_e4m3(
// CHECK-SAME:    %[[X:.*]]: f32
// CHECK-DAG:     %[[NAN:.*]] = arith.constant 127 : i32
// CHECK:         arith.bitcast %[[X]] : f32 to i32
// CHECK:         arith.minui %{{.*}}, %[[NAN]]
// CHECK:         %[[BYTE:.*]] = arith.trunci
// CHECK:         arith.bitcast %[[BYTE]] : i8 to f8E4M3FN
// CHECK-NOT:     arith.truncf
func.func @truncate_e4m3(%x: f32) -> f8E4M3FN {
  %y = arith.truncf %x : f32 to f8E4M3FN
  return %y : f8E4M3FN
}

// A number beyond 57344 becomes 124, infinity; a NaN is told apart.
// CHECK-LABEL: func.func @truncate_e5m2(
// CHECK-DAG:     %[[INFINITY:.*]] = arith.constant 124 : i32
// CHECK-DAG:     %[[NAN:.*]] = arith.constant 127 : i32
// CHECK:         arith.extf %{{.*}} : bf16 to f32
// CHECK:         %[[LEAST:.*]] = arith.minui %{{.*}}, %[[INFINITY]]
// CHECK:         arith.select %{{.*}}, %[[NAN]], %[[LEAST]]
// CHECK-NOT:     arith.truncf
func.func @truncate_e5m2(%x: bf16) -> f8E5M2 {
  %y = arith.truncf %x : bf16 to f8E5M2
  return %y : f8E5M2
}

// CHECK-LABEL: func.func @others_stay(
// CHECK:         arith.truncf %{{.*}} : f64 to f8E4M3FN
// CHECK:         arith.truncf %{{.*}} : f32 to bf16
func.func @others_stay(%x: f64, %y: f32) -> (f8E4M3FN, bf16) {
  %a = arith.truncf %x : f64 to f8E4M3FN
  %b = arith.truncf %y : f32 to bf16
  return %a, %b : f8E4M3FN, bf16
}

// With `scalars`, vectors stay.

// SCALARS-LABEL: func.func @scalars(
// SCALARS:         arith.bitcast %{{.*}} : i8 to f8E4M3FN
// SCALARS:         arith.extf %{{.*}} : vector<8xf8E5M2> to vector<8xf32>
// CHECK-LABEL:   func.func @scalars(
// CHECK-NOT:       arith.extf
func.func @scalars(%x: f32, %y: vector<8xf8E5M2>) -> (f8E4M3FN, vector<8xf32>) {
  %0 = arith.truncf %x : f32 to f8E4M3FN
  %1 = arith.extf %y : vector<8xf8E5M2> to vector<8xf32>
  return %0, %1 : f8E4M3FN, vector<8xf32>
}
