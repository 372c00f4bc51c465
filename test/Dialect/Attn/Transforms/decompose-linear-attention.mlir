// RUN: attn-opt %s --attn-decompose-linear-attention --canonicalize | FileCheck %s
// RUN: attn-opt %s --attn-decompose-linear-attention=reset-local-blocks --canonicalize | FileCheck %s --check-prefix=RESET

// Plain linear attention stays, also with a default scale.
// CHECK-LABEL: func @plain
// CHECK-NOT: attn.name
// CHECK: attn.linear_attention
// CHECK-NOT: scale
// CHECK: return
func.func @plain(%q: tensor<1x2x9x8xf32>) -> tensor<1x2x9x8xf32> {
  %r = attn.linear_attention ins(%q, %q, %q : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      outs(%q : tensor<1x2x9x8xf32>) -> tensor<1x2x9x8xf32>
  return %r : tensor<1x2x9x8xf32>
}

// The feature map is inlined twice, for different numbers of heads. Its projection is a value from outside. The scale is
// that of the head dim before.
// CHECK-LABEL: func @feature
// CHECK-SAME: (%[[Q:[0-9a-z]+]]: tensor<?x4x?x16xf32> {attn.name = "q"}
// CHECK-SAME: %[[K:[0-9a-z]+]]: tensor<?x2x?x16xf32> {attn.equal_sizes = array<i64: 0, 0, 0, 2, 0, 2>, attn.name = "k"}
// CHECK-SAME: %[[W:[0-9a-z]+]]: tensor<32x16xf32>
// CHECK: %[[QF:.*]] = linalg.generic
// CHECK-SAME: ins(%[[Q]], %[[W]] : tensor<?x4x?x16xf32>, tensor<32x16xf32>)
// CHECK: } -> tensor<?x4x?x32xf32>
// CHECK: %[[KF:.*]] = linalg.generic
// CHECK-SAME: ins(%[[K]], %[[W]] : tensor<?x2x?x16xf32>, tensor<32x16xf32>)
// CHECK: } -> tensor<?x2x?x32xf32>
// CHECK: attn.linear_attention ins(%[[QF]], %[[KF]],
// CHECK-SAME: initial_state(%{{.*}} : tensor<?x4x32x16xf32>) causal scale(2.500000e-01) ->
!q = tensor<?x4x?x16xf32>
!k = tensor<?x2x?x16xf32>
!x = tensor<?x?x?x16xf32>
!y = tensor<?x?x?x32xf32>
func.func @feature(%q: !q, %k: !k, %w: tensor<32x16xf32>, %s: tensor<?x4x32x16xf32>) -> !q {
  %r = attn.linear_attention ins(%q, %k, %k : !q, !k, !k) outs(%q : !q) initial_state(%s : tensor<?x4x32x16xf32>)
      causal feature {
      ^bb0(%x: !x):
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %c2 = arith.constant 2 : index
        %zero = arith.constant 0.0 : f32
        %d0 = tensor.dim %x, %c0 : !x
        %d1 = tensor.dim %x, %c1 : !x
        %d2 = tensor.dim %x, %c2 : !x
        %empty = tensor.empty(%d0, %d1, %d2) : !y
        %init = linalg.fill ins(%zero : f32) outs(%empty : !y) -> !y
        %y = linalg.generic {
            indexing_maps = [affine_map<(b, h, s, m, d) -> (b, h, s, d)>, affine_map<(b, h, s, m, d) -> (m, d)>,
                             affine_map<(b, h, s, m, d) -> (b, h, s, m)>],
            iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
            ins(%x, %w : !x, tensor<32x16xf32>) outs(%init : !y) {
        ^bb0(%a: f32, %b: f32, %sum: f32):
          %p = arith.mulf %a, %b : f32
          %n = arith.addf %sum, %p : f32
          linalg.yield %n : f32
        } -> !y
        attn.linear_yield %y : !y
      } -> !q
  return %r : !q
}

// The normalizer has 8 columns of ones for one head of values. States have its sums in their last column.
// CHECK-LABEL: func @normalizer
// CHECK-SAME: (%[[Q:[0-9a-z]+]]: tensor<2x4x9x16xbf16> {{.*}}, %[[S:[0-9a-z]+]]: tensor<2x4x16x17xf32>
// CHECK-DAG: %[[ONE:.*]] = arith.constant 1.000000e+00 : bf16
// CHECK-DAG: %[[EPS:.*]] = arith.constant 5.000000e-01 : f32
// CHECK: %[[NUM_STATE:.*]] = tensor.extract_slice %[[S]][0, 0, 0, 0] [2, 4, 16, 16]
// CHECK: %[[NUM:.*]]:2 = attn.linear_attention ins(%[[Q]], %[[Q]], %[[Q]]
// CHECK-SAME: initial_state(%[[NUM_STATE]] : tensor<2x4x16x16xf32>) causal
// CHECK: %[[ONES:.*]] = linalg.fill ins(%[[ONE]] : bf16) outs(%{{.*}} : tensor<2x1x9x8xbf16>)
// CHECK: %[[COLUMN:.*]] = tensor.extract_slice %[[S]][0, 0, 0, 16] [2, 4, 16, 1]
// CHECK: %[[DEN_STATE:.*]] = linalg.generic {{.*}} ins(%[[COLUMN]] : tensor<2x4x16xf32>)
// CHECK: %[[DEN:.*]]:2 = attn.linear_attention ins(%[[Q]], %[[Q]], %[[ONES]]
// CHECK-SAME: initial_state(%[[DEN_STATE]] : tensor<2x4x16x8xf32>) causal
// CHECK: %[[DEN_COLUMN:.*]] = tensor.extract_slice %[[DEN]]#0[0, 0, 0, 0] [2, 4, 9, 1]
// CHECK: %[[OUT:.*]] = linalg.generic {{.*}} ins(%[[NUM]]#0, %[[DEN_COLUMN]] : tensor<2x4x9x16xbf16>, tensor<2x4x9xbf16>) outs(%[[Q]]
// CHECK: %[[SUM:.*]] = arith.addf %{{.*}}, %[[EPS]] : f32
// CHECK: arith.divf %{{.*}}, %[[SUM]] : f32
// CHECK: %[[PART:.*]] = tensor.insert_slice %[[NUM]]#1 into %[[S]][0, 0, 0, 0]
// CHECK: %[[LAST:.*]] = tensor.extract_slice %[[DEN]]#1[0, 0, 0, 0] [2, 4, 16, 1]
// CHECK: %[[STATE:.*]] = tensor.insert_slice %[[LAST]] into %[[PART]][0, 0, 0, 16]
// CHECK: return %[[OUT]], %[[STATE]]
!p = tensor<2x4x9x16xbf16>
!t = tensor<2x4x16x17xf32>
func.func @normalizer(%q: !p, %s: !t) -> (!p, !t) {
  %r:2 = attn.linear_attention ins(%q, %q, %q : !p, !p, !p) outs(%q, %s : !p, !t) initial_state(%s : !t) causal
      normalizer(eps = 0.5) -> !p, !t
  return %r#0, %r#1 : !p, !t
}

// Keys, values, beta and log-decays from the lengths on become zero; a log-decay of a head becomes one of tokens.
// CHECK-LABEL: func @key_lengths
// CHECK-SAME: %[[L:[0-9a-z]+]]: tensor<?xi32> {attn.equal_sizes = array<i64: 0, 0, 0>, attn.name = "key_lengths"}
// CHECK: %[[K:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %[[L]] : tensor<?x4x?x16xf32>, tensor<?xi32>)
// CHECK: %[[TOKEN:.*]] = linalg.index 2 : index
// CHECK: %[[KEPT:.*]] = arith.cmpi slt, %[[TOKEN]], %{{.*}} : index
// CHECK: arith.select %[[KEPT]], %{{.*}}, %{{.*}} : f32
// CHECK: %[[V:.*]] = linalg.generic
// CHECK: %[[B:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %[[L]] : tensor<?x4x?xf32>, tensor<?xi32>)
// CHECK: %[[G:.*]] = linalg.generic {{.*}} ins(%[[L]], %{{.*}} : tensor<?xi32>, tensor<4xf32>)
// CHECK: attn.linear_attention ins(%{{.*}}, %[[K]], %[[V]]
// CHECK-SAME: log_decay(%[[G]] : tensor<?x4x?xf32>) beta(%[[B]] : tensor<?x4x?xf32>) causal
func.func @key_lengths(%q: !q, %g: tensor<4xf32>, %b: tensor<?x4x?xf32>, %l: tensor<?xi32>) -> !q {
  %r = attn.linear_attention ins(%q, %q, %q : !q, !q, !q) outs(%q : !q) log_decay(%g : tensor<4xf32>)
      beta(%b : tensor<?x4x?xf32>) key_lengths(%l : tensor<?xi32>) causal -> !q
  return %r : !q
}

// The first token of a sequence, which a search by halving finds, ends the state before it. Boundaries that are wrong make
// log-decays NaN: token t checks boundaries t, t + 9 and so on.
// CHECK-LABEL: func @sequences
// CHECK-SAME: %[[C:[0-9a-z]+]]: tensor<4xi32> {attn.name = "sequences"}, %[[G:[0-9a-z]+]]: tensor<1x4x9xf32>
// CHECK-DAG: %[[NAN:.*]] = arith.constant 0x7FC00000 : f32
// CHECK-DAG: %[[END:.*]] = arith.constant -1.260000e+02 : f32
// CHECK-DAG: %[[C0:.*]] = arith.constant 0 : index
// CHECK-DAG: %[[C1:.*]] = arith.constant 1 : index
// CHECK-DAG: %[[C3:.*]] = arith.constant 3 : index
// CHECK-DAG: %[[C4:.*]] = arith.constant 4 : index
// CHECK-DAG: %[[C9:.*]] = arith.constant 9 : index
// CHECK: %[[OF_TOKENS:.*]] = linalg.generic {{.*}}"parallel"]} outs(%{{.*}} : tensor<9xf32>)
// CHECK: %[[TOKEN:.*]] = linalg.index 0
// CHECK: %[[FOUND:.*]]:2 = scf.while (%{{.*}} = %[[C0]], %{{.*}} = %[[C4]])
// CHECK: %[[MIDDLE:.*]] = arith.shrui %{{.*}}, %[[C1]]
// CHECK: tensor.extract %[[C]][%[[MIDDLE]]]
// CHECK: arith.cmpi sle, %{{.*}}, %[[TOKEN]]
// CHECK: tensor.extract %[[C]][%[[FOUND]]#0]
// CHECK: %[[IS_FIRST:.*]] = arith.cmpi eq, %{{.*}}, %[[TOKEN]]
// CHECK: %[[NUMBER:.*]] = arith.select %[[IS_FIRST]], %[[END]], %{{.*}} : f32
// CHECK: %[[IS_WRONG:.*]] = scf.for %[[I:.*]] = %[[TOKEN]] to %[[C4]] step %[[C9]] iter_args(%[[BEFORE:.*]] = %false)
// CHECK: %[[AFTER:.*]] = arith.addi %[[I]], %[[C1]]
// CHECK: %[[NEXT:.*]] = arith.minui %[[AFTER]], %[[C3]]
// CHECK: tensor.extract %[[C]][%[[I]]]
// CHECK: %[[IS_OUTSIDE:.*]] = arith.cmpi ugt, %[[BOUNDARY:.*]], %[[C9]]
// CHECK: tensor.extract %[[C]][%[[NEXT]]]
// CHECK: %[[IS_UNSORTED:.*]] = arith.cmpi sgt, %[[BOUNDARY]],
// CHECK: %[[EITHER:.*]] = arith.ori %[[IS_OUTSIDE]], %[[IS_UNSORTED]]
// CHECK: arith.ori %[[BEFORE]], %[[EITHER]]
// CHECK: %[[CHECKED:.*]] = arith.select %[[IS_WRONG]], %[[NAN]], %[[NUMBER]] : f32
// CHECK: linalg.yield %[[CHECKED]]
// CHECK: %[[DECAY:.*]] = linalg.generic {{.*}} ins(%[[OF_TOKENS]], %[[G]] : tensor<9xf32>, tensor<1x4x9xf32>)
// CHECK: attn.linear_attention
// CHECK-SAME: log_decay(%[[DECAY]] : tensor<1x4x9xf32>) causal
!one = tensor<1x4x9x16xbf16>
func.func @sequences(%q: !one, %c: tensor<4xi32>, %g: tensor<1x4x9xf32>) -> !one {
  %r = attn.linear_attention ins(%q, %q, %q : !one, !one, !one) outs(%q : !one) log_decay(%g : tensor<1x4x9xf32>)
      sequences(%c : tensor<4xi32>) causal -> !one
  return %r : !one
}

// Sequences with states stay, and so do their boundaries where a normalizer makes two of one.
// CHECK-LABEL: func @sequences_with_states
// CHECK-SAME: %[[C:[0-9a-z]+]]: tensor<4xi32> {attn.name = "sequences"}
// CHECK-SAME: %[[S:[0-9a-z]+]]: tensor<3x4x16x17xf32> {attn.name = "initial_state"}
// CHECK: attn.linear_attention {{.*}} initial_state(%{{.*}} : tensor<3x4x16x16xf32>) sequences(%[[C]] : tensor<4xi32>) causal
// CHECK: attn.linear_attention {{.*}} initial_state(%{{.*}} : tensor<3x4x16x8xf32>) sequences(%[[C]] : tensor<4xi32>) causal
!s = tensor<3x4x16x17xf32>
func.func @sequences_with_states(%q: !one, %c: tensor<4xi32>, %s: !s) -> (!one, !s) {
  %r:2 = attn.linear_attention ins(%q, %q, %q : !one, !one, !one) outs(%q, %s : !one, !s) initial_state(%s : !s)
      sequences(%c : tensor<4xi32>) causal normalizer(eps = 0.5) -> !one, !s
  return %r#0, %r#1 : !one, !s
}

// Nine tokens are three blocks of four tokens.
// CHECK-LABEL: func @blocks
// CHECK-SAME: (%[[Q:[0-9a-z]+]]: tensor<2x4x9x16xbf16>
// CHECK: %[[PADDED:.*]] = tensor.pad %[[Q]] low[0, 0, 0, 0] high[0, 0, 3, 0]
// CHECK: %[[SPLIT:.*]] = tensor.expand_shape %[[PADDED]] {{\[\[}}0], [1], [2, 3], [4]] output_shape [2, 4, 3, 4, 16]
// CHECK: %[[BLOCKS:.*]] = linalg.generic {{.*}} ins(%[[SPLIT]] : tensor<2x4x3x4x16xbf16>) outs(%{{.*}} : tensor<2x3x4x4x16xbf16>)
// CHECK: %[[Q_BLOCKS:.*]] = tensor.collapse_shape %[[BLOCKS]] {{\[\[}}0, 1], [2], [3], [4]]
// CHECK: %[[R:.*]] = attn.linear_attention ins(%[[Q_BLOCKS]],
// CHECK-SAME: outs(%{{.*}} : tensor<6x4x4x16xbf16>) scale
// CHECK: %[[EXPANDED:.*]] = tensor.expand_shape %[[R]] {{\[\[}}0, 1], [2], [3], [4]] output_shape [2, 3, 4, 4, 16]
// CHECK: %[[JOINED:.*]] = linalg.generic {{.*}} ins(%[[EXPANDED]] :
// CHECK: %[[ALL:.*]] = tensor.collapse_shape %[[JOINED]] {{\[\[}}0], [1], [2, 3], [4]]
// CHECK: %[[SLICE:.*]] = tensor.extract_slice %[[ALL]][0, 0, 0, 0] [2, 4, 9, 16]
// CHECK: return %[[SLICE]]
func.func @blocks(%q: !p) -> !p {
  %r = attn.linear_attention ins(%q, %q, %q : !p, !p, !p) outs(%q : !p) local_blocks(4) -> !p
  return %r : !p
}

// Sizes that only operations of the region know.
// CHECK-LABEL: func @concatenated
// CHECK-COUNT-2: tensor.concat dim(3)
// CHECK: attn.linear_attention
func.func @concatenated(%q: !q) -> !q {
  %r = attn.linear_attention ins(%q, %q, %q : !q, !q, !q) outs(%q : !q) feature {
    ^bb0(%x: !x):
      %y = tensor.concat dim(3) %x, %x : (!x, !x) -> !y
      attn.linear_yield %y : !y
    } -> !q
  return %r : !q
}

// Log-decays end the states of causal blocks, with the option.
// CHECK-LABEL: func @causal_blocks
// CHECK: tensor.pad
// RESET-LABEL: func @causal_blocks
// RESET-NOT: tensor.pad
// RESET: %[[ENDS:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<9xf32>)
// RESET:   %[[TOKEN:.*]] = linalg.index 0
// RESET:   %[[REST:.*]] = arith.remui %[[TOKEN]],
// RESET:   %[[IS_FIRST:.*]] = arith.cmpi eq, %[[REST]],
// RESET:   arith.select %[[IS_FIRST]], %{{.*}}, %{{.*}} : f32
// RESET: %[[DECAYS:.*]] = linalg.generic {{.*}} ins(%[[ENDS]] : tensor<9xf32>)
// RESET: attn.linear_attention {{.*}} log_decay(%[[DECAYS]] : tensor<2x4x9xf32>) causal
func.func @causal_blocks(%q: !p) -> !p {
  %r = attn.linear_attention ins(%q, %q, %q : !p, !p, !p) outs(%q : !p) causal local_blocks(4) -> !p
  return %r : !p
}

// No tokens, and so no slices of rows.
// CHECK-LABEL: func @no_tokens
// CHECK: attn.linear_attention {{.*}} outs(%{{.*}} : tensor<0x4x4x16xbf16>)
// CHECK-NOT: tensor.extract_slice
// CHECK: return
func.func @no_tokens(%q: tensor<2x4x0x16xbf16>) -> tensor<2x4x0x16xbf16> {
  %r = attn.linear_attention ins(%q, %q, %q : tensor<2x4x0x16xbf16>, tensor<2x4x0x16xbf16>, tensor<2x4x0x16xbf16>)
      outs(%q : tensor<2x4x0x16xbf16>) local_blocks(4) -> tensor<2x4x0x16xbf16>
  return %r : tensor<2x4x0x16xbf16>
}
