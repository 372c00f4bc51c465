// RUN: attn-opt %s --split-input-file --verify-diagnostics --convert-attn-to-attn-tile=target=host

func.func @no_schedule(%q: memref<1x2x?x16xf32>, %o: memref<1x2x?x16xf32>) {
  // expected-error @below {{'attn.linear_attention' op needs a schedule}}
  attn.linear_attention ins(%q, %q, %q : memref<1x2x?x16xf32>, memref<1x2x?x16xf32>, memref<1x2x?x16xf32>)
      outs(%o : memref<1x2x?x16xf32>)
  return
}

// -----

func.func @tensors(%q: tensor<1x2x?x16xf32>) -> tensor<1x2x?x16xf32> {
  // expected-error @below {{'attn.linear_attention' op must be bufferised}}
  %r = attn.linear_attention ins(%q, %q, %q : tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>)
      outs(%q : tensor<1x2x?x16xf32>) schedule(#attn_tile.scalar) -> tensor<1x2x?x16xf32>
  return %r : tensor<1x2x?x16xf32>
}

// -----

func.func @gradient(%q: memref<1x2x?x16xf32>, %o: memref<1x2x?x16xf32>) {
  // expected-error @below {{'attn.linear_attention_grad' op needs a schedule}}
  attn.linear_attention_grad ins(%q, %q, %q, %q : memref<1x2x?x16xf32>, memref<1x2x?x16xf32>, memref<1x2x?x16xf32>, memref<1x2x?x16xf32>)
      outs(%o, %o, %o : memref<1x2x?x16xf32>, memref<1x2x?x16xf32>, memref<1x2x?x16xf32>)
  return
}

// -----

func.func @delta_rule_by_warps(%q: memref<1x4x?x64xbf16>, %b: memref<1x4x?xf32>) {
  // expected-error @below {{'attn.linear_attention' op schedule with 'beta' must be #attn_tile.linear_pairs (was #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>)}}
  attn.linear_attention ins(%q, %q, %q : memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>)
      outs(%q : memref<1x4x?x64xbf16>) beta(%b : memref<1x4x?xf32>) causal
      schedule(#attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>)
  return
}

// -----

func.func @no_delta_rule(%q: memref<1x4x?x64xbf16>) {
  // expected-error @below {{'attn.linear_attention_grad' op schedule without 'beta' must not be #attn_tile.linear_pairs (was #attn_tile.linear_pairs<}}
  attn.linear_attention_grad ins(%q, %q, %q, %q : memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>)
      outs(%q, %q, %q : memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>) causal
      schedule(#attn_tile.linear_pairs<
          pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>,
          chunks = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>>)
  return
}

// -----

func.func @elements_by_warps(%q: memref<1x4x?x64xbf16>, %g: memref<1x4x?x64xf32>) {
  // expected-error @below {{'attn.linear_attention' op schedule with a decay of each key element must be #attn_tile.linear_pairs (was #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>)}}
  attn.linear_attention ins(%q, %q, %q : memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>)
      outs(%q : memref<1x4x?x64xbf16>) log_decay(%g : memref<1x4x?x64xf32>) causal
      schedule(#attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>)
  return
}

// -----

func.func @no_levels(%q: memref<1x4x?x64xbf16>, %g: memref<1x4x?x64xf32>) {
  // expected-error @below {{'attn.linear_attention' op schedule with a decay of each key element must have 'levels' (was #attn_tile.linear_pairs<}}
  attn.linear_attention ins(%q, %q, %q : memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>)
      outs(%q : memref<1x4x?x64xbf16>) log_decay(%g : memref<1x4x?x64xf32>) causal
      schedule(#attn_tile.linear_pairs<
          pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>,
          chunks = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>>)
  return
}

// -----

func.func @levels_without_elements(%q: memref<1x4x?x64xbf16>, %b: memref<1x4x?xf32>) {
  // expected-error @below {{'attn.linear_attention' op schedule without a decay of each key element must not have 'levels' (was #attn_tile.linear_pairs<}}
  attn.linear_attention ins(%q, %q, %q : memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>)
      outs(%q : memref<1x4x?x64xbf16>) beta(%b : memref<1x4x?xf32>) causal
      schedule(#attn_tile.linear_pairs<
          pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>,
          levels = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 1, warps = 4>,
          chunks = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>>)
  return
}

// -----

func.func @sequences(%q: memref<1x4x?x64xbf16>, %s: memref<?x4x64x64xf32>, %c: memref<?xi32>) {
  // expected-error @below {{'attn.linear_attention' op 'sequences' must not have 'whole_chunks' on a GPU}}
  attn.linear_attention ins(%q, %q, %q : memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>)
      outs(%q : memref<1x4x?x64xbf16>) initial_state(%s : memref<?x4x64x64xf32>) sequences(%c : memref<?xi32>)
      whole_chunks causal schedule(#attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>)
  return
}

// -----

func.func @sequences_on_host(%q: memref<1x4x?x64xf32>, %s: memref<?x4x64x64xf32>, %c: memref<?xi32>) {
  // expected-error @below {{'attn.linear_attention' op 'sequences' must have 'whole_chunks', which 'attn-pad-sequences' makes}}
  attn.linear_attention ins(%q, %q, %q : memref<1x4x?x64xf32>, memref<1x4x?x64xf32>, memref<1x4x?x64xf32>)
      outs(%q : memref<1x4x?x64xf32>) initial_state(%s : memref<?x4x64x64xf32>) sequences(%c : memref<?xi32>) causal
      schedule(#attn_tile.sequential<query_tile = 64, key_tile = 64>)
  return
}
