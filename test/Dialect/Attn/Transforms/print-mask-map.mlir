// RUN: attn-opt %s --attn-print-mask-map -o /dev/null | FileCheck %s
// RUN: attn-opt %s --attn-print-mask-map="query-tile=128 key-tile=256" -o /dev/null | FileCheck %s --check-prefix=WIDE
// RUN: attn-opt %s --attn-print-mask-map=format=json -o /dev/null | FileCheck %s --check-prefix=JSON
// RUN: rm -rf %t && mkdir %t && attn-opt %s --attn-print-mask-map=directory=%t -o /dev/null
// RUN: FileCheck %s --input-file=%t/causal-0.svg --check-prefix=FILE

// CHECK: <svg xmlns="http://www.w3.org/2000/svg" width="1024" height="{{[0-9]+}}"
// CHECK: <title>@causal: #attn.causal, 250 x 250, tiles 64 x 64</title>
// CHECK: <text {{.*}}>@causal: #attn.causal, 250 x 250, tiles 64 x 64</text>
// CHECK: <rect class="empty" x="24" y="66" width="128" height="128"/>
// CHECK-NEXT: <rect class="partial" x="24" y="66" width="32" height="32"/>
// CHECK-NEXT: <rect class="partial" x="56" y="98" width="32" height="32"/>
// CHECK-NEXT: <rect class="partial" x="88" y="130" width="32" height="32"/>
// CHECK-NEXT: <rect class="partial" x="120" y="162" width="32" height="32"/>
// CHECK-NEXT: <rect class="full" x="24" y="98" width="32" height="32"/>
// CHECK-NEXT: <rect class="full" x="24" y="130" width="64" height="32"/>
// CHECK-NEXT: <rect class="full" x="24" y="162" width="96" height="32"/>
// CHECK-NEXT: <line 
// CHECK: full, no code for masks: 6 tiles
// CHECK: partial, masked: 4 tiles
// CHECK: empty, not visited: 6 tiles
// CHECK: </svg>
// FILE: <title>@causal: #attn.causal
// JSON:      "title": "@causal: #attn.causal, 250 x 250, tiles 64 x 64",
// JSON-NEXT: "query_tile": 64,
// JSON-NEXT: "key_tile": 64,
// JSON-NEXT: "rows": 4,
// JSON-NEXT: "columns": 4,
// JSON-NEXT: "reads_data": false,
// JSON-NEXT: "partial": [
// JSON-NEXT:   [
// JSON-NEXT:     0,
// JSON-NEXT:     0,
// JSON-NEXT:     1
// JSON:      "full": [
// JSON-NEXT:   [
// JSON-NEXT:     1,
// JSON-NEXT:     0,
// JSON-NEXT:     1
// JSON-NEXT:   ],
// WIDE: <title>@causal: #attn.causal, 250 x 250, tiles 128 x 256</title>
// WIDE: full, no code for masks: 0 tiles
// WIDE: partial, masked: 2 tiles
func.func @causal(%q: memref<1x2x250x64xf32>) {
  attn.attention ins(%q, %q, %q : memref<1x2x250x64xf32>, memref<1x2x250x64xf32>, memref<1x2x250x64xf32>)
    outs(%q : memref<1x2x250x64xf32>) mask(#attn.causal)
    schedule(#attn_tile.sequential<query_tile = 64, key_tile = 64>)
  return
}

// The window is drawn for head 0. What it means in SVG is escaped.
// CHECK: <title>@by_head: #attn.sliding_window&lt;right = 0&gt; and mask_mod region, 128 x 128, tiles 16 x 32</title>
// CHECK: full, no code for masks: 0 tiles
// CHECK: partial, masked: 8 tiles
// CHECK: empty, not visited: 24 tiles
func.func @by_head(%q: memref<1x2x128x64xf32>) {
  attn.attention ins(%q, %q, %q : memref<1x2x128x64xf32>, memref<1x2x128x64xf32>, memref<1x2x128x64xf32>)
    outs(%q : memref<1x2x128x64xf32>) mask(#attn.sliding_window<right = 0>)
    schedule(#attn_tile.sequential<query_tile = 16, key_tile = 32>) mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      %d = arith.subi %i, %j : index
      %keep = arith.cmpi sle, %d, %h : index
      attn.yield %keep : i1
    }
  return
}

// JSON: "title": "@documents: #attn.causal and mask_mod region
// JSON: "reads_data": true
// CHECK: <title>@documents: #attn.causal and mask_mod region, 128 x 128, tiles 64 x 64</title>
// CHECK: full, no code for masks: 0 tiles
// CHECK: partial or decided by data: 3 tiles
// CHECK: empty, not visited: 1 tiles
func.func @documents(%q: memref<1x2x128x64xf32>, %ids: memref<128xi32>) {
  attn.attention ins(%q, %q, %q : memref<1x2x128x64xf32>, memref<1x2x128x64xf32>, memref<1x2x128x64xf32>)
    outs(%q : memref<1x2x128x64xf32>) mask(#attn.causal)
    schedule(#attn_tile.sequential<query_tile = 64, key_tile = 64>) mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      %x = memref.load %ids[%i] : memref<128xi32>
      %y = memref.load %ids[%j] : memref<128xi32>
      %keep = arith.cmpi eq, %x, %y : i32
      attn.yield %keep : i1
    }
  return
}
