// RUN: attn-opt %s --split-input-file --attn-shard-attention="method=ring ranks=4" --remarks-filter="attn-shard-.*" \
// RUN:   --remark-format=emitRemark --verify-diagnostics --canonicalize --cse | FileCheck %s

!t = tensor<1x4x64x16xbf16>
!k = tensor<1x2x64x16xbf16>
!l = tensor<1x4x64xf32>

// The gradients of keys and values travel one step behind them. Rank 3 is the last one to attend to all of them: it
// returns the gradients of rank 2 after step 1, of rank 1 after step 2, and of rank 0 after step 3. Its own stay.
// CHECK-LABEL: func @causal(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<1x4x16x16xbf16> {attn.name = "q"}, %[[K:[^:]*]]: tensor<1x2x16x16xbf16> {attn.name = "k"},
// CHECK-SAME: %[[V:[^:]*]]: tensor<1x2x16x16xbf16> {{[^%]*}}, %[[OUT:[^:]*]]: tensor<1x4x16x16xbf16> {{[^%]*}},
// CHECK-SAME: %[[LSE:[^:]*]]: tensor<1x4x16xf32> {{[^%]*}}, %[[DOUT:[^:]*]]: tensor<1x4x16x16xbf16> {{[^%]*}},
// CHECK-SAME: %[[DLSE:[^:]*]]: tensor<1x4x16xf32> {attn.name = "dlse"})
// CHECK-SAME: -> (tensor<1x4x16x16xbf16>, tensor<1x2x16x16xbf16>, tensor<1x2x16x16xbf16>) {
// CHECK-DAG: %[[NONE:.*]] = arith.constant -1 : index
// CHECK-DAG: %[[C1:.*]] = arith.constant 1 : index
// CHECK-DAG: %[[C3:.*]] = arith.constant 3 : index
// CHECK: %[[RANK:.*]] = attn.comm.rank ranks(4)

// CHECK: %[[S0:.*]]:5 = attn.overlap by streams {
// CHECK:   %[[G0:.*]]:3 = attn.attention_grad ins(%[[Q]], %[[K]], %[[V]], %[[OUT]], %[[LSE]], %[[DOUT]], %[[DLSE]] :
// CHECK-SAME: outs({{.*}} : tensor<1x4x16x16xf32>, tensor<1x2x16x16xf32>, tensor<1x2x16x16xf32>)
// CHECK-SAME: positions({{.*}} : tensor<6xi32>) mask(#attn.causal) deterministic
// CHECK:   attn.overlap_yield %[[G0]]#0, %[[G0]]#1, %[[G0]]#2
// CHECK: } and {
// CHECK:   attn.comm.send_recv ins(%[[K]] : {{.*}}) to(%[[TO0:.*]]) from(%[[FROM0:.*]]) outs(
// CHECK:   attn.comm.send_recv ins(%[[V]] : {{.*}}) to(%[[TO0]]) from(%[[FROM0]]) outs(
// CHECK-NOT: attn.comm.send_recv

// CHECK: %[[S1:.*]]:7 = attn.overlap by streams {
// CHECK:   %[[ATTENDS:.*]] = arith.cmpi uge, %[[RANK]], %[[C1]] : index
// CHECK:   %[[IF:.*]]:3 = scf.if %[[ATTENDS]] -> (tensor<1x4x16x16xf32>, tensor<1x2x16x16xf32>, tensor<1x2x16x16xf32>) {
// CHECK:     attn.attention_grad ins(%[[Q]], %[[S0]]#3, %[[S0]]#4, %[[OUT]], %[[LSE]], %[[DOUT]], %[[DLSE]] :
// CHECK:   } else {
// CHECK:     linalg.fill ins(
// CHECK:   %[[DQ1:.*]] = linalg.generic {{.*}} ins(%[[IF]]#0 : {{.*}}) outs(%[[S0]]#0 :
// CHECK:     arith.addf
// CHECK:   attn.overlap_yield %[[DQ1]], %[[IF]]#1, %[[IF]]#2
// CHECK: } and {
// CHECK:   attn.comm.send_recv ins(%[[S0]]#3 : tensor<1x2x16x16xbf16>)
// CHECK:   attn.comm.send_recv ins(%[[S0]]#4 : tensor<1x2x16x16xbf16>)
// CHECK:   attn.comm.send_recv ins(%[[S0]]#1 : tensor<1x2x16x16xf32>) to(%[[TO1:.*]]) from(%[[FROM1:.*]]) outs(
// CHECK:   attn.comm.send_recv ins(%[[S0]]#2 : tensor<1x2x16x16xf32>) to(%[[TO1]]) from(%[[FROM1]]) outs(
// CHECK-NOT: attn.comm.send_recv
// CHECK: } -> (
// CHECK: %[[DK1:.*]] = linalg.generic {{.*}} ins(%[[S1]]#1 : {{.*}}) outs(%[[S1]]#5 :
// CHECK: %[[DV1:.*]] = linalg.generic {{.*}} ins(%[[S1]]#2 : {{.*}}) outs(%[[S1]]#6 :

// CHECK: %[[S2:.*]]:9 = attn.overlap by streams {
// CHECK:   attn.attention_grad ins(%[[Q]], %[[S1]]#3, %[[S1]]#4,
// CHECK: } and {
// CHECK:   attn.comm.send_recv ins(%[[S1]]#3
// CHECK:   attn.comm.send_recv ins(%[[S1]]#4
// CHECK:   attn.comm.send_recv ins(%[[DK1]]
// CHECK:   attn.comm.send_recv ins(%[[DV1]]
// CHECK:   attn.comm.send_recv ins(%[[DK1]] : {{.*}}) to(%[[BACK1:.*]]) from(%[[OF1:.*]]) outs(%[[S0]]#1 :
// CHECK:   attn.comm.send_recv ins(%[[DV1]] : {{.*}}) to(%[[BACK1]]) from(%[[OF1]]) outs(%[[S0]]#2 :

// CHECK: %[[S3:.*]]:7 = attn.overlap by streams {
// CHECK: } and {
// CHECK-COUNT-2: attn.comm.send_recv
// CHECK:   attn.comm.send_recv {{.*}} outs(%[[S2]]#7 :
// CHECK:   attn.comm.send_recv {{.*}} outs(%[[S2]]#8 :
// CHECK: %[[DK3:.*]] = linalg.generic {{.*}} ins(%[[S3]]#1 : {{.*}}) outs(%[[S3]]#3 :
// CHECK: %[[DV3:.*]] = linalg.generic {{.*}} ins(%[[S3]]#2 : {{.*}}) outs(%[[S3]]#4 :

// Rank 3 sends to the rank 3 before it, which is the next one, and rank 0 receives.
// CHECK: %[[NEXT:.*]] = arith.addi %[[RANK]], %[[C1]] : index
// CHECK: %[[OWNER:.*]] = arith.remui %[[NEXT]]
// CHECK: %[[IS_LAST:.*]] = arith.cmpi uge, %[[RANK]], %[[C3]] : index
// CHECK: %[[BACK3:.*]] = arith.select %[[IS_LAST]], %[[OWNER]], %[[NONE]] : index
// CHECK: %[[IS_FIRST:.*]] = arith.cmpi ult, %[[RANK]], %[[C1]] : index
// CHECK: %[[OF3:.*]] = arith.select %[[IS_FIRST]]
// CHECK: %[[DK:.*]] = attn.comm.send_recv ins(%[[DK3]] : {{.*}}) to(%[[BACK3]]) from(%[[OF3]]) outs(%[[S3]]#5 :
// CHECK: %[[DV:.*]] = attn.comm.send_recv ins(%[[DV3]] : {{.*}}) to(%[[BACK3]]) from(%[[OF3]]) outs(%[[S3]]#6 :
// CHECK: %[[RDQ:.*]] = linalg.generic {{.*}} ins(%[[S3]]#0 : tensor<1x4x16x16xf32>) outs({{.*}} : tensor<1x4x16x16xbf16>)
// CHECK:   arith.truncf
// CHECK: %[[RDK:.*]] = linalg.generic {{.*}} ins(%[[DK]] : tensor<1x2x16x16xf32>) outs({{.*}} : tensor<1x2x16x16xbf16>)
// CHECK: %[[RDV:.*]] = linalg.generic {{.*}} ins(%[[DV]] : tensor<1x2x16x16xf32>) outs({{.*}} : tensor<1x2x16x16xbf16>)
// CHECK: return %[[RDQ]], %[[RDK]], %[[RDV]]
func.func @causal(%q: !t, %k: !k, %v: !k, %out: !t, %lse: !l, %dout: !t, %dlse: !l) -> (!t, !k, !k) {
  %eq = tensor.empty() : !t
  %ek = tensor.empty() : !k
  // expected-remark @below {{ring of 4 ranks: 4 of 4 steps; of 16 pairs of chunks, ranks attend to 10, one of them to 4, and send their keys 6 times, gradients of keys 9 times}}
  %0:3 = attn.attention_grad ins(%q, %k, %v, %out, %lse, %dout, %dlse : !t, !k, !k, !t, !l, !t, !l)
      outs(%eq, %ek, %ek : !t, !k, !k) mask(#attn.causal) deterministic -> !t, !k, !k
  return %0#0, %0#1, %0#2 : !t, !k, !k
}

// -----

!t = tensor<1x2x64x16xf32>
!l = tensor<1x2x64xf32>

// All keys end their way in the last step, so that nothing returns before. Gradients in f32 need no rounding.
// CHECK-LABEL: func @all(
// CHECK-NOT: scf.if
// CHECK-COUNT-12: attn.comm.send_recv
// CHECK: %[[DK:.*]] = attn.comm.send_recv ins(%{{.*}} : {{.*}}) to(%[[BACK:.*]]) from(%[[OF:.*]]) outs(%[[NEW:.*]] : {{.*}})
// CHECK: %[[DV:.*]] = attn.comm.send_recv ins(%{{.*}} : {{.*}}) to(%[[BACK]]) from(%[[OF]]) outs(%[[NEW]] : {{.*}})
// CHECK-NEXT: return %{{.*}}#0, %[[DK]], %[[DV]]
func.func @all(%q: !t, %k: !t, %v: !t, %out: !t, %lse: !l, %dout: !t) -> (!t, !t, !t) {
  %e = tensor.empty() : !t
  // expected-remark @below {{ring of 4 ranks: 4 of 4 steps; of 16 pairs of chunks, ranks attend to 16, one of them to 4, and send their keys 12 times, gradients of keys 16 times}}
  %0:3 = attn.attention_grad ins(%q, %k, %v, %out, %lse, %dout : !t, !t, !t, !t, !l, !t)
      outs(%e, %e, %e : !t, !t, !t) -> !t, !t, !t
  return %0#0, %0#1, %0#2 : !t, !t, !t
}

// -----

!t = tensor<1x2x64x16xf32>
!l = tensor<1x2x64xf32>

// Each query attends to itself: nobody communicates. Destinations with contents get the gradients.
// CHECK-LABEL: func @local(
// CHECK-NOT: attn.comm.send_recv
// CHECK: %[[G:.*]]:3 = attn.attention_grad {{.*}} positions(
// CHECK: %[[DQ:.*]] = bufferization.materialize_in_destination %[[G]]#0 in %arg6
// CHECK: %[[DK:.*]] = bufferization.materialize_in_destination %[[G]]#1 in %arg7
// CHECK: return %[[DQ]], %[[DK]], %[[G]]#2
func.func @local(%q: !t, %k: !t, %v: !t, %out: !t, %lse: !l, %dout: !t, %dq: !t, %dk: !t) -> (!t, !t, !t) {
  %e = tensor.empty() : !t
  // expected-remark @below {{ring of 4 ranks: 1 of 4 steps; of 16 pairs of chunks, ranks attend to 4, one of them to 1, and send their keys 0 times, gradients of keys 0 times}}
  %0:3 = attn.attention_grad ins(%q, %k, %v, %out, %lse, %dout : !t, !t, !t, !t, !l, !t)
      outs(%dq, %dk, %e : !t, !t, !t) mask(#attn.sliding_window<left = 0, right = 0>) -> !t, !t, !t
  return %0#0, %0#1, %0#2 : !t, !t, !t
}

// -----

!t = tensor<1x2x64x16xf32>
!l = tensor<1x2x64xf32>

// The keys of a rank are needed by the rank before it, behind all others: until then, their gradients only go on.
// CHECK-LABEL: func @behind(
// CHECK: attn.overlap by streams
// CHECK-COUNT-2: attn.comm.send_recv
// CHECK-NOT: attn.overlap by
// CHECK-COUNT-8: attn.comm.send_recv
// CHECK: attn.overlap by streams
// CHECK: attn.attention_grad
// CHECK-COUNT-2: attn.comm.send_recv
// CHECK: linalg.generic
// CHECK: linalg.generic
// CHECK: %[[DK:.*]] = attn.comm.send_recv
// CHECK: %[[DV:.*]] = attn.comm.send_recv
// CHECK: return %{{.*}}#0, %[[DK]], %[[DV]]
func.func @behind(%q: !t, %k: !t, %v: !t, %out: !t, %lse: !l, %dout: !t) -> (!t, !t, !t) {
  %e = tensor.empty() : !t
  // expected-remark @below {{ring of 4 ranks: 4 of 4 steps; of 16 pairs of chunks, ranks attend to 7, one of them to 2, and send their keys 9 times, gradients of keys 12 times}}
  %0:3 = attn.attention_grad ins(%q, %k, %v, %out, %lse, %dout : !t, !t, !t, !t, !l, !t)
      outs(%e, %e, %e : !t, !t, !t) mask(#attn.sliding_window<left = 0, right = 5>) -> !t, !t, !t
  return %0#0, %0#1, %0#2 : !t, !t, !t
}

// -----

!t = tensor<?x2x?x16xf32>
!l = tensor<?x2x?xf32>

// CHECK-LABEL: func @dynamic(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<?x2x?x16xf32>
// CHECK: tensor.dim %[[Q]]
// CHECK-COUNT-14: attn.comm.send_recv
// CHECK-NOT: attn.comm.send_recv
func.func @dynamic(%q: !t, %k: !t, %v: !t, %out: !t, %lse: !l, %dout: !t) -> (!t, !t, !t) {
  // expected-remark @below {{ring of 4 ranks: 4 of 4 steps; of 16 pairs of chunks, ranks attend to 16, one of them to 4, and send their keys 12 times, gradients of keys 16 times}}
  // expected-remark @below {{no step is left out, since lengths are dynamic}}
  %0:3 = attn.attention_grad ins(%q, %k, %v, %out, %lse, %dout : !t, !t, !t, !t, !l, !t)
      outs(%q, %k, %v : !t, !t, !t) mask(#attn.causal) -> !t, !t, !t
  return %0#0, %0#1, %0#2 : !t, !t, !t
}

// -----

!t = tensor<?x2x?x16xf32>
!l = tensor<?x2x?xf32>
!s = tensor<1x2x64x16xf32>

// Results keep the sizes that their types state.
// CHECK-LABEL: func @sizes(
// CHECK-SAME: -> (tensor<1x2x16x16xf32>, tensor<1x2x16x16xf32>, tensor<1x2x16x16xf32>) {
// CHECK: %[[DQ:.*]] = tensor.cast %{{.*}} : tensor<?x2x?x16xf32> to tensor<1x2x16x16xf32>
// CHECK: %[[RDQ:.*]] = bufferization.materialize_in_destination %[[DQ]] in %{{.*}} :
// CHECK: %[[DK:.*]] = tensor.cast %{{.*}} : tensor<?x2x?x16xf32> to tensor<1x2x16x16xf32>
// CHECK: %[[DV:.*]] = tensor.cast %{{.*}} : tensor<?x2x?x16xf32> to tensor<1x2x16x16xf32>
// CHECK: return %[[RDQ]], %[[DK]], %[[DV]]
func.func @sizes(%q: !t, %k: !t, %v: !t, %out: !t, %lse: !l, %dout: !t, %dq: !s) -> (!s, !s, !s) {
  %e = tensor.empty() : !s
  // expected-remark @below {{ring of 4 ranks: 4 of 4 steps}}
  // expected-remark @below {{no step is left out, since lengths are dynamic}}
  %0:3 = attn.attention_grad ins(%q, %k, %v, %out, %lse, %dout : !t, !t, !t, !t, !l, !t)
      outs(%dq, %e, %e : !s, !s, !s) -> !s, !s, !s
  return %0#0, %0#1, %0#2 : !s, !s, !s
}

// -----

!t = tensor<1x2x1024x16xf32>
!l = tensor<1x2x1024xf32>

// A window reaches the last rows of the chunk before. The gradients of these rows, alone, go on with them, and come back
// to the rank that has the rest.
// CHECK-LABEL: func @halo(
// CHECK: %[[S0:.*]]:5 = attn.overlap by streams {
// CHECK: %[[DKEY:.*]] = tensor.extract_slice %[[S0]]#1[0, 0, 192, 0] [1, 2, 64, 16]
// CHECK: %[[DVALUE:.*]] = tensor.extract_slice %[[S0]]#2[0, 0, 192, 0] [1, 2, 64, 16]
// CHECK: attn.overlap by streams {
// CHECK: } and {
// CHECK:   attn.comm.send_recv ins(%[[DKEY]] : tensor<1x2x64x16xf32>)
// CHECK:   attn.comm.send_recv ins(%[[DVALUE]] : tensor<1x2x64x16xf32>)
// CHECK: }
// CHECK: %[[BACK:.*]] = attn.comm.send_recv ins(%{{.*}} : tensor<1x2x64x16xf32>) {{.*}} outs(%[[DKEY]] :
// CHECK: tensor.insert_slice %[[BACK]] into %[[S0]]#1[0, 0, 192, 0] [1, 2, 64, 16]
func.func @halo(%q: !t, %k: !t, %v: !t, %out: !t, %lse: !l, %dout: !t) -> (!t, !t, !t) {
  %e = tensor.empty() : !t
  // expected-remark @below {{ring of 4 ranks: 2 of 4 steps; of 16 pairs of chunks, ranks attend to 7, one of them to 2, and send their keys 3 times, rows 192 to 255 of 256, gradients of keys 6 times}}
  %0:3 = attn.attention_grad ins(%q, %k, %v, %out, %lse, %dout : !t, !t, !t, !t, !l, !t) outs(%e, %e, %e : !t, !t, !t)
      mask(#attn.sliding_window<left = 40, right = 0>) -> !t, !t, !t
  return %0#0, %0#1, %0#2 : !t, !t, !t
}
