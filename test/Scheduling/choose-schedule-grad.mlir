// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=sm_90a}))' --split-input-file | FileCheck %s
// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=host}))' --split-input-file | FileCheck %s --check-prefix=HOST

// The dkdv kernel accumulates dQ, in a ring buffer if there are
// few of them.

// CHECK-LABEL: func @d128
// CHECK:         schedule(#attn.by_query_length<bound = 6144,
// CHECK-SAME:      below = #attn_tile.gradient<preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
// CHECK-SAME:        dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, pipelined = true, dq_ring_depth = 264>>,
// CHECK-SAME:      from = #attn_tile.gradient<preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
// CHECK-SAME:        dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, pipelined = true>>>)
// HOST-LABEL:  func @d128
// HOST:          schedule(#attn.by_query_length<bound = 80, below = #attn_tile.sequential<query_tile = 32, key_tile = 32>,
// HOST-SAME:       from = #attn_tile.sequential<query_tile = 128, key_tile = 128>>)
func.func @d128(%q: memref<?x8x?x128xbf16>, %lse: memref<?x8x?xf32>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<?x8x?x128xbf16>, memref<?x8x?x128xbf16>, memref<?x8x?x128xbf16>,
          memref<?x8x?x128xbf16>, memref<?x8x?xf32>, memref<?x8x?x128xbf16>)
      outs(%q, %q, %q : memref<?x8x?x128xbf16>, memref<?x8x?x128xbf16>, memref<?x8x?x128xbf16>)
  return
}

// -----

// With half the head dim, two tiles of queries add to one dQ accumulator tile, and
// values stay in registers. A score_mod region leaves no registers for them, nor to
// begin the next step early. Pairs have room for the keys of the next work item where
// no warps round.

// CHECK-LABEL: func @d64
// CHECK:         schedule(#attn.by_query_length<bound = 6144,
// CHECK-SAME:      dkdv = #attn_tile.key_stationary<query_tile = 128, key_tile = 128, stages = 4, consumers = 2, traversal = paired, pipelined = true,
// CHECK-SAME:      {{^}} query_parts = 2, dq_ring_depth = 528, lhs_registers = true, key_stages = 2, prefetch_work_item = true>>,
// CHECK-SAME:      dkdv = #attn_tile.key_stationary<query_tile = 128, key_tile = 128, stages = 4, consumers = 2, traversal = paired, pipelined = true,
// CHECK-SAME:      {{^}} query_parts = 2, lhs_registers = true, key_stages = 2>>>)
// CHECK:         schedule(#attn.by_query_length<bound = 6144,
// CHECK-SAME:      dkdv = #attn_tile.key_stationary<query_tile = 128, key_tile = 128, stages = 4, consumers = 2, query_parts = 2, dq_ring_depth = 264>>,
// CHECK-SAME:      dkdv = #attn_tile.key_stationary<query_tile = 128, key_tile = 128, stages = 4, consumers = 2, query_parts = 2>>>)
func.func @d64(%q: memref<?x8x?x64xbf16>, %lse: memref<?x8x?xf32>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>,
          memref<?x8x?x64xbf16>, memref<?x8x?xf32>, memref<?x8x?x64xbf16>)
      outs(%q, %q, %q : memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>)
      mask(#attn.causal)
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>,
          memref<?x8x?x64xbf16>, memref<?x8x?xf32>, memref<?x8x?x64xbf16>)
      outs(%q, %q, %q : memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>)
      score_mod {
  ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
    attn.yield %s : f32
  } score_mod_grad {
  ^bb0(%s: f32, %g: f32, %b: index, %h: index, %i: index, %j: index):
    attn.yield %g : f32
  }
  return
}

// -----

// Keep masks of dropout leave no registers to begin the next step early, but where
// a step is in parts.

// CHECK-LABEL: func @dropout
// CHECK:         dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>>>)
// CHECK:         from = {{.*}}dkdv = #attn_tile.key_stationary<query_tile = 128, key_tile = 128, stages = 4, consumers = 2, pipelined = true,
// CHECK-SAME:        {{^}} query_parts = 2, lhs_registers = true, key_stages = 2>>>)
func.func @dropout(%q: memref<?x8x?x128xbf16>, %k: memref<?x8x?x64xbf16>, %lse: memref<?x8x?xf32>, %seed: i64) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<?x8x?x128xbf16>, memref<?x8x?x128xbf16>, memref<?x8x?x128xbf16>,
          memref<?x8x?x128xbf16>, memref<?x8x?xf32>, memref<?x8x?x128xbf16>)
      outs(%q, %q, %q : memref<?x8x?x128xbf16>, memref<?x8x?x128xbf16>, memref<?x8x?x128xbf16>)
      dropout(#attn.dropout<p = 0.125, rng = #attn.arx>, %seed, %seed : i64, i64)
  attn.attention_grad
      ins(%k, %k, %k, %k, %lse, %k : memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>,
          memref<?x8x?x64xbf16>, memref<?x8x?xf32>, memref<?x8x?x64xbf16>)
      outs(%k, %k, %k : memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>)
      dropout(#attn.dropout<p = 0.125, rng = #attn.arx>, %seed, %seed : i64, i64)
  return
}

// -----

// A length that is known decides. The training case: short, causal and dropped.

// CHECK-LABEL: func @static
// CHECK:         schedule(#attn_tile.gradient<
// CHECK-SAME:      dkdv = #attn_tile.key_stationary<query_tile = 128, key_tile = 128, stages = 4, consumers = 2, traversal = paired, pipelined = true,
// CHECK-SAME:      {{^}} query_parts = 2, dq_ring_depth = 528, lhs_registers = true, key_stages = 2, prefetch_work_item = true>>)
// CHECK:         schedule(#attn_tile.gradient<
// CHECK-SAME:      dkdv = #attn_tile.key_stationary<query_tile = 128, key_tile = 128, stages = 4, consumers = 2, traversal = paired, pipelined = true,
// CHECK-SAME:      {{^}} query_parts = 2, lhs_registers = true, key_stages = 2>>)
// CHECK:         schedule(#attn_tile.gradient<
// CHECK-SAME:      dq_ring_depth = 528, lhs_registers = true, key_stages = 2, prefetch_work_item = true>>)
// CHECK:         schedule(#attn_tile.gradient<
// CHECK-SAME:      query_parts = 2, lhs_registers = true, key_stages = 2>>)
func.func @static(%q: memref<64x16x1024x64xbf16>, %lse: memref<64x16x1024xf32>, %seed: i64,
                  %long: memref<1x16x6144x64xbf16>, %longlse: memref<1x16x6144xf32>,
                  %middle: memref<1x16x3072x64xbf16>, %middlelse: memref<1x16x3072xf32>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<64x16x1024x64xbf16>, memref<64x16x1024x64xbf16>, memref<64x16x1024x64xbf16>,
          memref<64x16x1024x64xbf16>, memref<64x16x1024xf32>, memref<64x16x1024x64xbf16>)
      outs(%q, %q, %q : memref<64x16x1024x64xbf16>, memref<64x16x1024x64xbf16>, memref<64x16x1024x64xbf16>)
      mask(#attn.causal) dropout(#attn.dropout<p = 0.125, rng = #attn.arx>, %seed, %seed : i64, i64)
  attn.attention_grad
      ins(%long, %long, %long, %long, %longlse, %long : memref<1x16x6144x64xbf16>, memref<1x16x6144x64xbf16>, memref<1x16x6144x64xbf16>,
          memref<1x16x6144x64xbf16>, memref<1x16x6144xf32>, memref<1x16x6144x64xbf16>)
      outs(%long, %long, %long : memref<1x16x6144x64xbf16>, memref<1x16x6144x64xbf16>, memref<1x16x6144x64xbf16>)
      mask(#attn.causal)
  attn.attention_grad
      ins(%middle, %middle, %middle, %middle, %middlelse, %middle : memref<1x16x3072x64xbf16>, memref<1x16x3072x64xbf16>, memref<1x16x3072x64xbf16>,
          memref<1x16x3072x64xbf16>, memref<1x16x3072xf32>, memref<1x16x3072x64xbf16>)
      outs(%middle, %middle, %middle : memref<1x16x3072x64xbf16>, memref<1x16x3072x64xbf16>, memref<1x16x3072x64xbf16>)
      mask(#attn.causal)
  attn.attention_grad
      ins(%middle, %middle, %middle, %middle, %middlelse, %middle : memref<1x16x3072x64xbf16>, memref<1x16x3072x64xbf16>, memref<1x16x3072x64xbf16>,
          memref<1x16x3072x64xbf16>, memref<1x16x3072xf32>, memref<1x16x3072x64xbf16>)
      outs(%middle, %middle, %middle : memref<1x16x3072x64xbf16>, memref<1x16x3072x64xbf16>, memref<1x16x3072x64xbf16>)
      mask(#attn.causal) dropout(#attn.dropout<p = 0.125, rng = #attn.arx>, %seed, %seed : i64, i64)
  return
}

// -----

// Work items of pairs are prefetched where there are registers for it: with keep masks
// that are read also without a ring buffer, in which keys come late then, and in one part
// with generated ones.

// CHECK-LABEL: func @ahead
// CHECK:         key_stationary<query_tile = 128, key_tile = 128, stages = 4, consumers = 2, traversal = paired, pipelined = true, query_parts = 2,
// CHECK-SAME:        {{^}} dq_ring_depth = 528, lhs_registers = true, prefetch_work_item = true>>,
// CHECK-SAME:    query_parts = 2, lhs_registers = true, key_stages = 2, prefetch_work_item = true>>>)
// CHECK:         key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, traversal = paired, dq_ring_depth = 528,
// CHECK-SAME:        {{^}} prefetch_work_item = true>>,
// CHECK-SAME:    traversal = paired, prefetch_work_item = true>>>)
// CHECK:         dq_ring_depth = 528>>,
// CHECK-NOT:     prefetch_work_item
func.func @ahead(%q: memref<?x8x?x64xbf16>, %lse: memref<?x8x?xf32>, %bits: memref<?x8x?x?xi32>, %seed: i64,
                 %wide: memref<?x8x?x128xbf16>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>,
          memref<?x8x?x64xbf16>, memref<?x8x?xf32>, memref<?x8x?x64xbf16>)
      outs(%q, %q, %q : memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>)
      mask(#attn.causal) dropout_mask columns(%bits : memref<?x8x?x?xi32>) p(0.125)
  attn.attention_grad
      ins(%wide, %wide, %wide, %wide, %lse, %wide : memref<?x8x?x128xbf16>, memref<?x8x?x128xbf16>, memref<?x8x?x128xbf16>,
          memref<?x8x?x128xbf16>, memref<?x8x?xf32>, memref<?x8x?x128xbf16>)
      outs(%wide, %wide, %wide : memref<?x8x?x128xbf16>, memref<?x8x?x128xbf16>, memref<?x8x?x128xbf16>)
      mask(#attn.causal) dropout(#attn.dropout<p = 0.125, rng = #attn.arx>, %seed, %seed : i64, i64)
  attn.attention_grad
      ins(%wide, %wide, %wide, %wide, %lse, %wide : memref<?x8x?x128xbf16>, memref<?x8x?x128xbf16>, memref<?x8x?x128xbf16>,
          memref<?x8x?x128xbf16>, memref<?x8x?xf32>, memref<?x8x?x128xbf16>)
      outs(%wide, %wide, %wide : memref<?x8x?x128xbf16>, memref<?x8x?x128xbf16>, memref<?x8x?x128xbf16>)
      mask(#attn.causal) dropout_mask columns(%bits : memref<?x8x?x?xi32>) p(0.125)
  return
}

// -----

// Rings have no padding, and heads that share keys have none.

// CHECK-LABEL: func @no_dq_ring
// CHECK-NOT:     dq_ring_depth
func.func @no_dq_ring(%q: memref<?x8x?x40xbf16>, %lse: memref<?x8x?xf32>, %g: memref<?x8x?x128xbf16>, %k: memref<?x2x?x128xbf16>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<?x8x?x40xbf16>, memref<?x8x?x40xbf16>, memref<?x8x?x40xbf16>,
          memref<?x8x?x40xbf16>, memref<?x8x?xf32>, memref<?x8x?x40xbf16>)
      outs(%q, %q, %q : memref<?x8x?x40xbf16>, memref<?x8x?x40xbf16>, memref<?x8x?x40xbf16>)
  attn.attention_grad
      ins(%g, %k, %k, %g, %lse, %g : memref<?x8x?x128xbf16>, memref<?x2x?x128xbf16>, memref<?x2x?x128xbf16>,
          memref<?x8x?x128xbf16>, memref<?x8x?xf32>, memref<?x8x?x128xbf16>)
      outs(%g, %k, %k : memref<?x8x?x128xbf16>, memref<?x2x?x128xbf16>, memref<?x2x?x128xbf16>)
  return
}

// -----

// Deterministic gradients accumulate dQ in order.

// CHECK-LABEL: func @deterministic(
// CHECK:         schedule(#attn_tile.gradient<
// CHECK-SAME:      dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, pipelined = true, ordered_dq = true>>)
// HOST-LABEL:  func @deterministic(
// HOST-NOT:      ordered_dq
func.func @deterministic(%q: memref<?x8x?x128xbf16>, %lse: memref<?x8x?xf32>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<?x8x?x128xbf16>, memref<?x8x?x128xbf16>, memref<?x8x?x128xbf16>,
          memref<?x8x?x128xbf16>, memref<?x8x?xf32>, memref<?x8x?x128xbf16>)
      outs(%q, %q, %q : memref<?x8x?x128xbf16>, memref<?x8x?x128xbf16>, memref<?x8x?x128xbf16>)
      deterministic
  return
}

// -----

// Under a causal mask few queries take a kernel of their own instead.

// CHECK-LABEL: func @deterministic_causal(
// CHECK:         schedule(#attn.by_query_length<bound = 4096,
// CHECK-SAME:      below = #attn_tile.gradient<
// CHECK-SAME:        dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, traversal = paired>,
// CHECK-SAME:        dq = #attn_tile.warp_specialized<
// CHECK-SAME:      from = #attn_tile.gradient<
// CHECK-SAME:        dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, traversal = paired, pipelined = true,
// CHECK-SAME:        {{^}} ordered_dq = true>>>)
func.func @deterministic_causal(%q: memref<?x8x?x128xbf16>, %lse: memref<?x8x?xf32>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<?x8x?x128xbf16>, memref<?x8x?x128xbf16>, memref<?x8x?x128xbf16>,
          memref<?x8x?x128xbf16>, memref<?x8x?xf32>, memref<?x8x?x128xbf16>)
      outs(%q, %q, %q : memref<?x8x?x128xbf16>, memref<?x8x?x128xbf16>, memref<?x8x?x128xbf16>)
      mask(#attn.causal)
      deterministic
  return
}

// -----

// CHECK-LABEL: func @deterministic_static(
// CHECK:         schedule(#attn_tile.gradient<
// CHECK-SAME:      dkdv = {{.*}} ordered_dq = true>>)
// CHECK:         schedule(#attn_tile.gradient<
// CHECK-NOT:       ordered_dq
// CHECK-SAME:      dq =
func.func @deterministic_static(%q: memref<2x8x4096x128xbf16>, %lse: memref<2x8x4096xf32>,
                                %short: memref<2x8x2048x128xbf16>, %shortlse: memref<2x8x2048xf32>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<2x8x4096x128xbf16>, memref<2x8x4096x128xbf16>, memref<2x8x4096x128xbf16>,
          memref<2x8x4096x128xbf16>, memref<2x8x4096xf32>, memref<2x8x4096x128xbf16>)
      outs(%q, %q, %q : memref<2x8x4096x128xbf16>, memref<2x8x4096x128xbf16>, memref<2x8x4096x128xbf16>)
      mask(#attn.causal)
      deterministic
  attn.attention_grad
      ins(%short, %short, %short, %short, %shortlse, %short : memref<2x8x2048x128xbf16>, memref<2x8x2048x128xbf16>, memref<2x8x2048x128xbf16>,
          memref<2x8x2048x128xbf16>, memref<2x8x2048xf32>, memref<2x8x2048x128xbf16>)
      outs(%short, %short, %short : memref<2x8x2048x128xbf16>, memref<2x8x2048x128xbf16>, memref<2x8x2048x128xbf16>)
      mask(#attn.causal)
      deterministic
  return
}

// -----

// With half the head dim, semaphores advance too fast under a mask.

// CHECK-LABEL: func @deterministic_d64(
// CHECK:         schedule(#attn_tile.gradient<
// CHECK-SAME:      dkdv = #attn_tile.key_stationary<query_tile = 128, key_tile = 128, stages = 4, consumers = 2, pipelined = true, query_parts = 2,
// CHECK-SAME:      {{^}} lhs_registers = true, ordered_dq = true, key_stages = 2>>)
// CHECK:         schedule(#attn_tile.gradient<
// CHECK-NOT:       ordered_dq
// CHECK-SAME:      dq =
func.func @deterministic_d64(%q: memref<?x8x?x64xbf16>, %lse: memref<?x8x?xf32>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>,
          memref<?x8x?x64xbf16>, memref<?x8x?xf32>, memref<?x8x?x64xbf16>)
      outs(%q, %q, %q : memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>)
      deterministic
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>,
          memref<?x8x?x64xbf16>, memref<?x8x?xf32>, memref<?x8x?x64xbf16>)
      outs(%q, %q, %q : memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>)
      mask(#attn.causal)
      deterministic
  return
}

// -----

// A larger head dim of values leaves room for tiles of 48 queries, which do not divide
// tiles of keys: pairs take a dq kernel.

// CHECK-LABEL: func @deterministic_wide(
// CHECK:         dkdv = #attn_tile.key_stationary<query_tile = 48, {{.*}} ordered_dq = true>>)
// CHECK:         schedule(#attn_tile.gradient<
// CHECK-NOT:       ordered_dq
// CHECK-SAME:      dq =
func.func @deterministic_wide(%q: memref<2x4x8192x128xbf16>, %v: memref<2x4x8192x160xbf16>, %lse: memref<2x4x8192xf32>) {
  attn.attention_grad
      ins(%q, %q, %v, %v, %lse, %v : memref<2x4x8192x128xbf16>, memref<2x4x8192x128xbf16>, memref<2x4x8192x160xbf16>,
          memref<2x4x8192x160xbf16>, memref<2x4x8192xf32>, memref<2x4x8192x160xbf16>)
      outs(%q, %q, %v : memref<2x4x8192x128xbf16>, memref<2x4x8192x128xbf16>, memref<2x4x8192x160xbf16>)
      deterministic
  attn.attention_grad
      ins(%q, %q, %v, %v, %lse, %v : memref<2x4x8192x128xbf16>, memref<2x4x8192x128xbf16>, memref<2x4x8192x160xbf16>,
          memref<2x4x8192x160xbf16>, memref<2x4x8192xf32>, memref<2x4x8192x160xbf16>)
      outs(%q, %q, %v : memref<2x4x8192x128xbf16>, memref<2x4x8192x128xbf16>, memref<2x4x8192x160xbf16>)
      mask(#attn.causal)
      deterministic
  return
}

// -----

// Heads that share keys, other masks, sequences and gradients of captures
// have no ordered accumulation.

// CHECK-LABEL: func @deterministic_others(
// CHECK-NOT:     ordered_dq
func.func @deterministic_others(%q: memref<?x8x?x128xbf16>, %k: memref<?x2x?x128xbf16>, %lse: memref<?x8x?xf32>) {
  attn.attention_grad
      ins(%q, %k, %k, %q, %lse, %q : memref<?x8x?x128xbf16>, memref<?x2x?x128xbf16>, memref<?x2x?x128xbf16>,
          memref<?x8x?x128xbf16>, memref<?x8x?xf32>, memref<?x8x?x128xbf16>)
      outs(%q, %k, %k : memref<?x8x?x128xbf16>, memref<?x2x?x128xbf16>, memref<?x2x?x128xbf16>)
      deterministic
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<?x8x?x128xbf16>, memref<?x8x?x128xbf16>, memref<?x8x?x128xbf16>,
          memref<?x8x?x128xbf16>, memref<?x8x?xf32>, memref<?x8x?x128xbf16>)
      outs(%q, %q, %q : memref<?x8x?x128xbf16>, memref<?x8x?x128xbf16>, memref<?x8x?x128xbf16>)
      mask(#attn.sliding_window<left = 256, right = 0>)
      deterministic
  return
}

// -----

// Gradients of keys and values do not fit one kernel. With many queries, dQ is
// accumulated by the dkdv kernel nevertheless; long work items go first then.

// CHECK-LABEL: func @d256
// CHECK:         schedule(#attn.by_query_length<bound = 4096,
// CHECK-SAME:      dkdv = #attn_tile.key_stationary<query_tile = 48, key_tile = 128, stages = 2, consumers = 2, traversal = paired>,
// CHECK-SAME:      dq = #attn_tile.warp_specialized<query_tile = 128, key_tile = 48, stages = 2, consumers = 2, ping_pong = true, traversal = paired>,
// CHECK-SAME:      dv = #attn_tile.key_stationary<query_tile = 80, key_tile = 128, stages = 2, consumers = 2, traversal = paired>
// CHECK-SAME:      from = #attn_tile.gradient<
// CHECK-SAME:        dkdv = #attn_tile.key_stationary<query_tile = 48, key_tile = 128, stages = 2, consumers = 2, traversal = grid, interleave = 8,
// CHECK-SAME:        {{^}} pipelined = true>, dv =
// CHECK-SAME:        #attn_tile.key_stationary<query_tile = 80, key_tile = 128, stages = 2, consumers = 2, traversal = grid, interleave = 8>>>)
// CHECK:         schedule(#attn.by_query_length<bound = 2048,
// CHECK-SAME:      from = #attn_tile.gradient<
// CHECK-SAME:        dkdv = #attn_tile.key_stationary<query_tile = 48, key_tile = 128, stages = 2, consumers = 2, pipelined = true>, dv =
// CHECK-SAME:        #attn_tile.key_stationary<query_tile = 80, key_tile = 128, stages = 2, consumers = 2>>>)
// CHECK:         schedule(#attn_tile.gradient<
// CHECK-SAME:      dq = #attn_tile.warp_specialized
func.func @d256(%q: memref<?x8x?x256xf16>, %lse: memref<?x8x?xf32>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<?x8x?x256xf16>, memref<?x8x?x256xf16>, memref<?x8x?x256xf16>,
          memref<?x8x?x256xf16>, memref<?x8x?xf32>, memref<?x8x?x256xf16>)
      outs(%q, %q, %q : memref<?x8x?x256xf16>, memref<?x8x?x256xf16>, memref<?x8x?x256xf16>)
      mask(#attn.causal)
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<?x8x?x256xf16>, memref<?x8x?x256xf16>, memref<?x8x?x256xf16>,
          memref<?x8x?x256xf16>, memref<?x8x?xf32>, memref<?x8x?x256xf16>)
      outs(%q, %q, %q : memref<?x8x?x256xf16>, memref<?x8x?x256xf16>, memref<?x8x?x256xf16>)
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<?x8x?x256xf16>, memref<?x8x?x256xf16>, memref<?x8x?x256xf16>,
          memref<?x8x?x256xf16>, memref<?x8x?xf32>, memref<?x8x?x256xf16>)
      outs(%q, %q, %q : memref<?x8x?x256xf16>, memref<?x8x?x256xf16>, memref<?x8x?x256xf16>)
      deterministic
  return
}

// -----

// Where lengths are known, so is which is faster. Windows have not been measured.

// CHECK-LABEL: func @d256_short
// CHECK:         dkdv = {{.*}}, dq = {{.*}}, dv =
// CHECK-LABEL: func @d256_long
// CHECK:         dkdv = {{.*}} pipelined = true>, dv =
// CHECK-NOT:     dq =
// CHECK-LABEL: func @d256_window
// CHECK-NOT:     by_query_length
// CHECK:         dkdv = {{.*}}, dq = {{.*}}, dv =
func.func @d256_short(%q: memref<16x8x1024x256xf16>, %lse: memref<16x8x1024xf32>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<16x8x1024x256xf16>, memref<16x8x1024x256xf16>, memref<16x8x1024x256xf16>,
          memref<16x8x1024x256xf16>, memref<16x8x1024xf32>, memref<16x8x1024x256xf16>)
      outs(%q, %q, %q : memref<16x8x1024x256xf16>, memref<16x8x1024x256xf16>, memref<16x8x1024x256xf16>)
  return
}
func.func @d256_long(%q: memref<1x8x16384x256xf16>, %lse: memref<1x8x16384xf32>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x8x16384x256xf16>, memref<1x8x16384x256xf16>, memref<1x8x16384x256xf16>,
          memref<1x8x16384x256xf16>, memref<1x8x16384xf32>, memref<1x8x16384x256xf16>)
      outs(%q, %q, %q : memref<1x8x16384x256xf16>, memref<1x8x16384x256xf16>, memref<1x8x16384x256xf16>)
      mask(#attn.causal)
  return
}
func.func @d256_window(%q: memref<?x8x?x256xf16>, %lse: memref<?x8x?xf32>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<?x8x?x256xf16>, memref<?x8x?x256xf16>, memref<?x8x?x256xf16>,
          memref<?x8x?x256xf16>, memref<?x8x?xf32>, memref<?x8x?x256xf16>)
      outs(%q, %q, %q : memref<?x8x?x256xf16>, memref<?x8x?x256xf16>, memref<?x8x?x256xf16>)
      mask(#attn.sliding_window<left = 100, right = 100>)
  return
}

// -----

// Sequences are listed in the order of their work, and handed out by the device, over all heads.

// CHECK-LABEL: func @sequences
// CHECK:         dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, traversal = grid, interleave = 0,
// CHECK-SAME:        {{^}} pipelined = true>>)
// CHECK:         dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, traversal = grid, interleave = 0>,
// CHECK-SAME:    dq = #attn_tile.warp_specialized<{{.*}}traversal = paired, interleave = 0
func.func @sequences(%q: tensor<1x8x?x128xbf16>, %lse: tensor<1x8x?xf32>, %cu: tensor<?xi32>) -> (tensor<1x8x?x128xbf16>, tensor<1x8x?x128xbf16>) {
  %0:3 = attn.attention_grad ins(%q, %q, %q, %q, %lse, %q : tensor<1x8x?x128xbf16>, tensor<1x8x?x128xbf16>,
          tensor<1x8x?x128xbf16>, tensor<1x8x?x128xbf16>, tensor<1x8x?xf32>, tensor<1x8x?x128xbf16>)
      outs(%q, %q, %q : tensor<1x8x?x128xbf16>, tensor<1x8x?x128xbf16>, tensor<1x8x?x128xbf16>)
      sequences packed(%cu, %cu : tensor<?xi32>, tensor<?xi32>) mask(#attn.causal)
      -> tensor<1x8x?x128xbf16>, tensor<1x8x?x128xbf16>, tensor<1x8x?x128xbf16>
  %1:3 = attn.attention_grad ins(%q, %q, %q, %q, %lse, %q : tensor<1x8x?x128xbf16>, tensor<1x8x?x128xbf16>,
          tensor<1x8x?x128xbf16>, tensor<1x8x?x128xbf16>, tensor<1x8x?xf32>, tensor<1x8x?x128xbf16>)
      outs(%q, %q, %q : tensor<1x8x?x128xbf16>, tensor<1x8x?x128xbf16>, tensor<1x8x?x128xbf16>)
      sequences packed(%cu, %cu : tensor<?xi32>, tensor<?xi32>) mask(#attn.causal) deterministic
      -> tensor<1x8x?x128xbf16>, tensor<1x8x?x128xbf16>, tensor<1x8x?x128xbf16>
  return %0#0, %1#0 : tensor<1x8x?x128xbf16>, tensor<1x8x?x128xbf16>
}

// -----

// What a mask reads takes registers of the steps that it masks alone, but for tiles that have parts.

// CHECK-LABEL: func @reads
// CHECK:         dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, traversal = grid, pipelined = true>>)
// CHECK:         dkdv = #attn_tile.key_stationary<query_tile = {{[0-9]+}}, key_tile = 128, stages = 2, consumers = 2, traversal = grid>, dq
func.func @reads(%q: tensor<?x8x?x128xbf16>, %k: tensor<?x8x?x64xbf16>, %lse: tensor<?x8x?xf32>, %ids: tensor<?xi32>)
    -> (tensor<?x8x?x128xbf16>, tensor<?x8x?x64xbf16>) {
  %0:3 = attn.attention_grad ins(%q, %q, %q, %q, %lse, %q : tensor<?x8x?x128xbf16>, tensor<?x8x?x128xbf16>,
          tensor<?x8x?x128xbf16>, tensor<?x8x?x128xbf16>, tensor<?x8x?xf32>, tensor<?x8x?x128xbf16>)
      outs(%q, %q, %q : tensor<?x8x?x128xbf16>, tensor<?x8x?x128xbf16>, tensor<?x8x?x128xbf16>)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %m = tensor.extract %ids[%i] : tensor<?xi32>
        %n = tensor.extract %ids[%j] : tensor<?xi32>
        %same = arith.cmpi eq, %m, %n : i32
        attn.yield %same : i1
      } -> tensor<?x8x?x128xbf16>, tensor<?x8x?x128xbf16>, tensor<?x8x?x128xbf16>
  %1:3 = attn.attention_grad ins(%k, %k, %k, %k, %lse, %k : tensor<?x8x?x64xbf16>, tensor<?x8x?x64xbf16>,
          tensor<?x8x?x64xbf16>, tensor<?x8x?x64xbf16>, tensor<?x8x?xf32>, tensor<?x8x?x64xbf16>)
      outs(%k, %k, %k : tensor<?x8x?x64xbf16>, tensor<?x8x?x64xbf16>, tensor<?x8x?x64xbf16>)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %m = tensor.extract %ids[%i] : tensor<?xi32>
        %n = tensor.extract %ids[%j] : tensor<?xi32>
        %same = arith.cmpi eq, %m, %n : i32
        attn.yield %same : i1
      } -> tensor<?x8x?x64xbf16>, tensor<?x8x?x64xbf16>, tensor<?x8x?x64xbf16>
  return %0#0, %1#0 : tensor<?x8x?x128xbf16>, tensor<?x8x?x64xbf16>
}

// CTAs iterate over the lists of several heads at once.

// CHECK-LABEL: func @reads_by_head
// CHECK:         dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, traversal = grid, interleave = 4,
// CHECK-SAME:        {{^}} pipelined = true>>)
func.func @reads_by_head(%q: tensor<?x8x?x128xbf16>, %lse: tensor<?x8x?xf32>, %ids: tensor<8x?xi32>) -> tensor<?x8x?x128xbf16> {
  %0:3 = attn.attention_grad ins(%q, %q, %q, %q, %lse, %q : tensor<?x8x?x128xbf16>, tensor<?x8x?x128xbf16>,
          tensor<?x8x?x128xbf16>, tensor<?x8x?x128xbf16>, tensor<?x8x?xf32>, tensor<?x8x?x128xbf16>)
      outs(%q, %q, %q : tensor<?x8x?x128xbf16>, tensor<?x8x?x128xbf16>, tensor<?x8x?x128xbf16>)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %m = tensor.extract %ids[%h, %i] : tensor<8x?xi32>
        %n = tensor.extract %ids[%h, %j] : tensor<8x?xi32>
        %same = arith.cmpi eq, %m, %n : i32
        attn.yield %same : i1
      } -> tensor<?x8x?x128xbf16>, tensor<?x8x?x128xbf16>, tensor<?x8x?x128xbf16>
  return %0#0 : tensor<?x8x?x128xbf16>
}

// The same for key heads that query heads share, under a causal mask: their work items
// are long, and are handed out over several heads.
// CHECK-LABEL: func.func @grouped
// CHECK:         dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, traversal = grid, interleave = 8,
// CHECK-SAME:        {{^}} pipelined = true>>)
func.func @grouped(%q: tensor<?x32x?x128xbf16>, %k: tensor<?x8x?x128xbf16>, %o: tensor<?x32x?x128xbf16>, %l: tensor<?x32x?xf32>)
    -> (tensor<?x32x?x128xbf16>, tensor<?x8x?x128xbf16>, tensor<?x8x?x128xbf16>) {
  %0:3 = attn.attention_grad
      ins(%q, %k, %k, %o, %l, %o : tensor<?x32x?x128xbf16>, tensor<?x8x?x128xbf16>, tensor<?x8x?x128xbf16>, tensor<?x32x?x128xbf16>, tensor<?x32x?xf32>,
      tensor<?x32x?x128xbf16>)
      outs(%q, %k, %k : tensor<?x32x?x128xbf16>, tensor<?x8x?x128xbf16>, tensor<?x8x?x128xbf16>) mask(#attn.causal)
      -> tensor<?x32x?x128xbf16>, tensor<?x8x?x128xbf16>, tensor<?x8x?x128xbf16>
  return %0#0, %0#1, %0#2 : tensor<?x32x?x128xbf16>, tensor<?x8x?x128xbf16>, tensor<?x8x?x128xbf16>
}
