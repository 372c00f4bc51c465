// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=sm_90a}))' --split-input-file --verify-diagnostics

func.func @element(%q: memref<1x8x?x64xf32>, %lse: memref<1x8x?xf32>) {
  // expected-error @below {{'attn.attention_grad' op element type on sm_90a must be bf16 or f16 (was 'f32')}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x8x?x64xf32>, memref<1x8x?x64xf32>, memref<1x8x?x64xf32>,
          memref<1x8x?x64xf32>, memref<1x8x?xf32>, memref<1x8x?x64xf32>)
      outs(%q, %q, %q : memref<1x8x?x64xf32>, memref<1x8x?x64xf32>, memref<1x8x?x64xf32>)
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
