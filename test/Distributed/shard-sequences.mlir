// RUN: attn-opt %s --split-input-file --attn-shard-attention="method=ring ranks=4" --canonicalize --cse \
// RUN:   --remarks-filter="attn-shard-.*" --remark-format=emitRemark --verify-diagnostics \
// RUN:   | FileCheck %s --check-prefixes=CHECK,RING
// RUN: attn-opt %s --split-input-file --attn-shard-attention="method=allgather ranks=4" --canonicalize --cse \
// RUN:   | FileCheck %s --check-prefixes=CHECK,GATHER
// RUN: attn-opt %s --split-input-file --attn-shard-attention="method=ulysses ranks=2" --canonicalize --cse \
// RUN:   | FileCheck %s --check-prefixes=HEADS

!t = tensor<1x2x64x16xf32>
!cu = tensor<?xi32>

// A chunk has the boundaries within it. Ones that are out of bounds stay so at the ends of the whole. An earlier chunk
// needs no mask. Rows of no sequence keep the contents of the destination.
// CHECK-LABEL: func @causal(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<1x2x16x16xf32> {{[^%]*}}, %[[K:[^:]*]]: tensor<1x2x16x16xf32> {{[^%]*}},
// CHECK-SAME: %[[V:[^:]*]]: tensor<1x2x16x16xf32> {{[^%]*}}, %[[OUT:[^:]*]]: tensor<1x2x16x16xf32> {{[^%]*}},
// CHECK-SAME: %[[CU:[^:]*]]: tensor<?xi32>
// CHECK-DAG: %[[LARGEST:.*]] = arith.constant 2147483647 : i32
// CHECK-DAG: %[[LEAST:.*]] = arith.constant -2147483648 : i32
// CHECK: %[[RANK:.*]] = attn.comm.rank ranks(4)
// RING: %[[FIRST:.*]] = arith.muli %[[RANK]], %c16
// RING: %[[END:.*]] = arith.addi %[[FIRST]], %c16
// RING: %[[IS_FIRST:.*]] = arith.cmpi eq, %[[FIRST]], %c0
// RING: %[[FIRST_WORD:.*]] = arith.index_cast %[[FIRST]]
// RING: %[[LOWER:.*]] = arith.select %[[IS_FIRST]], %[[LEAST]], %[[FIRST_WORD]]
// RING: %[[IS_LAST:.*]] = arith.cmpi eq, %[[END]], %c64
// RING: %[[END_WORD:.*]] = arith.index_cast %[[END]]
// RING: %[[UPPER:.*]] = arith.select %[[IS_LAST]], %[[LARGEST]], %[[END_WORD]]
// RING: %[[OWN:.*]] = linalg.generic {{.*}} ins(%[[CU]] : tensor<?xi32>)
// RING:   ^bb0(%[[BOUNDARY:.*]]: i32, %{{.*}}: i32):
// RING:   %[[ROW:.*]] = arith.maxsi %[[BOUNDARY]], %[[LOWER]]
// RING:   %[[BOUNDED:.*]] = arith.minsi %[[ROW]], %[[UPPER]]
// RING:   arith.subi %[[BOUNDED]], %[[FIRST_WORD]]
// RING: attn.overlap by streams {
// RING:   %[[ZEROS:.*]] = linalg.fill
// RING:   %[[NOTHING:.*]] = linalg.fill
// RING:   attn.attention ins(%[[Q]], %[[K]], %[[V]] : {{.*}}) outs(%[[ZEROS]], %[[NOTHING]] :
// RING-SAME: sequences packed(%[[OWN]], %[[OWN]] : tensor<?xi32>, tensor<?xi32>) mask(#attn.causal) ->
// RING: %[[EARLIER:.*]] = linalg.generic {{.*}} ins(%[[CU]] : tensor<?xi32>)
// RING: attn.overlap by streams {
// RING:   scf.if
// RING:     attn.attention {{.*}} state({{.*}} sequences packed(%[[OWN]], %[[EARLIER]] : tensor<?xi32>, tensor<?xi32>) ->
// RING-NOT: mask
// RING: %[[S2:.*]]:4 = attn.overlap by streams {
// RING: %[[RESULT:.*]] = scf.if %{{.*}} -> (tensor<1x2x16x16xf32>) {
// RING:   attn.attention {{.*}} outs(%[[OUT]] : {{.*}} state(%[[S2]]#0, %[[S2]]#1 :
// RING: } else {
// RING:   %[[BEGIN:.*]] = tensor.extract_slice %[[CU]][0] [1] [1]
// RING:   %[[BEHIND:.*]] = tensor.extract_slice %[[CU]][%{{.*}}] [1] [1]
// RING:   linalg.generic {{.*}} ins(%[[S2]]#0, %[[BEGIN]], %[[BEHIND]] : {{.*}} outs(%[[OUT]]
// RING:   ^bb0(%[[VALUE:.*]]: f32, %[[LOW:.*]]: i32, %[[HIGH:.*]]: i32, %[[CONTENT:.*]]: f32):
// RING:   %[[POSITION:.*]] = arith.addi %{{.*}}, %[[FIRST_WORD]]
// RING:   %[[BELOW:.*]] = arith.cmpi slt, %[[POSITION]], %[[HIGH]]
// RING:   %[[ABOVE:.*]] = arith.cmpi sge, %[[POSITION]], %[[LOW]]
// RING:   %[[INSIDE:.*]] = arith.andi %[[BELOW]], %[[ABOVE]]
// RING:   arith.select %[[INSIDE]], %[[VALUE]], %[[CONTENT]]
// RING: return %[[RESULT]]

// Keys end with the queries of the rank, so that the mask of their last rows is aligned.
// GATHER: %[[KEYS:.*]] = linalg.generic {{.*}} ins(%[[CU]] : tensor<?xi32>)
// GATHER:   arith.minsi
// GATHER: %[[OWN:.*]] = linalg.generic {{.*}} ins(%[[CU]] : tensor<?xi32>)
// GATHER:   arith.maxsi
// GATHER:   arith.minsi
// GATHER:   arith.subi
// GATHER: attn.attention ins(%[[Q]], {{.*}} outs(%[[OUT]] : {{.*}} sequences packed(%[[OWN]], %[[KEYS]] :
// GATHER-SAME: mask(#attn.causal)

// HEADS-LABEL: func @causal(
// HEADS-SAME: %[[OUT:[^:]*]]: tensor<1x2x32x16xf32> {attn.name = "out"}, %[[CU:[^:]*]]: tensor<?xi32>
// HEADS: attn.attention {{.*}} : tensor<1x1x64x16xf32>, {{.*}} sequences packed(%[[CU]], %[[CU]] : {{.*}} mask(#attn.causal)
// HEADS: linalg.generic {{.*}} outs(%[[OUT]]
// HEADS:   arith.select
func.func @causal(%q: !t, %k: !t, %v: !t, %out: !t, %cu: !cu) -> !t {
  // expected-remark @below {{ring of 4 ranks: 4 of 4 steps; of 16 pairs of chunks, ranks attend to 10, one of them to 4, and send their keys 6 times}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) sequences packed(%cu, %cu : !cu, !cu)
      mask(#attn.causal) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>
!cu = tensor<?xi32>

// Distances between rows decide which chunks a window reaches, and with the own chunk it is what it is in the whole.
// Other chunks see positions within whole sequences.
// CHECK-LABEL: func @window(
// CHECK-SAME: %[[CU:[^:]*]]: tensor<?xi32> {attn.name = "q_sequences"}
// RING: attn.attention {{.*}} mask(#attn.sliding_window<left = 3, right = 0>)
// RING: %[[FIRST_QUERIES:.*]] = linalg.generic {{.*}} ins(%[[CU]] : tensor<?xi32>)
// RING:   arith.subi
// RING:   arith.maxsi
// RING: %[[EARLIER:.*]] = linalg.generic {{.*}} ins(%[[CU]] : tensor<?xi32>)
// RING: %[[FIRST_KEYS:.*]] = linalg.generic {{.*}} ins(%[[CU]] : tensor<?xi32>)
// RING: scf.if
// RING: attn.attention {{.*}} sequences packed(%{{.*}}, %[[EARLIER]] : {{.*}} mask_mod {
// RING: ^bb0(%[[B:.*]]: index, %{{.*}}: index, %[[I:.*]]: index, %[[J:.*]]: index):
// RING:   %[[WORD:.*]] = tensor.extract %[[FIRST_QUERIES]][%[[B]]]
// RING:   %[[LIMITED:.*]] = arith.minui %[[WORD]]
// RING:   %[[SKIPPED:.*]] = arith.index_castui %[[LIMITED]]
// RING:   %[[QUERY:.*]] = arith.addi %[[I]], %[[SKIPPED]]
// RING:   tensor.extract %[[FIRST_KEYS]][%[[B]]]
// RING:   %[[KEY:.*]] = arith.addi %[[J]]
// RING:   tensor.extract %[[CU]][%[[B]]]
// RING:   tensor.extract %[[CU]]
// RING:   arith.cmpi sle, %[[KEY]]
// RING-NOT: attn.comm.send_recv
// GATHER: attn.attention {{.*}} mask(#attn.sliding_window<left = 3, right = 0>)
func.func @window(%q: !t, %k: !t, %v: !t, %cu: !cu) -> !t {
  %out = tensor.empty() : !t
  // expected-remark @below {{ring of 4 ranks: 2 of 4 steps; of 16 pairs of chunks, ranks attend to 7, one of them to 2, and send their keys 3 times}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) sequences packed(%cu, %cu : !cu, !cu)
      mask(#attn.sliding_window<left = 3, right = 0>) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>
!cu = tensor<?xi32>

// Boundaries that may differ leave no step out. Keys of all ranks begin with the first ones of each sequence.
// CHECK-LABEL: func @other(
// CHECK-SAME: %[[CU_Q:[^:]*]]: tensor<?xi32> {attn.name = "q_sequences"}, %[[CU_K:[^:]*]]: tensor<?xi32>
// RING-COUNT-6: attn.comm.send_recv
// GATHER: %[[OWN:.*]] = linalg.generic {{.*}} ins(%[[CU_Q]] : tensor<?xi32>)
// GATHER: %[[FIRST_QUERIES:.*]] = linalg.generic {{.*}} ins(%[[CU_Q]] : tensor<?xi32>)
// GATHER: attn.attention {{.*}} sequences packed(%[[OWN]], %[[CU_K]] : tensor<?xi32>, tensor<?xi32>) mask_mod {
// GATHER: ^bb0(%{{.*}}: index, %{{.*}}: index, %{{.*}}: index, %[[J:.*]]: index):
// GATHER: tensor.extract %[[FIRST_QUERIES]]
// GATHER: arith.cmpi sle, %[[J]]
func.func @other(%q: !t, %k: !t, %v: !t, %out: !t, %cu_q: !cu, %cu_k: !cu) -> !t {
  // expected-remark @below {{ring of 4 ranks: 4 of 4 steps; of 16 pairs of chunks, ranks attend to 16, one of them to 4, and send their keys 12 times}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) sequences packed(%cu_q, %cu_k : !cu, !cu)
      mask(#attn.causal) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>
!cu = tensor<?xi32>

// Regions that use neither positions nor heads of a rank stay as they are, with the number of the sequence.
// CHECK-LABEL: func @regions(
// CHECK: attn.attention {{.*}} score_mod {
// CHECK-NEXT: ^bb0(%[[S:.*]]: f32, %[[B:.*]]: index, %[[H:.*]]: index, %{{.*}}: index, %{{.*}}: index):
// CHECK-NEXT: tensor.extract %{{.*}}[%[[B]], %[[H]]]
// HEADS-LABEL: func @regions(
// HEADS: %[[RANK:.*]] = attn.comm.rank ranks(2)
// HEADS: attn.attention {{.*}} score_mod {
// HEADS-NEXT: ^bb0(%[[S:.*]]: f32, %[[B:.*]]: index, %[[H:.*]]: index, %{{.*}}: index, %{{.*}}: index):
// HEADS-NEXT: %[[HEAD:.*]] = arith.addi %[[H]], %[[RANK]]
// HEADS-NEXT: tensor.extract %{{.*}}[%[[B]], %[[HEAD]]]
func.func @regions(%q: !t, %k: !t, %v: !t, %out: !t, %cu: !cu, %bias: tensor<?x2xf32>) -> !t {
  // expected-remark @below {{and send their keys 12 times}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) sequences packed(%cu, %cu : !cu, !cu)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %x = tensor.extract %bias[%b, %h] : tensor<?x2xf32>
        %y = arith.addf %s, %x : f32
        attn.yield %y : f32
      } -> !t
  return %0 : !t
}
