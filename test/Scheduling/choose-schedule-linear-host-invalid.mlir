// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=host}))' --verify-diagnostics

func.func @recurrent(%q: memref<1x4x1x64xbf16>) {
  // expected-error @below {{'attn.linear_attention' op cannot have schedule '#attn_tile.linear_recurrent<value_tile = 16>' on host, it is for GPUs}}
  attn.linear_attention ins(%q, %q, %q : memref<1x4x1x64xbf16>, memref<1x4x1x64xbf16>, memref<1x4x1x64xbf16>)
      outs(%q : memref<1x4x1x64xbf16>) causal schedule(#attn_tile.linear_recurrent<value_tile = 16>)
  return
}
