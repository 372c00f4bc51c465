// RUN: attn-opt %s --split-input-file --attn-shard-attention="method=lightseq ranks=4" \
// RUN:   --remarks-filter="attn-shard-.*" --remark-format=emitRemark --verify-diagnostics --canonicalize --cse \
// RUN:   | FileCheck %s
// RUN: attn-opt %s --split-input-file --attn-shard-attention="method=lightseq ranks=16" | FileCheck %s --check-prefix=MANY

!t = tensor<1x2x64x16xbf16>

// In step 1, ranks 1 to 3 attend to the keys of the rank before them, and rank 0 attends with the queries of rank 3 to
// its own keys. In step 2, ranks 2 and 3 attend to the keys of ranks 0 and 1, and rank 0 returns its results to rank 3.
// Its own results go on from the ones before; the results that come back are merged at the end. A sink counts in the
// first step alone.
// CHECK-LABEL: func @causal(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<1x2x16x16xbf16> {{[^%]*}}, %[[K:[^:]*]]: tensor<1x2x16x16xbf16> {{[^%]*}},
// CHECK-SAME: %[[V:[^:]*]]: tensor<1x2x16x16xbf16> {{[^%]*}}, %[[OUT:[^:]*]]: tensor<1x2x16x16xbf16> {{[^%]*}},
// CHECK-SAME: %[[SINKS:[^:]*]]:
// CHECK-DAG: %[[NONE:.*]] = arith.constant -1 : index
// CHECK-DAG: %[[C1:.*]] = arith.constant 1 : index
// CHECK-DAG: %[[C2:.*]] = arith.constant 2 : index
// CHECK-DAG: %[[C3:.*]] = arith.constant 3 : index
// CHECK-DAG: %[[C4:.*]] = arith.constant 4 : index
// CHECK-DAG: %[[C16:.*]] = arith.constant 16 : index
// CHECK: %[[RANK:.*]] = attn.comm.rank ranks(4)
// CHECK: %[[S0:.*]]:5 = attn.overlap by streams {
// CHECK:   attn.attention ins(%[[Q]], %[[K]], %[[V]] : {{.*}} sinks(%[[SINKS]] {{.*}} positions({{.*}} mask(#attn.causal)
// CHECK: } and {
// CHECK:   %[[NEXT:.*]] = arith.addi %[[RANK]], %[[C1]] : index
// CHECK:   %[[TO:.*]] = arith.remui %[[NEXT]], %[[C4]] : index
// CHECK:   %[[SENDS:.*]] = arith.cmpi ult, %[[RANK]], %[[C3]] : index
// CHECK:   %[[TO_IF:.*]] = arith.select %[[SENDS]], %[[TO]], %[[NONE]]
// CHECK:   %[[FROM:.*]] = arith.remui
// CHECK:   %[[OWNS:.*]] = arith.cmpi uge, %[[RANK]], %[[C1]] : index
// CHECK:   %[[FROM_IF:.*]] = arith.select %[[OWNS]], %[[FROM]], %[[NONE]]
// CHECK:   attn.comm.send_recv ins(%[[K]] : {{.*}}) to(%[[TO_IF]]) from(%[[FROM_IF]])
// CHECK:   attn.comm.send_recv ins(%[[V]] : {{.*}}) to(%[[TO_IF]]) from(%[[FROM_IF]])
// CHECK:   %[[IS_LAST:.*]] = arith.cmpi uge, %[[RANK]], %[[C3]] : index
// CHECK:   %[[HELPER:.*]] = arith.select %[[IS_LAST]], %[[TO]], %[[NONE]]
// CHECK:   %[[HELPS:.*]] = arith.cmpi ult, %[[RANK]], %[[C1]] : index
// CHECK:   %[[HELPED:.*]] = arith.select %[[HELPS]], %[[FROM]], %[[NONE]]
// CHECK:   attn.comm.send_recv ins(%[[Q]] : {{.*}}) to(%[[HELPER]]) from(%[[HELPED]])
// CHECK-NOT: attn.comm.send_recv

// CHECK: %[[S1:.*]]:6 = attn.overlap by streams {
// CHECK:   %[[OWNS:.*]] = arith.cmpi uge, %[[RANK]], %[[C1]] : index
// CHECK:   %[[OWN:.*]]:2 = scf.if %[[OWNS]] -> (tensor<1x2x16x16xf32>, tensor<1x2x16xf32>) {
// CHECK:     attn.attention ins(%[[Q]], %[[S0]]#2, %[[S0]]#3 : {{.*}}) outs({{.*}}) state(%[[S0]]#0, %[[S0]]#1 : {{.*}}) positions(
// CHECK:   } else {
// CHECK:     bufferization.materialize_in_destination %[[S0]]#0 in
// CHECK:     bufferization.materialize_in_destination %[[S0]]#1 in
// CHECK:   %[[HELPS:.*]] = arith.cmpi ult, %[[RANK]], %[[C1]] : index
// CHECK:   %[[HELP:.*]]:2 = scf.if %[[HELPS]] -> (tensor<1x2x16x16xf32>, tensor<1x2x16xf32>) {
// CHECK:     %[[SUM:.*]] = arith.addi %[[RANK]], %[[C3]] : index
// CHECK:     %[[OTHER:.*]] = arith.remui %[[SUM]], %[[C4]] : index
// CHECK:     %[[QUERY:.*]] = arith.muli %[[OTHER]], %[[C16]] : index
// CHECK:     %[[KEY:.*]] = arith.muli %[[RANK]], %[[C16]] : index
// CHECK:     %[[QUERY_WORD:.*]] = arith.index_cast %[[QUERY]]
// CHECK:     %[[KEY_WORD:.*]] = arith.index_cast %[[KEY]]
// CHECK:     %[[POSITIONS:.*]] = tensor.from_elements %[[QUERY_WORD]], %[[KEY_WORD]],
// CHECK:     attn.attention ins(%[[S0]]#4, %[[K]], %[[V]] : {{.*}}) outs({{.*}}) positions(%[[POSITIONS]] :
// CHECK:   } else {
// CHECK-COUNT-2: linalg.fill
// CHECK-NOT: attn.merge
// CHECK:   attn.overlap_yield %[[OWN]]#0, %[[OWN]]#1, %[[HELP]]#0, %[[HELP]]#1
// CHECK: } and {
// CHECK:   arith.addi %[[RANK]], %[[C2]] : index
// CHECK:   attn.comm.send_recv ins(%[[K]] :
// CHECK:   attn.comm.send_recv ins(%[[V]] :
// CHECK-NOT: attn.comm.send_recv

// Ranks that get no results have ones of no keys.
// CHECK: %[[NO_OUT:.*]] = linalg.fill
// CHECK: %[[NO_LSE:.*]] = linalg.fill
// CHECK: %[[S2:.*]]:4 = attn.overlap by streams {
// CHECK:   %[[OWN:.*]]:2 = scf.if
// CHECK:     attn.attention ins(%[[Q]], %[[S1]]#4, %[[S1]]#5 : {{.*}} state(%[[S1]]#0, %[[S1]]#1 :
// CHECK:   attn.overlap_yield %[[OWN]]#0, %[[OWN]]#1
// CHECK: } and {
// CHECK:   attn.comm.send_recv ins(%[[S1]]#2 : {{.*}}) to(%[[OWNER:.*]]) from(%[[HELPER:.*]]) outs(%[[NO_OUT]] :
// CHECK:   attn.comm.send_recv ins(%[[S1]]#3 : {{.*}}) to(%[[OWNER]]) from(%[[HELPER]]) outs(%[[NO_LSE]] :
// CHECK: %[[RESULT:.*]] = attn.merge ins(%[[S2]]#0, %[[S2]]#2 : {{.*}} outs(%[[OUT]] : tensor<1x2x16x16xbf16>)
// CHECK: return %[[RESULT]]
func.func @causal(%q: !t, %k: !t, %v: !t, %out: !t, %sinks: tensor<2xf32>) -> !t {
  // expected-remark @below {{balanced schedule of 4 ranks: 3 steps; of 16 pairs of chunks, ranks attend to 10, one of them to 3, and send keys 5 times, queries 1 times, results 1 times}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) sinks(%sinks : tensor<2xf32>) mask(#attn.causal) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>

// Nobody can help.
// CHECK-LABEL: func @all(
// CHECK-NOT: scf.if
// CHECK-COUNT-6: attn.comm.send_recv
// CHECK-NOT: attn.comm.send_recv
// CHECK-NOT: attn.merge
// CHECK: %[[RESULT:.*]] = bufferization.materialize_in_destination %{{.*}} in %arg3
// CHECK-NEXT: return %[[RESULT]]
func.func @all(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  // expected-remark @below {{balanced schedule of 4 ranks: 4 steps; of 16 pairs of chunks, ranks attend to 16, one of them to 4, and send keys 12 times, queries 0 times, results 0 times}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>
!l = tensor<1x2x64xf32>

// The keys of the rank behind are one message away, and no other rank forwards them.
// CHECK-LABEL: func @behind(
// CHECK-COUNT-2: attn.comm.send_recv
// CHECK-NOT: attn.comm.send_recv
// CHECK-NOT: attn.merge
// CHECK: bufferization.materialize_in_destination %{{.*}} in %arg3
// CHECK: bufferization.materialize_in_destination %{{.*}} in %arg4
func.func @behind(%q: !t, %k: !t, %v: !t, %out: !t, %lse: !l) -> (!t, !l) {
  // expected-remark @below {{balanced schedule of 4 ranks: 2 steps; of 16 pairs of chunks, ranks attend to 7, one of them to 2, and send keys 3 times, queries 0 times, results 0 times}}
  %0:2 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out, %lse : !t, !l) mask(#attn.sliding_window<left = 0, right = 5>) -> !t, !l
  return %0#0, %0#1 : !t, !l
}

// -----

!t = tensor<1x2x64x16xf32>

// All queries attend to the first chunk of keys. Its rank helps rank 3, and then has as many pairs as ranks 1 and 2.
// CHECK-LABEL: func @global(
// CHECK: %[[S0:.*]]:5 = attn.overlap by streams {
// CHECK: %[[HELP:.*]]:2 = scf.if
// CHECK: %[[HELP:.*]]:2 = scf.if
// CHECK: attn.attention ins(%[[S0]]#4, %arg1, %arg2 :
func.func @global(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  // expected-remark @below {{balanced schedule of 4 ranks: 3 steps; of 16 pairs of chunks, ranks attend to 7, one of them to 2, and send keys 2 times, queries 1 times, results 1 times}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t)
      mask(#attn.or<#attn.sliding_window<left = 0, right = 0>, #attn.and<#attn.global_tokens<count = 9>, #attn.causal>>) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>

// Each query attends to itself: nobody communicates, and attention writes the result.
// CHECK-LABEL: func @local(
// CHECK-NOT: attn.comm.send_recv
// CHECK: attn.attention {{.*}} outs(%arg3 : tensor<1x2x16x16xf32>) positions(
func.func @local(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  // expected-remark @below {{balanced schedule of 4 ranks: 1 steps; of 16 pairs of chunks, ranks attend to 4, one of them to 1, and send keys 0 times, queries 0 times, results 0 times}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) mask(#attn.sliding_window<left = 0, right = 0>) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x?x16xf32>

// With dynamic lengths, each rank attends to all keys.
// CHECK-LABEL: func @dynamic(
// CHECK-COUNT-6: attn.comm.send_recv
// CHECK-NOT: attn.comm.send_recv
func.func @dynamic(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  // expected-remark @below {{balanced schedule of 4 ranks: 4 steps; of 16 pairs of chunks, ranks attend to 16, one of them to 4, and send keys 12 times, queries 0 times, results 0 times}}
  // expected-remark @below {{no step is left out and no rank helps, since lengths are dynamic}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) mask(#attn.causal) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x1024x16xbf16>

// Of the results that come back in seven of nine steps, four are merged at once, and the others in the end.
// CHECK-LABEL: func @many(
// MANY-LABEL: func @many(
// MANY: attn.merge ins(%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}} : tensor
// MANY: attn.merge ins({{.*}} outs(%arg3 : tensor<1x2x64x16xbf16>)
// MANY-NOT: attn.merge
func.func @many(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  // expected-remark @below {{balanced schedule of 4 ranks: 3 steps}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) mask(#attn.causal) -> !t
  return %0 : !t
}
