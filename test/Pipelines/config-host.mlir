// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule))' | FileCheck %s

// The host takes any element type and head dimension.

// CHECK-LABEL: @host(
// CHECK: #attn_tile.sequential<
func.func @host(%q: memref<1x4x?x36xf32>, %k: memref<1x4x?x36xf32>, %v: memref<1x4x?x36xf32>, %o: memref<1x4x?x36xf32>) {
  attn.attention ins(%q, %k, %v : memref<1x4x?x36xf32>, memref<1x4x?x36xf32>, memref<1x4x?x36xf32>)
      outs(%o : memref<1x4x?x36xf32>)
  return
}
