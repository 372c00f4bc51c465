// RUN: attn-test-opt %s -split-input-file -verify-diagnostics \
// RUN:   --pass-pipeline="builtin.module(func.func(attn-choose-schedule{target=sm_90a}))" -o /dev/null

// Operations with StreamingOpInterface have what they implement, and no more.

func.func @packed(%q: memref<1x4x1x64xbf16>, %k: memref<1x2x256x64xbf16>) {
  // expected-error @below {{cannot pack GQA heads as schedule '#attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, pack_gqa = true>' says: it has no form with packed heads}}
  test_attn.linear_scores ins(%q, %k, %k : memref<1x4x1x64xbf16>, memref<1x2x256x64xbf16>, memref<1x2x256x64xbf16>)
      outs(%q : memref<1x4x1x64xbf16>)
      schedule(#attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, pack_gqa = true>)
  return
}

// -----

func.func @cluster(%q: memref<1x2x512x64xbf16>) {
  // expected-error @below {{cannot iterate over keys in clusters as schedule '#attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2, cluster = 2>' says: it has no form for clusters}}
  test_attn.linear_scores ins(%q, %q, %q : memref<1x2x512x64xbf16>, memref<1x2x512x64xbf16>, memref<1x2x512x64xbf16>)
      outs(%q : memref<1x2x512x64xbf16>)
      schedule(#attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2, cluster = 2>)
  return
}

// -----

func.func @head_dim(%q: memref<1x2x512x260xbf16>) {
  // expected-error @below {{query head dim on sm_90a must be a multiple of 8 and at most 576 (was 260)}}
  test_attn.linear_scores ins(%q, %q, %q : memref<1x2x512x260xbf16>, memref<1x2x512x260xbf16>, memref<1x2x512x260xbf16>)
      outs(%q : memref<1x2x512x260xbf16>)
  return
}

// -----

func.func @addressing(%q: memref<1x2x512x64xbf16>) {
  // expected-error @below {{needs 'key_lengths' for '#test_attn.left_padded_kv'}}
  test_attn.linear_scores ins(%q, %q, %q : memref<1x2x512x64xbf16>, memref<1x2x512x64xbf16>, memref<1x2x512x64xbf16>)
      outs(%q : memref<1x2x512x64xbf16>) addressing(#test_attn.left_padded_kv)
  return
}

// -----

func.func @output_grad(%q: memref<1x4x64x64xbf16>, %k: memref<1x2x256x64xbf16>, %dout: memref<1x4x64x64xf16>) {
  // expected-error @below {{'test_attn.relu_scores_grad' op gradient of the output on sm_90a must have the element type of the query (expected 'bf16', found 'f16')}}
  test_attn.relu_scores_grad
      ins(%q, %k, %k, %q, %dout : memref<1x4x64x64xbf16>, memref<1x2x256x64xbf16>, memref<1x2x256x64xbf16>,
          memref<1x4x64x64xbf16>, memref<1x4x64x64xf16>)
      outs(%q, %k, %k : memref<1x4x64x64xbf16>, memref<1x2x256x64xbf16>, memref<1x2x256x64xbf16>)
  return
}

// -----

func.func @forward_schedule(%q: memref<1x4x64x64xbf16>, %k: memref<1x2x256x64xbf16>) {
  // expected-error-re @below {{cannot have schedule '#attn_tile.warp_specialized<{{.*}}>', it is for attention}}
  test_attn.relu_scores_grad
      ins(%q, %k, %k, %q, %q : memref<1x4x64x64xbf16>, memref<1x2x256x64xbf16>, memref<1x2x256x64xbf16>,
          memref<1x4x64x64xbf16>, memref<1x4x64x64xbf16>)
      outs(%q, %k, %k : memref<1x4x64x64xbf16>, memref<1x2x256x64xbf16>, memref<1x2x256x64xbf16>)
      schedule(#attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1>)
  return
}
