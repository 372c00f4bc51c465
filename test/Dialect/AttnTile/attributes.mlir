// RUN: attn-opt %s --split-input-file --verify-diagnostics --verify-roundtrip | FileCheck %s

// CHECK-LABEL: func private @layouts() attributes {
// CHECK-SAME:    l0 = #attn_tile.row_blocks<warps = 1>, l1 = #attn_tile.row_blocks<warps = 8>}
func.func private @layouts() attributes {
  l0 = #attn_tile.row_blocks<warps = 1>,
  l1 = #attn_tile.row_blocks<warps = 8>
}

// -----

// CHECK-LABEL: func private @enums() attributes {
// CHECK-SAME:    r0 = #attn_tile<role_kind producer>, r1 = #attn_tile<role_kind consumer>,
// CHECK-SAME:    t0 = #attn_tile<traversal grid>, t1 = #attn_tile<traversal persistent>, t2 = #attn_tile<traversal paired>}
func.func private @enums() attributes {
  r0 = #attn_tile<role_kind producer>,
  r1 = #attn_tile<role_kind consumer>,
  t0 = #attn_tile<traversal grid>,
  t1 = #attn_tile<traversal persistent>,
  t2 = #attn_tile<traversal paired>
}

// -----

// Options that are at their defaults are not printed.
// CHECK-LABEL: func private @warp_specialized() attributes {
// CHECK-SAME:    s0 = #attn_tile.warp_specialized<query_tile = 128, key_tile = 176, stages = 2, consumers = 2>,
// CHECK-SAME:    s1 = #attn_tile.warp_specialized<query_tile = 128, key_tile = 176, stages = 2, consumers = 2>,
// CHECK-SAME:    s2 = #attn_tile.warp_specialized<query_tile = 128, key_tile = 176, stages = 2, consumers = 2, ping_pong = true>,
// CHECK-SAME:    s3 = #attn_tile.warp_specialized<query_tile = 64, key_tile = 16, stages = 1, consumers = 1, traversal = grid>,
// CHECK-SAME:    s4 = #attn_tile.warp_specialized<query_tile = 192, key_tile = 256, stages = 1, consumers = 3, traversal = paired, interleave = 0>,
// CHECK-SAME:    s5 = #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2, interleave = 8, conditional_rescale = true>,
// CHECK-SAME:    s6 = #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2, deferred_rescale = true>,
// CHECK-SAME:    s7 = #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2, score_stages = 2>,
// CHECK-SAME:    s8 = #attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, split_kv_work_items = 132, pack_gqa = true,
// CHECK-SAME:    {{^}} l2_promotion = 128, ctas_per_sm = 2>,
// CHECK-SAME:    s9 = #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2, exp2_emulation = 4>,
// CHECK-SAME:    sa = #attn_tile.warp_specialized<query_tile = 128, key_tile = 176, stages = 2, consumers = 2, cluster = 2>,
// CHECK-SAME:    sb = #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2, mask_bits = true>}
func.func private @warp_specialized() attributes {
  s0 = #attn_tile.warp_specialized<query_tile = 128, key_tile = 176, stages = 2, consumers = 2>,
  s1 = #attn_tile.warp_specialized<query_tile = 128, key_tile = 176, stages = 2, consumers = 2,
      ping_pong = false, traversal = persistent, interleave = 1, conditional_rescale = false>,
  s2 = #attn_tile.warp_specialized<ping_pong = true, consumers = 2, stages = 2,
      key_tile = 176, query_tile = 128>,
  s3 = #attn_tile.warp_specialized<query_tile = 64, key_tile = 16, stages = 1, consumers = 1,
      traversal = grid>,
  s4 = #attn_tile.warp_specialized<query_tile = 192, key_tile = 256, stages = 1, consumers = 3,
      traversal = paired, interleave = 0>,
  s5 = #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2,
      interleave = 8, conditional_rescale = true, deferred_rescale = false>,
  s6 = #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2,
      deferred_rescale = true>,
  s7 = #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2, score_stages = 2>,
  s8 = #attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1,
      split_kv_work_items = 132, pack_gqa = true, l2_promotion = 128, ctas_per_sm = 2>,
  s9 = #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2, exp2_emulation = 4>,
  sa = #attn_tile.warp_specialized<query_tile = 128, key_tile = 176, stages = 2, consumers = 2, cluster = 2>,
  sb = #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2, mask_bits = true>
}

// -----

// CHECK-LABEL: func private @other_schedules() attributes {
// CHECK-SAME:    s0 = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 4>,
// CHECK-SAME:    s1 = #attn_tile.sequential<query_tile = 1, key_tile = 8>,
// CHECK-SAME:    s2 = #attn_tile.by_alignment<aligned = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 4>,
// CHECK-SAME:    {{^}} otherwise = #attn_tile.sequential<query_tile = 1, key_tile = 8>>}
func.func private @other_schedules() attributes {
  s0 = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 4>,
  s1 = #attn_tile.sequential<query_tile = 1, key_tile = 8>,
  s2 = #attn_tile.by_alignment<
      aligned = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 4>,
      otherwise = #attn_tile.sequential<query_tile = 1, key_tile = 8>>
}

// -----

// expected-error @below {{'warps' must be positive (was 0)}}
func.func private @row_blocks_warps() attributes {l = #attn_tile.row_blocks<warps = 0>}

// -----

func.func private @no_consumers() attributes {
  // expected-error @below {{'consumers' must be positive (was 0)}}
  s = #attn_tile.warp_specialized<query_tile = 0, key_tile = 64, stages = 2, consumers = 0>
}

// -----

func.func private @stages() attributes {
  // expected-error @below {{'stages' must be positive (was -2)}}
  s = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = -2, consumers = 2>
}

// -----

func.func private @key_tile_multiple() attributes {
  // expected-error @below {{'key_tile' must be a positive multiple of 16 (was 72)}}
  s = #attn_tile.warp_specialized<query_tile = 128, key_tile = 72, stages = 2, consumers = 2>
}

// -----

func.func private @key_tile_positive() attributes {
  // expected-error @below {{'key_tile' must be a positive multiple of 16 (was 0)}}
  s = #attn_tile.warp_specialized<query_tile = 128, key_tile = 0, stages = 2, consumers = 2>
}

// -----

func.func private @query_tile() attributes {
  // expected-error @below {{'query_tile' must be 64 times 'consumers' (expected 128, was 64)}}
  s = #attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 2>
}

// -----

func.func private @head_dim_tile() attributes {
  // expected-error @below {{'head_dim_tile' must be 0 or a positive multiple of 16 (was 72)}}
  s = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2, head_dim_tile = 72>
}

// -----

func.func private @head_dim_tile_negative() attributes {
  // expected-error @below {{'head_dim_tile' must be 0 or a positive multiple of 16 (was -16)}}
  s = #attn_tile.multistage<query_tile = 64, key_tile = 64, stages = 2, warps = 4, head_dim_tile = -16>
}

// -----

func.func private @head_dim_tile_limit() attributes {
  // expected-error @below {{'head_dim_tile' must be at most 256 (was 272)}}
  s = #attn_tile.multistage<query_tile = 64, key_tile = 64, stages = 2, warps = 4, head_dim_tile = 272>
}

// -----

func.func private @head_dim_tile_of_keys() attributes {
  // expected-error @below {{'head_dim_tile' must be 0 or a positive multiple of 64 (was 96)}}
  s = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, head_dim_tile = 96>
}

// -----

func.func private @head_dim_tile_of_keys_by_warps() attributes {
  // expected-error @below {{'head_dim_tile' must be at most 256 (was 320)}}
  s = #attn_tile.key_multistage<query_tile = 16, key_tile = 32, stages = 2, warps = 2, head_dim_tile = 320>
}

// -----

#rows = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>
#keys = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>
#columns = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, head_dim_tile = 64>
func.func private @head_dim_tile_of_both() attributes {
  // expected-error @below {{'head_dim_tile' of 'dkdv' needs 'dq' and 'dv'}}
  s = #attn_tile.gradient<preprocess = #rows, dkdv = #columns, dv = #keys>
}

// -----

#rows = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>
#keys = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>
func.func private @head_dim_tile_of_queries() attributes {
  // expected-error @below {{'head_dim_tile' of 'dq' must be a multiple of 64 (was 32)}}
  s = #attn_tile.gradient<preprocess = #rows, dkdv = #keys,
      dq = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2, head_dim_tile = 32>>
}

// -----

func.func private @consumer_columns_rows() attributes {
  // expected-error @below {{'key_tile' must be 64 with 'consumer_columns' (was 128)}}
  s = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, head_dim_tile = 64,
      consumer_columns = true>
}

// -----

func.func private @consumer_columns_tile() attributes {
  // expected-error @below {{'consumer_columns' needs at least 2 'consumers' and a 'head_dim_tile' (were 2 and 0)}}
  s = #attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 2, consumer_columns = true>
}

// -----

func.func private @key_tile_limit() attributes {
  // expected-error @below {{'key_tile' must be at most 256 (was 272)}}
  s = #attn_tile.warp_specialized<query_tile = 128, key_tile = 272, stages = 2, consumers = 2>
}

// -----

func.func private @consumers_limit() attributes {
  // expected-error @below {{'consumers' must be at most 3 (was 4)}}
  s = #attn_tile.warp_specialized<query_tile = 256, key_tile = 64, stages = 2, consumers = 4>
}

// -----

func.func private @score_stages() attributes {
  // expected-error @below {{'score_stages' must not be negative (was -1)}}
  s = #attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, score_stages = -1>
}

// -----

func.func private @split_kv_work_items() attributes {
  // expected-error @below {{'split_kv_work_items' must not be negative (was -1)}}
  s = #attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, split_kv_work_items = -1>
}

// -----

func.func private @split_work_items_multistage() attributes {
  // expected-error @below {{'split_kv_work_items' must not be negative (was -2)}}
  s = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 4, split_kv_work_items = -2>
}

// -----

func.func private @split_work_items_sequential() attributes {
  // expected-error @below {{'split_kv_work_items' must not be negative (was -3)}}
  s = #attn_tile.sequential<query_tile = 16, key_tile = 64, split_kv_work_items = -3>
}

// -----

func.func private @interleave() attributes {
  // expected-error @below {{'interleave' must not be negative (was -1)}}
  s = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2, interleave = -1>
}

// -----

func.func private @ping_pong() attributes {
  // expected-error @below {{'ping_pong' needs at least 2 'consumers' (was 1)}}
  s = #attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, ping_pong = true>
}

// -----

func.func private @traversal() attributes {
  // expected-error @below {{expected one of [grid, persistent, paired] for order in which work items are visited, got: random}}
  // expected-error @below {{failed to parse AttnTile_WarpSpecializedAttr parameter 'traversal' which is to be a `TraversalKind`}}
  s = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2, traversal = random>
}

// -----

func.func private @multistage_warps() attributes {
  // expected-error @below {{'warps' must be positive (was 0)}}
  s = #attn_tile.multistage<query_tile = 64, key_tile = 64, stages = 2, warps = 0>
}

// -----

func.func private @multistage_warps_limit() attributes {
  // expected-error @below {{'warps' must be at most 16 (was 1152921504606846976)}}
  s = #attn_tile.multistage<query_tile = 64, key_tile = 64, stages = 2, warps = 1152921504606846976>
}

// -----

func.func private @multistage_query_tile_limit() attributes {
  // expected-error @below {{'query_tile' must be at most 256 (was 320)}}
  s = #attn_tile.multistage<query_tile = 320, key_tile = 64, stages = 2, warps = 4>
}

// -----

func.func private @multistage_key_tile_limit() attributes {
  // expected-error @below {{'key_tile' must be at most 256 (was 272)}}
  s = #attn_tile.multistage<query_tile = 64, key_tile = 272, stages = 2, warps = 4>
}

// -----

func.func private @sequential_query_tile_limit() attributes {
  // expected-error @below {{'query_tile' must be at most 256 (was 257)}}
  s = #attn_tile.sequential<query_tile = 257, key_tile = 64>
}

// -----

func.func private @sequential_key_tile_limit() attributes {
  // expected-error @below {{'key_tile' must be at most 256 (was 264)}}
  s = #attn_tile.sequential<query_tile = 16, key_tile = 264>
}

// -----

func.func private @multistage_stages() attributes {
  // expected-error @below {{'stages' must be positive (was 0)}}
  s = #attn_tile.multistage<query_tile = 64, key_tile = 64, stages = 0, warps = 4>
}

// -----

func.func private @multistage_key_tile() attributes {
  // expected-error @below {{'key_tile' must be a positive multiple of 16 (was 24)}}
  s = #attn_tile.multistage<query_tile = 64, key_tile = 24, stages = 2, warps = 4>
}

// -----

func.func private @multistage_query_tile() attributes {
  // expected-error @below {{'query_tile' must be a positive multiple of 64 (was 32)}}
  s = #attn_tile.multistage<query_tile = 32, key_tile = 64, stages = 2, warps = 4>
}

// -----

func.func private @sequential_query_tile() attributes {
  // expected-error @below {{'query_tile' must be positive (was 0)}}
  s = #attn_tile.sequential<query_tile = 0, key_tile = 64>
}

// -----

func.func private @sequential_key_tile() attributes {
  // expected-error @below {{'key_tile' must be a positive multiple of 8 (was 12)}}
  s = #attn_tile.sequential<query_tile = 16, key_tile = 12>
}

// -----

// CHECK-LABEL: func private @scalar() attributes {s = #attn_tile.scalar, t = #attn_tile.scalar<warps = 4>}
func.func private @scalar() attributes {s = #attn_tile.scalar, t = #attn_tile.scalar<warps = 4>}

// -----

func.func private @scalar_warps() attributes {
  // expected-error @below {{'warps' must be positive (was 0)}}
  s = #attn_tile.scalar<warps = 0>
}

// -----

func.func private @scalar_many_warps() attributes {
  // expected-error @below {{'warps' must be at most 32 (was 33)}}
  s = #attn_tile.scalar<warps = 33>
}

// -----

// CHECK-LABEL: func private @key_stationary() attributes {
// CHECK-SAME:    s0 = #attn_tile.key_stationary<query_tile = 80, key_tile = 128, stages = 2, consumers = 2>,
// CHECK-SAME:    s1 = #attn_tile.key_stationary<query_tile = 64, key_tile = 64, stages = 4, consumers = 1, traversal = paired, interleave = 2,
// CHECK-SAME:    {{^}} pipelined = true, query_parts = 2>,
// CHECK-SAME:    s2 = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, dq_ring_depth = 264>,
// CHECK-SAME:    s3 = #attn_tile.key_stationary<query_tile = 128, key_tile = 128, stages = 4, consumers = 2, query_parts = 2, lhs_registers = true>,
// CHECK-SAME:    s4 = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, traversal = paired, ordered_dq = true,
// CHECK-SAME:    {{^}} key_stages = 2>,
// CHECK-SAME:    s5 = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, traversal = paired, prefetch_work_item = true>}
func.func private @key_stationary() attributes {
  s0 = #attn_tile.key_stationary<query_tile = 80, key_tile = 128, stages = 2, consumers = 2,
      traversal = persistent>,
  s1 = #attn_tile.key_stationary<query_tile = 64, key_tile = 64, stages = 4, consumers = 1,
      traversal = paired, interleave = 2, pipelined = true, query_parts = 2>,
  s2 = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, dq_ring_depth = 264,
      lhs_registers = false>,
  s3 = #attn_tile.key_stationary<query_tile = 128, key_tile = 128, stages = 4, consumers = 2, query_parts = 2,
      lhs_registers = true, ordered_dq = false>,
  s4 = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, traversal = paired, ordered_dq = true,
      key_stages = 2, prefetch_work_item = false>,
  s5 = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, traversal = paired,
      prefetch_work_item = true>
}

// -----

// CHECK-LABEL: func private @key_multistage() attributes {
// CHECK-SAME:    s = #attn_tile.key_multistage<query_tile = 48, key_tile = 128, stages = 2, warps = 4>}
func.func private @key_multistage() attributes {
  s = #attn_tile.key_multistage<query_tile = 48, key_tile = 128, stages = 2, warps = 4>
}

// -----

// CHECK-LABEL: func private @gradient() attributes {
// CHECK-SAME:    s0 = #attn_tile.gradient<preprocess = #attn_tile.sequential<query_tile = 16, key_tile = 64>,
// CHECK-SAME:    {{^}} dkdv = #attn_tile.sequential<query_tile = 16, key_tile = 64>>,
// CHECK-SAME:    s1 = #attn_tile.gradient<preprocess = #attn_tile.sequential<query_tile = 16, key_tile = 64>,
// CHECK-SAME:    {{^}} dkdv = #attn_tile.sequential<query_tile = 16, key_tile = 64>, dq = #attn_tile.sequential<query_tile = 16, key_tile = 64>,
// CHECK-SAME:    {{^}} dv = #attn_tile.sequential<query_tile = 16, key_tile = 64>>}
#seq = #attn_tile.sequential<query_tile = 16, key_tile = 64>
func.func private @gradient() attributes {
  s0 = #attn_tile.gradient<preprocess = #seq, dkdv = #seq>,
  s1 = #attn_tile.gradient<preprocess = #seq, dkdv = #seq, dq = #seq, dv = #seq>
}

// -----

func.func private @key_multistage_warps() attributes {
  // expected-error @below {{'warps' must be positive (was 0)}}
  s = #attn_tile.key_multistage<query_tile = 48, key_tile = 128, stages = 2, warps = 0>
}

// -----

func.func private @key_multistage_many_warps() attributes {
  // expected-error @below {{'warps' must be at most 16 (was 17)}}
  s = #attn_tile.key_multistage<query_tile = 48, key_tile = 272, stages = 2, warps = 17>
}

// -----

func.func private @key_multistage_stages() attributes {
  // expected-error @below {{'stages' must be positive (was 0)}}
  s = #attn_tile.key_multistage<query_tile = 48, key_tile = 128, stages = 0, warps = 4>
}

// -----

func.func private @key_multistage_query_tile() attributes {
  // expected-error @below {{'query_tile' must be a positive multiple of 16 (was 40)}}
  s = #attn_tile.key_multistage<query_tile = 40, key_tile = 128, stages = 2, warps = 4>
}

// -----

func.func private @key_multistage_large_query_tile() attributes {
  // expected-error @below {{'query_tile' must be at most 256 (was 272)}}
  s = #attn_tile.key_multistage<query_tile = 272, key_tile = 128, stages = 2, warps = 4>
}

// -----

func.func private @key_multistage_key_tile() attributes {
  // expected-error @below {{'key_tile' must be a positive multiple of 64 (was 96)}}
  s = #attn_tile.key_multistage<query_tile = 48, key_tile = 96, stages = 2, warps = 4>
}

// -----

func.func private @key_multistage_large_key_tile() attributes {
  // expected-error @below {{'key_tile' must be at most 256 (was 320)}}
  s = #attn_tile.key_multistage<query_tile = 48, key_tile = 320, stages = 2, warps = 4>
}

// -----

func.func private @key_stationary_consumers() attributes {
  // expected-error @below {{'consumers' must be positive (was 0)}}
  s = #attn_tile.key_stationary<query_tile = 64, key_tile = 0, stages = 2, consumers = 0>
}

// -----

func.func private @key_stationary_stages() attributes {
  // expected-error @below {{'stages' must be positive (was 0)}}
  s = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 0, consumers = 2>
}

// -----

func.func private @key_stationary_query_tile() attributes {
  // expected-error @below {{'query_tile' must be a positive multiple of 16 (was 72)}}
  s = #attn_tile.key_stationary<query_tile = 72, key_tile = 128, stages = 2, consumers = 2>
}

// -----

func.func private @key_stationary_part() attributes {
  // expected-error @below {{'query_tile' must be a positive multiple of 32 (was 80)}}
  s = #attn_tile.key_stationary<query_tile = 80, key_tile = 128, stages = 2, consumers = 2, query_parts = 2>
}

// -----

func.func private @key_stationary_parts() attributes {
  // expected-error @below {{'query_parts' must be positive (was 0)}}
  s = #attn_tile.key_stationary<query_tile = 80, key_tile = 128, stages = 2, consumers = 2, query_parts = 0>
}

// -----

func.func private @key_stationary_key_tile() attributes {
  // expected-error @below {{'key_tile' must be 64 times 'consumers' (expected 128, was 64)}}
  s = #attn_tile.key_stationary<query_tile = 64, key_tile = 64, stages = 2, consumers = 2>
}

// -----

func.func private @key_stationary_long() attributes {
  // expected-error @below {{'query_tile' must be at most 256 (was 272)}}
  s = #attn_tile.key_stationary<query_tile = 272, key_tile = 128, stages = 2, consumers = 2>
}

// -----

func.func private @key_stationary_many() attributes {
  // expected-error @below {{'consumers' must be at most 3 (was 4)}}
  s = #attn_tile.key_stationary<query_tile = 64, key_tile = 256, stages = 2, consumers = 4>
}

// -----

func.func private @key_stationary_dq_ring() attributes {
  // expected-error @below {{'dq_ring_depth' must not be negative (was -1)}}
  s = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, dq_ring_depth = -1>
}

// -----

func.func private @key_stationary_dq_ring_long() attributes {
  // expected-error @below {{'dq_ring_depth' must be at most 65536 (was 65537)}}
  s = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, dq_ring_depth = 65537>
}

// -----

func.func private @key_stationary_part_stages() attributes {
  // expected-error @below {{'stages' must be a multiple of 'query_parts' = 2 (was 3)}}
  s = #attn_tile.key_stationary<query_tile = 128, key_tile = 128, stages = 3, consumers = 2, query_parts = 2>
}

// -----

func.func private @key_stationary_pipelined_stages() attributes {
  // expected-error @below {{'pipelined' needs more stages than 'query_parts' = 2 (was 2)}}
  s = #attn_tile.key_stationary<query_tile = 128, key_tile = 128, stages = 2, consumers = 2, pipelined = true, query_parts = 2>
}

// -----

func.func private @key_stationary_many_stages() attributes {
  // expected-error @below {{'stages' must be at most 64 (was 65)}}
  s = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 65, consumers = 2>
}

// -----

func.func private @key_stationary_many_key_stages() attributes {
  // expected-error @below {{'key_stages' must be at most 64 (was 65)}}
  s = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, key_stages = 65>
}

// -----

func.func private @warp_specialized_many_stages() attributes {
  // expected-error @below {{'stages' must be at most 64 (was 9223372036854775807)}}
  s = #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 9223372036854775807, consumers = 2>
}

// -----

func.func private @warp_specialized_many_query_stages() attributes {
  // expected-error @below {{'query_stages' must be at most 64 (was 65)}}
  s = #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2, query_stages = 65>
}

// -----

func.func private @warp_specialized_many_score_stages() attributes {
  // expected-error @below {{'score_stages' must be at most 64 (was 65)}}
  s = #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2, score_stages = 65>
}

// -----

func.func private @multistage_many_stages() attributes {
  // expected-error @below {{'stages' must be at most 64 (was 65)}}
  s = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 65, warps = 8>
}

// -----

func.func private @key_multistage_many_stages() attributes {
  // expected-error @below {{'stages' must be at most 64 (was 65)}}
  s = #attn_tile.key_multistage<query_tile = 48, key_tile = 64, stages = 65, warps = 4>
}

// -----

func.func private @matmul_many_stages() attributes {
  // expected-error @below {{'stages' must be at most 64 (was 65)}}
  s = #attn_tile.matmul_warp_specialized<row_tile = 128, column_tile = 64, depth_tile = 64, stages = 65, consumers = 2, interleave = 1>
}

// -----

func.func private @key_stationary_dq_ring_grid() attributes {
  // expected-error @below {{'dq_ring_depth' needs CTAs that iterate over one head after the other (was 264)}}
  s = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, traversal = grid, dq_ring_depth = 264>
}

// -----

func.func private @key_stationary_dq_ring_interleave() attributes {
  // expected-error @below {{'dq_ring_depth' needs CTAs that iterate over one head after the other (was 264)}}
  s = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, interleave = 8, dq_ring_depth = 264>
}

// -----

func.func private @key_stationary_key_stages() attributes {
  // expected-error @below {{'key_stages' must be positive (was 0)}}
  s = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, key_stages = 0>
}

// -----

func.func private @key_stationary_order_grid() attributes {
  // expected-error @below {{'ordered_dq' needs CTAs that iterate over one head after the other}}
  s = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, traversal = grid, ordered_dq = true>
}

// -----

func.func private @key_stationary_order_interleave() attributes {
  // expected-error @below {{'ordered_dq' needs CTAs that iterate over one head after the other}}
  s = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, interleave = 8, ordered_dq = true>
}

// -----

func.func private @key_stationary_ahead_grid() attributes {
  // expected-error @below {{'prefetch_work_item' needs CTAs that iterate over several work items}}
  s = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, traversal = grid, prefetch_work_item = true>
}

// -----

func.func private @key_stationary_order_dq_ring() attributes {
  // expected-error @below {{'ordered_dq' and 'dq_ring_depth' need the same idle warps (was 264)}}
  s = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, dq_ring_depth = 264, ordered_dq = true>
}

// -----

func.func private @key_stationary_interleave() attributes {
  // expected-error @below {{'interleave' must not be negative (was -1)}}
  s = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, interleave = -1>
}

// -----

func.func private @gradient_warps() attributes {
  // expected-error @below {{'preprocess' must have as many warps as the consumers of 'dkdv' without 'dq' (expected 8, found 4)}}
  s = #attn_tile.gradient<
      preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 4>,
      dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>>
}

// -----

func.func private @gradient_dq_ring() attributes {
  // expected-error @below {{'dq_ring_depth' is for 'dkdv' without 'dq'}}
  s = #attn_tile.gradient<
      preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
      dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, dq_ring_depth = 264>,
      dq = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>>
}

// -----

func.func private @gradient_dq_ring_of_values() attributes {
  // expected-error @below {{'dq_ring_depth' is for 'dkdv' without 'dq'}}
  s = #attn_tile.gradient<
      preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
      dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>,
      dv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, dq_ring_depth = 264>>
}

// -----

func.func private @gradient_order() attributes {
  // expected-error @below {{'ordered_dq' is for 'dkdv' without 'dq'}}
  s = #attn_tile.gradient<
      preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
      dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, ordered_dq = true>,
      dq = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>>
}

// -----

func.func private @gradient_order_of_values() attributes {
  // expected-error @below {{'ordered_dq' is for 'dkdv' without 'dq'}}
  s = #attn_tile.gradient<
      preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
      dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>,
      dv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, ordered_dq = true>>
}

// -----

// CHECK-LABEL: func private @matmul() attributes {
// CHECK-SAME: a = #attn_tile.matmul_sequential<row_tile = 3, column_tile = 5, depth_tile = 7>,
// CHECK-SAME: b = #attn_tile.matmul_warp_specialized<row_tile = 192, column_tile = 128, depth_tile = 64, stages = 4, consumers = 3>,
// CHECK-SAME: c = #attn_tile.matmul_multistage<row_tile = 64, column_tile = 48, depth_tile = 32, stages = 3, warps = 2>}
func.func private @matmul() attributes {
  a = #attn_tile.matmul_sequential<row_tile = 3, column_tile = 5, depth_tile = 7>,
  b = #attn_tile.matmul_warp_specialized<row_tile = 192, column_tile = 128, depth_tile = 64, stages = 4, consumers = 3>,
  c = #attn_tile.matmul_multistage<row_tile = 64, column_tile = 48, depth_tile = 32, stages = 3, warps = 2>}

// -----

// CHECK-LABEL: func private @linear() attributes {
// CHECK-SAME: a = #attn_tile.linear_multistage<chunk = 64, value_tile = 48, stages = 2, warps = 4>,
// CHECK-SAME: b = #attn_tile.linear_multistage<chunk = 128, value_tile = 64, stages = 1, warps = 8, split_work_items = 264>,
// CHECK-SAME: c = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4, local_stages = 1,
// CHECK-SAME:     rows_ahead = true, split_work_items = 264>,
// CHECK-SAME: d = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 1, warps = 4, refill = true>}
func.func private @linear() attributes {
  a = #attn_tile.linear_multistage<chunk = 64, value_tile = 48, stages = 2, warps = 4>,
  b = #attn_tile.linear_multistage<chunk = 128, value_tile = 64, stages = 1, warps = 8, split_work_items = 264>,
  c = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4, local_stages = 1, rows_ahead = true,
      split_work_items = 264>,
  d = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 1, warps = 4, refill = true>}

// -----

// CHECK-LABEL: func private @recurrent() attributes {a = #attn_tile.linear_recurrent<value_tile = 16>}
func.func private @recurrent() attributes {a = #attn_tile.linear_recurrent<value_tile = 16>}

// -----

// expected-error @below {{'value_tile' must be 8, 16 or 32 (was 64)}}
func.func private @a() attributes {a = #attn_tile.linear_recurrent<value_tile = 64>}

// -----

// CHECK-LABEL: func private @by_work_items() attributes {
// CHECK-SAME: a = #attn_tile.by_work_items<more_than = 88, at_most = 132,
// CHECK-SAME: within = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 3>,
// CHECK-SAME: otherwise = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2, local_stages = 1,
// CHECK-SAME: split_work_items = 264, ctas_per_sm = 2>>}
func.func private @by_work_items() attributes {a = #attn_tile.by_work_items<
    more_than = 88, at_most = 132,
    within = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 3>,
    otherwise = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2,
        local_stages = 1, split_work_items = 264, ctas_per_sm = 2>>}

// -----

// expected-error @below {{'more_than' must not be negative (was -1)}}
func.func private @a() attributes {a = #attn_tile.by_work_items<
    more_than = -1, at_most = 132,
    within = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 3>,
    otherwise = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2>>}

// -----

// expected-error @below {{'at_most' must be larger than 'more_than', which is 88 (was 88)}}
func.func private @a() attributes {a = #attn_tile.by_work_items<
    more_than = 88, at_most = 88,
    within = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 3>,
    otherwise = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2>>}

// -----

// expected-error @below {{'within' must be #attn_tile.linear_multistage or #attn_tile.linear_warp_specialized (was #attn_tile.linear_recurrent<value_tile = 16>)}}
func.func private @a() attributes {a = #attn_tile.by_work_items<
    more_than = 88, at_most = 132,
    within = #attn_tile.linear_recurrent<value_tile = 16>,
    otherwise = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2>>}

// -----

// expected-error @below {{'within' and 'otherwise' must have the same 'value_tile' (were #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 3> and #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 32, stages = 2>)}}
func.func private @a() attributes {a = #attn_tile.by_work_items<
    more_than = 88, at_most = 132,
    within = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 3>,
    otherwise = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 32, stages = 2>>}

// -----

// CHECK-LABEL: func private @pairs() attributes {
// CHECK-SAME: a = #attn_tile.linear_pairs<pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>,
// CHECK-SAME: chunks = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2>>,
// CHECK-SAME: b = #attn_tile.linear_pairs<pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>,
// CHECK-SAME: chunks = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>,
// CHECK-SAME: narrow = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 2, warps = 4>, narrow_work_items = 108>,
// CHECK-SAME: c = #attn_tile.linear_pairs<pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>,
// CHECK-SAME: levels = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 1, warps = 4>,
// CHECK-SAME: chunks = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2>>,
// CHECK-SAME: d = #attn_tile.linear_pairs<pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>,
// CHECK-SAME: chunks = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2, split_work_items = 132>,
// CHECK-SAME: starts = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 2, warps = 4>,
// CHECK-SAME: gradients = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 1, local_stages = 1, ctas_per_sm = 2>>}
func.func private @pairs() attributes {
  a = #attn_tile.linear_pairs<
      pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>,
      chunks = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2>>,
  b = #attn_tile.linear_pairs<
      pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>,
      chunks = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>,
      narrow = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 2, warps = 4>, narrow_work_items = 108>,
  c = #attn_tile.linear_pairs<
      pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>,
      levels = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 1, warps = 4>,
      chunks = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2>>,
  d = #attn_tile.linear_pairs<
      pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>,
      chunks = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2, split_work_items = 132>,
      starts = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 2, warps = 4>,
      gradients = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 1, local_stages = 1, ctas_per_sm = 2>>}

// -----

// expected-error @below {{'ctas_per_sm' must be at most 2 (was 3)}}
func.func private @a() attributes {a = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 1, ctas_per_sm = 3>}

// -----

// expected-error @below {{'ctas_per_sm' must be positive (was 0)}}
func.func private @a() attributes {a = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 1, ctas_per_sm = 0>}

// -----

// expected-error @below {{'gradients' must be #attn_tile.linear_multistage with 4 warps, or #attn_tile.linear_warp_specialized, and have chunks of 64 (was #attn_tile.scalar)}}
func.func private @a() attributes {a = #attn_tile.linear_pairs<
    pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>,
    chunks = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2>,
    gradients = #attn_tile.scalar>}

// -----

// expected-error @below {{'starts' must be #attn_tile.linear_multistage with chunks of 64 and 4 warps (was #attn_tile.scalar)}}
func.func private @a() attributes {a = #attn_tile.linear_pairs<
    pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>,
    chunks = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2, split_work_items = 132>,
    starts = #attn_tile.scalar>}

// -----

// expected-error @below {{'split_work_items' of 'chunks' must be positive with 'starts', and 0 without (was 132)}}
func.func private @a() attributes {a = #attn_tile.linear_pairs<
    pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>,
    chunks = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2, split_work_items = 132>>}

// -----

// expected-error @below {{'narrow' must not be given with 'starts'}}
func.func private @a() attributes {a = #attn_tile.linear_pairs<
    pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>,
    chunks = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2, split_work_items = 132>,
    starts = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 2, warps = 4>,
    narrow = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 16, stages = 2>, narrow_work_items = 1>}

// -----

// expected-error @below {{'levels' must be #attn_tile.linear_multistage with chunks of 64 and 4 warps (was #attn_tile.scalar)}}
func.func private @a() attributes {a = #attn_tile.linear_pairs<
    pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>,
    levels = #attn_tile.scalar,
    chunks = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2>>}

// -----

// expected-error @below {{'pairs' must be #attn_tile.linear_multistage with chunks of 64 and 4 warps (was #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2>)}}
func.func private @a() attributes {a = #attn_tile.linear_pairs<
    pairs = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2>,
    chunks = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2>>}

// -----

// expected-error @below {{'pairs' must be #attn_tile.linear_multistage with chunks of 64 and 4 warps (was #attn_tile.linear_multistage<chunk = 64, value_tile = 32, stages = 1, warps = 2>)}}
func.func private @a() attributes {a = #attn_tile.linear_pairs<
    pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 32, stages = 1, warps = 2>,
    chunks = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2>>}

// -----

// expected-error @below {{'chunks' must be #attn_tile.linear_multistage with 4 warps, or #attn_tile.linear_warp_specialized, and have chunks of 64 (was #attn_tile.scalar)}}
func.func private @a() attributes {a = #attn_tile.linear_pairs<
    pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>,
    chunks = #attn_tile.scalar>}

// -----

// expected-error @below {{'chunks' must be #attn_tile.linear_multistage with 4 warps, or #attn_tile.linear_warp_specialized, and have chunks of 64 (was #attn_tile.linear_warp_specialized<chunk = 128, value_tile = 64, stages = 2>)}}
func.func private @a() attributes {a = #attn_tile.linear_pairs<
    pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>,
    chunks = #attn_tile.linear_warp_specialized<chunk = 128, value_tile = 64, stages = 2>>}

// -----

// expected-error @below {{'narrow' must be #attn_tile.linear_multistage with 4 warps, or #attn_tile.linear_warp_specialized, and have chunks of 64 (was #attn_tile.scalar)}}
func.func private @a() attributes {a = #attn_tile.linear_pairs<
    pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>,
    chunks = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>,
    narrow = #attn_tile.scalar, narrow_work_items = 1>}

// -----

// expected-error @below {{'narrow_work_items' must be positive (was 0)}}
func.func private @a() attributes {a = #attn_tile.linear_pairs<
    pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>,
    chunks = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>,
    narrow = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 2, warps = 4>>}

// -----

// expected-error @below {{'narrow_work_items' needs 'narrow'}}
func.func private @a() attributes {a = #attn_tile.linear_pairs<
    pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>,
    chunks = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>, narrow_work_items = 1>}

// -----

// expected-error @below {{'value_tile' of 'narrow' must be less than that of 'chunks' (expected less than 64, was 64)}}
func.func private @a() attributes {a = #attn_tile.linear_pairs<
    pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>,
    chunks = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>,
    narrow = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2>, narrow_work_items = 1>}

// -----

// CHECK-LABEL: func private @linear_with_producer() attributes {
// CHECK-SAME: a = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 48, stages = 3>,
// CHECK-SAME: b = #attn_tile.linear_warp_specialized<chunk = 128, value_tile = 64, stages = 2, local_stages = 1, rows_ahead = true, split_work_items = 132>}
func.func private @linear_with_producer() attributes {
  a = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 48, stages = 3, local_stages = 2, rows_ahead = false>,
  b = #attn_tile.linear_warp_specialized<chunk = 128, value_tile = 64, stages = 2, local_stages = 1, rows_ahead = true, split_work_items = 132>}

// -----

// expected-error @below {{'chunk' must be a positive multiple of 64 (was 96)}}
func.func private @a() attributes {a = #attn_tile.linear_warp_specialized<chunk = 96, value_tile = 64, stages = 2>}

// -----

// expected-error @below {{'chunk' must be at most 192 (was 256)}}
func.func private @a() attributes {a = #attn_tile.linear_warp_specialized<chunk = 256, value_tile = 64, stages = 2>}

// -----

// expected-error @below {{'value_tile' must be a positive multiple of 16 (was 24)}}
func.func private @a() attributes {a = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 24, stages = 2>}

// -----

// expected-error @below {{'value_tile' must be at most 256 (was 272)}}
func.func private @a() attributes {a = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 272, stages = 2>}

// -----

// expected-error @below {{'stages'}}
func.func private @a() attributes {a = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 0>}

// -----

// expected-error @below {{'local_stages' must be positive (was 0)}}
func.func private @a() attributes {a = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2, local_stages = 0>}

// -----

// expected-error @below {{'local_stages' must be at most 2 (was 3)}}
func.func private @a() attributes {a = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2, local_stages = 3>}

// -----

// expected-error @below {{'split_work_items' must not be negative (was -1)}}
func.func private @a() attributes {a = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2, split_work_items = -1>}

// -----

// expected-error @below {{'warps' must be positive (was 0)}}
func.func private @a() attributes {a = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 0>}

// -----

// expected-error @below {{'warps' must be at most 16 (was 17)}}
func.func private @a() attributes {a = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 17>}

// -----

// expected-error @below {{'stages' must be positive (was 0)}}
func.func private @a() attributes {a = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 0, warps = 4>}

// -----

// expected-error @below {{'chunk' must be a positive multiple of 64 (was 96)}}
func.func private @a() attributes {a = #attn_tile.linear_multistage<chunk = 96, value_tile = 64, stages = 2, warps = 4>}

// -----

// expected-error @below {{'value_tile' must be a positive multiple of 16 (was 24)}}
func.func private @a() attributes {a = #attn_tile.linear_multistage<chunk = 64, value_tile = 24, stages = 2, warps = 4>}

// -----

// expected-error @below {{'chunk' must be at most 256 (was 320)}}
func.func private @a() attributes {a = #attn_tile.linear_multistage<chunk = 320, value_tile = 64, stages = 2, warps = 4>}

// -----

// expected-error @below {{'value_tile' must be at most 256 (was 272)}}
func.func private @a() attributes {a = #attn_tile.linear_multistage<chunk = 64, value_tile = 272, stages = 2, warps = 4>}

// -----

// expected-error @below {{'split_work_items' must not be negative (was -1)}}
func.func private @a() attributes {a = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4, split_work_items = -1>}

// -----

// expected-error @below {{'local_stages' must be positive (was 0)}}
func.func private @a() attributes {a = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4, local_stages = 0>}

// -----

// expected-error @below {{'local_stages' must be at most 2 (was 3)}}
func.func private @a() attributes {a = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4, local_stages = 3>}

// -----

// expected-error @below {{'consumers' must be positive (was 0)}}
func.func private @a() attributes {a = #attn_tile.matmul_warp_specialized<row_tile = 0, column_tile = 64, depth_tile = 64, stages = 1, consumers = 0,
    interleave = 1>}

// -----

// expected-error @below {{'stages' must be positive (was 0)}}
func.func private @a() attributes {a = #attn_tile.matmul_warp_specialized<row_tile = 64, column_tile = 64, depth_tile = 64, stages = 0, consumers = 1,
    interleave = 1>}

// -----

// expected-error @below {{'column_tile' must be a positive multiple of 64 (was 96)}}
func.func private @a() attributes {a = #attn_tile.matmul_warp_specialized<row_tile = 64, column_tile = 96, depth_tile = 64, stages = 1, consumers = 1,
    interleave = 1>}

// -----

// expected-error @below {{'depth_tile' must be a positive multiple of 64 (was 32)}}
func.func private @a() attributes {a = #attn_tile.matmul_warp_specialized<row_tile = 64, column_tile = 64, depth_tile = 32, stages = 1, consumers = 1,
    interleave = 1>}

// -----

// expected-error @below {{'interleave' must be positive (was 0)}}
func.func private @a() attributes {a = #attn_tile.matmul_warp_specialized<row_tile = 64, column_tile = 64, depth_tile = 64, stages = 1, consumers = 1,
    interleave = 0>}

// -----

// expected-error @below {{'row_tile' must be 64 times 'consumers' (expected 128, was 64)}}
func.func private @a() attributes {a = #attn_tile.matmul_warp_specialized<row_tile = 64, column_tile = 64, depth_tile = 64, stages = 1, consumers = 2,
    interleave = 1>}

// -----

// expected-error @below {{'column_tile' must be at most 256 (was 320)}}
func.func private @a() attributes {a = #attn_tile.matmul_warp_specialized<row_tile = 64, column_tile = 320, depth_tile = 64, stages = 1, consumers = 1,
    interleave = 1>}

// -----

// expected-error @below {{'depth_tile' must be at most 256 (was 320)}}
func.func private @a() attributes {a = #attn_tile.matmul_warp_specialized<row_tile = 64, column_tile = 64, depth_tile = 320, stages = 1, consumers = 1,
    interleave = 1>}

// -----

// expected-error @below {{'consumers' must be at most 3 (was 4)}}
func.func private @a() attributes {a = #attn_tile.matmul_warp_specialized<row_tile = 256, column_tile = 64, depth_tile = 64, stages = 1, consumers = 4,
    interleave = 1>}

// -----

// expected-error @below {{'warps' must be positive (was 0)}}
func.func private @a() attributes {a = #attn_tile.matmul_multistage<row_tile = 64, column_tile = 64, depth_tile = 64, stages = 2, warps = 0>}

// -----

// expected-error @below {{'warps' must be at most 16 (was 17)}}
func.func private @a() attributes {a = #attn_tile.matmul_multistage<row_tile = 272, column_tile = 64, depth_tile = 64, stages = 2, warps = 17>}

// -----

// expected-error @below {{'stages' must be positive (was 0)}}
func.func private @a() attributes {a = #attn_tile.matmul_multistage<row_tile = 64, column_tile = 64, depth_tile = 64, stages = 0, warps = 4>}

// -----

// expected-error @below {{'row_tile' must be a positive multiple of 64 (was 96)}}
func.func private @a() attributes {a = #attn_tile.matmul_multistage<row_tile = 96, column_tile = 64, depth_tile = 64, stages = 2, warps = 4>}

// -----

// expected-error @below {{'column_tile' must be a positive multiple of 16 (was 24)}}
func.func private @a() attributes {a = #attn_tile.matmul_multistage<row_tile = 64, column_tile = 24, depth_tile = 64, stages = 2, warps = 4>}

// -----

// expected-error @below {{'depth_tile' must be a positive multiple of 16 (was 8)}}
func.func private @a() attributes {a = #attn_tile.matmul_multistage<row_tile = 64, column_tile = 64, depth_tile = 8, stages = 2, warps = 4>}

// -----

// expected-error @below {{'row_tile' must be at most 256 (was 320)}}
func.func private @a() attributes {a = #attn_tile.matmul_multistage<row_tile = 320, column_tile = 64, depth_tile = 64, stages = 2, warps = 4>}

// -----

// expected-error @below {{'column_tile' must be at most 256 (was 272)}}
func.func private @a() attributes {a = #attn_tile.matmul_multistage<row_tile = 64, column_tile = 272, depth_tile = 64, stages = 2, warps = 4>}

// -----

// expected-error @below {{'depth_tile' must be at most 256 (was 320)}}
func.func private @a() attributes {a = #attn_tile.matmul_multistage<row_tile = 64, column_tile = 64, depth_tile = 320, stages = 2, warps = 4>}

// -----

// expected-error @below {{'row_tile' must be positive (was 0)}}
func.func private @a() attributes {a = #attn_tile.matmul_sequential<row_tile = 0, column_tile = 1, depth_tile = 1>}

// -----

// expected-error @below {{'column_tile' must be positive (was 0)}}
func.func private @a() attributes {a = #attn_tile.matmul_sequential<row_tile = 1, column_tile = 0, depth_tile = 1>}

// -----

// expected-error @below {{'depth_tile' must be positive (was 0)}}
func.func private @a() attributes {a = #attn_tile.matmul_sequential<row_tile = 1, column_tile = 1, depth_tile = 0>}

// -----

func.func private @l2_promotion() attributes {
  // expected-error @below {{'l2_promotion' must be 0, 64, 128 or 256 (was 512)}}
  s = #attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, l2_promotion = 512>
}

// -----

func.func private @groups() attributes {
  // expected-error @below {{'ctas_per_sm' must be at most 2 (was 3)}}
  s = #attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, ctas_per_sm = 3>
}

// -----

func.func private @polynomials() attributes {
  // expected-error @below {{'exp2_emulation' must not be negative (was -1)}}
  s = #attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, exp2_emulation = -1>
}

// -----

func.func private @polynomials() attributes {
  // expected-error @below {{'exp2_emulation' must be at most 16 (was 17)}}
  s = #attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, exp2_emulation = 17>
}

// -----

func.func private @no_cluster() attributes {
  // expected-error @below {{'cluster' must be positive (was 0)}}
  s = #attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, cluster = 0>
}

// -----

func.func private @large_cluster() attributes {
  // expected-error @below {{'cluster' must be at most 8 (was 16)}}
  s = #attn_tile.warp_specialized<query_tile = 64, key_tile = 128, stages = 2, consumers = 1, cluster = 16>
}

// -----

func.func private @parts_of_keys() attributes {
  // expected-error @below {{'key_tile' must be a multiple of 32 with 'cluster' = 4 (was 80)}}
  s = #attn_tile.warp_specialized<query_tile = 64, key_tile = 80, stages = 2, consumers = 1, cluster = 4>
}

// -----

func.func private @few_queries_of_cluster() attributes {
  // expected-error @below {{'cluster' is for many tiles of queries, which 'split_kv_work_items' and 'pack_gqa' are not (was 2)}}
  s = #attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, split_kv_work_items = 132, cluster = 2>
}

// -----

func.func private @packed_cluster() attributes {
  // expected-error @below {{'cluster' is for many tiles of queries, which 'split_kv_work_items' and 'pack_gqa' are not (was 2)}}
  s = #attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, pack_gqa = true, cluster = 2>
}

// -----

func.func private @bits_of_cluster() attributes {
  // expected-error @below {{'mask_bits' are of whole rows of tiles, which 'split_kv_work_items', 'pack_gqa' and 'cluster' do not have}}
  s = #attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, cluster = 2, mask_bits = true>
}

// -----

func.func private @bits_of_shared_keys() attributes {
  // expected-error @below {{'mask_bits' are of whole rows of tiles, which 'split_kv_work_items', 'pack_gqa' and 'cluster' do not have}}
  s = #attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, split_kv_work_items = 132, mask_bits = true>
}

// -----

func.func private @bits_of_packed_heads() attributes {
  // expected-error @below {{'mask_bits' are of whole rows of tiles, which 'split_kv_work_items', 'pack_gqa' and 'cluster' do not have}}
  s = #attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, pack_gqa = true, mask_bits = true>
}

// -----

// CHECK-LABEL: func private @instructions() attributes {
// CHECK-SAME:    a = #attn_tile.mma_sync<multiplicand = bf16>
// CHECK-SAME:    b = #attn_tile.mma_sync<multiplicand = tf32>
// CHECK-SAME:    c = #attn_tile.mma_sync<multiplicand = tf32, terms = 3>
// CHECK-SAME:    d = #attn_tile.wgmma<multiplicand = f16>
func.func private @instructions() attributes {
  a = #attn_tile.mma_sync<multiplicand = bf16>,
  b = #attn_tile.mma_sync<multiplicand = tf32, terms = 1>,
  c = #attn_tile.mma_sync<multiplicand = tf32, terms = 3>,
  d = #attn_tile.wgmma<multiplicand = f16>
}

// -----

func.func private @multiplicand() attributes {
  // expected-error @below {{'multiplicand' must be bf16, f16 or tf32 (was 'f32')}}
  m = #attn_tile.mma_sync<multiplicand = f32>
}

// -----

func.func private @terms() attributes {
  // expected-error @below {{'terms' must be 1 for 'bf16' (was 3)}}
  m = #attn_tile.mma_sync<multiplicand = bf16, terms = 3>
}

// -----

func.func private @two_products() attributes {
  // expected-error @below {{'terms' must be 1 or 3 for 'tf32' (was 2)}}
  m = #attn_tile.mma_sync<multiplicand = tf32, terms = 2>
}

// -----

func.func private @wgmma() attributes {
  // expected-error @below {{'multiplicand' must be bf16, f16, f8E4M3FN or f8E5M2 (was 'tf32')}}
  m = #attn_tile.wgmma<multiplicand = tf32>
}

// -----

func.func private @skip_empty_rows() attributes {
  // expected-error @below {{'skip_empty_rows' needs 1 of 'consumers' (was 2)}}
  s = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2, skip_empty_rows = true>
}
