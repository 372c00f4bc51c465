// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=sm_80}))' --split-input-file --verify-diagnostics

func.func @output(%q: memref<1x8x?x64xf16>, %o: memref<1x8x?x64xf32>, %lse: memref<1x8x?xf32>) {
  // expected-error @below {{'attn.attention_grad' op gradient of the output on sm_80 must have the element type of the query (expected 'f16', found 'f32')}}
  attn.attention_grad
      ins(%q, %q, %q, %o, %lse, %o : memref<1x8x?x64xf16>, memref<1x8x?x64xf16>, memref<1x8x?x64xf16>,
          memref<1x8x?x64xf32>, memref<1x8x?xf32>, memref<1x8x?x64xf32>)
      outs(%q, %q, %q : memref<1x8x?x64xf16>, memref<1x8x?x64xf16>, memref<1x8x?x64xf16>)
  return
}

// -----

func.func @sums(%q: memref<1x8x?x64xf16>, %lse: memref<1x8x?xf32>) {
  // expected-error-re @below {{needs 'dq' in schedule '#attn_tile.gradient<{{.*}}>': no kernel for sm_80 accumulates dQ together with dK and dV}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x8x?x64xf16>, memref<1x8x?x64xf16>, memref<1x8x?x64xf16>,
          memref<1x8x?x64xf16>, memref<1x8x?xf32>, memref<1x8x?x64xf16>)
      outs(%q, %q, %q : memref<1x8x?x64xf16>, memref<1x8x?x64xf16>, memref<1x8x?x64xf16>)
      schedule(#attn_tile.gradient<preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
          dkdv = #attn_tile.key_multistage<query_tile = 32, key_tile = 128, stages = 2, warps = 8>>)
  return
}

// -----

func.func @keys(%q: memref<1x8x?x64xf16>, %lse: memref<1x8x?xf32>) {
  // expected-error @below {{cannot have 'dkdv' = '#attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>' on target sm_80}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x8x?x64xf16>, memref<1x8x?x64xf16>, memref<1x8x?x64xf16>,
          memref<1x8x?x64xf16>, memref<1x8x?xf32>, memref<1x8x?x64xf16>)
      outs(%q, %q, %q : memref<1x8x?x64xf16>, memref<1x8x?x64xf16>, memref<1x8x?x64xf16>)
      schedule(#attn_tile.gradient<preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
          dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>,
          dq = #attn_tile.multistage<query_tile = 128, key_tile = 32, stages = 2, warps = 8>>)
  return
}

// -----

func.func @queries(%q: memref<1x8x?x64xf16>, %lse: memref<1x8x?xf32>) {
  // expected-error @below {{cannot have 'dq' = '#attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>' on target sm_80}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x8x?x64xf16>, memref<1x8x?x64xf16>, memref<1x8x?x64xf16>,
          memref<1x8x?x64xf16>, memref<1x8x?xf32>, memref<1x8x?x64xf16>)
      outs(%q, %q, %q : memref<1x8x?x64xf16>, memref<1x8x?x64xf16>, memref<1x8x?x64xf16>)
      schedule(#attn_tile.gradient<preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
          dkdv = #attn_tile.key_multistage<query_tile = 32, key_tile = 128, stages = 2, warps = 8>,
          dq = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>>)
  return
}

// -----

func.func @values(%q: memref<1x8x?x64xf16>, %lse: memref<1x8x?xf32>) {
  // expected-error @below {{cannot have 'dv' = '#attn_tile.multistage<query_tile = 128, key_tile = 32, stages = 2, warps = 8>' on target sm_80}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x8x?x64xf16>, memref<1x8x?x64xf16>, memref<1x8x?x64xf16>,
          memref<1x8x?x64xf16>, memref<1x8x?xf32>, memref<1x8x?x64xf16>)
      outs(%q, %q, %q : memref<1x8x?x64xf16>, memref<1x8x?x64xf16>, memref<1x8x?x64xf16>)
      schedule(#attn_tile.gradient<preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
          dkdv = #attn_tile.key_multistage<query_tile = 32, key_tile = 128, stages = 2, warps = 8>,
          dq = #attn_tile.multistage<query_tile = 128, key_tile = 32, stages = 2, warps = 8>,
          dv = #attn_tile.multistage<query_tile = 128, key_tile = 32, stages = 2, warps = 8>>)
  return
}
