// RUN: attn-opt %s --convert-attn-to-attn-tile=target=sm_90a --canonicalize --cse --split-input-file | FileCheck %s

// Each sequence has chunks of its own. A thread finds the tokens of a chunk: those of the last sequence that begins at or
// before it. It also checks a boundary. Boundaries are limited to the tokens that there are.

// CHECK-LABEL: attn_tile.kernel @sequences_chunk_table(
// CHECK-SAME: %[[TABLE:[a-z0-9]+]]: memref<2x?xi32>, %[[C:[a-z0-9]+]]: memref<?xi32>, %[[FAULT:[a-z0-9]+]]: memref<1xi32>,
// CHECK-SAME: %[[LENGTH:[a-z0-9]+]]: index, %[[COUNT:[a-z0-9]+]]: index, %[[IS_CONSISTENT:[a-z0-9]+]]: i1)
// CHECK: %[[CHUNKS:.*]] = memref.dim %[[TABLE]], %c1
// CHECK: scf.forall
// CHECK: attn_tile.thread_for
// CHECK: %[[CHUNK:.*]] = arith.addi %{{.*}}, %i
// CHECK: %[[HAS_SEQUENCE:.*]] = arith.cmpi ne, %[[COUNT]], %c0
// CHECK: %[[IS_CHUNK:.*]] = arith.cmpi ult, %[[CHUNK]], %[[CHUNKS]]
// CHECK: %[[BOTH:.*]] = arith.andi %[[IS_CHUNK]], %[[HAS_SEQUENCE]]
// CHECK: scf.if %[[BOTH]] {
// CHECK: %[[FOUND:.*]]:2 = scf.while
// CHECK: %[[GIVEN:.*]] = memref.load %[[C]][%[[FOUND]]#0]
// CHECK: %[[BEGIN:.*]] = arith.minsi %{{.*}}, %[[LENGTH]]
// CHECK: %[[END:.*]] = arith.minsi %{{.*}}, %[[LENGTH]]
// CHECK: %[[WHOLE:.*]] = arith.divui %[[BEGIN]], %c64
// CHECK: %[[FIRST_CHUNK:.*]] = arith.addi %[[WHOLE]], %[[FOUND]]#0
// CHECK: %[[AHEAD:.*]] = arith.subi %[[CHUNK]], %[[FIRST_CHUNK]]
// CHECK: %[[OFFSET:.*]] = arith.muli %[[AHEAD]], %c64
// CHECK: arith.addi %[[BEGIN]], %[[OFFSET]]
// CHECK: %[[FIRST:.*]] = arith.minsi %{{.*}}, %[[LENGTH]]
// CHECK: %[[LEFT:.*]] = arith.subi %[[END]], %[[FIRST]]
// CHECK: %[[SOME:.*]] = arith.maxsi %[[LEFT]], %c0
// CHECK: arith.minsi %[[SOME]], %c64
// CHECK: memref.store %{{.*}}, %[[TABLE]][%c0, %[[CHUNK]]]
// CHECK: memref.store %{{.*}}, %[[TABLE]][%c1, %[[CHUNK]]]
// CHECK: %[[IS_SEQUENCE:.*]] = arith.cmpi ult, %[[CHUNK]], %[[COUNT]]
// CHECK: scf.if %[[IS_SEQUENCE]] {
// CHECK: %[[IS_FIRST:.*]] = arith.cmpi eq, %[[CHUNK]], %c0
// CHECK: %[[IS_LAST:.*]] = arith.cmpi eq, %{{.*}}, %[[COUNT]]
// CHECK: arith.cmpi sgt
// CHECK: memref.store %{{.*}}, %[[FAULT]]
// CHECK: %[[CONTRADICTS:.*]] = arith.xori %[[IS_CONSISTENT]], %true
// CHECK: scf.if %[[CONTRADICTS]] {
// CHECK: memref.store %{{.*}}, %[[FAULT]]

// Packed sequences have states of their own, also of splits. A split has as many chunks in all sequences. Sequences with
// fewer chunks than three splits have one, the last one; others have fewer splits than the longest may have, the last ones.
// The last split, which has the last state, is not among the ones whose states are computed alone.

// CHECK-LABEL: attn_tile.kernel @sequences_linear_attention_states(
// CHECK-SAME: %[[K:[a-z0-9]+]]: memref<1x4x?x64xbf16>, %[[C:[a-z0-9]+]]: memref<?xi32, strided<[1]>>,
// CHECK-SAME: %[[STATES:[a-z0-9]+]]: memref<?x?x4x64x64xf32>, %[[COUNT:[a-z0-9]+]]: index, %[[CHUNKS:[a-z0-9]+]]: index)
// CHECK: %[[SPLITS:.*]] = arith.subi %[[COUNT]], %c1
// CHECK: %[[SEQUENCES:.*]] = arith.subi %{{.*}}, %c1
// CHECK: scf.forall (%[[N:.*]], %[[H:.*]], %[[SPLIT:.*]]) in (%[[SEQUENCES]], 4, %[[SPLITS]]) {
// CHECK: memref.load %[[C]][%[[N]]]
// CHECK: arith.maxsi %{{.*}}, %c0
// CHECK: memref.load %[[C]]
// CHECK: arith.maxsi %{{.*}}, %c0
// CHECK: %[[END:.*]] = arith.minui
// CHECK: %[[BEGIN:.*]] = arith.minui %{{.*}}, %[[END]]
// CHECK: %[[TOKENS:.*]] = arith.subi %[[END]], %[[BEGIN]]
// CHECK: %[[ALL:.*]] = arith.divui %{{.*}}, %c64
// CHECK: %[[WHOLE:.*]] = arith.divui %[[BEGIN]], %c64
// CHECK: %[[FIRST_CHUNK:.*]] = arith.addi %[[WHOLE]], %[[N]]
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
// CHECK: %[[FIRST:.*]] = arith.addi %[[FIRST_CHUNK]], %[[BEFORE]]
// CHECK: %[[NUM:.*]] = arith.select %[[IS_EMPTY]], %c0, %[[OF_SPLIT]]
// CHECK: scf.for %[[I:.*]] = %c0 to %[[NUM]]
// CHECK: %[[CHUNK:.*]] = arith.addi %[[FIRST]], %[[I]]
// CHECK: %[[IN_SEQUENCE:.*]] = arith.subi %[[CHUNK]], %[[FIRST_CHUNK]]
// CHECK: %[[OFFSET:.*]] = arith.muli %[[IN_SEQUENCE]], %c64
// CHECK: %[[TOKEN:.*]] = arith.addi %[[BEGIN]], %[[OFFSET]]
// CHECK: %[[LEFT:.*]] = arith.subi %[[TOKENS]], %[[OFFSET]]
// CHECK: attn_tile.load %[[K]][%c0, %[[H]], %[[TOKEN]], %c0] within(%c0 of %[[LEFT]]) stream(%[[I]] of %[[NUM]])
// CHECK: attn_tile.store %{{.*}}, %[[STATES]][%[[SPLIT]], %[[N]], %[[H]],

// CHECK-LABEL: attn_tile.kernel @sequences_linear_attention_starts(
// CHECK-LABEL: attn_tile.kernel @sequences_linear_attention(
// CHECK-SAME: %[[STARTS:[a-z0-9]+]]: memref<?x?x4x64x64xf32>, %{{[a-z0-9]+}}: index, %{{[a-z0-9]+}}: index)
// CHECK: scf.forall (%[[N:.*]], %[[H:.*]], %[[SPLIT:.*]]) in (%{{.*}}, 4, %{{.*}}) {
// CHECK: attn_tile.load %[[STARTS]][%[[SPLIT]], %[[N]], %[[H]],
// CHECK: attn_tile.store %{{.*}} within(%c0 of %{{.*}}) : vector<64x64xbf16>, memref<1x4x?x64xbf16>

// Sequences have at most four times as many splits together as a single one would have, and at least three each or one.
// Chunks of splits are counted in all rows.
// CHECK-LABEL: func @sequences(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: memref<1x4x?x64xbf16>, %{{.*}} %[[C:[a-z0-9]+]]: memref<?xi32>)
// CHECK: %[[WHOLE:.*]] = arith.divui %{{.*}}, %c64
// CHECK: %[[MORE:.*]] = arith.addi %[[WHOLE]], %{{.*}}
// CHECK: %[[ALL:.*]] = arith.select %{{.*}}, %c0, %[[MORE]]
// CHECK: %[[TABLE:.*]] = memref.alloc(%[[ALL]]) : memref<2x?xi32>
// CHECK: %[[GIVEN:.*]] = memref.subview %[[C]]
// CHECK: attn_tile.launch @sequences_chunk_table args(%[[TABLE]], %[[C]],
// CHECK: %[[CHUNKS:.*]] = arith.maxui %[[ALL]], %c1
// CHECK: %[[WANTED:.*]] = arith.minui %[[CHUNKS]], %c66
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
      sequences(%c : memref<?xi32>) causal
      schedule(#attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4, split_work_items = 264>)
  return
}

// -----

// The matrices of pairs are those of all chunks, whose tokens are in the table.

// CHECK-LABEL: attn_tile.kernel @gradient_linear_pairs(
// CHECK-SAME: %[[K:[a-z0-9]+]]: memref<1x4x?x64xbf16>, %[[TABLE:[a-z0-9]+]]: memref<2x?xi32>, %[[BETA:[a-z0-9]+]]: memref<1x4x?xf32>
// CHECK: %[[TOKEN:.*]] = memref.load %[[TABLE]][%c0, %[[CHUNK:.*]]] {attn_tile.in_bounds}
// CHECK: %[[FIRST:.*]] = arith.index_cast %[[TOKEN]]
// CHECK: %[[TOKENS:.*]] = memref.load %[[TABLE]][%c1, %[[CHUNK]]] {attn_tile.in_bounds}
// CHECK: %[[COUNT:.*]] = arith.index_cast %[[TOKENS]]
// CHECK: attn_tile.load %[[K]][%{{.*}}, %{{.*}}, %[[FIRST]], %c0] within(%c0 of %[[COUNT]])
// CHECK: attn_tile.load %[[BETA]][%{{.*}}, %{{.*}}, %[[FIRST]]] within(%c0 of %[[COUNT]])

// Gradients go through the same splits in reverse, and use their transitions. The first splits may have no chunks, in both
// directions.

// CHECK-LABEL: attn_tile.kernel @gradient_linear_states_transitions(
// CHECK-SAME: %{{[a-z0-9]+}}: index, %{{[a-z0-9]+}}: index, %[[T:[a-z0-9]+]]: memref<?x?x4x64x64xbf16>
// CHECK: scf.forall (%[[N:.*]], %[[H:.*]], %[[SPLIT:.*]]) in
// CHECK: attn_tile.store %{{.*}}, %[[T]][%[[SPLIT]], %[[N]], %[[H]],

// CHECK-LABEL: attn_tile.kernel @gradient_linear_dstates_states(
// CHECK: scf.forall (%[[N:.*]], %[[H:.*]], %[[SPLIT:.*]]) in
// CHECK: %[[NUMBER:.*]] = arith.select %{{.*}}, %c1, %{{.*}} : index
// CHECK: %[[LATER:.*]] = arith.maxui %[[SPLIT]], %[[FIRST_SPLIT:[0-9]+]] : index
// CHECK: %[[PLACE:.*]] = arith.subi %[[LATER]], %[[FIRST_SPLIT]]
// CHECK: %[[LAST:.*]] = arith.subi %[[NUMBER]], %c1
// CHECK: %[[REVERSED:.*]] = arith.subi %[[LAST]], %[[PLACE]]
// CHECK: arith.muli %[[REVERSED]], %{{.*}}

// Groups of splits have transitions: columns of the identity that go through those of the splits.

// CHECK-LABEL: attn_tile.kernel @gradient_linear_dstates_group_transitions(
// CHECK-SAME: %[[T:[a-z0-9]+]]: memref<?x?x4x64x64xbf16>, %{{[a-z0-9]+}}: memref<?x?x4x64x64xbf16>, %[[COUNT:[a-z0-9]+]]: index, %{{[a-z0-9]+}}: index,
// CHECK-SAME: %[[GROUPS:[a-z0-9]+]]: index, %[[SIZE:[a-z0-9]+]]: index, %[[OF_GROUPS:[a-z0-9]+]]: memref<?x?x4x64x64xbf16>
// CHECK: %[[ITEMS:.*]] = arith.subi %[[GROUPS]], %c1
// CHECK: scf.forall (%[[N:.*]], %[[H:.*]], %[[GROUP:.*]], %{{.*}}) in (%{{.*}}, 4, %[[ITEMS]], 4) {
// CHECK: %[[FIRST_SPLIT:.*]] = arith.subi %[[COUNT]], %{{.*}}
// CHECK: %[[BEGIN:.*]] = arith.muli %[[GROUP]], %[[SIZE]]
// CHECK: %[[NEXT:.*]] = arith.addi %[[BEGIN]], %[[SIZE]]
// CHECK: %[[END:.*]] = arith.minui %[[NEXT]], %[[COUNT]]
// CHECK: %[[STEPS:.*]] = arith.subi %[[END]], %[[BEGIN]]
// CHECK: %[[IDENTITY:.*]] = attn_tile.map
// CHECK: arith.cmpi eq, %i, %j
// CHECK: scf.for %[[I:.*]] = %c0 to %[[STEPS]] step %c1 iter_args(%{{.*}} = %[[IDENTITY]])
// CHECK: %[[SPLIT:.*]] = arith.addi %[[BEGIN]], %[[I]]
// CHECK: %[[REVERSED:.*]] = arith.subi %{{.*}}, %[[SPLIT]]
// CHECK: %[[IS_EMPTY:.*]] = arith.cmpi ult, %[[SPLIT]], %[[FIRST_SPLIT]]
// CHECK: %[[OTHER:.*]] = arith.select %[[IS_EMPTY]], %[[SPLIT]], %[[REVERSED]]
// CHECK: attn_tile.load %[[T]][%[[OTHER]], %[[N]], %[[H]],
// CHECK: vector.contract {indexing_maps = [#[[TRANSPOSED:[a-z0-9]+]],
// CHECK: attn_tile.store %{{.*}}, %[[OF_GROUPS]][%[[GROUP]], %[[N]], %[[H]],

// The transitions of groups are in the order of the groups, and not transposed.

// CHECK-LABEL: attn_tile.kernel @gradient_linear_dstates_group_starts(
// CHECK-SAME: %[[T:[a-z0-9]+]]: memref<?x?x4x64x64xbf16>, %{{[a-z0-9]+}}: memref<?x?x4x64x64xbf16>, %[[COUNT:[a-z0-9]+]]: index,
// CHECK-SAME: %[[STATES:[a-z0-9]+]]: memref<?x?x4x64x64xf32>, %[[STARTS:[a-z0-9]+]]: memref<?x?x4x64x64xf32>)
// CHECK: %[[LAST:.*]] = arith.subi %[[COUNT]], %c1
// CHECK: scf.for %[[I:.*]] = %c0 to %[[LAST]]
// CHECK: attn_tile.load %[[STATES]][%[[I]],
// CHECK: attn_tile.load %[[T]][%[[I]],
// CHECK: attn_tile.store %{{.*}}, %[[STARTS]][%[[I]],
// CHECK-NOT: indexing_maps = [#[[TRANSPOSED]],
// CHECK: attn_tile.store %{{.*}}, %[[STARTS]][%[[LAST]],

// The splits of a group begin with its state.

// CHECK-LABEL: attn_tile.kernel @gradient_linear_dstates_starts(
// CHECK-SAME: %[[GROUPS:[a-z0-9]+]]: index, %[[SIZE:[a-z0-9]+]]: index, %[[STATES:[a-z0-9]+]]: memref<?x?x4x64x64xf32>,
// CHECK-SAME: %[[STARTS:[a-z0-9]+]]: memref<?x?x4x64x64xf32>, %[[OF_GROUPS:[a-z0-9]+]]: memref<?x?x4x64x64xf32>)
// CHECK: scf.forall (%[[N:.*]], %[[H:.*]], %[[GROUP:.*]], %{{.*}}) in
// CHECK: %[[BEGIN:.*]] = arith.muli %[[GROUP]], %[[SIZE]]
// CHECK: %[[STEPS:.*]] = arith.subi %{{.*}}, %c1
// CHECK: %[[ARE_GROUPED:.*]] = arith.cmpi ugt, %[[GROUPS]], %c1
// CHECK: scf.if %[[ARE_GROUPED]]
// CHECK: attn_tile.load %[[OF_GROUPS]][%[[GROUP]],
// CHECK: scf.for %[[I:.*]] = %c0 to %[[STEPS]]
// CHECK: %[[SPLIT:.*]] = arith.addi %[[BEGIN]], %[[I]]
// CHECK: attn_tile.load %[[STATES]][%[[SPLIT]],
// CHECK: attn_tile.store %{{.*}}, %[[STARTS]][%[[SPLIT]],
// CHECK: %[[LAST:.*]] = arith.addi %[[BEGIN]], %[[STEPS]]
// CHECK: attn_tile.store %{{.*}}, %[[STARTS]][%[[LAST]],

// More than 24 splits are in groups of about the root of their number.

// CHECK-LABEL: func.func @gradient(
// CHECK: %[[ARE_FEW:.*]] = arith.cmpi ule, %[[SPLITS:.*]], %c24
// CHECK: %[[MORE:.*]] = arith.addi %{{.*}}, %c1
// CHECK: %[[OF_GROUP:.*]] = arith.select %[[ARE_FEW]], %[[SPLITS]], %[[MORE]]
// CHECK: %[[NUM_GROUPS:.*]] = arith.divui %{{.*}}, %[[OF_GROUP]]
// CHECK: %[[ARE_GROUPED:.*]] = arith.cmpi ugt, %[[NUM_GROUPS]], %c1
// CHECK: scf.if %[[ARE_GROUPED]] {
// CHECK-NEXT: attn_tile.launch @gradient_linear_states_group_states
// CHECK-NEXT: attn_tile.launch @gradient_linear_states_group_transitions
// CHECK-NEXT: attn_tile.launch @gradient_linear_states_group_starts
// CHECK-NEXT: }
// CHECK-NEXT: attn_tile.launch @gradient_linear_states_starts
#chunks = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4, local_stages = 1, split_work_items = 264>
#pairs = #attn_tile.linear_pairs<
    pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 1, warps = 4, local_stages = 1>,
    chunks = #chunks, starts = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 2, warps = 4, local_stages = 1>>
func.func @gradient(%q: memref<1x4x?x64xbf16>, %o: memref<1x4x?x64xbf16>, %b: memref<1x4x?xf32>, %db: memref<1x4x?xf32>, %s: memref<?x4x64x64xf32>,
                    %ds: memref<?x4x64x64xf32>, %c: memref<?xi32>) {
  attn.linear_attention_grad
      ins(%q, %q, %q, %q : memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>)
      outs(%o, %o, %o : memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>)
      beta(%b : memref<1x4x?xf32>) initial_state(%s : memref<?x4x64x64xf32>) sequences(%c : memref<?xi32>)
      dbeta(%db : memref<1x4x?xf32>) dinitial_state(%ds : memref<?x4x64x64xf32>) causal schedule(#pairs)
  return
}
