// RUN: attn-opt %s --split-input-file --attn-shard-attention="method=striped ranks=3" --remarks-filter="attn-shard-.*" \
// RUN:   --remark-format=emitRemark --verify-diagnostics --canonicalize --cse | FileCheck %s

!t = tensor<1x2x96x16xf32>
!l = tensor<1x2x96xf32>

// The mask stays causal, on rows: ranks before the step see keys from row 1 on, and so attend below the diagonal alone.
// Their own keys have no other place than they have anyway.
// CHECK-LABEL: func @causal(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<1x2x32x16xf32> {{[^%]*}}, %[[K:[^:]*]]: tensor<1x2x32x16xf32>
// CHECK-DAG: %[[C0:.*]] = arith.constant 0 : i32
// CHECK-DAG: %[[LENGTH:.*]] = arith.constant 32 : i32
// CHECK-DAG: %[[ZERO:.*]] = arith.constant 0 : index
// CHECK-DAG: %[[ONE:.*]] = arith.constant 1 : index
// CHECK-DAG: %[[TWO:.*]] = arith.constant 2 : index
// CHECK: %[[RANK:.*]] = attn.comm.rank ranks(3)
// CHECK: attn.overlap by streams {
// CHECK:   attn.attention ins(%[[Q]], %[[K]],
// CHECK-NOT: positions
// CHECK-SAME: mask(#attn.causal)
// CHECK: attn.overlap by streams {
// CHECK:   %[[IS_BEFORE:.*]] = arith.cmpi ult, %[[RANK]], %[[ONE]]
// CHECK:   %[[FIRST:.*]] = arith.select %[[IS_BEFORE]], %[[ONE]], %[[ZERO]]
// CHECK:   %[[WORD:.*]] = arith.index_cast %[[FIRST]] : index to i32
// CHECK:   %[[PLACE:.*]] = tensor.from_elements %[[C0]], %[[WORD]], %[[C0]], %[[C0]], %[[LENGTH]], %[[LENGTH]]
// CHECK:   attn.attention ins(%[[Q]],
// CHECK-SAME: state({{.*}}) positions(%[[PLACE]] : tensor<6xi32>) mask(#attn.causal) ->
// CHECK: %[[IS_BEFORE:.*]] = arith.cmpi ult, %[[RANK]], %[[TWO]]
// CHECK: arith.select %[[IS_BEFORE]], %[[ONE]], %[[ZERO]]
// CHECK: attn.attention
// CHECK-SAME: state({{.*}}) positions({{.*}}) mask(#attn.causal) ->
// CHECK-NOT: attn.merge
func.func @causal(%q: !t, %k: !t, %v: !t, %out: !t, %lse: !l) -> (!t, !l) {
  // expected-remark @below {{ring of 3 ranks: 3 of 3 steps; of 9 pairs of chunks, ranks attend to 9, one of them to 3, and send their keys 6 times}}
  %0:2 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out, %lse : !t, !l) mask(#attn.causal) -> !t, !l
  return %0#0, %0#1 : !t, !l
}

// -----

!t = tensor<1x2x96x16xf32>

// Keys of the last step are one or two positions from a query, of which the window has none.
// CHECK-LABEL: func @short_window(
// CHECK: attn.attention
// CHECK-SAME: mask(#attn.sliding_window<left = 0, right = 0>)
// CHECK: attn.attention
// CHECK-SAME: positions
// CHECK-SAME: mask(#attn.sliding_window<left = 0, right = 0>)
// CHECK-NOT: attn.attention
func.func @short_window(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  // expected-remark @below {{ring of 3 ranks: 2 of 3 steps; of 9 pairs of chunks, ranks attend to 6, one of them to 2, and send their keys 3 times}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) mask(#attn.sliding_window<left = 1, right = 0>) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x96x16xf32>

// In step 1, distances are `3 * rows - 1`, and so from 1 row to 4 rows. Bounds of windows are not negative: the first
// query has number 1, and windows end 3 rows behind it.
// CHECK-LABEL: func @behind(
// CHECK-DAG: %[[ONE:.*]] = arith.constant 1 : i32
// CHECK: attn.attention
// CHECK-SAME: mask(#attn.sliding_window<left = 0, right = 3, alignment = top_left>)
// CHECK: tensor.from_elements %[[ONE]],
// CHECK: attn.attention
// CHECK-SAME: mask(#attn.sliding_window<left = 0, right = 3, alignment = top_left>)
// CHECK: attn.attention
// CHECK-SAME: mask(#attn.sliding_window<left = 0, right = 3, alignment = top_left>)
func.func @behind(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  // expected-remark @below {{ring of 3 ranks: 3 of 3 steps}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t)
      mask(#attn.sliding_window<left = 0, right = 11, alignment = top_left>) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x96x16xf32>
!k = tensor<1x2x48x16xf32>

// Regions see positions of the whole: row i of rank r is i * 3 + r, and a key of step 1 has the position
// (j + d) * 3 + r - 1, of which `positions` adds d. The named mask is a part of these regions.
// CHECK-LABEL: func @regions(
// CHECK-DAG: %[[ONE:.*]] = arith.constant 1 : index
// CHECK-DAG: %[[THREE:.*]] = arith.constant 3 : index
// CHECK-DAG: %[[SHIFT:.*]] = arith.constant -48 : index
// CHECK: attn.comm.rank
// CHECK: attn.attention
// CHECK: attn.attention
// CHECK-NOT: mask(
// CHECK: score_mod {
// CHECK: ^bb0(%{{.*}}: f32, %{{.*}}: index, %{{.*}}: index, %[[I:.*]]: index, %[[J:.*]]: index):
// CHECK:   %[[RANK:.*]] = arith.index_castui
// CHECK:   %[[ROW:.*]] = arith.muli %[[I]], %[[THREE]] : index
// CHECK:   %[[QUERY:.*]] = arith.addi %[[ROW]], %[[RANK]] : index
// CHECK:   %[[COLUMN:.*]] = arith.muli %[[J]], %[[THREE]] : index
// CHECK:   %[[OFFSET:.*]] = arith.addi %[[COLUMN]], %[[RANK]] : index
// CHECK:   %[[KEY:.*]] = arith.subi %[[OFFSET]], %[[ONE]] : index
// CHECK:   arith.subi %[[QUERY]], %[[KEY]] : index
// CHECK: } mask_mod {
// CHECK:   arith.muli %{{.*}}, %[[THREE]] : index
// CHECK:   arith.addi %{{.*}}, %[[SHIFT]] : index
func.func @regions(%q: !t, %k: !k, %v: !k, %out: !t) -> !t {
  // expected-remark @below {{ring of 3 ranks: 3 of 3 steps}}
  %0 = attn.attention ins(%q, %k, %v : !t, !k, !k) outs(%out : !t) mask(#attn.prefix_lm<length = 10>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %d = arith.subi %i, %j : index
        %x = arith.index_cast %d : index to i32
        %y = arith.sitofp %x : i32 to f32
        %r = arith.addf %s, %y : f32
        attn.yield %r : f32
      } -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x?x16xf32>
#all = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>

// Operations on rows read positions of the whole. Dynamic lengths leave no step out, of which the last has no pair.
// CHECK-LABEL: func @position(
// CHECK-DAG: %[[THREE:.*]] = arith.constant 3 : index
// CHECK: %[[RANK:.*]] = attn.comm.rank ranks(3)
// CHECK: mask(#attn.none)
// CHECK: linalg.generic
// CHECK:   %[[ROW:.*]] = linalg.index 2
// CHECK:   %[[SCALED:.*]] = arith.muli %[[ROW]], %[[THREE]] : index
// CHECK:   %[[POSITION:.*]] = arith.addi %[[SCALED]], %[[RANK]] : index
// CHECK:   arith.index_cast %[[POSITION]]
func.func @position(%q: !t, %k: !t, %v: !t, %out: !t, %e: !t) -> (!t, !t) {
  // expected-remark @below {{ring of 3 ranks: 3 of 3 steps}}
  // expected-remark @below {{no step is left out, since lengths are dynamic}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) mask(#attn.sliding_window<left = 1, right = 0>) -> !t
  %1 = linalg.generic {indexing_maps = [#all, #all],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%0 : !t) outs(%e : !t) {
  ^bb0(%x: f32, %old: f32):
    %i = linalg.index 2 : index
    %n = arith.index_cast %i : index to i32
    %f = arith.sitofp %n : i32 to f32
    %y = arith.mulf %x, %f : f32
    linalg.yield %y : f32
  } -> !t
  return %0, %1 : !t, !t
}
