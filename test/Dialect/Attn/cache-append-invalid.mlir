// RUN: attn-opt %s --split-input-file --verify-diagnostics

func.func @sin(%k: memref<2x2x3x64xf16>, %v: memref<2x2x3x32xf16>, %kc: memref<2x2x64x64xf16>,
    %vc: memref<2x2x64x32xf16>, %n: memref<2xi32>, %t: memref<2x5xi32>, %c: memref<99x16xf32>,
    %q: memref<2x4x3x64xf16>) {
  // expected-error @below {{'attn.cache_append' op needs both or none of 'cos' and 'sin'}}
  "attn.cache_append"(%k, %v, %n, %c, %kc, %vc) <{operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0>}>
      : (memref<2x2x3x64xf16>, memref<2x2x3x32xf16>, memref<2xi32>, memref<99x16xf32>, memref<2x2x64x64xf16>, memref<2x2x64x32xf16>) -> ()
  return
}

// -----

func.func @rotated(%k: memref<2x2x3x64xf16>, %v: memref<2x2x3x32xf16>, %kc: memref<2x2x64x64xf16>,
    %vc: memref<2x2x64x32xf16>, %n: memref<2xi32>, %t: memref<2x5xi32>, %c: memref<99x16xf32>,
    %q: memref<2x4x3x64xf16>) {
  // expected-error @below {{'attn.cache_append' op needs both or none of 'query' and 'rotated_query'}}
  "attn.cache_append"(%k, %v, %n, %c, %c, %q, %kc, %vc) <{operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 0, 0, 1, 1, 0, 0>}>
      : (memref<2x2x3x64xf16>, memref<2x2x3x32xf16>, memref<2xi32>, memref<99x16xf32>, memref<99x16xf32>,
          memref<2x4x3x64xf16>, memref<2x2x64x64xf16>, memref<2x2x64x32xf16>) -> ()
  return
}

// -----

func.func @query_alone(%k: memref<2x2x3x64xf16>, %v: memref<2x2x3x32xf16>, %kc: memref<2x2x64x64xf16>,
    %vc: memref<2x2x64x32xf16>, %n: memref<2xi32>, %t: memref<2x5xi32>, %c: memref<99x16xf32>,
    %q: memref<2x4x3x64xf16>) {
  // expected-error @below {{'attn.cache_append' op 'query' needs 'rotary'}}
  attn.cache_append ins(%k, %v : memref<2x2x3x64xf16>, memref<2x2x3x32xf16>)
      outs(%kc, %vc : memref<2x2x64x64xf16>, memref<2x2x64x32xf16>) key_lengths(%n : memref<2xi32>)
          query(%q into %q : memref<2x4x3x64xf16>, memref<2x4x3x64xf16>)
  return
}

// -----

func.func @interleaved(%k: memref<2x2x3x64xf16>, %v: memref<2x2x3x32xf16>, %kc: memref<2x2x64x64xf16>,
    %vc: memref<2x2x64x32xf16>, %n: memref<2xi32>, %t: memref<2x5xi32>, %c: memref<99x16xf32>,
    %q: memref<2x4x3x64xf16>) {
  // expected-error @below {{'attn.cache_append' op 'interleaved' needs 'rotary'}}
  attn.cache_append ins(%k, %v : memref<2x2x3x64xf16>, memref<2x2x3x32xf16>)
      outs(%kc, %vc : memref<2x2x64x64xf16>, memref<2x2x64x32xf16>) key_lengths(%n : memref<2xi32>) interleaved
  return
}

// -----

func.func @same_position(%k: memref<2x2x3x64xf16>, %v: memref<2x2x3x32xf16>, %kc: memref<2x2x64x64xf16>,
    %vc: memref<2x2x64x32xf16>, %n: memref<2xi32>, %t: memref<2x5xi32>, %c: memref<99x16xf32>,
    %q: memref<2x4x3x64xf16>) {
  // expected-error @below {{'attn.cache_append' op 'same_position' needs 'query'}}
  attn.cache_append ins(%k, %v : memref<2x2x3x64xf16>, memref<2x2x3x32xf16>)
      outs(%kc, %vc : memref<2x2x64x64xf16>, memref<2x2x64x32xf16>) key_lengths(%n : memref<2xi32>) rotary(%c,
          %c : memref<99x16xf32>, memref<99x16xf32>) same_position
  return
}

// -----

func.func @container(%k: memref<2x2x3x64xf16>, %v: memref<2x2x3x32xf16>, %kc: memref<2x2x64x64xf16>,
    %vc: memref<2x2x64x32xf16>, %n: memref<2xi32>, %t: memref<2x5xi32>, %c: memref<99x16xf32>,
    %q: memref<2x4x3x64xf16>, %x: tensor<2xi32>) {
  // expected-error @below {{'attn.cache_append' op operands must be all tensors or all memrefs, but 'key' is 'memref<2x2x3x64xf16>' and operand #2 is 'tensor<2xi32>'}}
  attn.cache_append ins(%k, %v : memref<2x2x3x64xf16>, memref<2x2x3x32xf16>)
      outs(%kc, %vc : memref<2x2x64x64xf16>, memref<2x2x64x32xf16>) key_lengths(%x : tensor<2xi32>)
  return
}

// -----

func.func @element(%k: memref<2x2x3x64xf16>, %v: memref<2x2x3x32xf16>, %kc: memref<2x2x64x64xf16>,
    %vc: memref<2x2x64x32xf16>, %n: memref<2xi32>, %t: memref<2x5xi32>, %c: memref<99x16xf32>,
    %q: memref<2x4x3x64xf16>, %x: memref<2x2x64x64xf32>) {
  // expected-error @below {{'attn.cache_append' op element type of 'key_cache' must be that of 'key', 'f16', or f8E4M3FN or f8E5M2 (was 'f32')}}
  attn.cache_append ins(%k, %v : memref<2x2x3x64xf16>, memref<2x2x3x32xf16>)
      outs(%x, %vc : memref<2x2x64x64xf32>, memref<2x2x64x32xf16>) key_lengths(%n : memref<2xi32>)
  return
}

// -----

func.func @static_heads(%k: memref<2x2x3x64xf16>, %v: memref<2x2x3x32xf16>, %kc: memref<2x2x64x64xf16>,
    %vc: memref<2x2x64x32xf16>, %n: memref<2xi32>, %t: memref<2x5xi32>, %c: memref<99x16xf32>,
    %q: memref<2x4x3x64xf16>, %x: memref<2x?x3x64xf16>) {
  // expected-error @below {{'attn.cache_append' op dimension 1 of 'key' must be static}}
  attn.cache_append ins(%x, %v : memref<2x?x3x64xf16>, memref<2x2x3x32xf16>)
      outs(%kc, %vc : memref<2x2x64x64xf16>, memref<2x2x64x32xf16>) key_lengths(%n : memref<2xi32>)
  return
}

// -----

func.func @no_head_dim(%k: memref<2x2x3x64xf16>, %v: memref<2x2x3x32xf16>, %kc: memref<2x2x64x64xf16>,
    %vc: memref<2x2x64x32xf16>, %n: memref<2xi32>, %t: memref<2x5xi32>, %c: memref<99x16xf32>,
    %q: memref<2x4x3x64xf16>, %x: memref<2x2x3x0xf16>) {
  // expected-error @below {{'attn.cache_append' op dimension 3 of 'value' must be at least 1 (was 0)}}
  attn.cache_append ins(%k, %x : memref<2x2x3x64xf16>, memref<2x2x3x0xf16>)
      outs(%kc, %vc : memref<2x2x64x64xf16>, memref<2x2x64x32xf16>) key_lengths(%n : memref<2xi32>)
  return
}

// -----

func.func @heads(%k: memref<2x2x3x64xf16>, %v: memref<2x2x3x32xf16>, %kc: memref<2x2x64x64xf16>,
    %vc: memref<2x2x64x32xf16>, %n: memref<2xi32>, %t: memref<2x5xi32>, %c: memref<99x16xf32>,
    %q: memref<2x4x3x64xf16>, %x: memref<2x1x3x32xf16>) {
  // expected-error @below {{'attn.cache_append' op dimension 1 of 'value_cache' must match dimension 1 of 'value', 1 (was 2)}}
  attn.cache_append ins(%k, %x : memref<2x2x3x64xf16>, memref<2x1x3x32xf16>)
      outs(%kc, %vc : memref<2x2x64x64xf16>, memref<2x2x64x32xf16>) key_lengths(%n : memref<2xi32>)
  return
}

// -----

func.func @new_keys(%k: memref<2x2x3x64xf16>, %v: memref<2x2x3x32xf16>, %kc: memref<2x2x64x64xf16>,
    %vc: memref<2x2x64x32xf16>, %n: memref<2xi32>, %t: memref<2x5xi32>, %c: memref<99x16xf32>,
    %q: memref<2x4x3x64xf16>, %x: memref<2x2x4x32xf16>) {
  // expected-error @below {{'attn.cache_append' op dimension 2 of 'value' must match dimension 2 of 'key', 3 (was 4)}}
  attn.cache_append ins(%k, %x : memref<2x2x3x64xf16>, memref<2x2x4x32xf16>)
      outs(%kc, %vc : memref<2x2x64x64xf16>, memref<2x2x64x32xf16>) key_lengths(%n : memref<2xi32>)
  return
}

// -----

func.func @cache_rows(%k: memref<2x2x3x64xf16>, %v: memref<2x2x3x32xf16>, %kc: memref<2x2x64x64xf16>,
    %vc: memref<2x2x64x32xf16>, %n: memref<2xi32>, %t: memref<2x5xi32>, %c: memref<99x16xf32>,
    %q: memref<2x4x3x64xf16>, %x: memref<2x2x65x32xf16>) {
  // expected-error @below {{'attn.cache_append' op dimension 2 of 'value_cache' must match dimension 2 of 'key_cache', 64 (was 65)}}
  attn.cache_append ins(%k, %v : memref<2x2x3x64xf16>, memref<2x2x3x32xf16>)
      outs(%kc, %x : memref<2x2x64x64xf16>, memref<2x2x65x32xf16>) key_lengths(%n : memref<2xi32>)
  return
}

// -----

func.func @cache_heads(%k: memref<2x2x3x64xf16>, %v: memref<2x2x3x32xf16>, %kc: memref<2x2x64x64xf16>,
    %vc: memref<2x2x64x32xf16>, %n: memref<2xi32>, %t: memref<2x5xi32>, %c: memref<99x16xf32>,
    %q: memref<2x4x3x64xf16>, %x: memref<2x3x64x64xf16>, %y: memref<2x3x64x32xf16>) {
  // expected-error @below {{'attn.cache_append' op dimension 1 of 'key_cache' must match dimension 1 of 'key', 2 (was 3)}}
  attn.cache_append ins(%k, %v : memref<2x2x3x64xf16>, memref<2x2x3x32xf16>)
      outs(%x, %y : memref<2x3x64x64xf16>, memref<2x3x64x32xf16>) key_lengths(%n : memref<2xi32>)
  return
}

// -----

func.func @head_dim(%k: memref<2x2x3x64xf16>, %v: memref<2x2x3x32xf16>, %kc: memref<2x2x64x64xf16>,
    %vc: memref<2x2x64x32xf16>, %n: memref<2xi32>, %t: memref<2x5xi32>, %c: memref<99x16xf32>,
    %q: memref<2x4x3x64xf16>) {
  // expected-error @below {{'attn.cache_append' op dimension 3 of 'value_cache' must match dimension 3 of 'value', 32 (was 64)}}
  attn.cache_append ins(%k, %v : memref<2x2x3x64xf16>, memref<2x2x3x32xf16>)
      outs(%kc, %kc : memref<2x2x64x64xf16>, memref<2x2x64x64xf16>) key_lengths(%n : memref<2xi32>)
  return
}

// -----

func.func @lengths(%k: memref<2x2x3x64xf16>, %v: memref<2x2x3x32xf16>, %kc: memref<2x2x64x64xf16>,
    %vc: memref<2x2x64x32xf16>, %n: memref<2xi32>, %t: memref<2x5xi32>, %c: memref<99x16xf32>,
    %q: memref<2x4x3x64xf16>, %x: memref<3xi32>) {
  // expected-error @below {{'attn.cache_append' op dimension 0 of 'key_lengths' must match dimension 0 of 'key', 2 (was 3)}}
  attn.cache_append ins(%k, %v : memref<2x2x3x64xf16>, memref<2x2x3x32xf16>)
      outs(%kc, %vc : memref<2x2x64x64xf16>, memref<2x2x64x32xf16>) key_lengths(%x : memref<3xi32>)
  return
}

// -----

func.func @new_lengths(%k: memref<2x2x3x64xf16>, %v: memref<2x2x3x32xf16>, %kc: memref<2x2x64x64xf16>,
    %vc: memref<2x2x64x32xf16>, %n: memref<2xi32>, %t: memref<2x5xi32>, %c: memref<99x16xf32>,
    %q: memref<2x4x3x64xf16>, %x: memref<3xi32>) {
  // expected-error @below {{'attn.cache_append' op dimension 0 of 'new_lengths' must match dimension 0 of 'key', 2 (was 3)}}
  attn.cache_append ins(%k, %v : memref<2x2x3x64xf16>, memref<2x2x3x32xf16>)
      outs(%kc, %vc : memref<2x2x64x64xf16>, memref<2x2x64x32xf16>) key_lengths(%n : memref<2xi32>) new_lengths(%x : memref<3xi32>)
  return
}

// -----

func.func @batch_of_cache(%k: memref<2x2x3x64xf16>, %v: memref<2x2x3x32xf16>, %kc: memref<2x2x64x64xf16>,
    %vc: memref<2x2x64x32xf16>, %n: memref<2xi32>, %t: memref<2x5xi32>, %c: memref<99x16xf32>,
    %q: memref<2x4x3x64xf16>, %x: memref<5x2x64x64xf16>, %y: memref<5x2x64x32xf16>) {
  // expected-error @below {{'attn.cache_append' op dimension 0 of 'key_cache' must match dimension 0 of 'key', 2 (was 5)}}
  attn.cache_append ins(%k, %v : memref<2x2x3x64xf16>, memref<2x2x3x32xf16>)
      outs(%x, %y : memref<5x2x64x64xf16>, memref<5x2x64x32xf16>) key_lengths(%n : memref<2xi32>)
  return
}

// -----

func.func @table(%k: memref<2x2x3x64xf16>, %v: memref<2x2x3x32xf16>, %kc: memref<2x2x64x64xf16>,
    %vc: memref<2x2x64x32xf16>, %n: memref<2xi32>, %t: memref<2x5xi32>, %c: memref<99x16xf32>,
    %q: memref<2x4x3x64xf16>, %x: memref<3x5xi32>) {
  // expected-error @below {{'attn.cache_append' op dimension 0 of 'page_table' must match dimension 0 of 'key', 2 (was 3)}}
  attn.cache_append ins(%k, %v : memref<2x2x3x64xf16>, memref<2x2x3x32xf16>)
      outs(%kc, %vc : memref<2x2x64x64xf16>, memref<2x2x64x32xf16>) key_lengths(%n : memref<2xi32>) page_table(%x : memref<3x5xi32>)
  return
}

// -----

func.func @query_head_dim(%k: memref<2x2x3x64xf16>, %v: memref<2x2x3x32xf16>, %kc: memref<2x2x64x64xf16>,
    %vc: memref<2x2x64x32xf16>, %n: memref<2xi32>, %t: memref<2x5xi32>, %c: memref<99x16xf32>,
    %q: memref<2x4x3x64xf16>, %x: memref<2x4x3x32xf16>) {
  // expected-error @below {{'attn.cache_append' op dimension 3 of 'query' must match dimension 3 of 'key', 64 (was 32)}}
  attn.cache_append ins(%k, %v : memref<2x2x3x64xf16>, memref<2x2x3x32xf16>)
      outs(%kc, %vc : memref<2x2x64x64xf16>, memref<2x2x64x32xf16>) key_lengths(%n : memref<2xi32>) rotary(%c,
          %c : memref<99x16xf32>, memref<99x16xf32>) query(%x into %x : memref<2x4x3x32xf16>, memref<2x4x3x32xf16>)
  return
}

// -----

func.func @rotated_rows(%k: memref<2x2x3x64xf16>, %v: memref<2x2x3x32xf16>, %kc: memref<2x2x64x64xf16>,
    %vc: memref<2x2x64x32xf16>, %n: memref<2xi32>, %t: memref<2x5xi32>, %c: memref<99x16xf32>,
    %q: memref<2x4x3x64xf16>, %x: memref<2x4x4x64xf16>) {
  // expected-error @below {{'attn.cache_append' op dimension 2 of 'rotated_query' must match dimension 2 of 'query', 3 (was 4)}}
  attn.cache_append ins(%k, %v : memref<2x2x3x64xf16>, memref<2x2x3x32xf16>)
      outs(%kc, %vc : memref<2x2x64x64xf16>, memref<2x2x64x32xf16>) key_lengths(%n : memref<2xi32>) rotary(%c,
          %c : memref<99x16xf32>, memref<99x16xf32>) query(%q into %x : memref<2x4x3x64xf16>, memref<2x4x4x64xf16>)
  return
}

// -----

func.func @dynamic_page(%k: memref<2x2x3x64xf16>, %v: memref<2x2x3x32xf16>, %kc: memref<2x2x64x64xf16>,
    %vc: memref<2x2x64x32xf16>, %n: memref<2xi32>, %t: memref<2x5xi32>, %c: memref<99x16xf32>,
    %q: memref<2x4x3x64xf16>, %x: memref<9x2x?x64xf16>, %y: memref<9x2x?x32xf16>) {
  // expected-error @below {{'attn.cache_append' op dimension 2 of 'key_cache', the page size, must be static}}
  attn.cache_append ins(%k, %v : memref<2x2x3x64xf16>, memref<2x2x3x32xf16>)
      outs(%x, %y : memref<9x2x?x64xf16>, memref<9x2x?x32xf16>) key_lengths(%n : memref<2xi32>) page_table(%t : memref<2x5xi32>)
  return
}

// -----

func.func @page_size(%k: memref<2x2x3x64xf16>, %v: memref<2x2x3x32xf16>, %kc: memref<2x2x64x64xf16>,
    %vc: memref<2x2x64x32xf16>, %n: memref<2xi32>, %t: memref<2x5xi32>, %c: memref<99x16xf32>,
    %q: memref<2x4x3x64xf16>, %x: memref<9x2x24x64xf16>, %y: memref<9x2x24x32xf16>) {
  // expected-error @below {{'attn.cache_append' op dimension 2 of 'key_cache' is not valid: page size must be a power of two from 16 to 256 (was 24)}}
  attn.cache_append ins(%k, %v : memref<2x2x3x64xf16>, memref<2x2x3x32xf16>)
      outs(%x, %y : memref<9x2x24x64xf16>, memref<9x2x24x32xf16>) key_lengths(%n : memref<2xi32>) page_table(%t : memref<2x5xi32>)
  return
}

// -----

func.func @table_types(%k: memref<2x2x3x64xf16>, %v: memref<2x2x3x32xf16>, %kc: memref<2x2x64x64xf16>,
    %vc: memref<2x2x64x32xf16>, %n: memref<2xi32>, %t: memref<2x5xi32>, %c: memref<99x16xf32>,
    %q: memref<2x4x3x64xf16>, %x: memref<99x16xf16>) {
  // expected-error @below {{'attn.cache_append' op 'sin' must have the shape and the element type of 'cos', 'memref<99x16xf32>' (was 'memref<99x16xf16>')}}
  attn.cache_append ins(%k, %v : memref<2x2x3x64xf16>, memref<2x2x3x32xf16>)
      outs(%kc, %vc : memref<2x2x64x64xf16>, memref<2x2x64x32xf16>) key_lengths(%n : memref<2xi32>) rotary(%c, %x : memref<99x16xf32>, memref<99x16xf16>)
  return
}

// -----

func.func @table_columns(%k: memref<2x2x3x64xf16>, %v: memref<2x2x3x32xf16>, %kc: memref<2x2x64x64xf16>,
    %vc: memref<2x2x64x32xf16>, %n: memref<2xi32>, %t: memref<2x5xi32>, %c: memref<99x16xf32>,
    %q: memref<2x4x3x64xf16>, %x: memref<99x?xf32>) {
  // expected-error @below {{'attn.cache_append' op dimension 1 of 'cos' and 'sin' must be static}}
  attn.cache_append ins(%k, %v : memref<2x2x3x64xf16>, memref<2x2x3x32xf16>)
      outs(%kc, %vc : memref<2x2x64x64xf16>, memref<2x2x64x32xf16>) key_lengths(%n : memref<2xi32>) rotary(%x, %x : memref<99x?xf32>, memref<99x?xf32>)
  return
}

// -----

func.func @wide_table(%k: memref<2x2x3x64xf16>, %v: memref<2x2x3x32xf16>, %kc: memref<2x2x64x64xf16>,
    %vc: memref<2x2x64x32xf16>, %n: memref<2xi32>, %t: memref<2x5xi32>, %c: memref<99x16xf32>,
    %q: memref<2x4x3x64xf16>, %x: memref<99x33xf32>) {
  // expected-error @below {{'attn.cache_append' op dimension 1 of 'cos' must be at least 1 and at most half the head dim of 'key', 32 (was 33)}}
  attn.cache_append ins(%k, %v : memref<2x2x3x64xf16>, memref<2x2x3x32xf16>)
      outs(%kc, %vc : memref<2x2x64x64xf16>, memref<2x2x64x32xf16>) key_lengths(%n : memref<2xi32>) rotary(%x, %x : memref<99x33xf32>, memref<99x33xf32>)
  return
}

// -----

func.func @results(%k: tensor<2x2x3x64xf16>, %kc: tensor<2x2x64x64xf16>, %n: tensor<2xi32>) {
  // expected-error @below {{'attn.cache_append' op expected the number of tensor results (0) to be equal to the number of output tensors (2)}}
  attn.cache_append ins(%k, %k : tensor<2x2x3x64xf16>, tensor<2x2x3x64xf16>)
      outs(%kc, %kc : tensor<2x2x64x64xf16>, tensor<2x2x64x64xf16>) key_lengths(%n : tensor<2xi32>)
  return
}

// -----

func.func @cache_types(%k: memref<2x2x3x64xf16>, %kc: memref<2x2x64x64xbf16>, %n: memref<2xi32>) {
  // expected-error @below {{'attn.cache_append' op element type of 'key_cache' must be that of 'key', 'f16', or f8E4M3FN or f8E5M2 (was 'bf16')}}
  attn.cache_append ins(%k, %k : memref<2x2x3x64xf16>, memref<2x2x3x64xf16>)
      outs(%kc, %kc : memref<2x2x64x64xbf16>, memref<2x2x64x64xbf16>) key_lengths(%n : memref<2xi32>)
  return
}

// -----

func.func @value_cache_type(%k: memref<2x2x3x64xf16>, %kc: memref<2x2x64x64xf8E4M3FN>, %vc: memref<2x2x64x64xf8E5M2>,
    %n: memref<2xi32>) {
  // expected-error @below {{'attn.cache_append' op element type of 'value_cache' must be that of 'key_cache', 'f8E4M3FN' (was 'f8E5M2')}}
  attn.cache_append ins(%k, %k : memref<2x2x3x64xf16>, memref<2x2x3x64xf16>)
      outs(%kc, %vc : memref<2x2x64x64xf8E4M3FN>, memref<2x2x64x64xf8E5M2>) key_lengths(%n : memref<2xi32>)
  return
}

// -----

func.func @keys_of_8_bits(%k: memref<2x2x3x64xf8E5M2>, %kc: memref<2x2x64x64xf8E5M2>, %n: memref<2xi32>) {
  // expected-error @below {{operand #0 must be 4-D tensor or memref of bf16, f16 or f32 values, but got 'memref<2x2x3x64xf8E5M2>'}}
  attn.cache_append ins(%k, %k : memref<2x2x3x64xf8E5M2>, memref<2x2x3x64xf8E5M2>)
      outs(%kc, %kc : memref<2x2x64x64xf8E5M2>, memref<2x2x64x64xf8E5M2>) key_lengths(%n : memref<2xi32>)
  return
}

// -----

func.func @scales_of_wide(%k: memref<2x2x3x64xf16>, %kc: memref<2x2x64x64xf16>, %n: memref<2xi32>, %s: memref<2x2xf32>) {
  // expected-error @below {{'attn.cache_append' op 'scales' are for a cache of f8E4M3FN or f8E5M2 (element type of 'key_cache' was 'f16')}}
  attn.cache_append ins(%k, %k : memref<2x2x3x64xf16>, memref<2x2x3x64xf16>)
      outs(%kc, %kc : memref<2x2x64x64xf16>, memref<2x2x64x64xf16>) key_lengths(%n : memref<2xi32>)
      scales(%s, %s : memref<2x2xf32>, memref<2x2xf32>)
  return
}

// -----

func.func @scale_sizes(%k: memref<2x2x3x64xf16>, %kc: memref<2x2x64x64xf8E4M3FN>, %n: memref<2xi32>, %s: memref<2x4xf32>) {
  // expected-error @below {{'attn.cache_append' op dimension 1 of 'key_scale' must match dimension 1 of 'key', 2 (was 4)}}
  attn.cache_append ins(%k, %k : memref<2x2x3x64xf16>, memref<2x2x3x64xf16>)
      outs(%kc, %kc : memref<2x2x64x64xf8E4M3FN>, memref<2x2x64x64xf8E4M3FN>) key_lengths(%n : memref<2xi32>)
      scales(%s, %s : memref<2x4xf32>, memref<2x4xf32>)
  return
}

// -----

func.func @value_scale_sizes(%k: memref<2x2x3x64xf16>, %kc: memref<2x2x64x64xf8E4M3FN>, %n: memref<2xi32>,
    %ks: memref<2x2xf32>, %vs: memref<2x4xf32>) {
  // expected-error @below {{'attn.cache_append' op dimension 1 of 'value_scale' must match dimension 1 of 'value', 2 (was 4)}}
  attn.cache_append ins(%k, %k : memref<2x2x3x64xf16>, memref<2x2x3x64xf16>)
      outs(%kc, %kc : memref<2x2x64x64xf8E4M3FN>, memref<2x2x64x64xf8E4M3FN>) key_lengths(%n : memref<2xi32>)
      scales(%ks, %vs : memref<2x2xf32>, memref<2x4xf32>)
  return
}

// -----

func.func @one_scale(%k: memref<2x2x3x64xf16>, %kc: memref<2x2x64x64xf8E4M3FN>, %n: memref<2xi32>, %s: memref<2x2xf32>) {
  // expected-error @below {{'attn.cache_append' op needs both or none of 'key_scale' and 'value_scale'}}
  "attn.cache_append"(%k, %k, %n, %s, %kc, %kc) <{operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 1, 0, 1, 1, 0, 0>}>
      : (memref<2x2x3x64xf16>, memref<2x2x3x64xf16>, memref<2xi32>, memref<2x2xf32>, memref<2x2x64x64xf8E4M3FN>,
         memref<2x2x64x64xf8E4M3FN>) -> ()
  return
}
