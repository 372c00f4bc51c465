// RUN: attn-opt %s --attn-expand-powers | FileCheck %s

// CHECK-LABEL: func.func @constants(
// CHECK-SAME:    %[[X:.*]]: f32
// CHECK-NOT:     math.fpowi
// CHECK-NOT:     math.powf
// CHECK:         %[[SQUARE:.*]] = arith.mulf %[[X]], %[[X]] : f32
// CHECK:         %[[CUBE:.*]] = arith.mulf %{{.*}}, %[[X]] : f32
// CHECK:         %[[INVERSE:.*]] = arith.divf %{{.*}}, %[[X]] : f32
// CHECK:         %[[ROOT:.*]] = math.sqrt %[[X]] : f32
// CHECK:         return %{{.*}}, %{{.*}}, %{{.*}}, %[[ROOT]]
func.func @constants(%x: f32) -> (f32, f32, f32, f32) {
  %two = arith.constant 2 : i32
  %three = arith.constant 3 : i32
  %one = arith.constant -1 : i32
  %half = arith.constant 0.5 : f32
  %a = math.fpowi %x, %two : f32, i32
  %b = math.fpowi %x, %three : f32, i32
  %c = math.fpowi %x, %one : f32, i32
  %d = math.powf %x, %half : f32
  return %a, %b, %c, %d : f32, f32, f32, f32
}

// CHECK-LABEL: func.func @others(
// CHECK-SAME:    %[[X:.*]]: f32, %[[Y:.*]]: f32, %[[N:.*]]: i32)
// CHECK:         %[[E:.*]] = arith.sitofp %[[N]] : i32 to f32
// CHECK-NEXT:    %[[A:.*]] = math.powf %[[X]], %[[E]] : f32
// CHECK-NEXT:    %[[B:.*]] = math.powf %[[X]], %[[Y]] : f32
// CHECK-NEXT:    return %[[A]], %[[B]]
func.func @others(%x: f32, %y: f32, %n: i32) -> (f32, f32) {
  %a = math.fpowi %x, %n : f32, i32
  %b = math.powf %x, %y : f32
  return %a, %b : f32, f32
}
