// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=host}))' --split-input-file --verify-diagnostics

func.func @sm_90a(%q: memref<1x8x?x64xbf16>, %o: memref<1x8x?x64xbf16>) {
  // expected-error-re @below {{cannot have schedule '#attn_tile.warp_specialized<query_tile = 128, key_tile = 64{{.*}}>' on target host, it is for sm_90a}}
  attn.attention
      ins(%q, %q, %q : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      outs(%o : memref<1x8x?x64xbf16>)
      schedule(#attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>)
  return
}

// -----

func.func @rows(%q: memref<1x8x?x64xbf16>, %lse: memref<1x8x?xf32>, %o: memref<1x8x?x64xbf16>) {
  // expected-error @below {{cannot have 'preprocess' = '#attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>' on target host}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>,
          memref<1x8x?x64xbf16>, memref<1x8x?xf32>, memref<1x8x?x64xbf16>)
      outs(%o, %o, %o : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      schedule(#attn_tile.gradient<preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
          dkdv = #attn_tile.sequential<query_tile = 16, key_tile = 64>, dq = #attn_tile.sequential<query_tile = 16, key_tile = 64>>)
  return
}

// -----

func.func @keys(%q: memref<1x8x?x64xbf16>, %lse: memref<1x8x?xf32>, %o: memref<1x8x?x64xbf16>) {
  // expected-error @below {{cannot have 'dkdv' = '#attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>' on target host}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>,
          memref<1x8x?x64xbf16>, memref<1x8x?xf32>, memref<1x8x?x64xbf16>)
      outs(%o, %o, %o : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      schedule(#attn_tile.gradient<preprocess = #attn_tile.sequential<query_tile = 16, key_tile = 64>,
          dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>,
          dq = #attn_tile.sequential<query_tile = 16, key_tile = 64>>)
  return
}

// -----

func.func @query_head_dim(%q: memref<1x1x4x4104xf32>, %v: memref<1x1x4x8xf32>) {
  // expected-error @below {{'attn.attention' op query head dim on host must be at most 4096 (was 4104)}}
  attn.attention
      ins(%q, %q, %v : memref<1x1x4x4104xf32>, memref<1x1x4x4104xf32>, memref<1x1x4x8xf32>)
      outs(%v : memref<1x1x4x8xf32>)
  return
}

// -----

func.func @value_head_dim(%q: memref<1x1x4x8xf32>, %v: memref<1x1x4x2147483648xf32>) {
  // expected-error @below {{'attn.attention' op value head dim on host must be at most 4096 (was 2147483648)}}
  attn.attention
      ins(%q, %q, %v : memref<1x1x4x8xf32>, memref<1x1x4x8xf32>, memref<1x1x4x2147483648xf32>)
      outs(%v : memref<1x1x4x2147483648xf32>)
  return
}

// -----

func.func @pack_several(%q: memref<1x8x3x64xf32>, %k: memref<1x2x?x64xf32>, %o: memref<1x8x3x64xf32>) {
  // expected-error-re @below {{cannot pack GQA heads as schedule '{{.*}}pack_gqa = true>' says: kernels of the host need one query for each head (has 3)}}
  attn.attention ins(%q, %k, %k : memref<1x8x3x64xf32>, memref<1x2x?x64xf32>, memref<1x2x?x64xf32>)
      outs(%o : memref<1x8x3x64xf32>)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64, pack_gqa = true>)
  return
}

// -----

func.func @pack_sequences(%q: memref<1x8x1x64xf32>, %k: memref<1x2x?x64xf32>, %o: memref<1x8x1x64xf32>, %n: memref<?xi32>) {
  // expected-error-re @below {{cannot pack GQA heads as schedule '{{.*}}pack_gqa = true>' says: sequences have lengths of their own}}
  attn.attention ins(%q, %k, %k : memref<1x8x1x64xf32>, memref<1x2x?x64xf32>, memref<1x2x?x64xf32>)
      outs(%o : memref<1x8x1x64xf32>) sequences padded(%n, %n : memref<?xi32>, memref<?xi32>)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64, pack_gqa = true>)
  return
}

// -----

func.func @pack_sinks(%q: memref<1x8x1x64xf32>, %k: memref<1x2x?x64xf32>, %o: memref<1x8x1x64xf32>, %s: memref<8xf32>) {
  // expected-error-re @below {{cannot pack GQA heads as schedule '{{.*}}pack_gqa = true>' says: kernels of the host have one sink for a tile}}
  attn.attention ins(%q, %k, %k : memref<1x8x1x64xf32>, memref<1x2x?x64xf32>, memref<1x2x?x64xf32>)
      outs(%o : memref<1x8x1x64xf32>) sinks(%s : memref<8xf32>)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64, pack_gqa = true>)
  return
}
