// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=sm_80}))' | FileCheck %s

// What is chosen for warps that copy and compute.

// CHECK-LABEL: @d64(
// CHECK: #attn_tile.multistage<query_tile = 128, key_tile = 80, stages = 2, warps = 4>
func.func @d64(%q: memref<?x16x?x64xf16>, %k: memref<?x16x?x64xf16>, %v: memref<?x16x?x64xf16>, %o: memref<?x16x?x64xf16>) {
  attn.attention ins(%q, %k, %v : memref<?x16x?x64xf16>, memref<?x16x?x64xf16>, memref<?x16x?x64xf16>)
      outs(%o : memref<?x16x?x64xf16>)
  return
}

// CHECK-LABEL: @d96(
// CHECK: #attn_tile.multistage<query_tile = 128, key_tile = 48, stages = 2, warps = 4>
func.func @d96(%q: memref<?x16x?x96xf16>, %k: memref<?x16x?x96xf16>, %v: memref<?x16x?x96xf16>, %o: memref<?x16x?x96xf16>) {
  attn.attention ins(%q, %k, %v : memref<?x16x?x96xf16>, memref<?x16x?x96xf16>, memref<?x16x?x96xf16>)
      outs(%o : memref<?x16x?x96xf16>)
  return
}

// With four warps a key tile of 48 just fits, but not with regions.
// CHECK-LABEL: @d128(
// CHECK: #attn_tile.multistage<query_tile = 128, key_tile = 48, stages = 2, warps = 4>
func.func @d128(%q: memref<?x16x?x128xf16>, %k: memref<?x16x?x128xf16>, %v: memref<?x16x?x128xf16>, %o: memref<?x16x?x128xf16>) {
  attn.attention ins(%q, %k, %v : memref<?x16x?x128xf16>, memref<?x16x?x128xf16>, memref<?x16x?x128xf16>)
      outs(%o : memref<?x16x?x128xf16>)
  return
}

// CHECK-LABEL: @d256(
// CHECK: #attn_tile.multistage<query_tile = 128, key_tile = 48, stages = 2, warps = 8>
func.func @d256(%q: memref<?x16x?x256xf16>, %k: memref<?x16x?x256xf16>, %v: memref<?x16x?x256xf16>, %o: memref<?x16x?x256xf16>) {
  attn.attention ins(%q, %k, %v : memref<?x16x?x256xf16>, memref<?x16x?x256xf16>, memref<?x16x?x256xf16>)
      outs(%o : memref<?x16x?x256xf16>)
  return
}

// Keep masks of dropout take registers.
// CHECK-LABEL: @d128_dropout(
// CHECK-NOT: query_tile = 128, key_tile = 48, stages = 2, warps = 4
// CHECK: #attn_tile.multistage<
func.func @d128_dropout(%q: memref<?x16x?x128xf16>, %o: memref<?x16x?x128xf16>, %seed: i64, %offset: i64) {
  attn.attention ins(%q, %q, %q : memref<?x16x?x128xf16>, memref<?x16x?x128xf16>, memref<?x16x?x128xf16>)
      outs(%o : memref<?x16x?x128xf16>) dropout(#attn.dropout<p = 0.125, rng = #attn.arx<rounds = 6>>, %seed, %offset : i64, i64)
  return
}

// Of one query for each head: heads of a group are rows of a tile, and two CTAs on each SM split the keys.
// CHECK-LABEL: @decode(
// CHECK: #attn_tile.multistage<query_tile = 64, key_tile = {{64|128}}, stages = 2, warps = 4, split_kv_work_items = 216, pack_gqa = true>
func.func @decode(%q: memref<1x32x1x128xf16>, %k: memref<1x8x65536x128xf16>, %o: memref<1x32x1x128xf16>) {
  attn.attention ins(%q, %k, %k : memref<1x32x1x128xf16>, memref<1x8x65536x128xf16>, memref<1x8x65536x128xf16>)
      outs(%o : memref<1x32x1x128xf16>)
  return
}
