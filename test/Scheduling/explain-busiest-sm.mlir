// Work items of the persistent traversal have a fixed order. Under a causal
// window, which leaves 4.5 of 8 tiles in the mean, it gives some of 132 CTAs rows
// of about the same length in each second round: one has 114 steps, where the
// mean of all is 87.3.

// RUN: attn-opt %s --attn-explain="target=sm_90a format=json output=-" -o /dev/null | FileCheck %s
// CHECK:      "steps": 114,
// CHECK-NEXT: "masked_steps": 20,
// CHECK-NEXT: "work_items": 10,

// To choose for unknown sizes, which may give another SM long rows, candidates
// have the mean of the steps.

// RUN: sed 's/ schedule(.*) ->/ ->/' %s > %t.known.mlir
// RUN: attn-opt %t.known.mlir --attn-choose-schedule=target=sm_90a | FileCheck %s --check-prefix=KNOWN
// KNOWN-LABEL: @global_tokens
// KNOWN:       #attn_tile.warp_specialized<query_tile = 192, key_tile = 128,
// RUN: sed -E 's/16x([82])x1024x64/?x\1x?x64/g' %t.known.mlir > %t.unknown.mlir
// RUN: attn-opt %t.unknown.mlir --attn-choose-schedule=target=sm_90a | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN-LABEL: @global_tokens
// UNKNOWN:       #attn_tile.warp_specialized<query_tile = 128, key_tile = 64,

!t = tensor<16x10x1024x192xbf16>
func.func @window(%q: !t, %k: !t, %v: !t, %o: !t) -> !t {
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
      mask(#attn.sliding_window<left = 1023, right = 0>)
      schedule(#attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2, ping_pong = true, interleave = 8>) -> !t
  return %0 : !t
}

!g = tensor<16x8x1024x64xbf16>
!k = tensor<16x2x1024x64xbf16>
func.func @global_tokens(%q: !g, %k: !k, %v: !k, %o: !g) -> !g {
  %0 = attn.attention ins(%q, %k, %v : !g, !k, !k) outs(%o : !g)
      mask(#attn.or<#attn.global_tokens<count = 20>, #attn.sliding_window<left = 100, right = 30>>) -> !g
  return %0 : !g
}
