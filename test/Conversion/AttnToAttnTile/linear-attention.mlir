// RUN: attn-opt %s --convert-attn-to-attn-tile=target=host | FileCheck %s

// A work item for each batch entry and head; the state is carried from chunk to chunk.
// CHECK-LABEL: attn_tile.kernel @plain_linear_attention(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: memref<2x4x?x32xbf16>, %[[K:[a-z0-9]+]]: memref<2x2x?x32xbf16>,
// CHECK-SAME:  %[[V:[a-z0-9]+]]: memref<2x1x?x48xbf16>, %[[O:[a-z0-9]+]]: memref<2x4x?x48xbf16>)
// CHECK: scf.forall (%[[B:.*]], %[[H:.*]]) in (%{{.*}}, %{{.*}})
// CHECK: scf.for %[[N:.*]] = {{.*}} iter_args(%[[S:.*]] = %{{.*}}) -> (vector<32x48xf32>)
// CHECK: %[[T:.*]] = arith.muli %[[N]], %{{.*}} : index
// CHECK: attn_tile.load %[[Q]][%[[B]], %[[H]], %[[T]],
// CHECK: %[[KH:.*]] = arith.divui %[[H]], %c2
// CHECK: attn_tile.load %[[K]][%[[B]], %[[KH]], %[[T]],
// CHECK: %[[VH:.*]] = arith.divui %[[H]], %c4
// CHECK: attn_tile.load %[[V]][%[[B]], %[[VH]], %[[T]],
// CHECK: %[[NEXT:.*]] = vector.contract {{.*}} %[[S]] : vector<64x32xf32>, vector<64x48xf32> into vector<32x48xf32>
// CHECK: vector.contract {{.*}} %[[S]], %{{.*}} : vector<64x32xf32>, vector<32x48xf32> into vector<64x48xf32>
// CHECK: vector.contract {{.*}} : vector<64x32xf32>, vector<64x32xf32> into vector<64x64xf32>
// CHECK: attn_tile.map
// CHECK: arith.cmpi sge
// CHECK: attn_tile.store %{{.*}}, %[[O]][%[[B]], %[[H]], %[[T]],
// CHECK: scf.yield %[[NEXT]]
func.func @plain(%q: memref<2x4x?x32xbf16>, %k: memref<2x2x?x32xbf16>, %v: memref<2x1x?x48xbf16>,
                 %o: memref<2x4x?x48xbf16>) {
  attn.linear_attention ins(%q, %k, %v : memref<2x4x?x32xbf16>, memref<2x2x?x32xbf16>, memref<2x1x?x48xbf16>)
      outs(%o : memref<2x4x?x48xbf16>) causal schedule(#attn_tile.scalar)
  return
}

// The decays of all pairs of a chunk, and the inverse of the triangular matrix of the delta rule, are made in five levels.
// CHECK-LABEL: attn_tile.kernel @gated_delta_rule_linear_attention(
// CHECK-SAME: %[[G:[a-z0-9]+]]: memref<1x2x?xf32>, %[[BETA:[a-z0-9]+]]: memref<1x2x?xf32>, %[[S0:[a-z0-9]+]]: memref<1x2x16x16xf32>
// CHECK: %[[INIT:.*]] = attn_tile.load %[[S0]]
// CHECK: %[[LAST:.*]] = scf.for {{.*}} iter_args(%[[S:.*]] = %[[INIT]])
// CHECK: %[[DECAY:.*]] = attn_tile.load %[[G]]{{.*}} -> vector<32xf32>
// CHECK: %[[WRONG:.*]] = arith.cmpf ugt
// CHECK: %[[COUNT:.*]] = arith.select %[[WRONG]], %c1{{.*}}, %c0
// CHECK: attn_tile.thread_for to(%[[COUNT]])
// CHECK: arith.constant 15 : i32
// CHECK: arith.minimumf
// CHECK: arith.maximumf
// CHECK: math.exp
// CHECK: attn_tile.load %[[BETA]]
// CHECK: %[[DECAYS:.*]] = scf.for %{{.*}} = %c0{{.*}} to %c5{{.*}} -> (vector<32x32xf32>)
// CHECK: math.exp
// CHECK: arith.mulf %{{.*}}, %[[DECAYS]]
// CHECK: %[[INVERSE:.*]] = scf.for %{{.*}} = %c0{{.*}} to %c5{{.*}} -> (vector<32x32xf32>)
// CHECK: vector.contract {{.*}} %[[INVERSE]], {{.*}} : vector<32x32xf32>, vector<32x16xf32> into vector<32x16xf32>
// CHECK: attn_tile.store %[[LAST]],
func.func @gated_delta_rule(%q: memref<1x2x?x16xf32>, %g: memref<1x2x?xf32>, %beta: memref<1x2x?xf32>,
                            %s: memref<1x2x16x16xf32>, %o: memref<1x2x?x16xf32>, %f: memref<1x2x16x16xf32>) {
  attn.linear_attention ins(%q, %q, %q : memref<1x2x?x16xf32>, memref<1x2x?x16xf32>, memref<1x2x?x16xf32>)
      outs(%o, %f : memref<1x2x?x16xf32>, memref<1x2x16x16xf32>) log_decay(%g : memref<1x2x?xf32>)
      beta(%beta : memref<1x2x?xf32>) initial_state(%s : memref<1x2x16x16xf32>) causal chunk(32)
      schedule(#attn_tile.scalar)
  return
}

// Without a mask there are two loops: one for the state, one for the results.
// CHECK-LABEL: attn_tile.kernel @full_linear_attention(
// CHECK: %[[STATE:.*]] = scf.for {{.*}} -> (vector<16x16xf32>)
// CHECK: scf.for
// CHECK: vector.contract {{.*}} %[[STATE]],
// CHECK: attn_tile.store
func.func @full(%q: memref<1x2x?x16xf32>, %o: memref<1x2x?x16xf32>) {
  attn.linear_attention ins(%q, %q, %q : memref<1x2x?x16xf32>, memref<1x2x?x16xf32>, memref<1x2x?x16xf32>)
      outs(%o : memref<1x2x?x16xf32>) schedule(#attn_tile.scalar)
  return
}

// A work item of a packed sequence reports a wrong boundary, which is negative, and goes through the chunks of its sequence.
// Without sequences, one boundary is checked. There are no log-decays.
// CHECK-LABEL: attn_tile.kernel @sequences_linear_attention(
// CHECK-SAME: %[[S:[a-z0-9]+]]: memref<?x2x16x16xf32>, %[[C:[a-z0-9]+]]: memref<?xi32>, %{{[a-z0-9]+}}: memref<1x2x?x16xf32>,
// CHECK-SAME: %[[FAULT:[a-z0-9]+]]: memref<1xi32>)
// CHECK: %[[COUNT:.*]] = arith.subi
// CHECK: %[[ITEMS:.*]] = arith.maxui %[[COUNT]],
// CHECK: scf.forall (%[[N:.*]], %[[H:.*]]) in (%[[ITEMS]], %{{.*}})
// CHECK: %[[BOUNDARY:.*]] = memref.load %[[C]][%[[N]]]
// CHECK: %[[IS_WRONG:.*]] = arith.cmpi slt, %[[BOUNDARY]], %c0
// CHECK: scf.if %[[IS_WRONG]] {
// CHECK: memref.store %{{.*}}, %[[FAULT]]
// CHECK: %[[HAS_STATE:.*]] = arith.cmpi ult, %[[N]], %[[COUNT]]
// CHECK: scf.if %[[HAS_STATE]] {
// CHECK: memref.load %[[C]][%[[N]]]
// CHECK: arith.maxsi
// CHECK: memref.load %[[C]]
// CHECK: arith.maxsi
// CHECK: attn_tile.load %[[S]][%[[N]], %[[H]],
// CHECK-NOT: math.exp
// CHECK: attn_tile.return
func.func @sequences(%q: memref<1x2x?x16xf32>, %s: memref<?x2x16x16xf32>, %c: memref<?xi32>, %o: memref<1x2x?x16xf32>) {
  attn.linear_attention ins(%q, %q, %q : memref<1x2x?x16xf32>, memref<1x2x?x16xf32>, memref<1x2x?x16xf32>)
      outs(%o : memref<1x2x?x16xf32>) initial_state(%s : memref<?x2x16x16xf32>) sequences(%c : memref<?xi32>) whole_chunks
      causal schedule(#attn_tile.scalar)
  return
}
