// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=sm_90a}))' --split-input-file --verify-diagnostics

func.func @host(%q: memref<1x8x?x64xbf16>, %o: memref<1x8x?x64xbf16>) {
  // expected-error @below {{'attn.attention' op cannot have schedule '#attn_tile.sequential<query_tile = 16, key_tile = 64>' on target sm_90a, it is for host}}
  attn.attention
      ins(%q, %q, %q : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      outs(%o : memref<1x8x?x64xbf16>)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64>)
  return
}

// -----

func.func @sm_80(%q: memref<1x8x?x64xbf16>, %o: memref<1x8x?x64xbf16>) {
  // expected-error @below {{'attn.attention' op cannot have schedule '#attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 4>' on target sm_90a, it is for sm_80}}
  attn.attention
      ins(%q, %q, %q : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      outs(%o : memref<1x8x?x64xbf16>)
      schedule(#attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 4>)
  return
}

// -----

func.func @part(%q: memref<1x8x?x64xbf16>, %o: memref<1x8x?x64xbf16>) {
  // expected-error @below {{'attn.attention' op cannot have schedule '#attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>', it is for kernels of '#attn_tile.gradient'}}
  attn.attention
      ins(%q, %q, %q : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      outs(%o : memref<1x8x?x64xbf16>)
      schedule(#attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>)
  return
}

// -----

func.func @preparation(%q: memref<1x8x?x64xbf16>, %o: memref<1x8x?x64xbf16>) {
  // expected-error @below {{'attn.attention' op cannot have schedule '#attn_tile.scalar', it is for kernels that prepare the work of others}}
  attn.attention
      ins(%q, %q, %q : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      outs(%o : memref<1x8x?x64xbf16>)
      schedule(#attn_tile.scalar)
  return
}

// -----

func.func @gradients(%q: memref<1x8x?x64xbf16>, %o: memref<1x8x?x64xbf16>) {
  // expected-error-re @below {{'attn.attention' op cannot have schedule '#attn_tile.gradient<{{.*}}>', it is for gradients}}
  attn.attention
      ins(%q, %q, %q : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      outs(%o : memref<1x8x?x64xbf16>)
      schedule(#attn_tile.gradient<rows = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>, keys = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>, queries = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>>)
  return
}

// -----

func.func @below(%q: memref<1x8x?x64xbf16>, %o: memref<1x8x?x64xbf16>) {
  // expected-error @below {{'attn.attention' op cannot have schedule '#attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 4>' on target sm_90a, it is for sm_80}}
  attn.attention
      ins(%q, %q, %q : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      outs(%o : memref<1x8x?x64xbf16>)
      schedule(#attn.by_query_length<bound = 64, below = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 4>, from = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>>)
  return
}

// -----

func.func @from(%q: memref<1x8x?x64xbf16>, %o: memref<1x8x?x64xbf16>) {
  // expected-error @below {{'attn.attention' op cannot have schedule '#attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 4>' on target sm_90a, it is for sm_80}}
  attn.attention
      ins(%q, %q, %q : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      outs(%o : memref<1x8x?x64xbf16>)
      schedule(#attn.by_query_length<bound = 64, below = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>, from = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 4>>)
  return
}

// -----

func.func @forward(%q: memref<1x8x?x64xbf16>, %lse: memref<1x8x?xf32>, %o: memref<1x8x?x64xbf16>) {
  // expected-error @below {{'attn.attention_grad' op cannot have schedule '#attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>', it is for attention}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>,
          memref<1x8x?x64xbf16>, memref<1x8x?xf32>, memref<1x8x?x64xbf16>)
      outs(%o, %o, %o : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      schedule(#attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>)
  return
}

// -----

func.func @multistage(%q: memref<1x8x?x64xbf16>, %lse: memref<1x8x?xf32>, %o: memref<1x8x?x64xbf16>) {
  // expected-error @below {{'attn.attention_grad' op cannot have schedule '#attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 4>', it is for attention}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>,
          memref<1x8x?x64xbf16>, memref<1x8x?xf32>, memref<1x8x?x64xbf16>)
      outs(%o, %o, %o : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      schedule(#attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 4>)
  return
}

// -----

func.func @choice(%q: memref<1x8x?x64xbf16>, %lse: memref<1x8x?xf32>, %o: memref<1x8x?x64xbf16>) {
  // expected-error-re @below {{'attn.attention_grad' op cannot have schedule '#attn.by_query_length<{{.*}}>', it is for attention}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>,
          memref<1x8x?x64xbf16>, memref<1x8x?xf32>, memref<1x8x?x64xbf16>)
      outs(%o, %o, %o : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      schedule(#attn.by_query_length<bound = 64, below = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>, from = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>>)
  return
}

// -----

func.func @rows(%q: memref<1x8x?x64xbf16>, %lse: memref<1x8x?xf32>, %o: memref<1x8x?x64xbf16>) {
  // expected-error @below {{'attn.attention_grad' op cannot have 'rows' = '#attn_tile.sequential<query_tile = 16, key_tile = 64>' on target sm_90a}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>,
          memref<1x8x?x64xbf16>, memref<1x8x?xf32>, memref<1x8x?x64xbf16>)
      outs(%o, %o, %o : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      schedule(#attn_tile.gradient<rows = #attn_tile.sequential<query_tile = 16, key_tile = 64>, keys = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>, queries = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>>)
  return
}

// -----

func.func @keys(%q: memref<1x8x?x64xbf16>, %lse: memref<1x8x?xf32>, %o: memref<1x8x?x64xbf16>) {
  // expected-error @below {{'attn.attention_grad' op cannot have 'keys' = '#attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>' on target sm_90a}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>,
          memref<1x8x?x64xbf16>, memref<1x8x?xf32>, memref<1x8x?x64xbf16>)
      outs(%o, %o, %o : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      schedule(#attn_tile.gradient<rows = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>, keys = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>, queries = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>>)
  return
}

// -----

func.func @queries(%q: memref<1x8x?x64xbf16>, %lse: memref<1x8x?xf32>, %o: memref<1x8x?x64xbf16>) {
  // expected-error @below {{'attn.attention_grad' op cannot have 'queries' = '#attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>' on target sm_90a}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>,
          memref<1x8x?x64xbf16>, memref<1x8x?xf32>, memref<1x8x?x64xbf16>)
      outs(%o, %o, %o : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      schedule(#attn_tile.gradient<rows = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>, keys = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>, queries = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>>)
  return
}

// -----

func.func @values(%q: memref<1x8x?x64xbf16>, %lse: memref<1x8x?xf32>, %o: memref<1x8x?x64xbf16>) {
  // expected-error @below {{'attn.attention_grad' op cannot have 'values' = '#attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>' on target sm_90a}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>,
          memref<1x8x?x64xbf16>, memref<1x8x?xf32>, memref<1x8x?x64xbf16>)
      outs(%o, %o, %o : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      schedule(#attn_tile.gradient<rows = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>, keys = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>, queries = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>, values = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>>)
  return
}
