// RUN: attn-opt %s --attn-host-lowering-pipeline | FileCheck %s

// The C library has functions of scalars: vectors are taken apart, by operations
// that become those of LLVM as well.

// CHECK-LABEL:   llvm.func @inverse(
// CHECK-NOT:       vector.
// CHECK-COUNT-4:   llvm.call @asinhf(%{{.*}}) : (f32) -> f32
// CHECK-NOT:       vector.
// CHECK:           llvm.return %{{.*}} : vector<4xf32>
func.func @inverse(%x: vector<4xf32>) -> vector<4xf32> {
  %y = math.asinh %x : vector<4xf32>
  return %y : vector<4xf32>
}
