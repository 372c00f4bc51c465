// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=sm_80}))' --split-input-file --verify-diagnostics

func.func @producer(%q: memref<1x4x?x64xbf16>, %b: memref<1x4x?xf32>) {
  // expected-error @below {{'attn.linear_attention' op cannot have schedule '#attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2>' on target sm_80, it is for sm_90a}}
  attn.linear_attention ins(%q, %q, %q : memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>)
      outs(%q : memref<1x4x?x64xbf16>) beta(%b : memref<1x4x?xf32>) causal
      schedule(#attn_tile.linear_pairs<
          pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>,
          chunks = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2>>)
  return
}

// -----

func.func @narrow_producer(%q: memref<1x4x?x64xbf16>, %b: memref<1x4x?xf32>) {
  // expected-error @below {{'attn.linear_attention_grad' op cannot have schedule '#attn_tile.linear_warp_specialized<chunk = 64, value_tile = 16, stages = 2>' on target sm_80, it is for sm_90a}}
  attn.linear_attention_grad ins(%q, %q, %q, %q : memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>)
      outs(%q, %q, %q : memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>) beta(%b : memref<1x4x?xf32>) causal
      schedule(#attn_tile.linear_pairs<
          pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>,
          chunks = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>,
          narrow = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 16, stages = 2>, narrow_work_items = 108>)
  return
}

// -----

func.func @producer_alone(%q: memref<1x4x?x64xbf16>) {
  // expected-error @below {{'attn.linear_attention' op schedule on sm_80 must be like #attn_tile.linear_multistage<}}
  attn.linear_attention ins(%q, %q, %q : memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>)
      outs(%q : memref<1x4x?x64xbf16>) causal
      schedule(#attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2>)
  return
}
