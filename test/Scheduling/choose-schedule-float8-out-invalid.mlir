// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=sm_80}))' --verify-diagnostics

func.func @out_of_8_bits(%q: memref<1x8x?x64xbf16>, %o: memref<1x8x?x64xf8E5M2>) {
  // expected-error @below {{'attn.attention' op kernels on sm_80 cannot write an output of 'f8E5M2': it has no instructions that round to 8 bits}}
  attn.attention ins(%q, %q, %q : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      outs(%o : memref<1x8x?x64xf8E5M2>)
  return
}
