// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=sm_80}))' | FileCheck %s

// What is chosen for warps that copy and compute.

// CHECK-LABEL: @d64(
// CHECK: #attn_tile.multistage<query_tile = 128, key_tile = 80, stages = 2, warps = 4>
func.func @d64(%q: memref<1x4x?x64xf16>, %k: memref<1x4x?x64xf16>, %v: memref<1x4x?x64xf16>, %o: memref<1x4x?x64xf16>) {
  attn.attention ins(%q, %k, %v : memref<1x4x?x64xf16>, memref<1x4x?x64xf16>, memref<1x4x?x64xf16>)
      outs(%o : memref<1x4x?x64xf16>)
  return
}

// CHECK-LABEL: @d96(
// CHECK: #attn_tile.multistage<query_tile = 128, key_tile = 48, stages = 2, warps = 4>
func.func @d96(%q: memref<1x4x?x96xf16>, %k: memref<1x4x?x96xf16>, %v: memref<1x4x?x96xf16>, %o: memref<1x4x?x96xf16>) {
  attn.attention ins(%q, %k, %v : memref<1x4x?x96xf16>, memref<1x4x?x96xf16>, memref<1x4x?x96xf16>)
      outs(%o : memref<1x4x?x96xf16>)
  return
}

// With four warps a key tile of 48 would just fit, and spill under some masks.
// CHECK-LABEL: @d128(
// CHECK: #attn_tile.multistage<query_tile = 128, key_tile = 128, stages = 2, warps = 8>
func.func @d128(%q: memref<1x4x?x128xf16>, %k: memref<1x4x?x128xf16>, %v: memref<1x4x?x128xf16>, %o: memref<1x4x?x128xf16>) {
  attn.attention ins(%q, %k, %v : memref<1x4x?x128xf16>, memref<1x4x?x128xf16>, memref<1x4x?x128xf16>)
      outs(%o : memref<1x4x?x128xf16>)
  return
}

// CHECK-LABEL: @d256(
// CHECK: #attn_tile.multistage<query_tile = 128, key_tile = 32, stages = 2, warps = 8>
func.func @d256(%q: memref<1x4x?x256xf16>, %k: memref<1x4x?x256xf16>, %v: memref<1x4x?x256xf16>, %o: memref<1x4x?x256xf16>) {
  attn.attention ins(%q, %k, %v : memref<1x4x?x256xf16>, memref<1x4x?x256xf16>, memref<1x4x?x256xf16>)
      outs(%o : memref<1x4x?x256xf16>)
  return
}
