// RUN: attn-opt %s --split-input-file --verify-diagnostics | FileCheck %s

// CHECK: m0 = #attn.causal,
// CHECK-SAME: m1 = #attn.causal<alignment = top_left>,
// CHECK-SAME: m2 = #attn.sliding_window<left = 4>,
// CHECK-SAME: m3 = #attn.sliding_window<right = 0>,
// CHECK-SAME: m4 = #attn.sliding_window<left = 4, right = 1073741823, alignment = top_left>
func.func private @masks() attributes {
  m0 = #attn.causal<alignment = bottom_right>,
  m1 = #attn.causal<alignment = top_left>,
  m2 = #attn.sliding_window<left = 4>,
  m3 = #attn.sliding_window<right = 0, alignment = bottom_right>,
  m4 = #attn.sliding_window<left = 4, right = 1073741823, alignment = top_left>
}

// -----

// expected-error @below {{sliding window must bound at least one of 'left' and 'right'}}
func.func private @no_side() attributes {m = #attn.sliding_window<alignment = top_left>}

// -----

// expected-error @below {{sliding window 'left' must lie in [0, 1073741823] (was -1)}}
func.func private @left() attributes {m = #attn.sliding_window<left = -1>}

// -----

// expected-error @below {{sliding window 'right' must lie in [0, 1073741823] (was 1073741824)}}
func.func private @right() attributes {m = #attn.sliding_window<right = 1073741824>}

// -----

// expected-error @below {{expected ::mlir::attn::MaskAlignment to be one of: bottom_right, top_left}}
// expected-error @below {{failed to parse Attn_CausalAttr parameter 'alignment' which is to be a `::mlir::attn::MaskAlignment`}}
func.func private @alignment() attributes {m = #attn.causal<alignment = centre>}

// -----

// CHECK: s = #attn.by_query_length<bound = 100, below = #attn_tile.sequential<query_tile = 16, key_tile = 64>, from = #attn_tile.sequential<query_tile = 32, key_tile = 64>>
func.func private @by_query_length() attributes {
  s = #attn.by_query_length<bound = 100, below = #attn_tile.sequential<query_tile = 16, key_tile = 64>,
                            from = #attn_tile.sequential<query_tile = 32, key_tile = 64>>
}

// -----

// expected-error @below {{bound must be at least 2 (was 1)}}
func.func private @bound() attributes {s = #attn.by_query_length<bound = 1, below = #attn_tile.sequential<query_tile = 16, key_tile = 64>, from = #attn_tile.sequential<query_tile = 32, key_tile = 64>>}
