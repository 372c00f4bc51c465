// RUN: attn-opt %s --attn-explain="dynamic-size=16384" -o /dev/null 2>&1 | FileCheck %s
// RUN: attn-opt %s --attn-explain="dynamic-size=16384 format=json output=-" -o /dev/null | FileCheck %s --check-prefix=JSON
// RUN: attn-opt %s --attn-print-mask-map -o /dev/null | FileCheck %s --check-prefix=MAP

// Two tiles of queries visit the tiles of keys that any of them needs, half a
// diagonal more, and share what comes from the L2 cache.

// CHECK-LABEL: @attention
// CHECK:      attn.attention {{.*}} mma_16b
// CHECK-NEXT:   266240 steps; per step 8.33 MFLOP, 33.8 kB l2, 229.4 kB shared
// JSON:        "step": 2415.8
// JSON:        "launch": 61427.8
// JSON-NEXT:   "steps": 2080,
// JSON-NEXT:   "masked_steps": 64,
// JSON-NEXT:   "work_items": 32,
func.func @attention(%q: tensor<1x32x16384x128xbf16>, %k: tensor<1x8x16384x128xbf16>, %v: tensor<1x8x16384x128xbf16>,
                     %init: tensor<1x32x16384x128xbf16>) -> tensor<1x32x16384x128xbf16> {
  %0 = attn.attention
      ins(%q, %k, %v : tensor<1x32x16384x128xbf16>, tensor<1x8x16384x128xbf16>, tensor<1x8x16384x128xbf16>)
      outs(%init : tensor<1x32x16384x128xbf16>) mask(#attn.causal)
      schedule(#attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2, cluster = 2>)
      -> tensor<1x32x16384x128xbf16>
  return %0 : tensor<1x32x16384x128xbf16>
}

// MAP: <title>@map: #attn.causal, 250 x 250, tiles 128 x 64</title>
// MAP: full, no code for masks: 2 tiles
// MAP: partial, masked: 4 tiles
// MAP: empty, not visited: 2 tiles
func.func @map(%q: memref<1x2x250x64xbf16>) {
  attn.attention ins(%q, %q, %q : memref<1x2x250x64xbf16>, memref<1x2x250x64xbf16>, memref<1x2x250x64xbf16>)
    outs(%q : memref<1x2x250x64xbf16>) mask(#attn.causal)
    schedule(#attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, cluster = 2>)
  return
}
