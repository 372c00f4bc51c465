// RUN: attn-opt %s --split-input-file --attn-shard-attention="method=ring ranks=4" --remarks-filter="attn-shard-.*" \
// RUN:   --remark-format=emitRemark --verify-diagnostics | FileCheck %s

!t = tensor<1x2x64x16xbf16>
!l = tensor<1x2x64xf32>

// Rank r attends to the chunks of ranks up to r, and the chunk of rank 3 is sent to none. Each step goes on from the
// results of the steps before; ranks that do not attend copy them.
// CHECK-LABEL: func @causal(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<1x2x16x16xbf16> {{[^%]*}}, %[[K:[^:]*]]: tensor<1x2x16x16xbf16> {{[^%]*}},
// CHECK-SAME: %[[V:[^:]*]]: tensor<1x2x16x16xbf16> {{[^%]*}}, %[[OUT:[^:]*]]: tensor<1x2x16x16xbf16> {{[^%]*}},
// CHECK-SAME: %[[SINKS:[^:]*]]:
// CHECK: %[[RANK:.*]] = attn.comm.rank ranks(4)
// CHECK: %[[S0:.*]]:4 = attn.overlap by streams {
// CHECK:   attn.attention ins(%[[Q]], %[[K]], %[[V]] : {{.*}} : tensor<1x2x16x16xf32>, tensor<1x2x16xf32>) sinks(
// CHECK: } and {
// CHECK:   %[[NEXT:.*]] = arith.remui
// CHECK:   %[[SENDS:.*]] = arith.cmpi ult, %[[RANK]], %{{.*}} : index
// CHECK:   %[[NONE:.*]] = arith.constant -1 : index
// CHECK:   %[[TO:.*]] = arith.select %[[SENDS]], %[[NEXT]], %[[NONE]]
// CHECK:   %[[RECEIVES:.*]] = arith.cmpi uge, %[[RANK]], %{{.*}} : index
// CHECK:   %[[FROM:.*]] = arith.select %[[RECEIVES]]
// CHECK:   attn.comm.send_recv ins(%[[K]] : {{.*}}) to(%[[TO]]) from(%[[FROM]])
// CHECK:   attn.comm.send_recv ins(%[[V]] : {{.*}}) to(%[[TO]]) from(%[[FROM]])
// CHECK: } -> (tensor<1x2x16x16xf32>, tensor<1x2x16xf32>, tensor<1x2x16x16xbf16>, tensor<1x2x16x16xbf16>)
// CHECK: %[[S1:.*]]:4 = attn.overlap by streams {
// CHECK:   %[[ATTENDS:.*]] = arith.cmpi uge, %[[RANK]], %{{.*}} : index
// CHECK:   %[[STATE:.*]]:2 = scf.if %[[ATTENDS]] -> (tensor<1x2x16x16xf32>, tensor<1x2x16xf32>) {
// CHECK:     %[[PARTIAL:.*]]:2 = attn.attention ins(%[[Q]], %[[S0]]#2, %[[S0]]#3 : {{.*}}) outs(%[[D:[^,]*]], %[[L:[^ ]*]] :
// CHECK-SAME:  state(%[[S0]]#0, %[[S0]]#1 : {{.*}} positions(
// CHECK:     scf.yield %[[PARTIAL]]#0, %[[PARTIAL]]#1
// CHECK:   } else {
// CHECK:     %[[KEPT:.*]] = bufferization.materialize_in_destination %[[S0]]#0 in %[[D]]
// CHECK:     %[[KEPT_LSE:.*]] = bufferization.materialize_in_destination %[[S0]]#1 in %[[L]]
// CHECK:     scf.yield %[[KEPT]], %[[KEPT_LSE]]
// CHECK-NOT: attn.merge
// CHECK:   attn.overlap_yield %[[STATE]]#0, %[[STATE]]#1
// CHECK: } and {
// CHECK:   attn.comm.send_recv ins(%[[S0]]#2
// CHECK: %[[S2:.*]]:4 = attn.overlap by streams
// CHECK-NOT: attn.merge
// CHECK: } -> (tensor<1x2x16x16xf32>, tensor<1x2x16xf32>, tensor<1x2x16x16xbf16>, tensor<1x2x16x16xbf16>)
// CHECK: %[[LAST:.*]] = scf.if %{{.*}} -> (tensor<1x2x16x16xbf16>) {
// CHECK:   attn.attention {{.*}} outs(%[[OUT]] : tensor<1x2x16x16xbf16>) state(%[[S2]]#0, %[[S2]]#1 :
// CHECK: } else {
// CHECK:   linalg.generic {{.*}} ins(%[[S2]]#0 : tensor<1x2x16x16xf32>) outs(%[[OUT]] : tensor<1x2x16x16xbf16>)
// CHECK-NEXT: ^bb0(
// CHECK-NEXT: arith.truncf
// CHECK-NOT: attn.merge
// CHECK: return %[[LAST]]
func.func @causal(%q: !t, %k: !t, %v: !t, %out: !t, %sinks: tensor<2xf32>) -> !t {
  // expected-remark @below {{ring of 4 ranks: 4 of 4 steps; of 16 pairs of chunks, ranks attend to 10, one of them to 4, and send their keys 6 times}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) sinks(%sinks : tensor<2xf32>) mask(#attn.causal) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>

// All ranks do the same: each step goes on from the results of the step before, and the last one writes the result.
// CHECK-LABEL: func @all(
// CHECK-NOT: scf.if
// CHECK-NOT: attn.merge
// CHECK: %[[S0:.*]]:4 = attn.overlap by streams {
// CHECK: %[[S1:.*]]:4 = attn.overlap by streams {
// CHECK:   attn.attention ins(%{{.*}}, %[[S0]]#2, %[[S0]]#3 : {{.*}} state(%[[S0]]#0, %[[S0]]#1 :
// CHECK: %[[S2:.*]]:4 = attn.overlap by streams {
// CHECK:   attn.attention ins(%{{.*}}, %[[S1]]#2, %[[S1]]#3 : {{.*}} state(%[[S1]]#0, %[[S1]]#1 :
// CHECK: %[[RESULT:.*]] = attn.attention {{.*}} outs(%arg3 : tensor<1x2x16x16xf32>) state(%[[S2]]#0, %[[S2]]#1 :
// CHECK-NEXT: return %[[RESULT]]
func.func @all(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  // expected-remark @below {{ring of 4 ranks: 4 of 4 steps; of 16 pairs of chunks, ranks attend to 16, one of them to 4, and send their keys 12 times}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>

// A window of 17 positions, with the query, reaches the chunk before; its last position is in the chunk before that.
// CHECK-LABEL: func @window(
// CHECK-COUNT-2: attn.comm.send_recv
// CHECK-NOT: attn.comm.send_recv
// CHECK-LABEL: func @wider_window(
// CHECK-COUNT-4: attn.comm.send_recv
// CHECK-NOT: attn.comm.send_recv
func.func @window(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  // expected-remark @below {{ring of 4 ranks: 2 of 4 steps; of 16 pairs of chunks, ranks attend to 7, one of them to 2, and send their keys 3 times}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) mask(#attn.sliding_window<left = 16, right = 0>) -> !t
  return %0 : !t
}
func.func @wider_window(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  // expected-remark @below {{ring of 4 ranks: 3 of 4 steps; of 16 pairs of chunks, ranks attend to 9, one of them to 3, and send their keys 5 times}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) mask(#attn.sliding_window<left = 17, right = 0>) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>

// Each rank attends to its own chunk and to the one behind: it is the last step that brings that one. In the steps
// between, chunks only go on.
// CHECK-LABEL: func @behind(
// CHECK: attn.overlap
// CHECK: attn.comm.send_recv
// CHECK: attn.comm.send_recv
// CHECK-NOT: attn.overlap by
// CHECK-COUNT-4: attn.comm.send_recv
// CHECK-NOT: attn.comm.send_recv
// CHECK: arith.cmpi ult, %{{.*}}, %{{.*}} : index
// CHECK: scf.if
func.func @behind(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  // expected-remark @below {{ring of 4 ranks: 4 of 4 steps; of 16 pairs of chunks, ranks attend to 7, one of them to 2, and send their keys 9 times}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) mask(#attn.sliding_window<left = 0, right = 5>) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>

// Each query attends to itself: nobody communicates.
// CHECK-LABEL: func @local(
// CHECK-NOT: attn.comm.send_recv
// CHECK: attn.attention {{.*}} outs(%arg3 : tensor<1x2x16x16xf32>) positions(
func.func @local(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  // expected-remark @below {{ring of 4 ranks: 1 of 4 steps; of 16 pairs of chunks, ranks attend to 4, one of them to 1, and send their keys 0 times}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) mask(#attn.sliding_window<left = 0, right = 0>) -> !t
  return %0 : !t
}

// -----

!t = tensor<?x2x?x16xf32>
!l = tensor<?x2x?xf32>

// CHECK-LABEL: func @dynamic(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<?x2x?x16xf32>
// CHECK: tensor.dim %[[Q]]
// CHECK-COUNT-6: attn.comm.send_recv
func.func @dynamic(%q: !t, %k: !t, %v: !t, %out: !t, %lse: !l) -> (!t, !l) {
  // expected-remark @below {{ring of 4 ranks: 4 of 4 steps; of 16 pairs of chunks, ranks attend to 16, one of them to 4, and send their keys 12 times}}
  // expected-remark @below {{no step is left out, since lengths are dynamic}}
  %0:2 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out, %lse : !t, !l) mask(#attn.causal) -> !t, !l
  return %0#0, %0#1 : !t, !l
}

// -----

!t = tensor<1x2x1024x16xf32>

// A window reaches the last rows of the chunk before, which are all that is sent: those from row 192 on.
// CHECK-LABEL: func @halo(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<1x2x256x16xf32> {{[^%]*}}, %[[K:[^:]*]]: tensor<1x2x256x16xf32> {{[^%]*}},
// CHECK-SAME: %[[V:[^:]*]]: tensor<1x2x256x16xf32>
// CHECK: %[[KEYS:.*]] = tensor.extract_slice %[[K]][0, 0, 192, 0] [1, 2, 64, 16]
// CHECK: %[[VALUES:.*]] = tensor.extract_slice %[[V]][0, 0, 192, 0] [1, 2, 64, 16]
// CHECK: %[[S0:.*]]:4 = attn.overlap by streams {
// CHECK:   attn.attention ins(%[[Q]], %[[K]], %[[V]] :
// CHECK: } and {
// CHECK:   attn.comm.send_recv ins(%[[KEYS]] : tensor<1x2x64x16xf32>)
// CHECK:   attn.comm.send_recv ins(%[[VALUES]] : tensor<1x2x64x16xf32>)
// CHECK: }
// CHECK: scf.if
// CHECK:   %[[QUERY:.*]] = arith.muli %{{.*}}, %c256{{[_0-9]*}} : index
// CHECK:   %[[BEGIN:.*]] = arith.muli %{{.*}}, %c256{{[_0-9]*}} : index
// CHECK:   %[[FIRST:.*]] = arith.addi %[[BEGIN]], %c192{{[_0-9]*}} : index
// CHECK:   %[[WORD:.*]] = arith.index_cast %[[FIRST]] : index to i32
// CHECK:   %[[POSITIONS:.*]] = tensor.from_elements %{{[^,]*}}, %[[WORD]], %{{[^,]*}}, %{{[^,]*}}, %c1024_i32
// CHECK:   attn.attention ins(%[[Q]], %[[S0]]#2, %[[S0]]#3 : {{.*}}) {{.*}} positions(%[[POSITIONS]] :
func.func @halo(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  // expected-remark @below {{ring of 4 ranks: 2 of 4 steps; of 16 pairs of chunks, ranks attend to 7, one of them to 2, and send their keys 3 times, rows 192 to 255 of 256}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) mask(#attn.sliding_window<left = 40, right = 0>) -> !t
  return %0 : !t
}
