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

// CHECK: m0 = #attn.prefix_lm<length = 4096>,
// CHECK-SAME: m1 = #attn.dilated_window<left = 8, right = 0, dilation = 4, alignment = top_left>,
// CHECK-SAME: m2 = #attn.local_blocks<size = 64, before = 1, after = 0>,
// CHECK-SAME: m3 = #attn.local_blocks<size = 64, after = 2>,
// CHECK-SAME: m4 = #attn.global_tokens<count = 16>,
// CHECK-SAME: m5 = #attn.and<#attn.causal, #attn.not<#attn.global_tokens<count = 1>>>,
// CHECK-SAME: m6 = #attn.or<#attn.causal, #attn.and<#attn.causal>>,
// CHECK-SAME: m7 = #attn.local_blocks<size = 64, before = 2>,
// CHECK-SAME: m8 = #attn.none,
// CHECK-SAME: m9 = #attn.documents<queries = 0, keys = 1>
func.func private @more_masks() attributes {
  m0 = #attn.prefix_lm<length = 4096>,
  m1 = #attn.dilated_window<left = 8, right = 0, dilation = 4, alignment = top_left>,
  m2 = #attn.local_blocks<size = 64, before = 1, after = 0>,
  m3 = #attn.local_blocks<size = 64, after = 2>,
  m4 = #attn.global_tokens<count = 16>,
  m5 = #attn.and<#attn.causal, #attn.not<#attn.global_tokens<count = 1>>>,
  m6 = #attn.or<#attn.causal, #attn.and<#attn.causal>>,
  m7 = #attn.local_blocks<size = 64, before = 2>,
  m8 = #attn.none,
  m9 = #attn.documents<queries = 0, keys = 1>
}

// -----

// CHECK: m0 = #attn.and<#attn.causal, #attn.packed_documents<queries = 1, keys = 1>>,
// CHECK-SAME: m1 = #attn.tree<parents = 0>,
// CHECK-SAME: m2 = #attn.block_sparse<rows = 128, columns = 64, offsets = 0, indices = 1>
func.func private @masks_that_read() attributes {
  m0 = #attn.and<#attn.causal, #attn.packed_documents<queries = 1, keys = 1>>,
  m1 = #attn.tree<parents = 0>,
  m2 = #attn.block_sparse<rows = 128, columns = 64, offsets = 0, indices = 1>
}

// -----

// expected-error @below {{block mask needs rows that are a positive multiple of 16 (was 0)}}
func.func private @block_rows() attributes {m = #attn.block_sparse<rows = 0, columns = 64, offsets = 0, indices = 1>}

// -----

// expected-error @below {{block mask needs columns that are a positive multiple of 16 (was 40)}}
func.func private @block_columns() attributes {m = #attn.block_sparse<rows = 16, columns = 40, offsets = 0, indices = 1>}

// -----

// expected-error @below {{prefix 'length' must lie in [0, 1073741823] (was -1)}}
func.func private @prefix() attributes {m = #attn.prefix_lm<length = -1>}

// -----

// expected-error @below {{dilated window 'left' must lie in [0, 1073741823] (was -2)}}
func.func private @dilated_left() attributes {m = #attn.dilated_window<left = -2, right = 0, dilation = 1>}

// -----

// expected-error @below {{dilated window 'right' must lie in [0, 1073741823] (was -2)}}
func.func private @dilated_right() attributes {m = #attn.dilated_window<left = 0, right = -2, dilation = 1>}

// -----

// expected-error @below {{dilated window 'dilation' must lie in [1, 1073741823] (was 0)}}
func.func private @dilation() attributes {m = #attn.dilated_window<left = 4, right = 0, dilation = 0>}

// -----

// expected-error @below {{local blocks 'size' must lie in [1, 1073741823] (was 0)}}
func.func private @block_size() attributes {m = #attn.local_blocks<size = 0, after = 0>}

// -----

// expected-error @below {{local blocks must bound at least one of 'before' and 'after'}}
func.func private @blocks_side() attributes {m = #attn.local_blocks<size = 8>}

// -----

// expected-error @below {{local blocks 'after' must lie in [0, 1073741823] (was -1)}}
func.func private @blocks_after() attributes {m = #attn.local_blocks<size = 8, after = -1>}

// -----

// expected-error @below {{local blocks 'before' must lie in [0, 1073741823] (was -1)}}
func.func private @blocks_before() attributes {m = #attn.local_blocks<size = 8, before = -1, after = 0>}

// -----

// expected-error @below {{global tokens 'count' must lie in [0, 1073741823] (was -1)}}
func.func private @global() attributes {m = #attn.global_tokens<count = -1>}

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

// CHECK: s = #attn.by_query_length<bound = 100, below = #attn_tile.sequential<query_tile = 16, key_tile = 64>,
// CHECK-SAME:     {{^}} from = #attn_tile.sequential<query_tile = 32, key_tile = 64>>
func.func private @by_query_length() attributes {
  s = #attn.by_query_length<bound = 100, below = #attn_tile.sequential<query_tile = 16, key_tile = 64>,
                            from = #attn_tile.sequential<query_tile = 32, key_tile = 64>>
}

// -----

// A choice among three.
// CHECK: s = #attn.by_query_length<bound = 16, below = #attn_tile.sequential<query_tile = 8, key_tile = 64>,
// CHECK-SAME:     {{^}} from = #attn.by_query_length<bound = 100, below = #attn_tile.sequential<query_tile = 16, key_tile = 64>,
// CHECK-SAME:     {{^}} from = #attn_tile.sequential<query_tile = 32, key_tile = 64>>>
#from = #attn.by_query_length<bound = 100, below = #attn_tile.sequential<query_tile = 16, key_tile = 64>,
                              from = #attn_tile.sequential<query_tile = 32, key_tile = 64>>
func.func private @by_query_lengths() attributes {
  s = #attn.by_query_length<bound = 16, below = #attn_tile.sequential<query_tile = 8, key_tile = 64>, from = #from>
}

// -----

#from = #attn.by_query_length<bound = 100, below = #attn_tile.sequential<query_tile = 16, key_tile = 64>,
                              from = #attn_tile.sequential<query_tile = 32, key_tile = 64>>
// expected-error @below {{'from' must be a schedule, or a choice with a larger bound than 100 (was #attn.by_query_length<bound = 100,}}
func.func private @bounds() attributes {s = #attn.by_query_length<bound = 100, below = #attn_tile.sequential<query_tile = 16, key_tile = 64>,
    from = #from>}

// -----

// expected-error @below {{'from' must be a schedule, or a choice with a larger bound than 100 (was 7 : i64)}}
func.func private @from() attributes {s = #attn.by_query_length<bound = 100, below = #attn_tile.sequential<query_tile = 16, key_tile = 64>,
    from = 7>}

// -----

// expected-error @below {{bound must be at least 2 (was 1)}}
func.func private @bound() attributes {s = #attn.by_query_length<bound = 1, below = #attn_tile.sequential<query_tile = 16, key_tile = 64>,
    from = #attn_tile.sequential<query_tile = 32, key_tile = 64>>}

// -----

// CHECK: d0 = #attn.dropout<p = 1.250000e-01, rng = #attn.philox<rounds = 7>, bits = 4>,
// CHECK-SAME: d1 = #attn.dropout<p = 1.000000e-01, rng = #attn.philox>,
// CHECK-SAME: d2 = #attn.dropout<p = 0.000000e+00, rng = #attn.threefry>,
// CHECK-SAME: d3 = #attn.dropout<p = 1.000000e-02, rng = #attn.arx<rounds = 5>, bits = 16>
func.func private @dropouts() attributes {
  d0 = #attn.dropout<p = 0.125, rng = #attn.philox<rounds = 7>, bits = 4>,
  d1 = #attn.dropout<p = 0.1, rng = #attn.philox<rounds = 10>, bits = 8>,
  d2 = #attn.dropout<p = 0.0, rng = #attn.threefry<rounds = 20>>,
  d3 = #attn.dropout<p = 0.01, rng = #attn.arx<rounds = 5>, bits = 16>
}

// -----

// expected-error @below {{philox 'rounds' must lie in [7, 64] (was 6)}}
func.func private @philox_rounds() attributes {r = #attn.philox<rounds = 6>}

// -----

// expected-error @below {{threefry 'rounds' must lie in [12, 64] (was 11)}}
func.func private @threefry_rounds() attributes {r = #attn.threefry<rounds = 11>}

// -----

// expected-error @below {{arx 'rounds' must lie in [5, 64] (was 65)}}
func.func private @arx_rounds() attributes {r = #attn.arx<rounds = 65>}

// -----

// expected-error @below {{dropout 'bits' must be 4, 8 or 16 (was 5)}}
func.func private @dropout_bits() attributes {d = #attn.dropout<p = 0.5, rng = #attn.arx, bits = 5>}

// -----

// expected-error @below {{dropout 'p' must lie in [0, 1) (was -1.000000e-01)}}
func.func private @negative_p() attributes {d = #attn.dropout<p = -0.1, rng = #attn.arx>}

// -----

// expected-error @below {{dropout 'p' must lie in [0, 1) (was 1.000000e+00)}}
func.func private @drop_all() attributes {d = #attn.dropout<p = 1.0, rng = #attn.arx>}

// -----

// expected-error @below {{dropout 'p' must be at most 5 % from a multiple of 2^-4 less than 1 (was 1.000000e-01, nearest is 1.250000e-01)}}
func.func private @coarse_p() attributes {d = #attn.dropout<p = 0.1, rng = #attn.arx, bits = 4>}

// -----

// expected-error @below {{dropout 'p' must be at most 5 % from a multiple of 2^-8 less than 1 (was 9.990000e-01, nearest is 1.000000e+00)}}
func.func private @almost_all() attributes {d = #attn.dropout<p = 0.999, rng = #attn.arx>}

// -----

// expected-error @below {{dropout 'p' must be at most 5 % from a multiple of 2^-8 less than 1 (was 1.000000e-03, nearest is 0.000000e+00)}}
func.func private @almost_none() attributes {d = #attn.dropout<p = 0.001, rng = #attn.arx>}
