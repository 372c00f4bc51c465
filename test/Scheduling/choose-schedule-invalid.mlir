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

func.func @head_dim_of_8_bits(%q: memref<1x8x?x72xbf16>, %o: memref<1x8x?x72xf8E4M3FN>) {
  // expected-error @below {{'attn.attention' op kernels on sm_90a cannot write an output of 'f8E4M3FN': the value head dim must be a multiple of 16 (was 72)}}
  attn.attention ins(%q, %q, %q : memref<1x8x?x72xbf16>, memref<1x8x?x72xbf16>, memref<1x8x?x72xbf16>)
      outs(%o : memref<1x8x?x72xf8E4M3FN>)
  return
}

// -----

func.func @sm_80(%q: memref<1x8x?x64xbf16>, %o: memref<1x8x?x64xbf16>) {
  // expected-error-re @below {{cannot have schedule '#attn_tile.multistage<query_tile = 128, key_tile = 64{{.*}}>' on target sm_90a, it is for sm_80}}
  attn.attention
      ins(%q, %q, %q : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      outs(%o : memref<1x8x?x64xbf16>)
      schedule(#attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 4>)
  return
}

// -----

func.func @part(%q: memref<1x8x?x64xbf16>, %o: memref<1x8x?x64xbf16>) {
  // expected-error-re @below {{cannot have schedule '#attn_tile.key_stationary<{{.*}}consumers = 2>', it is for kernels of '#attn_tile.gradient'}}
  attn.attention
      ins(%q, %q, %q : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      outs(%o : memref<1x8x?x64xbf16>)
      schedule(#attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>)
  return
}

// -----

func.func @part_sm_80(%q: memref<1x8x?x64xbf16>, %o: memref<1x8x?x64xbf16>) {
  // expected-error-re @below {{cannot have schedule '#attn_tile.key_multistage<{{.*}}warps = 8>', it is for kernels of '#attn_tile.gradient'}}
  attn.attention
      ins(%q, %q, %q : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      outs(%o : memref<1x8x?x64xbf16>)
      schedule(#attn_tile.key_multistage<query_tile = 32, key_tile = 128, stages = 2, warps = 8>)
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
      schedule(#attn_tile.gradient<preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
          dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>,
          dq = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>>)
  return
}

// -----

func.func @below(%q: memref<1x8x?x64xbf16>, %o: memref<1x8x?x64xbf16>) {
  // expected-error-re @below {{cannot have schedule '#attn_tile.multistage<query_tile = 128, key_tile = 64{{.*}}>' on target sm_90a, it is for sm_80}}
  attn.attention
      ins(%q, %q, %q : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      outs(%o : memref<1x8x?x64xbf16>)
      schedule(#attn.by_query_length<bound = 64, below = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 4>,
          from = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>>)
  return
}

// -----

func.func @from(%q: memref<1x8x?x64xbf16>, %o: memref<1x8x?x64xbf16>) {
  // expected-error-re @below {{cannot have schedule '#attn_tile.multistage<query_tile = 128, key_tile = 64{{.*}}>' on target sm_90a, it is for sm_80}}
  attn.attention
      ins(%q, %q, %q : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      outs(%o : memref<1x8x?x64xbf16>)
      schedule(#attn.by_query_length<bound = 64, below = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>,
          from = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 4>>)
  return
}

// -----

func.func @forward(%q: memref<1x8x?x64xbf16>, %lse: memref<1x8x?xf32>, %o: memref<1x8x?x64xbf16>) {
  // expected-error-re @below {{cannot have schedule '#attn_tile.warp_specialized<query_tile = 128, key_tile = 64{{.*}}>', it is for attention}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>,
          memref<1x8x?x64xbf16>, memref<1x8x?xf32>, memref<1x8x?x64xbf16>)
      outs(%o, %o, %o : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      schedule(#attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>)
  return
}

// -----

func.func @multistage(%q: memref<1x8x?x64xbf16>, %lse: memref<1x8x?xf32>, %o: memref<1x8x?x64xbf16>) {
  // expected-error @below {{cannot have schedule '#attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 4>', it is for attention}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>,
          memref<1x8x?x64xbf16>, memref<1x8x?xf32>, memref<1x8x?x64xbf16>)
      outs(%o, %o, %o : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      schedule(#attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 4>)
  return
}

// -----

func.func @bits(%q: memref<1x8x?x64xbf16>, %lse: memref<1x8x?xf32>, %o: memref<1x8x?x64xbf16>) {
  // expected-error-re @below {{'attn.attention_grad' op cannot read mask bits as 'dq' = '#attn_tile.warp_specialized<{{.*}}>' says: gradients cannot}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>,
          memref<1x8x?x64xbf16>, memref<1x8x?xf32>, memref<1x8x?x64xbf16>)
      outs(%o, %o, %o : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      schedule(#attn_tile.gradient<preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
          dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>,
          dq = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2, mask_bits = true>>)
  return
}

// -----

func.func @choice(%q: memref<1x8x?x64xbf16>, %lse: memref<1x8x?xf32>, %o: memref<1x8x?x64xbf16>) {
  // expected-error-re @below {{cannot have schedule '#attn_tile.warp_specialized<query_tile = 128, key_tile = 64{{.*}}>', it is for attention}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>,
          memref<1x8x?x64xbf16>, memref<1x8x?xf32>, memref<1x8x?x64xbf16>)
      outs(%o, %o, %o : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      schedule(#attn.by_query_length<bound = 64, below = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>,
          from = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>>)
  return
}

// -----

func.func @rows(%q: memref<1x8x?x64xbf16>, %lse: memref<1x8x?xf32>, %o: memref<1x8x?x64xbf16>) {
  // expected-error @below {{'attn.attention_grad' op cannot have 'preprocess' = '#attn_tile.sequential<query_tile = 16, key_tile = 64>' on target sm_90a}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>,
          memref<1x8x?x64xbf16>, memref<1x8x?xf32>, memref<1x8x?x64xbf16>)
      outs(%o, %o, %o : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      schedule(#attn_tile.gradient<preprocess = #attn_tile.sequential<query_tile = 16, key_tile = 64>,
          dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>,
          dq = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>>)
  return
}

// -----

func.func @keys(%q: memref<1x8x?x64xbf16>, %lse: memref<1x8x?xf32>, %o: memref<1x8x?x64xbf16>) {
  // expected-error @below {{cannot have 'dkdv' = '#attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>' on target sm_90a}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>,
          memref<1x8x?x64xbf16>, memref<1x8x?xf32>, memref<1x8x?x64xbf16>)
      outs(%o, %o, %o : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      schedule(#attn_tile.gradient<preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
          dkdv = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>,
          dq = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>>)
  return
}

// -----

func.func @queries(%q: memref<1x8x?x64xbf16>, %lse: memref<1x8x?xf32>, %o: memref<1x8x?x64xbf16>) {
  // expected-error @below {{cannot have 'dq' = '#attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>' on target sm_90a}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>,
          memref<1x8x?x64xbf16>, memref<1x8x?xf32>, memref<1x8x?x64xbf16>)
      outs(%o, %o, %o : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      schedule(#attn_tile.gradient<preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
          dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>,
          dq = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>>)
  return
}

// -----

func.func @keys_sm_80(%q: memref<1x8x?x64xbf16>, %lse: memref<1x8x?xf32>, %o: memref<1x8x?x64xbf16>) {
  // expected-error @below {{cannot have 'dkdv' = '#attn_tile.key_multistage<query_tile = 32, key_tile = 128, stages = 2, warps = 8>' on target sm_90a}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>,
          memref<1x8x?x64xbf16>, memref<1x8x?xf32>, memref<1x8x?x64xbf16>)
      outs(%o, %o, %o : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      schedule(#attn_tile.gradient<preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
          dkdv = #attn_tile.key_multistage<query_tile = 32, key_tile = 128, stages = 2, warps = 8>,
          dq = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>>)
  return
}

// -----

func.func @queries_sm_80(%q: memref<1x8x?x64xbf16>, %lse: memref<1x8x?xf32>, %o: memref<1x8x?x64xbf16>) {
  // expected-error @below {{cannot have 'dq' = '#attn_tile.multistage<query_tile = 128, key_tile = 32, stages = 2, warps = 8>' on target sm_90a}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>,
          memref<1x8x?x64xbf16>, memref<1x8x?xf32>, memref<1x8x?x64xbf16>)
      outs(%o, %o, %o : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      schedule(#attn_tile.gradient<preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
          dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>,
          dq = #attn_tile.multistage<query_tile = 128, key_tile = 32, stages = 2, warps = 8>>)
  return
}

// -----

func.func @values(%q: memref<1x8x?x64xbf16>, %lse: memref<1x8x?xf32>, %o: memref<1x8x?x64xbf16>) {
  // expected-error @below {{cannot have 'dv' = '#attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>' on target sm_90a}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>,
          memref<1x8x?x64xbf16>, memref<1x8x?xf32>, memref<1x8x?x64xbf16>)
      outs(%o, %o, %o : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      schedule(#attn_tile.gradient<preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
          dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>,
          dq = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>,
          dv = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>>)
  return
}

// -----

func.func @pack_any_number(%q: memref<1x8x?x64xbf16>, %k: memref<1x8x?x64xbf16>, %o: memref<1x8x?x64xbf16>) {
  // expected-error-re @below {{cannot pack GQA heads as schedule '{{.*}}pack_gqa = true>' says: it needs 1 to 64 queries for each head (has any number)}}
  attn.attention
      ins(%q, %k, %k : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      outs(%o : memref<1x8x?x64xbf16>)
      schedule(#attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, pack_gqa = true>)
  return
}

// -----

func.func @pack_several(%q: memref<1x8x65x64xbf16>, %k: memref<1x8x?x64xbf16>, %o: memref<1x8x65x64xbf16>) {
  // expected-error-re @below {{cannot pack GQA heads as schedule '{{.*}}pack_gqa = true>' says: it needs 1 to 64 queries for each head (has 65)}}
  attn.attention
      ins(%q, %k, %k : memref<1x8x65x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      outs(%o : memref<1x8x65x64xbf16>)
      schedule(#attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, pack_gqa = true>)
  return
}

// -----

func.func @pack_head_map(%q: memref<1x8x1x64xbf16>, %k: memref<1x2x?x64xbf16>, %o: memref<1x8x1x64xbf16>, %map: memref<8xi32>) {
  // expected-error-re @below {{cannot pack GQA heads as schedule '{{.*}}pack_gqa = true>' says: a head map gives each query head a key head of its own}}
  attn.attention
      ins(%q, %k, %k : memref<1x8x1x64xbf16>, memref<1x2x?x64xbf16>, memref<1x2x?x64xbf16>)
      outs(%o : memref<1x8x1x64xbf16>) heads(%map : memref<8xi32>)
      schedule(#attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, pack_gqa = true>)
  return
}

// -----

func.func @pack_query_region(%q: memref<1x8x1x64xbf16>, %k: memref<1x2x?x64xbf16>, %o: memref<1x8x1x64xbf16>) {
  // expected-error-re @below {{cannot pack GQA heads as schedule '{{.*}}pack_gqa = true>' says: its query region depends on the query head}}
  attn.attention
      ins(%q, %k, %k : memref<1x8x1x64xbf16>, memref<1x2x?x64xbf16>, memref<1x2x?x64xbf16>)
      outs(%o : memref<1x8x1x64xbf16>)
      schedule(#attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, pack_gqa = true>)
      query {
      ^bb0(%x: f32, %square: f32, %b: index, %h: index, %i: index, %d: index):
        %y = arith.negf %x : f32
        attn.yield %y : f32
      }
  return
}

// -----

func.func @pack_identity(%q: memref<1x8x1x64xbf16>, %k: memref<1x2x?x64xbf16>, %o: memref<1x8x1x64xbf16>, %u: memref<8xf32>) {
  // expected-error-re @below {{cannot pack GQA heads as schedule '{{.*}}pack_gqa = true>' says: the weight of the identity depends on the query head}}
  attn.attention
      ins(%q, %k, %k : memref<1x8x1x64xbf16>, memref<1x2x?x64xbf16>, memref<1x2x?x64xbf16>)
      outs(%o : memref<1x8x1x64xbf16>) identity(%u : memref<8xf32>)
      schedule(#attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, pack_gqa = true>)
  return
}

// -----

func.func @pack_dropout(%q: memref<1x8x1x64xbf16>, %k: memref<1x2x?x64xbf16>, %o: memref<1x8x1x64xbf16>, %seed: i64) {
  // expected-error-re @below {{cannot pack GQA heads as schedule '#attn_tile.warp_specialized<{{.*}}pack_gqa = true>' says: dropout depends on the query head}}
  attn.attention
      ins(%q, %k, %k : memref<1x8x1x64xbf16>, memref<1x2x?x64xbf16>, memref<1x2x?x64xbf16>)
      outs(%o : memref<1x8x1x64xbf16>) dropout(#attn.dropout<p = 0.125, rng = #attn.arx>, %seed, %seed : i64, i64)
      schedule(#attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, pack_gqa = true>)
  return
}

// -----

func.func @pack_sequences(%q: memref<1x8x1x64xbf16>, %k: memref<1x2x?x64xbf16>, %o: memref<1x8x1x64xbf16>, %n: memref<?xi32>) {
  // expected-error-re @below {{cannot pack GQA heads as schedule '{{.*}}pack_gqa = true>' says: sequences have lengths of their own, and are not packed queries of a KV cache}}
  attn.attention
      ins(%q, %k, %k : memref<1x8x1x64xbf16>, memref<1x2x?x64xbf16>, memref<1x2x?x64xbf16>)
      outs(%o : memref<1x8x1x64xbf16>) sequences padded(%n, %n : memref<?xi32>, memref<?xi32>)
      schedule(#attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, pack_gqa = true>)
  return
}

// -----

func.func @share_identity(%q: memref<1x8x1x64xbf16>, %k: memref<1x2x?x64xbf16>, %o: memref<1x8x1x64xbf16>, %u: memref<8xf32>) {
  // expected-error-re @below {{cannot split keys and values as schedule '{{.*}}' says: the identity is mixed with the attention probabilities of all keys}}
  attn.attention
      ins(%q, %k, %k : memref<1x8x1x64xbf16>, memref<1x2x?x64xbf16>, memref<1x2x?x64xbf16>)
      outs(%o : memref<1x8x1x64xbf16>) identity(%u : memref<8xf32>)
      schedule(#attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, split_kv_work_items = 132>)
  return
}

// -----

func.func @share_gradient(%q: memref<1x8x?x64xbf16>, %lse: memref<1x8x?xf32>, %o: memref<1x8x?x64xbf16>) {
  // expected-error-re @below {{cannot split keys and values or pack GQA heads as 'dq' = '{{.*}}split_kv_work_items = 132>' says: gradients cannot}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>,
          memref<1x8x?x64xbf16>, memref<1x8x?xf32>, memref<1x8x?x64xbf16>)
      outs(%o, %o, %o : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      schedule(#attn_tile.gradient<preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
          dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>,
          dq = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2, split_kv_work_items = 132>>)
  return
}

// -----

func.func @cluster_of_lists(%q: memref<1x8x?x64xbf16>, %o: memref<1x8x?x64xbf16>, %docs: memref<?xi32>) {
  // expected-error-re @below {{in clusters {{.*}} says: kernels classify the tiles of its mask, so that each tile of queries has a list of key tiles of its own}}
  attn.attention
      ins(%q, %q, %q : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      outs(%o : memref<1x8x?x64xbf16>)
      schedule(#attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2, cluster = 2>)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %x = memref.load %docs[%i] : memref<?xi32>
        %y = memref.load %docs[%j] : memref<?xi32>
        %same = arith.cmpi eq, %x, %y : i32
        attn.yield %same : i1
      }
  return
}

// -----

func.func @cluster_of_sequences(%q: memref<1x8x?x64xbf16>, %o: memref<1x8x?x64xbf16>, %cu: memref<?xi32>) {
  // expected-error-re @below {{cannot iterate over keys in clusters {{.*}} says: tiles of queries that are neighbours may be of different sequences}}
  attn.attention
      ins(%q, %q, %q : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      outs(%o : memref<1x8x?x64xbf16>) sequences packed(%cu, %cu : memref<?xi32>, memref<?xi32>)
      schedule(#attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2, cluster = 2>)
  return
}

// -----

// Lengths of batch entries are the same for all tiles of queries.

func.func @cluster_of_lengths(%q: memref<2x8x?x64xbf16>, %o: memref<2x8x?x64xbf16>, %lengths: memref<2xi32>) {
  attn.attention
      ins(%q, %q, %q : memref<2x8x?x64xbf16>, memref<2x8x?x64xbf16>, memref<2x8x?x64xbf16>)
      outs(%o : memref<2x8x?x64xbf16>)
      schedule(#attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2, cluster = 2>)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %x = memref.load %lengths[%b] : memref<2xi32>
        %n = arith.index_cast %x : i32 to index
        %in = arith.cmpi slt, %j, %n : index
        attn.yield %in : i1
      }
  return
}

// -----

func.func @cluster_of_gradient(%q: memref<1x8x?x64xbf16>, %lse: memref<1x8x?xf32>, %o: memref<1x8x?x64xbf16>) {
  // expected-error-re @below {{cannot iterate over keys in clusters as 'dq' = '#attn_tile.warp_specialized<{{.*}}cluster = 2>' says: gradients cannot}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>,
          memref<1x8x?x64xbf16>, memref<1x8x?xf32>, memref<1x8x?x64xbf16>)
      outs(%o, %o, %o : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      schedule(#attn_tile.gradient<preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
          dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>,
          dq = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2, cluster = 2>>)
  return
}

// -----

// What the smallest schedule needs, one warpgroup with tiles of 16 keys.

module attributes {attn.device = #attn.device<"h200", shared_bytes = 1000>} {
func.func @small_device(%q: memref<1x16x512x128xbf16>, %o: memref<1x16x512x128xbf16>) {
  // expected-error-re @below {{no schedule that fits {{.*}} sm_90a: the smallest one needs 33792 bytes of shared memory, but h200 has 1000 (32792 too many)}}
  attn.attention
      ins(%q, %q, %q : memref<1x16x512x128xbf16>, memref<1x16x512x128xbf16>, memref<1x16x512x128xbf16>)
      outs(%o : memref<1x16x512x128xbf16>)
  return
}
}

// -----

// A wide head: tiles of 64 queries and 16 keys.

module attributes {attn.device = #attn.device<"h200", shared_bytes = 100000>} {
func.func @small_device_wide(%q: memref<1x16x512x512xbf16>, %o: memref<1x16x512x512xbf16>) {
  // expected-error @below {{has no schedule that fits the capacities of sm_90a: the smallest one needs 103424 bytes of shared memory, but h200 has 100000 (3424 too many)}}
  attn.attention
      ins(%q, %q, %q : memref<1x16x512x512xbf16>, memref<1x16x512x512xbf16>, memref<1x16x512x512xbf16>)
      outs(%o : memref<1x16x512x512xbf16>)
  return
}
}

// -----

func.func @nothing_to_convert(%q: tensor<1x8x1x64xbf16>, %k: tensor<1x8x512x64xbf16>, %o: tensor<1x8x1x64xbf16>) -> tensor<1x8x1x64xbf16> {
  // expected-error-re @below {{'attn.attention' op has nothing that idle warps convert as schedule '#attn_tile.warp_specialized<{{.*}}>' says: keys must have 8 bits and queries 16 (key element type 'bf16', query element type 'bf16')}}
  %0 = attn.attention ins(%q, %k, %k : tensor<1x8x1x64xbf16>, tensor<1x8x512x64xbf16>, tensor<1x8x512x64xbf16>)
      outs(%o : tensor<1x8x1x64xbf16>)
      schedule(#attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, idle_warps_convert = true>)
      -> tensor<1x8x1x64xbf16>
  return %0 : tensor<1x8x1x64xbf16>
}
