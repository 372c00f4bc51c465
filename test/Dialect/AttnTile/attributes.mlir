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
// CHECK-SAME:    s5 = #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2, interleave = 8, lazy_rescale = true>,
// CHECK-SAME:    s6 = #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2, delay_rescale = true>,
// CHECK-SAME:    s7 = #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2, score_stages = 2>,
// CHECK-SAME:    s8 = #attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, split_items = 132, pack_heads = true, l2_promotion = 128, groups = 2>,
// CHECK-SAME:    s9 = #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2, polynomial_exp2 = 4>,
// CHECK-SAME:    sa = #attn_tile.warp_specialized<query_tile = 128, key_tile = 176, stages = 2, consumers = 2, cluster = 2>,
// CHECK-SAME:    sb = #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2, pair_bits = true>}
func.func private @warp_specialized() attributes {
  s0 = #attn_tile.warp_specialized<query_tile = 128, key_tile = 176, stages = 2, consumers = 2>,
  s1 = #attn_tile.warp_specialized<query_tile = 128, key_tile = 176, stages = 2, consumers = 2,
      ping_pong = false, traversal = persistent, interleave = 1, lazy_rescale = false>,
  s2 = #attn_tile.warp_specialized<ping_pong = true, consumers = 2, stages = 2,
      key_tile = 176, query_tile = 128>,
  s3 = #attn_tile.warp_specialized<query_tile = 64, key_tile = 16, stages = 1, consumers = 1,
      traversal = grid>,
  s4 = #attn_tile.warp_specialized<query_tile = 192, key_tile = 256, stages = 1, consumers = 3,
      traversal = paired, interleave = 0>,
  s5 = #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2,
      interleave = 8, lazy_rescale = true, delay_rescale = false>,
  s6 = #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2,
      delay_rescale = true>,
  s7 = #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2, score_stages = 2>,
  s8 = #attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1,
      split_items = 132, pack_heads = true, l2_promotion = 128, groups = 2>,
  s9 = #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2, polynomial_exp2 = 4>,
  sa = #attn_tile.warp_specialized<query_tile = 128, key_tile = 176, stages = 2, consumers = 2, cluster = 2>,
  sb = #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2, pair_bits = true>
}

// -----

// CHECK-LABEL: func private @other_schedules() attributes {
// CHECK-SAME:    s0 = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 4>,
// CHECK-SAME:    s1 = #attn_tile.sequential<query_tile = 1, key_tile = 8>,
// CHECK-SAME:    s2 = #attn_tile.by_alignment<aligned = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 4>, otherwise = #attn_tile.sequential<query_tile = 1, key_tile = 8>>}
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

func.func private @split_items() attributes {
  // expected-error @below {{'split_items' must not be negative (was -1)}}
  s = #attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, split_items = -1>
}

// -----

func.func private @split_items_multistage() attributes {
  // expected-error @below {{'split_items' must not be negative (was -2)}}
  s = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 4, split_items = -2>
}

// -----

func.func private @split_items_sequential() attributes {
  // expected-error @below {{'split_items' must not be negative (was -3)}}
  s = #attn_tile.sequential<query_tile = 16, key_tile = 64, split_items = -3>
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

// CHECK-LABEL: func private @scalar() attributes {s = #attn_tile.scalar}
func.func private @scalar() attributes {s = #attn_tile.scalar}

// -----

// CHECK-LABEL: func private @key_stationary() attributes {
// CHECK-SAME:    s0 = #attn_tile.key_stationary<query_tile = 80, key_tile = 128, stages = 2, consumers = 2>,
// CHECK-SAME:    s1 = #attn_tile.key_stationary<query_tile = 64, key_tile = 64, stages = 4, consumers = 1, traversal = paired, interleave = 2, pipelined = true, query_parts = 2>,
// CHECK-SAME:    s2 = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, ring_items = 264>,
// CHECK-SAME:    s3 = #attn_tile.key_stationary<query_tile = 128, key_tile = 128, stages = 4, consumers = 2, query_parts = 2, lhs_registers = true>,
// CHECK-SAME:    s4 = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, traversal = paired, in_turn = true, key_stages = 2>,
// CHECK-SAME:    s5 = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, traversal = paired, items_ahead = true>}
func.func private @key_stationary() attributes {
  s0 = #attn_tile.key_stationary<query_tile = 80, key_tile = 128, stages = 2, consumers = 2,
      traversal = persistent>,
  s1 = #attn_tile.key_stationary<query_tile = 64, key_tile = 64, stages = 4, consumers = 1,
      traversal = paired, interleave = 2, pipelined = true, query_parts = 2>,
  s2 = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, ring_items = 264,
      lhs_registers = false>,
  s3 = #attn_tile.key_stationary<query_tile = 128, key_tile = 128, stages = 4, consumers = 2, query_parts = 2,
      lhs_registers = true, in_turn = false>,
  s4 = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, traversal = paired, in_turn = true,
      key_stages = 2, items_ahead = false>,
  s5 = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, traversal = paired,
      items_ahead = true>
}

// -----

// CHECK-LABEL: func private @key_multistage() attributes {
// CHECK-SAME:    s = #attn_tile.key_multistage<query_tile = 48, key_tile = 128, stages = 2, warps = 4>}
func.func private @key_multistage() attributes {
  s = #attn_tile.key_multistage<query_tile = 48, key_tile = 128, stages = 2, warps = 4>
}

// -----

// CHECK-LABEL: func private @gradient() attributes {
// CHECK-SAME:    s0 = #attn_tile.gradient<rows = #attn_tile.sequential<query_tile = 16, key_tile = 64>, keys = #attn_tile.sequential<query_tile = 16, key_tile = 64>>,
// CHECK-SAME:    s1 = #attn_tile.gradient<rows = #attn_tile.sequential<query_tile = 16, key_tile = 64>, keys = #attn_tile.sequential<query_tile = 16, key_tile = 64>, queries = #attn_tile.sequential<query_tile = 16, key_tile = 64>, values = #attn_tile.sequential<query_tile = 16, key_tile = 64>>}
#seq = #attn_tile.sequential<query_tile = 16, key_tile = 64>
func.func private @gradient() attributes {
  s0 = #attn_tile.gradient<rows = #seq, keys = #seq>,
  s1 = #attn_tile.gradient<rows = #seq, keys = #seq, queries = #seq, values = #seq>
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

func.func private @key_stationary_ring() attributes {
  // expected-error @below {{'ring_items' must not be negative (was -1)}}
  s = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, ring_items = -1>
}

// -----

func.func private @key_stationary_ring_long() attributes {
  // expected-error @below {{'ring_items' must be at most 65536 (was 65537)}}
  s = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, ring_items = 65537>
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

func.func private @key_stationary_ring_grid() attributes {
  // expected-error @below {{'ring_items' needs groups that walk over one head after the other (was 264)}}
  s = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, traversal = grid, ring_items = 264>
}

// -----

func.func private @key_stationary_ring_interleave() attributes {
  // expected-error @below {{'ring_items' needs groups that walk over one head after the other (was 264)}}
  s = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, interleave = 8, ring_items = 264>
}

// -----

func.func private @key_stationary_key_stages() attributes {
  // expected-error @below {{'key_stages' must be positive (was 0)}}
  s = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, key_stages = 0>
}

// -----

func.func private @key_stationary_turn_grid() attributes {
  // expected-error @below {{'in_turn' needs groups that walk over one head after the other}}
  s = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, traversal = grid, in_turn = true>
}

// -----

func.func private @key_stationary_turn_interleave() attributes {
  // expected-error @below {{'in_turn' needs groups that walk over one head after the other}}
  s = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, interleave = 8, in_turn = true>
}

// -----

func.func private @key_stationary_ahead_grid() attributes {
  // expected-error @below {{'items_ahead' needs groups that walk over several items}}
  s = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, traversal = grid, items_ahead = true>
}

// -----

func.func private @key_stationary_turn_ring() attributes {
  // expected-error @below {{'in_turn' and 'ring_items' need the same idle warps (was 264)}}
  s = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, ring_items = 264, in_turn = true>
}

// -----

func.func private @key_stationary_interleave() attributes {
  // expected-error @below {{'interleave' must not be negative (was -1)}}
  s = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, interleave = -1>
}

// -----

func.func private @gradient_warps() attributes {
  // expected-error @below {{'rows' must have as many warps as the consumers of 'keys' without 'queries' (expected 8, found 4)}}
  s = #attn_tile.gradient<
      rows = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 4>,
      keys = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>>
}

// -----

func.func private @gradient_ring() attributes {
  // expected-error @below {{'ring_items' is for 'keys' without 'queries'}}
  s = #attn_tile.gradient<
      rows = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
      keys = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, ring_items = 264>,
      queries = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>>
}

// -----

func.func private @gradient_ring_of_values() attributes {
  // expected-error @below {{'ring_items' is for 'keys' without 'queries'}}
  s = #attn_tile.gradient<
      rows = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
      keys = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>,
      values = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, ring_items = 264>>
}

// -----

func.func private @gradient_turn() attributes {
  // expected-error @below {{'in_turn' is for 'keys' without 'queries'}}
  s = #attn_tile.gradient<
      rows = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
      keys = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, in_turn = true>,
      queries = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>>
}

// -----

func.func private @gradient_turn_of_values() attributes {
  // expected-error @below {{'in_turn' is for 'keys' without 'queries'}}
  s = #attn_tile.gradient<
      rows = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
      keys = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>,
      values = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, in_turn = true>>
}

// -----

// CHECK-LABEL: func private @matmul() attributes {
// CHECK-SAME: a = #attn_tile.matmul_sequential<row_tile = 3, column_tile = 5, depth_tile = 7>,
// CHECK-SAME: b = #attn_tile.matmul_warp_specialized<row_tile = 192, column_tile = 128, depth_tile = 64, stages = 4, consumers = 3>}
func.func private @matmul() attributes {
  a = #attn_tile.matmul_sequential<row_tile = 3, column_tile = 5, depth_tile = 7>,
  b = #attn_tile.matmul_warp_specialized<row_tile = 192, column_tile = 128, depth_tile = 64, stages = 4, consumers = 3>}

// -----

// expected-error @below {{'consumers' must be positive (was 0)}}
func.func private @a() attributes {a = #attn_tile.matmul_warp_specialized<row_tile = 0, column_tile = 64, depth_tile = 64, stages = 1, consumers = 0, interleave = 1>}

// -----

// expected-error @below {{'stages' must be positive (was 0)}}
func.func private @a() attributes {a = #attn_tile.matmul_warp_specialized<row_tile = 64, column_tile = 64, depth_tile = 64, stages = 0, consumers = 1, interleave = 1>}

// -----

// expected-error @below {{'column_tile' must be a positive multiple of 64 (was 96)}}
func.func private @a() attributes {a = #attn_tile.matmul_warp_specialized<row_tile = 64, column_tile = 96, depth_tile = 64, stages = 1, consumers = 1, interleave = 1>}

// -----

// expected-error @below {{'depth_tile' must be a positive multiple of 64 (was 32)}}
func.func private @a() attributes {a = #attn_tile.matmul_warp_specialized<row_tile = 64, column_tile = 64, depth_tile = 32, stages = 1, consumers = 1, interleave = 1>}

// -----

// expected-error @below {{'interleave' must be positive (was 0)}}
func.func private @a() attributes {a = #attn_tile.matmul_warp_specialized<row_tile = 64, column_tile = 64, depth_tile = 64, stages = 1, consumers = 1, interleave = 0>}

// -----

// expected-error @below {{'row_tile' must be 64 times 'consumers' (expected 128, was 64)}}
func.func private @a() attributes {a = #attn_tile.matmul_warp_specialized<row_tile = 64, column_tile = 64, depth_tile = 64, stages = 1, consumers = 2, interleave = 1>}

// -----

// expected-error @below {{'column_tile' must be at most 256 (was 320)}}
func.func private @a() attributes {a = #attn_tile.matmul_warp_specialized<row_tile = 64, column_tile = 320, depth_tile = 64, stages = 1, consumers = 1, interleave = 1>}

// -----

// expected-error @below {{'depth_tile' must be at most 256 (was 320)}}
func.func private @a() attributes {a = #attn_tile.matmul_warp_specialized<row_tile = 64, column_tile = 64, depth_tile = 320, stages = 1, consumers = 1, interleave = 1>}

// -----

// expected-error @below {{'consumers' must be at most 3 (was 4)}}
func.func private @a() attributes {a = #attn_tile.matmul_warp_specialized<row_tile = 256, column_tile = 64, depth_tile = 64, stages = 1, consumers = 4, interleave = 1>}

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
  // expected-error @below {{'groups' must be at most 2 (was 3)}}
  s = #attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, groups = 3>
}

// -----

func.func private @polynomials() attributes {
  // expected-error @below {{'polynomial_exp2' must not be negative (was -1)}}
  s = #attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, polynomial_exp2 = -1>
}

// -----

func.func private @polynomials() attributes {
  // expected-error @below {{'polynomial_exp2' must be at most 16 (was 17)}}
  s = #attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, polynomial_exp2 = 17>
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
  // expected-error @below {{'cluster' is for many tiles of queries, which 'split_items' and 'pack_heads' are not (was 2)}}
  s = #attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, split_items = 132, cluster = 2>
}

// -----

func.func private @packed_cluster() attributes {
  // expected-error @below {{'cluster' is for many tiles of queries, which 'split_items' and 'pack_heads' are not (was 2)}}
  s = #attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, pack_heads = true, cluster = 2>
}

// -----

func.func private @bits_of_cluster() attributes {
  // expected-error @below {{'pair_bits' are of whole rows of tiles, which 'split_items', 'pack_heads' and 'cluster' do not have}}
  s = #attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, cluster = 2, pair_bits = true>
}

// -----

func.func private @bits_of_shared_keys() attributes {
  // expected-error @below {{'pair_bits' are of whole rows of tiles, which 'split_items', 'pack_heads' and 'cluster' do not have}}
  s = #attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, split_items = 132, pair_bits = true>
}

// -----

func.func private @bits_of_packed_heads() attributes {
  // expected-error @below {{'pair_bits' are of whole rows of tiles, which 'split_items', 'pack_heads' and 'cluster' do not have}}
  s = #attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, pack_heads = true, pair_bits = true>
}
