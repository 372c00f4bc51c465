// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=sm_90a}))' | FileCheck %s

// Keys of a generator's rounds stay in registers with large tiles, and with
// a third consumer, as long as there are few of them.

// CHECK-LABEL: func @philox(
// CHECK:         rng = #attn.philox<rounds = 7>>{{.*}} schedule(#attn_tile.warp_specialized<query_tile = 128, key_tile = 208,
// CHECK:         rng = #attn.philox>{{.*}} schedule(#attn_tile.warp_specialized<query_tile = 128, key_tile = 128,
// CHECK:         rng = #attn.philox<rounds = 7>>{{.*}} schedule(#attn_tile.warp_specialized<query_tile = 192, key_tile = 128, stages = 2, consumers = 3,
// CHECK:         rng = #attn.philox>{{.*}} schedule(#attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2,
func.func @philox(%q: memref<1x32x2048x64xbf16>, %lse: memref<1x32x2048xf32>, %seed: i64, %offset: i64) {
  attn.attention ins(%q, %q, %q : memref<1x32x2048x64xbf16>, memref<1x32x2048x64xbf16>, memref<1x32x2048x64xbf16>)
      outs(%q, %lse : memref<1x32x2048x64xbf16>, memref<1x32x2048xf32>)
      dropout(#attn.dropout<p = 0.125, rng = #attn.philox<rounds = 7>>, %seed, %offset : i64, i64)
  attn.attention ins(%q, %q, %q : memref<1x32x2048x64xbf16>, memref<1x32x2048x64xbf16>, memref<1x32x2048x64xbf16>)
      outs(%q, %lse : memref<1x32x2048x64xbf16>, memref<1x32x2048xf32>)
      dropout(#attn.dropout<p = 0.125, rng = #attn.philox<rounds = 10>>, %seed, %offset : i64, i64)
  attn.attention ins(%q, %q, %q : memref<1x32x2048x64xbf16>, memref<1x32x2048x64xbf16>, memref<1x32x2048x64xbf16>)
      outs(%q, %lse : memref<1x32x2048x64xbf16>, memref<1x32x2048xf32>)
      mask(#attn.causal) dropout(#attn.dropout<p = 0.125, rng = #attn.philox<rounds = 7>>, %seed, %offset : i64, i64)
  attn.attention ins(%q, %q, %q : memref<1x32x2048x64xbf16>, memref<1x32x2048x64xbf16>, memref<1x32x2048x64xbf16>)
      outs(%q, %lse : memref<1x32x2048x64xbf16>, memref<1x32x2048xf32>)
      mask(#attn.causal) dropout(#attn.dropout<p = 0.125, rng = #attn.philox<rounds = 10>>, %seed, %offset : i64, i64)
  return
}
