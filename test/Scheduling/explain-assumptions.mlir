// What is printed for sizes that are not static says which were assumed, and
// the derivation says which tiles the kernel has.

// RUN: attn-opt %s --split-input-file --attn-explain=dynamic-size=2048 -o /dev/null 2>&1 | FileCheck %s
// RUN: attn-opt %s --split-input-file --attn-explain="dynamic-batch=3 format=json output=-" -o /dev/null | FileCheck %s --check-prefix=JSON

// CHECK:      device
// CHECK-NEXT: dynamic sizes (?) are assumed to be 2048, batch sizes 1; see the options dynamic-size and dynamic-batch
// CHECK-LABEL: @dynamic
// CHECK: derivation of attn.attention
// CHECK: the kernel has the tiles of its schedule instead: query 128, key 96
// JSON: "dynamic_size": 4096,
// JSON-NEXT: "dynamic_batch": 3,
// JSON-LABEL: "name": "dynamic"
// JSON:      "schedule": {
// JSON-NEXT:   "query_tile": 128,
// JSON-NEXT:   "key_tile": 96
// JSON-NEXT: }
func.func @dynamic(%q: tensor<?x8x?x128xbf16>) -> tensor<?x8x?x128xbf16> {
  %0 = attn.attention
      ins(%q, %q, %q : tensor<?x8x?x128xbf16>, tensor<?x8x?x128xbf16>, tensor<?x8x?x128xbf16>)
      outs(%q : tensor<?x8x?x128xbf16>)
      schedule(#attn_tile.warp_specialized<query_tile = 128, key_tile = 96, stages = 2, consumers = 2>)
      -> tensor<?x8x?x128xbf16>
  return %0 : tensor<?x8x?x128xbf16>
}

// -----

// CHECK:     device
// CHECK-NOT: assumed
// CHECK-LABEL: @static
// CHECK-NOT: of its schedule
// CHECK: {{^}}  no schedule is chosen yet: attn-choose-schedule, run before, chooses the tiles of the kernel
// JSON-NOT: "dynamic_size"
// JSON-LABEL: "name": "static"
// JSON-NOT: "schedule"
func.func @static(%q: tensor<1x8x512x128xbf16>) -> tensor<1x8x512x128xbf16> {
  %0 = attn.attention
      ins(%q, %q, %q : tensor<1x8x512x128xbf16>, tensor<1x8x512x128xbf16>, tensor<1x8x512x128xbf16>)
      outs(%q : tensor<1x8x512x128xbf16>) -> tensor<1x8x512x128xbf16>
  return %0 : tensor<1x8x512x128xbf16>
}

// -----

// The schedule for the assumed length is one of a choice.

// CHECK-LABEL: @choice
// CHECK: the kernel has the tiles of its schedule instead: query 128, key 96, for less than 4096 queries
// JSON-LABEL: "name": "choice"
// JSON: "key_tile": 128
func.func @choice(%q: tensor<1x8x?x128xbf16>) -> tensor<1x8x?x128xbf16> {
  %0 = attn.attention
      ins(%q, %q, %q : tensor<1x8x?x128xbf16>, tensor<1x8x?x128xbf16>, tensor<1x8x?x128xbf16>)
      outs(%q : tensor<1x8x?x128xbf16>)
      schedule(#attn.by_query_length<bound = 4096,
          below = #attn_tile.warp_specialized<query_tile = 128, key_tile = 96, stages = 2, consumers = 2>,
          from = #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2>>)
      -> tensor<1x8x?x128xbf16>
  return %0 : tensor<1x8x?x128xbf16>
}

// -----

// One of a choice among three.

// CHECK-LABEL: @choices
// CHECK: the kernel has the tiles of its schedule instead: query 128, key 96, for 16 to 4095 queries
// JSON-LABEL: "name": "choices"
// JSON: "key_tile": 128
#longer = #attn.by_query_length<bound = 4096,
    below = #attn_tile.warp_specialized<query_tile = 128, key_tile = 96, stages = 2, consumers = 2>,
    from = #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2>>
func.func @choices(%q: tensor<1x8x?x128xbf16>) -> tensor<1x8x?x128xbf16> {
  %0 = attn.attention
      ins(%q, %q, %q : tensor<1x8x?x128xbf16>, tensor<1x8x?x128xbf16>, tensor<1x8x?x128xbf16>)
      outs(%q : tensor<1x8x?x128xbf16>)
      schedule(#attn.by_query_length<bound = 16,
          below = #attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1>, from = #longer>)
      -> tensor<1x8x?x128xbf16>
  return %0 : tensor<1x8x?x128xbf16>
}
