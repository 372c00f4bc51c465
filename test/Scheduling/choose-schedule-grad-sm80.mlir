// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=sm_80}))' --split-input-file | FileCheck %s

// What registers and shared memory have room for, and takes the least estimate.

// CHECK-LABEL: func @d64
// CHECK:         schedule(#attn_tile.gradient<preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
// CHECK-SAME:      dkdv = #attn_tile.key_multistage<query_tile = 32, key_tile = 128, stages = 2, warps = 4>,
// CHECK-SAME:      dq = #attn_tile.multistage<query_tile = 128, key_tile = 48, stages = 2, warps = 4>>)
func.func @d64(%q: memref<?x8x?x64xf16>, %lse: memref<?x8x?xf32>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<?x8x?x64xf16>, memref<?x8x?x64xf16>, memref<?x8x?x64xf16>,
          memref<?x8x?x64xf16>, memref<?x8x?xf32>, memref<?x8x?x64xf16>)
      outs(%q, %q, %q : memref<?x8x?x64xf16>, memref<?x8x?x64xf16>, memref<?x8x?x64xf16>)
  return
}

// CHECK-LABEL: func @d128
// CHECK:         schedule(#attn_tile.gradient<preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
// CHECK-SAME:      dkdv = #attn_tile.key_multistage<query_tile = 48, key_tile = 64, stages = 2, warps = 4>,
// CHECK-SAME:      dq = #attn_tile.multistage<query_tile = 128, key_tile = 80, stages = 2, warps = 8>>)
func.func @d128(%q: memref<?x8x?x128xf16>, %lse: memref<?x8x?xf32>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<?x8x?x128xf16>, memref<?x8x?x128xf16>, memref<?x8x?x128xf16>,
          memref<?x8x?x128xf16>, memref<?x8x?xf32>, memref<?x8x?x128xf16>)
      outs(%q, %q, %q : memref<?x8x?x128xf16>, memref<?x8x?x128xf16>, memref<?x8x?x128xf16>)
  return
}

// Gradients of keys and values do not fit one kernel.

// CHECK-LABEL: func @d256
// CHECK:         schedule(#attn_tile.gradient<preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
// CHECK-SAME:      dkdv = #attn_tile.key_multistage<query_tile = 32, key_tile = 64, stages = 2, warps = 4>,
// CHECK-SAME:      dq = #attn_tile.multistage<query_tile = 64, key_tile = 32, stages = 2, warps = 4>,
// CHECK-SAME:      dv = #attn_tile.key_multistage<query_tile = 32, key_tile = 128, stages = 2, warps = 8>>)
func.func @d256(%q: memref<?x8x?x256xf16>, %lse: memref<?x8x?xf32>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<?x8x?x256xf16>, memref<?x8x?x256xf16>, memref<?x8x?x256xf16>,
          memref<?x8x?x256xf16>, memref<?x8x?xf32>, memref<?x8x?x256xf16>)
      outs(%q, %q, %q : memref<?x8x?x256xf16>, memref<?x8x?x256xf16>, memref<?x8x?x256xf16>)
  return
}

// Keep masks of dropout take registers.

// CHECK-LABEL: func @dropout
// CHECK:         schedule(#attn_tile.gradient<preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
// CHECK-SAME:      dkdv = #attn_tile.key_multistage<query_tile = 32, key_tile = 128, stages = 2, warps = 8>,
// CHECK-SAME:      dq = #attn_tile.multistage<query_tile = 128, key_tile = 80, stages = 2, warps = 8>>)
func.func @dropout(%q: memref<?x8x?x128xf16>, %lse: memref<?x8x?xf32>, %seed: i64, %offset: i64) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<?x8x?x128xf16>, memref<?x8x?x128xf16>, memref<?x8x?x128xf16>,
          memref<?x8x?x128xf16>, memref<?x8x?xf32>, memref<?x8x?x128xf16>)
      outs(%q, %q, %q : memref<?x8x?x128xf16>, memref<?x8x?x128xf16>, memref<?x8x?x128xf16>)
      dropout(#attn.dropout<p = 0.125, rng = #attn.arx<rounds = 6>>, %seed, %offset : i64, i64)
  return
}

// So does the iteration over many ranges of tiles.

// CHECK-LABEL: func @ranges
// CHECK:         dkdv = #attn_tile.key_multistage<query_tile = 32, key_tile = 64, stages = 2, warps = 4>
func.func @ranges(%q: memref<?x8x?x128xf16>, %lse: memref<?x8x?xf32>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<?x8x?x128xf16>, memref<?x8x?x128xf16>, memref<?x8x?x128xf16>,
          memref<?x8x?x128xf16>, memref<?x8x?xf32>, memref<?x8x?x128xf16>)
      outs(%q, %q, %q : memref<?x8x?x128xf16>, memref<?x8x?x128xf16>, memref<?x8x?x128xf16>)
      mask(#attn.or<#attn.global_tokens<count = 40>, #attn.sliding_window<left = 150, right = 70>>)
  return
}
