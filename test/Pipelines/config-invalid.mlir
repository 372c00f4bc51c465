// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=sm_90a}))' --split-input-file --verify-diagnostics

// sm_90a has the kernels of sm_80 for f32.

func.func @element(%q: memref<1x4x?x64xf32>, %k: memref<1x4x?x64xf32>, %v: memref<1x4x?x64xf32>, %o: memref<1x4x?x64xf32>) {
  // expected-error @below {{'attn.attention' op cannot have schedule '#attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>' on target sm_90a with 'f32' elements}}
  attn.attention ins(%q, %k, %v : memref<1x4x?x64xf32>, memref<1x4x?x64xf32>, memref<1x4x?x64xf32>)
      outs(%o : memref<1x4x?x64xf32>)
      schedule(#attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>)
  return
}

// -----

func.func @query_dim(%q: memref<1x4x?x584xbf16>, %k: memref<1x4x?x584xbf16>, %v: memref<1x4x?x64xbf16>, %o: memref<1x4x?x64xbf16>) {
  // expected-error @below {{'attn.attention' op query head dim on sm_90a must be a multiple of 8 and at most 576 (was 584)}}
  attn.attention ins(%q, %k, %v : memref<1x4x?x584xbf16>, memref<1x4x?x584xbf16>, memref<1x4x?x64xbf16>)
      outs(%o : memref<1x4x?x64xbf16>)
  return
}

// -----

func.func @value_dim(%q: memref<1x4x?x64xbf16>, %k: memref<1x4x?x64xbf16>, %v: memref<1x4x?x60xbf16>, %o: memref<1x4x?x60xbf16>) {
  // expected-error @below {{'attn.attention' op value head dim on sm_90a must be a multiple of 8 and at most 576 (was 60)}}
  attn.attention ins(%q, %k, %v : memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x60xbf16>)
      outs(%o : memref<1x4x?x60xbf16>)
  return
}

// -----

func.func @key_of_8_bits(%q: memref<1x4x?x64xf32>, %k: memref<1x4x?x64xf8E4M3FN>, %o: memref<1x4x?x64xf32>) {
  // expected-error @below {{'attn.attention' op kernels on sm_90a cannot convert keys and values of 'f8E4M3FN' to 'f32': they convert to 16 bits alone}}
  attn.attention ins(%q, %k, %k : memref<1x4x?x64xf32>, memref<1x4x?x64xf8E4M3FN>, memref<1x4x?x64xf8E4M3FN>)
      outs(%o : memref<1x4x?x64xf32>)
  return
}

// -----

func.func @key_of_8_bits_with_identity(%q: memref<3x4x?x64xbf16>, %k: memref<3x4x?x64xf8E5M2>, %u: memref<4xf32>, %o: memref<3x4x?x64xbf16>) {
  // expected-error @below {{'attn.attention' op kernels on sm_90a cannot convert keys and values of 'f8E5M2' to 'bf16': the identity is mixed with values in registers}}
  attn.attention ins(%q, %k, %k : memref<3x4x?x64xbf16>, memref<3x4x?x64xf8E5M2>, memref<3x4x?x64xf8E5M2>)
      outs(%o : memref<3x4x?x64xbf16>) identity(%u : memref<4xf32>)
  return
}

// -----

func.func @head_dim_of_key_of_8_bits(%q: memref<1x4x?x72xbf16>, %k: memref<1x4x?x72xf8E5M2>, %o: memref<1x4x?x72xbf16>) {
  // expected-error @below {{'attn.attention' op query head dim of 'f8E5M2' on sm_90a must be a multiple of 16 and at most 576 (was 72)}}
  attn.attention ins(%q, %k, %k : memref<1x4x?x72xbf16>, memref<1x4x?x72xf8E5M2>, memref<1x4x?x72xf8E5M2>)
      outs(%o : memref<1x4x?x72xbf16>)
  return
}

// -----

func.func @head_dim_of_8_bits(%q: memref<1x4x?x72xf8E4M3FN>, %o: memref<1x4x?x72xbf16>) {
  // expected-error @below {{'attn.attention' op query head dim of 'f8E4M3FN' on sm_90a must be a multiple of 16 and at most 256 (was 72)}}
  attn.attention ins(%q, %q, %q : memref<1x4x?x72xf8E4M3FN>, memref<1x4x?x72xf8E4M3FN>, memref<1x4x?x72xf8E4M3FN>)
      outs(%o : memref<1x4x?x72xbf16>)
  return
}

// -----

func.func @wide_values_of_8_bits(%q: memref<1x4x?x64xf8E4M3FN>, %v: memref<1x4x?x272xf8E4M3FN>, %o: memref<1x4x?x272xbf16>) {
  // expected-error @below {{'attn.attention' op value head dim of 'f8E4M3FN' on sm_90a must be a multiple of 16 and at most 256 (was 272)}}
  attn.attention ins(%q, %q, %v : memref<1x4x?x64xf8E4M3FN>, memref<1x4x?x64xf8E4M3FN>, memref<1x4x?x272xf8E4M3FN>)
      outs(%o : memref<1x4x?x272xbf16>)
  return
}

// -----

func.func @sequences_of_8_bits(%q: memref<1x4x?x64xf8E4M3FN>, %n: memref<3xi32>, %o: memref<1x4x?x64xbf16>) {
  // expected-error @below {{'attn.attention' op kernels on sm_90a cannot multiply elements of 'f8E4M3FN': sequences may begin at any row}}
  attn.attention ins(%q, %q, %q : memref<1x4x?x64xf8E4M3FN>, memref<1x4x?x64xf8E4M3FN>, memref<1x4x?x64xf8E4M3FN>)
      outs(%o : memref<1x4x?x64xbf16>) sequences packed(%n, %n : memref<3xi32>, memref<3xi32>)
  return
}

// -----

func.func @cache_of_8_bits(%q: memref<3x4x?x64xf8E4M3FN>, %n: memref<3xi32>, %o: memref<3x4x?x64xbf16>) {
  // expected-error @below {{'attn.attention' op kernels on sm_90a cannot multiply elements of 'f8E4M3FN': a KV cache is read in place, and values would be transposed}}
  attn.attention ins(%q, %q, %q : memref<3x4x?x64xf8E4M3FN>, memref<3x4x?x64xf8E4M3FN>, memref<3x4x?x64xf8E4M3FN>)
      outs(%o : memref<3x4x?x64xbf16>) key_lengths(%n : memref<3xi32>)
  return
}

// -----

func.func @identity_of_8_bits(%q: memref<3x4x?x64xf8E4M3FN>, %u: memref<4xf32>, %o: memref<3x4x?x64xbf16>) {
  // expected-error @below {{'attn.attention' op kernels on sm_90a cannot multiply elements of 'f8E4M3FN': the identity is mixed with values in registers}}
  attn.attention ins(%q, %q, %q : memref<3x4x?x64xf8E4M3FN>, memref<3x4x?x64xf8E4M3FN>, memref<3x4x?x64xf8E4M3FN>)
      outs(%o : memref<3x4x?x64xbf16>) identity(%u : memref<4xf32>)
  return
}

// -----

func.func @query_region_of_8_bits(%q: memref<3x4x?x64xf8E4M3FN>, %o: memref<3x4x?x64xbf16>) {
  // expected-error @below {{'attn.attention' op kernels on sm_90a cannot multiply elements of 'f8E4M3FN': its query region computes queries in registers}}
  attn.attention ins(%q, %q, %q : memref<3x4x?x64xf8E4M3FN>, memref<3x4x?x64xf8E4M3FN>, memref<3x4x?x64xf8E4M3FN>)
      outs(%o : memref<3x4x?x64xbf16>)
      query {
      ^bb0(%x: f32, %square: f32, %b: index, %h: index, %i: index, %d: index):
        attn.yield %square : f32
      }
  return
}

// -----

func.func @key_tile_of_8_bits(%q: memref<1x4x?x64xf8E4M3FN>, %o: memref<1x4x?x64xbf16>) {
  // expected-error @below {{'attn.attention' op key tile of schedule '#attn_tile.warp_specialized<query_tile = 128, key_tile = 80, stages = 2, consumers = 2>' must be a multiple of 32 for elements of 'f8E4M3FN' (was 80)}}
  attn.attention ins(%q, %q, %q : memref<1x4x?x64xf8E4M3FN>, memref<1x4x?x64xf8E4M3FN>, memref<1x4x?x64xf8E4M3FN>)
      outs(%o : memref<1x4x?x64xbf16>)
      schedule(#attn_tile.warp_specialized<query_tile = 128, key_tile = 80, stages = 2, consumers = 2>)
  return
}

// -----

func.func @packed_heads_of_8_bits(%q: memref<1x4x1x64xf8E4M3FN>, %k: memref<1x1x?x64xf8E4M3FN>, %o: memref<1x4x1x64xbf16>) {
  // expected-error @below {{kernels read packed queries of 16 bits alone}}
  attn.attention ins(%q, %k, %k : memref<1x4x1x64xf8E4M3FN>, memref<1x1x?x64xf8E4M3FN>, memref<1x1x?x64xf8E4M3FN>)
      outs(%o : memref<1x4x1x64xbf16>)
      schedule(#attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, pack_gqa = true>)
  return
}

// -----

func.func @append(%k: memref<1x4x1x60xbf16>, %kc: memref<1x4x9x60xbf16>, %n: memref<1xi32>) {
  // expected-error @below {{'attn.cache_append' op head dim of 'key' on sm_90a must be a multiple of 8 and at most 576 (was 60)}}
  attn.cache_append ins(%k, %k : memref<1x4x1x60xbf16>, memref<1x4x1x60xbf16>)
      outs(%kc, %kc : memref<1x4x9x60xbf16>, memref<1x4x9x60xbf16>) key_lengths(%n : memref<1xi32>)
  return
}

// -----

func.func @append_values(%k: memref<1x4x1x64xbf16>, %v: memref<1x4x1x12xbf16>, %kc: memref<1x4x9x64xbf16>,
                         %vc: memref<1x4x9x12xbf16>, %n: memref<1xi32>) {
  // expected-error @below {{'attn.cache_append' op head dim of 'value' on sm_90a must be a multiple of 8 and at most 576 (was 12)}}
  attn.cache_append ins(%k, %v : memref<1x4x1x64xbf16>, memref<1x4x1x12xbf16>)
      outs(%kc, %vc : memref<1x4x9x64xbf16>, memref<1x4x9x12xbf16>) key_lengths(%n : memref<1xi32>)
  return
}

// -----

func.func @append_for_hosts(%k: memref<1x4x1x64xbf16>, %kc: memref<1x4x9x64xbf16>, %n: memref<1xi32>) {
  // expected-error @below {{'attn.cache_append' op cannot have schedule '#attn_tile.move_rows<chunks = 64, threads = 1>' on sm_90a: 'threads' must be 32}}
  attn.cache_append ins(%k, %k : memref<1x4x1x64xbf16>, memref<1x4x1x64xbf16>)
      outs(%kc, %kc : memref<1x4x9x64xbf16>, memref<1x4x9x64xbf16>) key_lengths(%n : memref<1xi32>)
      schedule(#attn_tile.move_rows<chunks = 64, threads = 1>)
  return
}

// -----

func.func @merge(%o: memref<1x4x9x60xbf16>, %l: memref<1x4x9xf32>) {
  // expected-error @below {{'attn.merge' op head dim on sm_90a must be a multiple of 8 and at most 576 (was 60)}}
  attn.merge ins(%o : memref<1x4x9x60xbf16>) lses(%l : memref<1x4x9xf32>) outs(%o : memref<1x4x9x60xbf16>)
  return
}

// -----

func.func @merge_for_hosts(%o: memref<1x4x9x64xbf16>, %l: memref<1x4x9xf32>) {
  // expected-error @below {{'attn.merge_grad' op cannot have schedule '#attn_tile.move_rows<chunks = 64, threads = 1>' on sm_90a: 'threads' must be 32}}
  attn.merge_grad ins(%o : memref<1x4x9x64xbf16>) lses(%l : memref<1x4x9xf32>) dout(%o : memref<1x4x9x64xbf16>)
      outs(%o : memref<1x4x9x64xbf16>) dlses(%l : memref<1x4x9xf32>)
      schedule(#attn_tile.move_rows<chunks = 64, threads = 1>)
  return
}

// -----

func.func @merge_of_scalars(%o: memref<1x4x9x64xbf16>, %l: memref<1x4x9xf32>) {
  // expected-error @below {{'attn.merge' op cannot have schedule '#attn_tile.scalar', it is for kernels that prepare the work of others}}
  attn.merge ins(%o : memref<1x4x9x64xbf16>) lses(%l : memref<1x4x9xf32>) outs(%o : memref<1x4x9x64xbf16>)
      schedule(#attn_tile.scalar)
  return
}

// -----

func.func @rows_of_attention(%q: memref<1x4x9x64xbf16>) {
  // expected-error @below {{'attn.attention' op cannot have schedule '#attn_tile.move_rows<chunks = 64, threads = 32>', it is for appends to KV caches, and merges}}
  attn.attention ins(%q, %q, %q : memref<1x4x9x64xbf16>, memref<1x4x9x64xbf16>, memref<1x4x9x64xbf16>)
      outs(%q : memref<1x4x9x64xbf16>) schedule(#attn_tile.move_rows<chunks = 64, threads = 32>)
  return
}

// -----

func.func @gradient(%q: memref<1x4x?x584xbf16>, %lse: memref<1x4x?xf32>) {
  // expected-error @below {{'attn.attention_grad' op query head dim of a gradient on sm_90a must be a multiple of 8 and at most 576 (was 584)}}
  attn.attention_grad ins(%q, %q, %q, %q, %lse, %q : memref<1x4x?x584xbf16>, memref<1x4x?x584xbf16>,
          memref<1x4x?x584xbf16>, memref<1x4x?x584xbf16>, memref<1x4x?xf32>, memref<1x4x?x584xbf16>)
      outs(%q, %q, %q : memref<1x4x?x584xbf16>, memref<1x4x?x584xbf16>, memref<1x4x?x584xbf16>)
  return
}

// -----

func.func @linear_delta_rule(%q: memref<1x4x?x64xbf16>, %b: memref<1x4x?xf32>) {
  // expected-error @below {{'attn.linear_attention' op 'chunk' on sm_90a with 'beta' must be 64 (was 128)}}
  attn.linear_attention ins(%q, %q, %q : memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>)
      outs(%q : memref<1x4x?x64xbf16>) beta(%b : memref<1x4x?xf32>) causal chunk(128)
  return
}

// -----

func.func @linear_key_elements(%q: memref<1x4x?x64xbf16>, %g: memref<1x4x?x64xf32>) {
  // expected-error @below {{'attn.linear_attention' op 'chunk' on sm_90a with 'log_decay' of each key element must be 64 (was 128)}}
  attn.linear_attention ins(%q, %q, %q : memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>)
      outs(%q : memref<1x4x?x64xbf16>) log_decay(%g : memref<1x4x?x64xf32>) causal chunk(128)
  return
}

// -----

func.func @linear_chunk(%q: memref<1x4x?x64xbf16>) {
  // expected-error @below {{'attn.linear_attention' op 'chunk' on sm_90a must be 64 or 128 (was 32)}}
  attn.linear_attention ins(%q, %q, %q : memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>)
      outs(%q : memref<1x4x?x64xbf16>) causal chunk(32)
  return
}

// -----

func.func @linear_key_dim(%q: memref<1x4x?x264xbf16>, %v: memref<1x4x?x64xbf16>) {
  // expected-error @below {{'attn.linear_attention' op head dim of 'key' on sm_90a must be a multiple of 8 and at most 256 (was 264)}}
  attn.linear_attention ins(%q, %q, %v : memref<1x4x?x264xbf16>, memref<1x4x?x264xbf16>, memref<1x4x?x64xbf16>)
      outs(%v : memref<1x4x?x64xbf16>) causal
  return
}

// -----

func.func @linear_value_dim(%q: memref<1x4x?x64xbf16>, %v: memref<1x4x?x20xbf16>) {
  // expected-error @below {{'attn.linear_attention' op head dim of 'value' on sm_90a must be a multiple of 8 and at most 256 (was 20)}}
  attn.linear_attention ins(%q, %q, %v : memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x20xbf16>)
      outs(%v : memref<1x4x?x20xbf16>) causal
  return
}

// -----

func.func @linear_schedule(%q: memref<1x4x?x64xbf16>) {
  // expected-error @below {{'attn.linear_attention' op schedule on sm_90a must be like #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 3, split_work_items = 132> (was #attn_tile.scalar)}}
  attn.linear_attention ins(%q, %q, %q : memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>)
      outs(%q : memref<1x4x?x64xbf16>) causal schedule(#attn_tile.scalar)
  return
}

// -----

func.func @linear_other_chunk(%q: memref<1x4x?x64xbf16>) {
  // expected-error @below {{'attn.linear_attention' op cannot have schedule '#attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2>': 'chunk' is 128}}
  attn.linear_attention ins(%q, %q, %q : memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>)
      outs(%q : memref<1x4x?x64xbf16>) causal chunk(128)
      schedule(#attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2>)
  return
}

// -----

func.func @schedule_of_linear_attention(%q: memref<1x4x?x64xbf16>) {
  // expected-error @below {{'attn.attention' op cannot have schedule '#attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>', it is for linear attention}}
  attn.attention ins(%q, %q, %q : memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>)
      outs(%q : memref<1x4x?x64xbf16>)
      schedule(#attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>)
  return
}

// -----

func.func @linear_warps(%q: memref<1x4x?x64xbf16>) {
  // expected-error @below {{'attn.linear_attention' op schedule on sm_90a must be like #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 3, split_work_items = 132> (was #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>)}}
  attn.linear_attention ins(%q, %q, %q : memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>)
      outs(%q : memref<1x4x?x64xbf16>) causal
      schedule(#attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>)
  return
}

// -----

func.func @linear_recurrent_key_dim(%q: memref<1x4x1x72xbf16>) {
  // expected-error @below {{'attn.linear_attention' op head dim of 'key' for schedule '#attn_tile.linear_recurrent<value_tile = 8>' must be a multiple of 16 and at most 512 (was 72)}}
  attn.linear_attention ins(%q, %q, %q : memref<1x4x1x72xbf16>, memref<1x4x1x72xbf16>, memref<1x4x1x72xbf16>)
      outs(%q : memref<1x4x1x72xbf16>) causal schedule(#attn_tile.linear_recurrent<value_tile = 8>)
  return
}

// -----

func.func @linear_recurrent_registers(%q: memref<1x4x1x136xbf16>) {
  // expected-error @below {{'attn.linear_attention' op head dim of 'key' for schedule '#attn_tile.linear_recurrent<value_tile = 32>' must be a multiple of 4 and at most 128 (was 136)}}
  attn.linear_attention ins(%q, %q, %q : memref<1x4x1x136xbf16>, memref<1x4x1x136xbf16>, memref<1x4x1x136xbf16>)
      outs(%q : memref<1x4x1x136xbf16>) causal schedule(#attn_tile.linear_recurrent<value_tile = 32>)
  return
}

// -----

func.func @linear_recurrent_gradient(%q: memref<1x4x1x64xbf16>) {
  // expected-error @below {{'attn.linear_attention_grad' op schedule on sm_90a must be like #attn_tile.linear_warp_specialized<}}
  attn.linear_attention_grad ins(%q, %q, %q, %q : memref<1x4x1x64xbf16>, memref<1x4x1x64xbf16>, memref<1x4x1x64xbf16>, memref<1x4x1x64xbf16>)
      outs(%q, %q, %q : memref<1x4x1x64xbf16>, memref<1x4x1x64xbf16>, memref<1x4x1x64xbf16>) causal
      schedule(#attn_tile.linear_recurrent<value_tile = 16>)
  return
}

// -----

func.func @recurrent_attention(%q: memref<1x4x1x64xbf16>) {
  // expected-error @below {{'attn.attention' op cannot have schedule '#attn_tile.linear_recurrent<value_tile = 16>', it is for linear attention}}
  attn.attention ins(%q, %q, %q : memref<1x4x1x64xbf16>, memref<1x4x1x64xbf16>, memref<1x4x1x64xbf16>)
      outs(%q : memref<1x4x1x64xbf16>) schedule(#attn_tile.linear_recurrent<value_tile = 16>)
  return
}

// -----

func.func @linear_choice(%q: memref<1x4x?x64xbf16>) {
  // expected-error @below {{'attn.linear_attention' op schedule on sm_90a must be like #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 3, split_work_items = 132> (was #attn_tile.scalar)}}
  attn.linear_attention ins(%q, %q, %q : memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>)
      outs(%q : memref<1x4x?x64xbf16>) causal
      schedule(#attn.by_query_length<bound = 9, below = #attn_tile.linear_recurrent<value_tile = 16>, from = #attn_tile.scalar>)
  return
}

// -----

func.func @delta_rule_by_warps(%q: memref<1x4x?x64xbf16>, %b: memref<1x4x?xf32>) {
  // expected-error @below {{'attn.linear_attention' op schedule on sm_90a must be like #attn_tile.linear_pairs<}}
  attn.linear_attention ins(%q, %q, %q : memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>)
      outs(%q : memref<1x4x?x64xbf16>) beta(%b : memref<1x4x?xf32>) causal
      schedule(#attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>)
  return
}

// -----

func.func @no_delta_rule(%q: memref<1x4x?x64xbf16>) {
  // expected-error @below {{'attn.linear_attention' op schedule on sm_90a must be like #attn_tile.linear_warp_specialized<}}
  attn.linear_attention ins(%q, %q, %q : memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>)
      outs(%q : memref<1x4x?x64xbf16>) causal
      schedule(#attn_tile.linear_pairs<
          pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>,
          chunks = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>>)
  return
}

// -----

func.func @delta_rule_of_attention(%q: memref<1x4x?x64xbf16>) {
  // expected-error @below {{'attn.attention' op cannot have schedule '#attn_tile.linear_pairs<pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>, chunks = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>>', it is for linear attention}}
  attn.attention ins(%q, %q, %q : memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>)
      outs(%q : memref<1x4x?x64xbf16>) schedule(#attn_tile.linear_pairs<
          pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>,
          chunks = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>>)
  return
}

// -----

func.func @linear_grad_delta_rule(%q: memref<1x4x?x64xbf16>, %b: memref<1x4x?xf32>) {
  // expected-error @below {{'attn.linear_attention_grad' op 'chunk' on sm_90a with 'beta' must be 64 (was 128)}}
  attn.linear_attention_grad ins(%q, %q, %q, %q : memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>)
      outs(%q, %q, %q : memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>)
      beta(%b : memref<1x4x?xf32>) causal chunk(128)
  return
}

// -----

func.func @linear_grad_scale(%q: memref<1x4x?x64xbf16>) {
  // expected-error @below {{'attn.linear_attention_grad' op 'scale' on sm_90a must be at least 1.000000e-30, or at most its negative (was 0.000000e+00)}}
  attn.linear_attention_grad ins(%q, %q, %q, %q : memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>)
      outs(%q, %q, %q : memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>) causal scale(0.0)
  return
}

// -----

func.func @linear_grad_other_chunk(%q: memref<1x4x?x64xbf16>) {
  // expected-error @below {{'attn.linear_attention_grad' op cannot have schedule '#attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2>': 'chunk' is 128}}
  attn.linear_attention_grad ins(%q, %q, %q, %q : memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>)
      outs(%q, %q, %q : memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>) causal chunk(128)
      schedule(#attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2>)
  return
}

// -----

func.func @consumer_columns(%q: memref<1x4x9x128xbf16>) {
  // expected-error @below {{consumer_columns = true>', whose consumers compute 256 columns together (expected 128)}}
  attn.attention ins(%q, %q, %q : memref<1x4x9x128xbf16>, memref<1x4x9x128xbf16>, memref<1x4x9x128xbf16>)
      outs(%q : memref<1x4x9x128xbf16>)
      schedule(#attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 2, head_dim_tile = 128,
          consumer_columns = true>)
  return
}

// -----

func.func @consumer_columns_float8(%q: memref<1x4x9x128xbf16>, %k: memref<1x4x9x128xf8E4M3FN>) {
  // expected-error @below {{consumers with columns of their own multiply 16 bits (key element type 'f8E4M3FN')}}
  attn.attention ins(%q, %k, %k : memref<1x4x9x128xbf16>, memref<1x4x9x128xf8E4M3FN>, memref<1x4x9x128xf8E4M3FN>)
      outs(%q : memref<1x4x9x128xbf16>)
      schedule(#attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 2, head_dim_tile = 64,
          consumer_columns = true>)
  return
}
