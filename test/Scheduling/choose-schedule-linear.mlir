// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=sm_90a}))' | FileCheck %s --check-prefixes=CHECK,SM90
// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=sm_80}))' | FileCheck %s --check-prefixes=CHECK,SM80

// With a producer the model chooses: two CTAs share an SM, and one with more stages has it where there are up to 128
// work items. Where all warps copy, there are two work items for each SM.
// CHECK-LABEL: func @plain
// SM90: from = #attn_tile.by_work_items<more_than = {{[0-9]+}}, at_most = 128,
// SM90-SAME: within = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 3, split_work_items = 132>,
// SM90-SAME: otherwise = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2, local_stages = 1,
// SM90-SAME: split_work_items = 264, ctas_per_sm = 2>>>)
// SM80: from = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4, split_work_items = 216>>)
func.func @plain(%q: memref<?x4x?x128xbf16>) {
  attn.linear_attention ins(%q, %q, %q : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>)
      outs(%q : memref<?x4x?x128xbf16>) causal
  return
}

// The last state, which all tokens see, is not known to parts of a sequence.
// CHECK-LABEL: func @full
// SM90: from = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 3>>)
// SM80: from = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>>)
func.func @full(%q: memref<?x4x?x128xbf16>) {
  attn.linear_attention ins(%q, %q, %q : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>)
      outs(%q : memref<?x4x?x128xbf16>)
  return
}

// A large head dim of the keys leaves registers for fewer columns, and shared memory has room for fewer stages.
// CHECK-LABEL: func @large
// SM90: from = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 32, stages = 2, split_work_items = 132>>)
// SM80: from = #attn_tile.linear_multistage<chunk = 64, value_tile = 32, stages = 1, warps = 4, split_work_items = 216>>)
func.func @large(%q: memref<?x4x?x256xbf16>) {
  attn.linear_attention ins(%q, %q, %q : memref<?x4x?x256xbf16>, memref<?x4x?x256xbf16>, memref<?x4x?x256xbf16>)
      outs(%q : memref<?x4x?x256xbf16>) causal
  return
}

// Rows of 32 columns take as much shared memory as rows of 64.
// CHECK-LABEL: func @padded
// SM90: from = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 32, stages = 2, rows_ahead = true, split_work_items = 132>>)
// SM80: from = #attn_tile.linear_multistage<chunk = 64, value_tile = 32, stages = 1, warps = 4, split_work_items = 216>>)
func.func @padded(%q: memref<?x4x?x192xbf16>, %g: memref<4xf32>) {
  attn.linear_attention ins(%q, %q, %q : memref<?x4x?x192xbf16>, memref<?x4x?x192xbf16>, memref<?x4x?x192xbf16>)
      outs(%q : memref<?x4x?x192xbf16>) log_decay(%g : memref<4xf32>) causal
  return
}

// CHECK-LABEL: func @small
// SM90: within = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 16, stages = 3,
// SM80: from = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 2, warps = 4,
func.func @small(%q: memref<?x4x?x16xbf16>, %v: memref<?x4x?x8xbf16>) {
  attn.linear_attention ins(%q, %q, %v : memref<?x4x?x16xbf16>, memref<?x4x?x16xbf16>, memref<?x4x?x8xbf16>)
      outs(%v : memref<?x4x?x8xbf16>) causal
  return
}

// CHECK-LABEL: func @chunk
// SM90: from = #attn_tile.linear_warp_specialized<chunk = 128, value_tile = 64, stages = 2, split_work_items = 132>>)
// SM80: from = #attn_tile.linear_multistage<chunk = 128, value_tile = 64, stages = 1, warps = 8,
func.func @chunk(%q: memref<?x4x?x64xbf16>) {
  attn.linear_attention ins(%q, %q, %q : memref<?x4x?x64xbf16>, memref<?x4x?x64xbf16>, memref<?x4x?x64xbf16>)
      outs(%q : memref<?x4x?x64xbf16>) causal chunk(128)
  return
}

// With decays, chunks are short. A producer copies what the gradient of log-decays needs besides. Where scores take more registers, columns are fewer.
// CHECK-LABEL: func @decay_grad
// SM90: schedule(#attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2, rows_ahead = true, split_work_items = 132>)
// SM90: schedule(#attn_tile.by_work_items<more_than = {{[0-9]+}}, at_most = 128,
// SM90-SAME: within = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 3, rows_ahead = true, split_work_items = 132>,
// SM90: schedule(#attn_tile.linear_warp_specialized<chunk = 128, value_tile = 32, stages = 1, rows_ahead = true, split_work_items = 132>)
func.func @decay_grad(%q: memref<?x4x?x128xbf16>, %g: memref<?x4x?xf32>) {
  attn.linear_attention_grad ins(%q, %q, %q, %q : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>)
      outs(%q, %q, %q : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>)
      log_decay(%g : memref<?x4x?xf32>) dlog_decay(%g : memref<?x4x?xf32>) causal
  attn.linear_attention_grad ins(%q, %q, %q, %q : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>)
      outs(%q, %q, %q : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>)
      log_decay(%g : memref<?x4x?xf32>) causal
  attn.linear_attention_grad ins(%q, %q, %q, %q : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>)
      outs(%q, %q, %q : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>)
      log_decay(%g : memref<?x4x?xf32>) dlog_decay(%g : memref<?x4x?xf32>) causal chunk(128)
  return
}

// Half of 48 columns is rounded to what MMAs have.
// CHECK-LABEL: func @decay_grad_of_48(
// SM90: schedule(#attn_tile.linear_warp_specialized<chunk = 128, value_tile = 32,
func.func @decay_grad_of_48(%q: memref<?x4x?x48xbf16>, %g: memref<?x4x?xf32>) {
  attn.linear_attention_grad ins(%q, %q, %q, %q : memref<?x4x?x48xbf16>, memref<?x4x?x48xbf16>, memref<?x4x?x48xbf16>, memref<?x4x?x48xbf16>)
      outs(%q, %q, %q : memref<?x4x?x48xbf16>, memref<?x4x?x48xbf16>, memref<?x4x?x48xbf16>)
      log_decay(%g : memref<?x4x?xf32>) dlog_decay(%g : memref<?x4x?xf32>) causal chunk(128)
  return
}

// Three CTAs of the kernel of pairs share an SM, with copies ahead if these fit. Few heads have work items that split
// chunks, and a kernel of the states before splits. A producer of sm_90a copies two
// chunks ahead where three stages fit; where all warps copy, they copy one ahead.
// CHECK-LABEL: func @delta(
// SM90: from = #attn_tile.linear_pairs<pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 1, warps = 4,
// SM90-SAME: local_stages = 1, rows_ahead = true, split_work_items = 396, refill = true>,
// SM90-SAME: chunks = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2, rows_ahead = true, split_work_items = 132>,
// SM90-SAME: starts = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 2, warps = 4, local_stages = 1>>>)
// SM80: from = #attn_tile.linear_pairs<pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 1, warps = 4,
// SM80-SAME: local_stages = 1, rows_ahead = true, split_work_items = 324, refill = true>,
// SM80-SAME: chunks = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4, local_stages = 1, rows_ahead = true,
// SM80-SAME: split_work_items = 216>,
// SM80-SAME: starts = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 2, warps = 4, local_stages = 1>>>)
func.func @delta(%q: memref<?x4x?x128xbf16>, %b: memref<?x4x?xf32>) {
  attn.linear_attention ins(%q, %q, %q : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>)
      outs(%q : memref<?x4x?x128xbf16>) beta(%b : memref<?x4x?xf32>) causal
  return
}

// Two CTAs with half of the columns each share an SM where copies ahead fit.
// CHECK-LABEL: func @delta_of_64(
// SM90: pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4,
// SM90-SAME: local_stages = 1, rows_ahead = true, split_work_items = 396>,
// SM90-SAME: chunks = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 32, stages = 2, local_stages = 1, rows_ahead = true,
// SM90-SAME: split_work_items = 264, ctas_per_sm = 2>
// SM80: chunks = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4, local_stages = 1, rows_ahead = true, split_work_items = 216>
func.func @delta_of_64(%q: memref<?x4x?x64xbf16>, %b: memref<?x4x?xf32>) {
  attn.linear_attention ins(%q, %q, %q : memref<?x4x?x64xbf16>, memref<?x4x?x64xbf16>, memref<?x4x?x64xbf16>)
      outs(%q : memref<?x4x?x64xbf16>) beta(%b : memref<?x4x?xf32>) causal
  return
}

// CHECK-LABEL: func @small_delta(
// SM90: chunks = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 16, stages = 2, local_stages = 1, rows_ahead = true,
// SM90-SAME: split_work_items = 264, ctas_per_sm = 2>
// SM80: chunks = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 2, warps = 4, local_stages = 1, rows_ahead = true, split_work_items = 216>
func.func @small_delta(%q: memref<?x4x?x64xbf16>, %v: memref<?x4x?x16xbf16>, %b: memref<?x4x?xf32>) {
  attn.linear_attention ins(%q, %q, %v : memref<?x4x?x64xbf16>, memref<?x4x?x64xbf16>, memref<?x4x?x16xbf16>)
      outs(%v : memref<?x4x?x16xbf16>) beta(%b : memref<?x4x?xf32>) causal
  return
}

// In its gradient, the kernels with all chunks at once have one stage. With a producer, two CTAs of the one of gradients
// share an SM. Kernels in which all warps copy load tiles to registers, which a large state does not leave with copies
// ahead.
// CHECK-LABEL: func @delta_grad(
// SM90: schedule(#attn_tile.linear_pairs<pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 1, warps = 4,
// SM90-SAME: local_stages = 1, rows_ahead = true, split_work_items = 396, refill = true>,
// SM90-SAME: chunks = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2,
// SM90-SAME: gradients = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 1, local_stages = 1, rows_ahead = true,
// SM90-SAME: split_work_items = 264, ctas_per_sm = 2>
// SM80: schedule(#attn_tile.linear_pairs<pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 1, warps = 4,
// SM80-SAME: local_stages = 1, rows_ahead = true, split_work_items = 216, refill = true>,
// SM80-SAME: chunks = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 1,
// SM80-SAME: starts = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 2,
// SM80-NOT: gradients
func.func @delta_grad(%q: memref<?x4x?x128xbf16>, %b: memref<?x4x?xf32>) {
  attn.linear_attention_grad ins(%q, %q, %q, %q : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>)
      outs(%q, %q, %q : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>) beta(%b : memref<?x4x?xf32>) causal
  return
}

// Large states have no splits: narrow tiles serve few heads.
// CHECK-LABEL: func @large_delta(
// CHECK: pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 32, stages = 1,
// SM90-SAME: chunks = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 32, stages = 1, rows_ahead = true>
// SM80-SAME: chunks = #attn_tile.linear_multistage<chunk = 64, value_tile = 32, stages = 1,
// CHECK-SAME: narrow_work_items =
func.func @large_delta(%q: memref<?x4x?x256xbf16>, %b: memref<?x4x?xf32>, %g: memref<4xf32>) {
  attn.linear_attention ins(%q, %q, %q : memref<?x4x?x256xbf16>, memref<?x4x?x256xbf16>, memref<?x4x?x256xbf16>)
      outs(%q : memref<?x4x?x256xbf16>) log_decay(%g : memref<4xf32>) beta(%b : memref<?x4x?xf32>) causal
  return
}

// A decay of each key element takes the same kernels, with tiles of few columns for chunks that forget much.
// CHECK-LABEL: func @elements(
// SM90: from = #attn_tile.linear_pairs<pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 1, warps = 4,
// SM90-SAME: levels = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 1, warps = 4, local_stages = 1, rows_ahead = true,
// SM90-SAME: chunks = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 3, rows_ahead = true, split_work_items = 132>
// SM80: levels = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 1, warps = 4, local_stages = 1, rows_ahead = true,
// SM80-SAME: chunks = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2,
func.func @elements(%q: memref<?x4x?x128xbf16>, %g: memref<?x4x?x128xf32>) {
  attn.linear_attention ins(%q, %q, %q : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>)
      outs(%q : memref<?x4x?x128xbf16>) log_decay(%g : memref<?x4x?x128xf32>) causal
  return
}

// In the gradient of Kimi delta attention, decays leave registers for 32 columns.
// CHECK-LABEL: func @elements_grad(
// CHECK: pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 32, stages = 1, warps = 4,
// SM90: chunks = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2, rows_ahead = true, split_work_items = 132>
// SM90-SAME: gradients = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 32, stages = 1,
func.func @elements_grad(%q: memref<?x4x?x128xbf16>, %g: memref<?x4x?x128xf32>, %b: memref<?x4x?xf32>) {
  attn.linear_attention_grad ins(%q, %q, %q, %q : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>)
      outs(%q, %q, %q : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>)
      log_decay(%g : memref<?x4x?x128xf32>) beta(%b : memref<?x4x?xf32>) dlog_decay(%g : memref<?x4x?x128xf32>) causal
  return
}

// Few tokens are computed one after the other. A dynamic number of them is compared at run time.
// CHECK-LABEL: func @tokens(
// SM90: schedule(#attn.by_query_length<bound = {{[0-9]+}}, below = #attn_tile.linear_recurrent<value_tile = 32>, from = #attn_tile.
// SM80: schedule(#attn.by_query_length<bound = {{[0-9]+}}, below = #attn_tile.linear_recurrent<value_tile = 32>, from = #attn_tile.
func.func @tokens(%q: memref<?x4x?x128xbf16>) {
  attn.linear_attention ins(%q, %q, %q : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>)
      outs(%q : memref<?x4x?x128xbf16>) causal
  return
}

// Rows of 32 columns are whole lines of the cache; large key head dims leave registers for 16.
// CHECK-LABEL: func @few_tokens(
// CHECK: schedule(#attn_tile.linear_recurrent<value_tile = 32>)
// CHECK: schedule(#attn_tile.linear_recurrent<value_tile = 32>)
// CHECK: schedule(#attn_tile.linear_recurrent<value_tile = 16>)
// CHECK: schedule(#attn_tile.linear_recurrent<value_tile = 16>)
func.func @few_tokens(%q: memref<?x4x1x64xbf16>, %k: memref<?x4x8x72xf16>, %b: memref<?x4x8xf32>,
                      %wide: memref<?x4x1x256xbf16>, %odd: memref<?x4x1x136xbf16>) {
  attn.linear_attention ins(%q, %q, %q : memref<?x4x1x64xbf16>, memref<?x4x1x64xbf16>, memref<?x4x1x64xbf16>)
      outs(%q : memref<?x4x1x64xbf16>)
  attn.linear_attention ins(%k, %k, %k : memref<?x4x8x72xf16>, memref<?x4x8x72xf16>, memref<?x4x8x72xf16>)
      outs(%k : memref<?x4x8x72xf16>) beta(%b : memref<?x4x8xf32>) causal
  attn.linear_attention ins(%wide, %wide, %wide : memref<?x4x1x256xbf16>, memref<?x4x1x256xbf16>, memref<?x4x1x256xbf16>)
      outs(%wide : memref<?x4x1x256xbf16>) causal
  attn.linear_attention ins(%odd, %odd, %odd : memref<?x4x1x136xbf16>, memref<?x4x1x136xbf16>, memref<?x4x1x136xbf16>)
      outs(%odd : memref<?x4x1x136xbf16>) causal
  return
}

// CHECK-LABEL: func @many_tokens(
// SM90: schedule(#attn_tile.linear_warp_specialized<
// SM80: schedule(#attn_tile.linear_multistage<
func.func @many_tokens(%q: memref<?x4x64x64xbf16>) {
  attn.linear_attention ins(%q, %q, %q : memref<?x4x64x64xbf16>, memref<?x4x64x64xbf16>, memref<?x4x64x64xbf16>)
      outs(%q : memref<?x4x64x64xbf16>) causal
  return
}

// With a state and a decay of each key element, 30 to 59 tokens are computed one after the other, otherwise few.
// CHECK-LABEL: func @bounds(
// SM90: schedule(#attn.by_query_length<bound = {{[0-9]|1[0-9]}}, below
// SM90: schedule(#attn.by_query_length<bound = {{[3-5][0-9]}},
func.func @bounds(%q: memref<?x4x?x128xbf16>, %s: memref<?x4x128x128xf32>, %g: memref<?x4x?x128xf32>) {
  attn.linear_attention ins(%q, %q, %q : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>)
      outs(%q : memref<?x4x?x128xbf16>) initial_state(%s : memref<?x4x128x128xf32>) causal
  attn.linear_attention ins(%q, %q, %q : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>)
      outs(%q : memref<?x4x?x128xbf16>) log_decay(%g : memref<?x4x?x128xf32>) initial_state(%s : memref<?x4x128x128xf32>) causal
  return
}

// Sizes that are known have one schedule: one CTA on an SM where there are fewer work items than SMs, two where there
// are many, and long chunks where there are few chunks.
// CHECK-LABEL: func @known(
// SM90: schedule(#attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 3, split_work_items = 132>)
// SM90: schedule(#attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2, local_stages = 1, split_work_items = 264, ctas_per_sm = 2>)
// SM90: schedule(#attn_tile.linear_warp_specialized<chunk = 128, value_tile = 64, stages = 2, split_work_items = 132>)
func.func @known(%q: memref<4x16x8192x128xbf16>, %k: memref<64x16x512x128xbf16>, %s: memref<1x16x4096x128xbf16>) {
  attn.linear_attention ins(%q, %q, %q : memref<4x16x8192x128xbf16>, memref<4x16x8192x128xbf16>, memref<4x16x8192x128xbf16>)
      outs(%q : memref<4x16x8192x128xbf16>) causal
  attn.linear_attention ins(%k, %k, %k : memref<64x16x512x128xbf16>, memref<64x16x512x128xbf16>, memref<64x16x512x128xbf16>)
      outs(%k : memref<64x16x512x128xbf16>) causal
  attn.linear_attention ins(%s, %s, %s : memref<1x16x4096x128xbf16>, memref<1x16x4096x128xbf16>, memref<1x16x4096x128xbf16>)
      outs(%s : memref<1x16x4096x128xbf16>) causal
  return
}

// So have kernels with pair matrices: where heads are few, work items have half of the columns.
// CHECK-LABEL: func @known_delta(
// SM90: chunks = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2,
// SM90: chunks = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 32, stages = 2, rows_ahead = true,
func.func @known_delta(%q: memref<4x16x8192x128xbf16>, %b: memref<4x16x8192xf32>, %k: memref<2x16x16384x128xbf16>, %c: memref<2x16x16384xf32>) {
  attn.linear_attention ins(%q, %q, %q : memref<4x16x8192x128xbf16>, memref<4x16x8192x128xbf16>, memref<4x16x8192x128xbf16>)
      outs(%q : memref<4x16x8192x128xbf16>) beta(%b : memref<4x16x8192xf32>) causal
  attn.linear_attention ins(%k, %k, %k : memref<2x16x16384x128xbf16>, memref<2x16x16384x128xbf16>, memref<2x16x16384x128xbf16>)
      outs(%k : memref<2x16x16384x128xbf16>) beta(%c : memref<2x16x16384xf32>) causal
  return
}

// A given one is kept, whatever the number of tokens.
// CHECK-LABEL: func @given(
// CHECK: schedule(#attn_tile.linear_recurrent<value_tile = 8>)
func.func @given(%q: memref<?x4x100x64xbf16>) {
  attn.linear_attention ins(%q, %q, %q : memref<?x4x100x64xbf16>, memref<?x4x100x64xbf16>, memref<?x4x100x64xbf16>)
      outs(%q : memref<?x4x100x64xbf16>) causal schedule(#attn_tile.linear_recurrent<value_tile = 8>)
  return
}

// So is a given choice.
// CHECK-LABEL: func @given_choice(
// CHECK: schedule(#attn.by_query_length<bound = 4, below = #attn_tile.linear_recurrent<value_tile = 8>, from = #attn_tile.linear_recurrent<value_tile = 32>>)
func.func @given_choice(%q: memref<?x4x?x64xbf16>) {
  attn.linear_attention ins(%q, %q, %q : memref<?x4x?x64xbf16>, memref<?x4x?x64xbf16>, memref<?x4x?x64xbf16>)
      outs(%q : memref<?x4x?x64xbf16>) causal
      schedule(#attn.by_query_length<bound = 4, below = #attn_tile.linear_recurrent<value_tile = 8>,
                                     from = #attn_tile.linear_recurrent<value_tile = 32>>)
  return
}

// The mean number of tokens of packed sequences decides.
// CHECK-LABEL: func @sequences(
// SM90: schedule(#attn.by_query_length<bound = {{[0-9]+}}, below = #attn_tile.linear_recurrent<value_tile = 32>, from = #attn_tile.by_work_items<
// SM80: schedule(#attn.by_query_length<bound = {{[0-9]+}}, below = #attn_tile.linear_recurrent<value_tile = 32>, from = #attn_tile.linear_multistage<
func.func @sequences(%q: memref<1x4x?x64xbf16>, %s: memref<?x4x64x64xf32>, %c: memref<?xi32>) {
  attn.linear_attention ins(%q, %q, %q : memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>)
      outs(%q : memref<1x4x?x64xbf16>) initial_state(%s : memref<?x4x64x64xf32>) sequences(%c : memref<?xi32>) causal
  return
}

// At most eight tokens: decode steps next to a long prompt have a mean of few tokens, too.
// CHECK-LABEL: func @sequences_of_elements(
// SM90: schedule(#attn.by_query_length<bound = 9, below = #attn_tile.linear_recurrent<value_tile = 32>, from = #attn_tile.linear_pairs<
func.func @sequences_of_elements(%q: memref<1x4x?x64xbf16>, %g: memref<1x4x?x64xf32>, %s: memref<?x4x64x64xf32>, %c: memref<?xi32>) {
  attn.linear_attention ins(%q, %q, %q : memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>)
      outs(%q, %s : memref<1x4x?x64xbf16>, memref<?x4x64x64xf32>) log_decay(%g : memref<1x4x?x64xf32>)
      initial_state(%s : memref<?x4x64x64xf32>) sequences(%c : memref<?xi32>) causal
  return
}

// CHECK-LABEL: func @given_recurrent(
// CHECK: schedule(#attn_tile.linear_recurrent<value_tile = 16>)
func.func @given_recurrent(%q: memref<1x4x?x64xbf16>, %s: memref<?x4x64x64xf32>, %c: memref<?xi32>) {
  attn.linear_attention ins(%q, %q, %q : memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>)
      outs(%q : memref<1x4x?x64xbf16>) initial_state(%s : memref<?x4x64x64xf32>) sequences(%c : memref<?xi32>)
      causal schedule(#attn_tile.linear_recurrent<value_tile = 16>)
  return
}
