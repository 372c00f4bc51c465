// RUN: attn-opt %s --attn-widen-float8-gradients=target=sm_90a --verify-diagnostics

func.func @memrefs(%q: memref<1x4x8x64xf8E4M3FN>, %o: memref<1x4x8x64xbf16>, %lse: memref<1x4x8xf32>) {
  // expected-error @below {{'attn.attention_grad' op with operands of 8 bits must be on tensors (was on memrefs)}}
  attn.attention_grad
      ins(%q, %q, %q, %o, %lse, %o : memref<1x4x8x64xf8E4M3FN>, memref<1x4x8x64xf8E4M3FN>, memref<1x4x8x64xf8E4M3FN>,
          memref<1x4x8x64xbf16>, memref<1x4x8xf32>, memref<1x4x8x64xbf16>)
      outs(%o, %o, %o : memref<1x4x8x64xbf16>, memref<1x4x8x64xbf16>, memref<1x4x8x64xbf16>)
  return
}
