// RUN: attn-opt %s --convert-attn-to-attn-tile=target=sm_90a --canonicalize --cse --split-input-file | FileCheck %s

// Boundaries of sequences in whole chunks are negative if they are wrong. A thread reports each. Others are limited.

// CHECK-LABEL: attn_tile.kernel @sequences_check_sequences(
// CHECK-SAME: %[[C:[a-z0-9]+]]: memref<?xi32>, %[[FAULT:[a-z0-9]+]]: memref<1xi32>)
// CHECK: %[[COUNT:.*]] = memref.dim %[[C]], %c0
// CHECK: scf.forall (%[[ITEM:.*]]) in
// CHECK: %[[FIRST:.*]] = arith.muli %[[ITEM]], %c32
// CHECK: %[[REST:.*]] = arith.subi %[[COUNT]], %[[FIRST]]
// CHECK: %[[OF_ITEM:.*]] = arith.minui %[[REST]], %c32
// CHECK: attn_tile.thread_for to(%[[OF_ITEM]])
// CHECK: %[[BOUNDARY:.*]] = memref.load %[[C]][%{{.*}}] {attn_tile.in_bounds}
// CHECK: %[[IS_WRONG:.*]] = arith.cmpi slt, %[[BOUNDARY]], %c0
// CHECK: scf.if %[[IS_WRONG]] {
// CHECK: memref.store %{{.*}}, %[[FAULT]]

// Packed sequences have states of their own, also of splits. A split has as many chunks in all sequences. Sequences with
// fewer chunks than three splits have one, the last one; others have fewer splits than the longest may have, the last ones.
// The last split, which has the last state, is not among the ones whose states are computed alone.

// CHECK-LABEL: attn_tile.kernel @sequences_linear_attention_states(
// CHECK-SAME: %[[C:[a-z0-9]+]]: memref<?xi32>, %[[STATES:[a-z0-9]+]]: memref<?x?x4x64x64xf32>, %[[COUNT:[a-z0-9]+]]: index, %[[CHUNKS:[a-z0-9]+]]: index)
// CHECK: %[[SPLITS:.*]] = arith.subi %[[COUNT]], %c1
// CHECK: %[[SEQUENCES:.*]] = arith.subi %{{.*}}, %c1
// CHECK: scf.forall (%[[N:.*]], %[[H:.*]], %[[SPLIT:.*]]) in (%[[SEQUENCES]], 4, %[[SPLITS]]) {
// CHECK: memref.load %[[C]][%[[N]]]
// CHECK: arith.maxsi %{{.*}}, %c0
// CHECK: memref.load %[[C]]
// CHECK: arith.maxsi %{{.*}}, %c0
// CHECK: %[[BEGIN:.*]] = arith.minui
// CHECK: %[[ALL:.*]] = arith.subi %{{.*}}, %[[BEGIN]]
// CHECK: %[[NUMBER:.*]] = arith.divui %{{.*}}, %[[CHUNKS]]
// CHECK: %[[IS_WHOLE:.*]] = arith.cmpi ult, %[[NUMBER]], %c3
// CHECK: %[[OWN:.*]] = arith.select %[[IS_WHOLE]], %c1, %[[NUMBER]]
// CHECK: %[[SIZE:.*]] = arith.select %[[IS_WHOLE]], %[[ALL]], %[[CHUNKS]]
// CHECK: %[[FIRST_SPLIT:.*]] = arith.subi %[[COUNT]], %[[OWN]]
// CHECK: %[[IS_EMPTY:.*]] = arith.cmpi ult, %[[SPLIT]], %[[FIRST_SPLIT]]
// CHECK: %[[LATER:.*]] = arith.maxui %[[SPLIT]], %[[FIRST_SPLIT]]
// CHECK: %[[PLACE:.*]] = arith.subi %[[LATER]], %[[FIRST_SPLIT]]
// CHECK: %[[BEFORE:.*]] = arith.muli %[[PLACE]], %[[SIZE]]
// CHECK: %[[REMAINING:.*]] = arith.subi %[[ALL]], %[[BEFORE]]
// CHECK: %[[OF_SPLIT:.*]] = arith.minui %[[SIZE]], %[[REMAINING]]
// CHECK: %[[FIRST:.*]] = arith.addi %[[BEGIN]], %[[BEFORE]]
// CHECK: %[[NUM:.*]] = arith.select %[[IS_EMPTY]], %c0, %[[OF_SPLIT]]
// CHECK: scf.for %[[I:.*]] = %c0 to %[[NUM]]
// CHECK: arith.addi %[[FIRST]], %[[I]]
// CHECK: attn_tile.store %{{.*}}, %[[STATES]][%[[SPLIT]], %[[N]], %[[H]],

// CHECK-LABEL: attn_tile.kernel @sequences_linear_attention_starts(
// CHECK-LABEL: attn_tile.kernel @sequences_linear_attention(
// CHECK-SAME: %[[STARTS:[a-z0-9]+]]: memref<?x?x4x64x64xf32>, %{{[a-z0-9]+}}: index, %{{[a-z0-9]+}}: index)
// CHECK: scf.forall (%[[N:.*]], %[[H:.*]], %[[SPLIT:.*]]) in (%{{.*}}, 4, %{{.*}}) {
// CHECK: attn_tile.load %[[STARTS]][%[[SPLIT]], %[[N]], %[[H]],

// Sequences have at most four times as many splits together as a single one would have, and at least three each or one.
// Chunks of splits are counted in all rows.
// CHECK-LABEL: func @sequences(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: memref<1x4x?x64xbf16>, %{{.*}} %[[C:[a-z0-9]+]]: memref<?xi32>)
// CHECK: memref.dim %[[Q]], %c2
// CHECK: %[[CHUNKS:.*]] = arith.maxui %{{.*}}, %c1
// CHECK: %[[WANTED:.*]] = arith.minui %[[CHUNKS]], %c66
// CHECK: memref.dim %[[C]], %c0
// CHECK: %[[SEQUENCES:.*]] = arith.subi %{{.*}}, %c1
// CHECK: %[[MORE:.*]] = arith.muli %[[WANTED]], %c4
// CHECK: %[[SOME:.*]] = arith.maxui %[[SEQUENCES]], %c1
// CHECK: %[[OF_EACH:.*]] = arith.divui %[[MORE]], %[[SOME]]
// CHECK: %[[LIMITED:.*]] = arith.minui %[[WANTED]], %[[OF_EACH]]
// CHECK: %[[IS_FEW:.*]] = arith.cmpi ult, %[[LIMITED]], %c3
// CHECK: arith.select %[[IS_FEW]], %c1, %[[LIMITED]]
// CHECK: %[[COUNT:.*]] = arith.divui
// CHECK: %[[OF_SPLIT:.*]] = arith.subi
// CHECK: %[[NUM_SPLITS:.*]] = arith.divui
// CHECK: memref.alloc(%[[NUM_SPLITS]], %[[SEQUENCES]]) : memref<?x?x4x64x64xf32>
// CHECK: attn_tile.launch @sequences_linear_attention_states
// CHECK: attn_tile.launch @sequences_linear_attention_starts
// CHECK: attn_tile.launch @sequences_linear_attention args
func.func @sequences(%q: memref<1x4x?x64xbf16>, %s: memref<?x4x64x64xf32>, %last: memref<?x4x64x64xf32>, %c: memref<?xi32>) {
  attn.linear_attention ins(%q, %q, %q : memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>)
      outs(%q, %last : memref<1x4x?x64xbf16>, memref<?x4x64x64xf32>) initial_state(%s : memref<?x4x64x64xf32>)
      sequences(%c : memref<?xi32>) whole_chunks causal
      schedule(#attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4, split_work_items = 264>)
  return
}

// -----

// The states of splits with pair matrices go from the first split that has chunks to the last one. Gradients go through
// the same splits in reverse, and use their transitions.

// CHECK-LABEL: attn_tile.kernel @gradient_linear_states_transitions(
// CHECK-SAME: memref<?xi32>, %{{[a-z0-9]+}}: index, %{{[a-z0-9]+}}: index, %[[T:[a-z0-9]+]]: memref<?x?x4x64x64xbf16>
// CHECK: scf.forall (%[[N:.*]], %[[H:.*]], %[[SPLIT:.*]]) in
// CHECK: attn_tile.store %{{.*}}, %[[T]][%[[SPLIT]], %[[N]], %[[H]],

// CHECK-LABEL: attn_tile.kernel @gradient_linear_dstates_states(
// CHECK: scf.forall (%[[N:.*]], %[[H:.*]], %[[SPLIT:.*]]) in
// CHECK: %[[BEGIN:.*]] = arith.minui %{{.*}}, %[[END:[0-9]+]] : index
// CHECK: %[[ALL:.*]] = arith.subi %[[END]], %[[BEGIN]]
// CHECK: %[[FROM_LAST:.*]] = arith.subi %{{.*}}, %[[END]]
// CHECK: %[[NUMBER:.*]] = arith.select %{{.*}}, %c1, %{{.*}} : index
// CHECK: %[[LATER:.*]] = arith.maxui %[[SPLIT]], %[[FIRST_SPLIT:[0-9]+]] : index
// CHECK: %[[PLACE:.*]] = arith.subi %[[LATER]], %[[FIRST_SPLIT]]
// CHECK: %[[LAST:.*]] = arith.subi %[[NUMBER]], %c1
// CHECK: %[[REVERSED:.*]] = arith.subi %[[LAST]], %[[PLACE]]
// CHECK: %[[BEFORE:.*]] = arith.muli %[[REVERSED]], %{{.*}}
// CHECK: %[[REMAINING:.*]] = arith.subi %[[ALL]], %[[BEFORE]]
// CHECK: %[[OF_SPLIT:.*]] = arith.minui %{{.*}}, %[[REMAINING]]
// CHECK: %[[FIRST:.*]] = arith.subi %[[REMAINING]], %[[OF_SPLIT]]
// CHECK: arith.addi %[[FROM_LAST]], %[[FIRST]]

// CHECK-LABEL: attn_tile.kernel @gradient_linear_dstates_starts(
// CHECK-SAME: %[[STATES:[a-z0-9]+]]: memref<?x?x4x64x64xf32>, %[[STARTS:[a-z0-9]+]]: memref<?x?x4x64x64xf32>,
// CHECK-SAME: %[[T:[a-z0-9]+]]: memref<?x?x4x64x64xbf16>, %{{[a-z0-9]+}}: memref<?x?x4x64x64xbf16>, %[[COUNT:[a-z0-9]+]]: index
// CHECK: %[[LAST:.*]] = arith.subi %[[COUNT]], %c1
// CHECK: scf.forall (%[[N:.*]], %[[H:.*]], %{{.*}}, %{{.*}}) in
// CHECK: %[[FIRST_SPLIT:.*]] = arith.subi %[[COUNT]], %{{.*}}
// CHECK: %[[STEPS:.*]] = arith.subi %[[LAST]], %[[FIRST_SPLIT]]
// CHECK: scf.for %[[I:.*]] = %c0 to %[[STEPS]]
// CHECK: %[[SPLIT:.*]] = arith.addi %[[FIRST_SPLIT]], %[[I]]
// CHECK: attn_tile.load %[[STATES]][%[[SPLIT]], %[[N]], %[[H]],
// CHECK: %[[OTHER:.*]] = arith.subi %[[STEPS]], %[[I]]
// CHECK: %[[OF_TRANSITION:.*]] = arith.addi %[[FIRST_SPLIT]], %[[OTHER]]
// CHECK: attn_tile.load %[[T]][%[[OF_TRANSITION]], %[[N]], %[[H]],
// CHECK: attn_tile.store %{{.*}}, %[[STARTS]][%[[SPLIT]], %[[N]], %[[H]],
// CHECK: attn_tile.store %{{.*}}, %[[STARTS]][%[[LAST]], %[[N]], %[[H]],
#chunks = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4, local_stages = 1, split_work_items = 264>
#pairs = #attn_tile.linear_pairs<
    pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 1, warps = 4, local_stages = 1>,
    chunks = #chunks, starts = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 2, warps = 4, local_stages = 1>>
func.func @gradient(%q: memref<1x4x?x64xbf16>, %o: memref<1x4x?x64xbf16>, %b: memref<1x4x?xf32>, %db: memref<1x4x?xf32>, %s: memref<?x4x64x64xf32>,
                    %ds: memref<?x4x64x64xf32>, %c: memref<?xi32>) {
  attn.linear_attention_grad
      ins(%q, %q, %q, %q : memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>)
      outs(%o, %o, %o : memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>)
      beta(%b : memref<1x4x?xf32>) initial_state(%s : memref<?x4x64x64xf32>) sequences(%c : memref<?xi32>) whole_chunks
      dbeta(%db : memref<1x4x?xf32>) dinitial_state(%ds : memref<?x4x64x64xf32>) causal schedule(#pairs)
  return
}
