// RUN: attn-opt %s --convert-attn-to-attn-tile=target=sm_90a | FileCheck %s

// Work items split the chunks of few heads: a kernel has the state that each split adds up, one its transition, and one goes through the splits.

// CHECK-LABEL: attn_tile.kernel @delta_linear_attention_states(
// CHECK: %[[COUNT:.*]] = arith.subi
// CHECK: scf.forall (%[[B:.*]], %[[H:.*]], %[[SPLIT:.*]], %{{.*}}) in (%{{.*}}, 2, %[[COUNT]], 1)
// CHECK: %[[STATE:.*]] = scf.for {{.*}} iter_args
// CHECK-NOT: attn_tile.store
// CHECK: attn_tile.store %[[STATE]], %{{.*}}[%[[SPLIT]], %[[B]], %[[H]], {{.*}} : vector<64x32xf32>, memref<?x?x2x16x32xf32>

// A transition begins as the identity, and its tokens have no values.
// CHECK-LABEL: attn_tile.kernel @delta_linear_attention_transitions(
// CHECK: %[[IDENTITY:.*]] = attn_tile.map
// CHECK: arith.cmpi eq, %i, %j
// CHECK: %[[LAST:.*]] = scf.for {{.*}} iter_args({{.*}} = %[[IDENTITY]])
// CHECK: %[[KNOWN:.*]] = vector.contract
// CHECK: arith.mulf %[[KNOWN]]
// CHECK: %[[HIGH:.*]] = arith.truncf %[[LAST]]
// CHECK: attn_tile.store %[[HIGH]], {{.*}} memref<?x?x2x16x16xbf16>
// CHECK: attn_tile.store {{.*}} memref<?x?x2x16x16xbf16>

// CHECK-LABEL: attn_tile.kernel @delta_linear_attention_starts(
// CHECK: scf.for {{.*}} iter_args(%[[BEFORE:.*]] = %{{.*}}) -> (vector<64x16xf32>)
// CHECK: %[[PART:.*]] = attn_tile.load {{.*}} : memref<?x?x2x16x32xf32> -> vector<64x16xf32>
// CHECK: attn_tile.store %[[BEFORE]]
// CHECK: %[[SUM:.*]] = vector.contract {{.*}}, %[[PART]] :
// CHECK: %[[NEXT:.*]] = vector.contract {{.*}}, %[[SUM]] :
// CHECK: %[[AFTER:.*]] = vector.contract {{.*}}, %[[NEXT]] :
// CHECK: scf.yield %[[AFTER]]

// CHECK-LABEL: attn_tile.kernel @delta_linear_attention(
// CHECK: %[[FIRST:.*]] = scf.if
// CHECK: scf.for {{.*}} iter_args({{.*}} = %[[FIRST]])
// CHECK: %[[IS_LAST:.*]] = arith.cmpi eq
// CHECK: scf.if %[[IS_LAST]]

// At most twice as many splits as the root of the number of chunks, and at least four or one.
// CHECK-LABEL: func.func @delta(
// CHECK: %[[ROOT:.*]] = math.sqrt
// CHECK: %[[MOST:.*]] = arith.muli
// CHECK: %[[COUNT:.*]] = arith.minui %{{.*}}, %[[MOST]]
// CHECK: %[[IS_FEW:.*]] = arith.cmpi ult, %[[COUNT]], %{{.*}}
// CHECK: arith.select %[[IS_FEW]], %{{.*}}, %[[COUNT]]
// CHECK: attn_tile.launch @delta_linear_attention_states
// CHECK: attn_tile.launch @delta_linear_attention_transitions
// CHECK: scf.if
// CHECK: attn_tile.launch @delta_linear_attention_group_states
// CHECK: attn_tile.launch @delta_linear_attention_group_transitions
// CHECK: attn_tile.launch @delta_linear_attention_group_starts
// CHECK: attn_tile.launch @delta_linear_attention_starts
// CHECK: attn_tile.launch @delta_linear_attention args
func.func @delta(%q: memref<?x2x?x16xbf16>, %v: memref<?x2x?x32xbf16>, %b: memref<?x2x?xf32>, %s: memref<?x2x16x32xf32>) {
  attn.linear_attention ins(%q, %q, %v : memref<?x2x?x16xbf16>, memref<?x2x?x16xbf16>, memref<?x2x?x32xbf16>)
      outs(%v, %s : memref<?x2x?x32xbf16>, memref<?x2x16x32xf32>) beta(%b : memref<?x2x?xf32>) initial_state(%s : memref<?x2x16x32xf32>) causal
      schedule(#attn_tile.linear_pairs<
          pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 2, warps = 4>,
          chunks = #attn_tile.linear_multistage<chunk = 64, value_tile = 32, stages = 2, warps = 4, split_work_items = 8>,
          starts = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 2, warps = 4>>)
  return
}

// Gradients go back through the same splits, and multiply by transposed transitions.

// CHECK-LABEL: attn_tile.kernel @grad_linear_states_transitions(
// CHECK: arith.select
// CHECK-LABEL: attn_tile.kernel @grad_linear_dstates_states(
// CHECK-LABEL: attn_tile.kernel @grad_linear_dstates_starts(
// CHECK: scf.for %[[N:.*]] = {{.*}} iter_args
// CHECK: %[[SPLIT:.*]] = arith.addi %{{.*}}, %[[N]]
// CHECK: arith.subi %{{.*}}, %[[SPLIT]]
// CHECK: vector.contract
// CHECK-LABEL: attn_tile.kernel @grad_linear_dstates(
// CHECK-LABEL: attn_tile.kernel @grad_linear_pair_grad(
// CHECK-SAME: schedule = #attn_tile.linear_warp_specialized
// CHECK-LABEL: func.func @grad(
// CHECK: attn_tile.launch @grad_linear_states_states
// CHECK: attn_tile.launch @grad_linear_states_transitions
// CHECK: attn_tile.launch @grad_linear_states_starts
// CHECK: attn_tile.launch @grad_linear_states args
// CHECK: attn_tile.launch @grad_linear_dstates_states
// CHECK-NOT: dstates_transitions
// CHECK: attn_tile.launch @grad_linear_dstates_starts
// CHECK: attn_tile.launch @grad_linear_dstates args
// CHECK: attn_tile.launch @grad_linear_pair_grad
func.func @grad(%q: memref<?x2x?x16xbf16>, %b: memref<?x2x?xf32>) {
  attn.linear_attention_grad ins(%q, %q, %q, %q : memref<?x2x?x16xbf16>, memref<?x2x?x16xbf16>, memref<?x2x?x16xbf16>, memref<?x2x?x16xbf16>)
      outs(%q, %q, %q : memref<?x2x?x16xbf16>, memref<?x2x?x16xbf16>, memref<?x2x?x16xbf16>) beta(%b : memref<?x2x?xf32>) causal
      schedule(#attn_tile.linear_pairs<
          pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 1, warps = 4, refill = true>,
          chunks = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 2, warps = 4, split_work_items = 8>,
          starts = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 2, warps = 4>,
          gradients = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 16, stages = 1, ctas_per_sm = 2>>)
  return
}
