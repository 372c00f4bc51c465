// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=sm_90a}))' --split-input-file --verify-diagnostics

// sm_90a has the kernels of sm_80 for f32.

func.func @element(%q: memref<1x8x?x64xf32>, %lse: memref<1x8x?xf32>) {
  // expected-error @below {{cannot have 'dkdv' = '#attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>' on target sm_90a with 'f32' elements}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x8x?x64xf32>, memref<1x8x?x64xf32>, memref<1x8x?x64xf32>,
          memref<1x8x?x64xf32>, memref<1x8x?xf32>, memref<1x8x?x64xf32>)
      outs(%q, %q, %q : memref<1x8x?x64xf32>, memref<1x8x?x64xf32>, memref<1x8x?x64xf32>)
      schedule(#attn_tile.gradient<preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
          dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>>)
  return
}

// -----

func.func @output(%q: memref<1x8x?x64xf16>, %o: memref<1x8x?x64xf32>, %lse: memref<1x8x?xf32>) {
  // expected-error @below {{'attn.attention_grad' op gradient of the output on sm_90a must have the element type of the query (expected 'f16', found 'f32')}}
  attn.attention_grad
      ins(%q, %q, %q, %o, %lse, %o : memref<1x8x?x64xf16>, memref<1x8x?x64xf16>, memref<1x8x?x64xf16>,
          memref<1x8x?x64xf32>, memref<1x8x?xf32>, memref<1x8x?x64xf32>)
      outs(%q, %q, %q : memref<1x8x?x64xf16>, memref<1x8x?x64xf16>, memref<1x8x?x64xf16>)
  return
}
