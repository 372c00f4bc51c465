// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=sm_80}))' --verify-diagnostics

func.func @target(%q: memref<1x8x?x64xf16>, %lse: memref<1x8x?xf32>) {
  // expected-error @below {{'attn.attention_grad' op has no kernels for sm_80}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x8x?x64xf16>, memref<1x8x?x64xf16>, memref<1x8x?x64xf16>,
          memref<1x8x?x64xf16>, memref<1x8x?xf32>, memref<1x8x?x64xf16>)
      outs(%q, %q, %q : memref<1x8x?x64xf16>, memref<1x8x?x64xf16>, memref<1x8x?x64xf16>)
  return
}
