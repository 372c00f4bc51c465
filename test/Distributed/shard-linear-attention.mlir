// RUN: attn-opt %s --split-input-file --attn-shard-attention="method=allgather ranks=4" --canonicalize --cse | FileCheck %s

!q = tensor<2x4x64x16xbf16>
!k = tensor<2x2x64x16xbf16>
!v = tensor<2x4x64x24xbf16>

// A rank computes the state of its own tokens, gathers all of them, and attends from the sum of the ranks before it.
// CHECK-LABEL: func @plain(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<2x4x16x16xbf16> {attn.name = "q"}, %[[K:[^:]*]]: tensor<2x2x16x16xbf16> {attn.name = "k"},
// CHECK-SAME: %[[V:[^:]*]]: tensor<2x4x16x24xbf16> {attn.name = "v"}) -> tensor<2x4x16x24xbf16> {
// CHECK-DAG: %[[C0:.*]] = arith.constant 0 : index
// CHECK-DAG: %[[C1:.*]] = arith.constant 1 : index
// CHECK: %[[RANK:.*]] = attn.comm.rank ranks(4)
// CHECK: %[[OWN:.*]]:2 = attn.linear_attention ins(%[[Q]], %[[K]], %[[V]] : {{.*}} : tensor<2x4x16x24xbf16>, tensor<2x4x16x24xf32>)
// CHECK-SAME: causal scale(5.000000e-01) chunk(16) ->
// CHECK: %[[ALL:.*]] = attn.comm.all_gather ins(%[[OWN]]#1 : tensor<2x4x16x24xf32>) outs({{.*}} : tensor<4x2x4x16x24xf32>)
// CHECK-NOT: attn.comm.all_gather
// CHECK: %[[NONE:.*]] = linalg.fill
// CHECK: %[[SEEN:.*]] = scf.for %[[R:.*]] = %[[C0]] to %[[RANK]] step %[[C1]] iter_args(%[[STATE:.*]] = %[[NONE]])
// CHECK:   %[[OF_RANK:.*]] = tensor.extract_slice %[[ALL]][%[[R]], 0, 0, 0, 0] [1, 2, 4, 16, 24]
// CHECK:   %[[NEXT:.*]] = linalg.generic {{.*}} ins(%[[OF_RANK]] : {{.*}} outs(%[[STATE]] :
// CHECK:     arith.addf
// CHECK:   scf.yield %[[NEXT]]
// CHECK: %[[OUT:.*]] = attn.linear_attention ins(%[[Q]], %[[K]], %[[V]] : {{.*}} : tensor<2x4x16x24xbf16>)
// CHECK-SAME: initial_state(%[[SEEN]] : tensor<2x4x16x24xf32>) causal scale(5.000000e-01) chunk(16) -> tensor<2x4x16x24xbf16>
// CHECK-NOT: scf.for
// CHECK: return %[[OUT]]
func.func @plain(%q: !q, %k: !k, %v: !v) -> !v {
  %e = tensor.empty() : !v
  %o = attn.linear_attention ins(%q, %k, %v : !q, !k, !v) outs(%e : !v) causal scale(0.5) chunk(16) -> !v
  return %o : !v
}

// -----

!t = tensor<2x4x64x16xf32>
!s = tensor<2x4x16x16xf32>
!g = tensor<4xf32>

// All ranks have as many tokens: nobody sends the decays of heads.
// CHECK-DAG: #[[HEADS:.*]] = affine_map<(d0, d1, d2, d3) -> (d1)>
// CHECK-LABEL: func @head(
// CHECK-SAME: %[[G:[^:]*]]: tensor<4xf32> {attn.name = "log_decay"})
// CHECK: %[[LENGTH:.*]] = arith.constant 1.600000e+01 : f32
// CHECK: attn.linear_attention
// CHECK-SAME: log_decay(%[[G]] : tensor<4xf32>) causal
// CHECK: attn.comm.all_gather
// CHECK-NOT: attn.comm.all_gather
// CHECK: %[[TOTAL:.*]] = linalg.generic {{.*}} ins(%[[G]] : tensor<4xf32>)
// CHECK:   arith.mulf %{{.*}}, %[[LENGTH]]
// CHECK: scf.for {{.*}} iter_args(%[[STATE:[^ ]*]] =
// CHECK:   linalg.generic {indexing_maps = [#{{.*}}, #[[HEADS]], #{{.*}}]{{.*}} ins(%{{.*}}, %[[TOTAL]] : {{.*}} outs(%[[STATE]] :
// CHECK:   ^bb0(%[[ADDED:.*]]: f32, %[[LOG:.*]]: f32, %[[BEFORE:.*]]: f32):
// CHECK:     %[[DECAY:.*]] = math.exp %[[LOG]]
// CHECK:     %[[KEPT:.*]] = arith.mulf %[[DECAY]], %[[BEFORE]]
// CHECK:     arith.addf %[[KEPT]], %[[ADDED]]
func.func @head(%q: !t, %k: !t, %v: !t, %g: !g) -> !t {
  %e = tensor.empty() : !t
  %o = attn.linear_attention ins(%q, %k, %v : !t, !t, !t) outs(%e : !t) log_decay(%g : !g) causal -> !t
  return %o : !t
}

// -----

!t = tensor<2x4x64x16xf32>
!s = tensor<2x4x16x16xf32>
!g = tensor<2x4x64xf32>

// States stay whole. The final state is that of all ranks: the loop goes on where it stopped for this rank.
// CHECK-LABEL: func @token(
// CHECK-SAME: %[[G:[^:]*]]: tensor<2x4x16xf32> {attn.name = "log_decay"}, %[[INITIAL:[^:]*]]: tensor<2x4x16x16xf32> {attn.name = "initial_state"},
// CHECK-SAME: %[[O:[^:]*]]: tensor<2x4x16x16xf32> {attn.name = "out"}, %[[F:[^:]*]]: tensor<2x4x16x16xf32> {attn.name = "final_state"})
// CHECK-DAG: %[[C4:.*]] = arith.constant 4 : index
// CHECK: %[[RANK:.*]] = attn.comm.rank
// CHECK: attn.linear_attention
// CHECK-NOT: initial_state(
// CHECK: %[[ALL:.*]] = attn.comm.all_gather
// CHECK: %[[TOTAL:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction"]} ins(%[[G]] : tensor<2x4x16xf32>)
// CHECK: %[[DECAYS:.*]] = attn.comm.all_gather ins(%[[TOTAL]] : tensor<2x4xf32>) outs({{.*}} : tensor<4x2x4xf32>)
// CHECK: %[[SEEN:.*]] = scf.for %[[R:.*]] = %{{.*}} to %[[RANK]] {{.*}} iter_args(%{{.*}} = %[[INITIAL]])
// CHECK:   tensor.extract_slice %[[DECAYS]][%[[R]], 0, 0] [1, 2, 4]
// CHECK: %[[OUT:.*]] = attn.linear_attention {{.*}} outs(%[[O]] : {{.*}} initial_state(%[[SEEN]] :
// CHECK: %[[LAST:.*]] = scf.for %{{.*}} = %[[RANK]] to %[[C4]] {{.*}} iter_args(%{{.*}} = %[[SEEN]])
// CHECK: %[[STATE:.*]] = bufferization.materialize_in_destination %[[LAST]] in %[[F]]
// CHECK: return %[[OUT]], %[[STATE]]
func.func @token(%q: !t, %k: !t, %v: !t, %g: !g, %i: !s, %e: !t, %f: !s) -> (!t, !s) {
  %o, %s = attn.linear_attention ins(%q, %k, %v : !t, !t, !t) outs(%e, %f : !t, !s) log_decay(%g : !g)
      initial_state(%i : !s) causal -> !t, !s
  return %o, %s : !t, !s
}

// -----

!t = tensor<?x4x?x16xf32>

// Chunks of dynamic sizes. Each row of the state has a decay.
// CHECK-DAG: #[[ROWS:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
// CHECK-LABEL: func @element(
// CHECK-SAME: %[[G:[^:]*]]: tensor<?x4x?x16xf32> {attn.name = "log_decay"}
// CHECK: %[[TOTAL:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction", "parallel"]} ins(%[[G]] :
// CHECK-SAME: outs({{.*}} : tensor<?x4x16xf32>)
// CHECK: attn.comm.all_gather ins(%[[TOTAL]] : tensor<?x4x16xf32>) outs({{.*}} : tensor<4x?x4x16xf32>)
// CHECK: scf.for
// CHECK:   linalg.generic {indexing_maps = [#{{.*}}, #[[ROWS]], #{{.*}}]
func.func @element(%q: !t, %k: !t, %v: !t, %g: !t, %e: !t) -> !t {
  %o = attn.linear_attention ins(%q, %k, %v : !t, !t, !t) outs(%e : !t) log_decay(%g : !t) causal -> !t
  return %o : !t
}

// -----

!t = tensor<2x4x64x16xf32>
!s = tensor<2x4x16x16xf32>

// Without a mask, the states of all others come first. All ranks add up the final state in the same order.
// CHECK-LABEL: func @full(
// CHECK-DAG: %[[C0:.*]] = arith.constant 0 : index
// CHECK-DAG: %[[C1:.*]] = arith.constant 1 : index
// CHECK-DAG: %[[C4:.*]] = arith.constant 4 : index
// CHECK: %[[RANK:.*]] = attn.comm.rank
// CHECK: %[[NONE:.*]] = linalg.fill
// CHECK: %[[BEFORE:.*]] = scf.for %{{.*}} = %[[C0]] to %[[RANK]] {{.*}} iter_args(%{{.*}} = %[[NONE]])
// CHECK: %[[NEXT:.*]] = arith.addi %[[RANK]], %[[C1]]
// CHECK: %[[OTHERS:.*]] = scf.for %{{.*}} = %[[NEXT]] to %[[C4]] {{.*}} iter_args(%{{.*}} = %[[BEFORE]])
// CHECK: %[[OUT:.*]] = attn.linear_attention {{.*}} initial_state(%[[OTHERS]] : tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xf32>
// CHECK: %[[LAST:.*]] = scf.for %{{.*}} = %[[C0]] to %[[C4]] {{.*}} iter_args(%{{.*}} = %[[NONE]])
// CHECK: return %[[OUT]], %[[LAST]]
func.func @full(%q: !t, %k: !t, %v: !t) -> (!t, !s) {
  %e = tensor.empty() : !t
  %f = tensor.empty() : !s
  %o, %s = attn.linear_attention ins(%q, %k, %v : !t, !t, !t) outs(%e, %f : !t, !s) -> !t, !s
  return %o, %s : !t, !s
}

// -----

!t = tensor<2x4x64x16xf32>
!v = tensor<2x4x64x24xf32>
!b = tensor<2x4x64xf32>

// With the delta rule, ranks multiply a state by a matrix: the state that their tokens make of the identity.
// CHECK-DAG: #[[MATRIX:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d4)>
// CHECK-DAG: #[[STATE:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d4, d3)>
// CHECK-LABEL: func @delta(
// CHECK-SAME: %[[G:[^:]*]]: tensor<2x4x16xf32> {attn.name = "log_decay"}, %[[B:[^:]*]]: tensor<2x4x16xf32> {attn.name = "beta"})
// CHECK: attn.comm.all_gather ins({{.*}} : tensor<2x4x16x24xf32>)
// CHECK: %[[IDENTITY:.*]] = linalg.generic
// CHECK: %[[ZEROS:.*]] = linalg.fill {{.*}} tensor<2x1x16x16xf32>
// CHECK: %[[M:.*]]:2 = attn.linear_attention ins(%{{.*}}, %{{.*}}, %[[ZEROS]] :
// CHECK-SAME: log_decay(%[[G]] : {{.*}} beta(%[[B]] : {{.*}} initial_state(%[[IDENTITY]] : tensor<2x4x16x16xf32>) causal
// CHECK: %[[ALL:.*]] = attn.comm.all_gather ins(%[[M]]#1 : tensor<2x4x16x16xf32>)
// CHECK-NOT: attn.comm.all_gather
// CHECK: scf.for %[[R:.*]] = {{.*}} iter_args(%[[BEFORE:.*]] =
// CHECK:   %[[OF_RANK:.*]] = tensor.extract_slice %[[ALL]][%[[R]], 0, 0, 0, 0]
// CHECK:   %[[PRODUCT:.*]] = linalg.generic {indexing_maps = [#[[MATRIX]], #[[STATE]], #{{.*}}]{{.*}} ins(%[[OF_RANK]], %[[BEFORE]] :
// CHECK:   linalg.generic {{.*}} ins(%{{.*}}, %[[PRODUCT]] : {{.*}} outs(%[[BEFORE]] :
func.func @delta(%q: !t, %k: !t, %v: !v, %g: !b, %b: !b) -> !v {
  %e = tensor.empty() : !v
  %o = attn.linear_attention ins(%q, %k, %v : !t, !t, !v) outs(%e : !v) log_decay(%g : !b) beta(%b : !b) causal -> !v
  return %o : !v
}

// -----

!t = tensor<2x4x64x16xf32>

// Both have the same method, and one computes from the results of the other.
// CHECK-LABEL: func @mixed(
// CHECK: %[[A:.*]] = attn.attention {{.*}} -> tensor<2x4x16x16xf32>
// CHECK: attn.linear_attention ins(%{{.*}}, %{{.*}}, %[[A]] : tensor<2x4x16x16xf32>
func.func @mixed(%q: !t, %k: !t, %v: !t) -> !t {
  %e = tensor.empty() : !t
  %a = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%e : !t) mask(#attn.causal) -> !t
  %o = attn.linear_attention ins(%q, %k, %a : !t, !t, !t) outs(%e : !t) causal -> !t
  return %o : !t
}

// -----

!t = tensor<2x4x64x16xf32>
!wide = tensor<2x8x64x16xf32>

// States of the same keys and values are gathered once for each number of heads.
// CHECK-LABEL: func @heads(
// CHECK-COUNT-2: attn.comm.all_gather
func.func @heads(%q: !t, %p: !wide, %k: !t, %v: !t) -> (!t, !wide) {
  %e = tensor.empty() : !t
  %f = tensor.empty() : !wide
  %a = attn.linear_attention ins(%q, %k, %v : !t, !t, !t) outs(%e : !t) causal -> !t
  %o = attn.linear_attention ins(%p, %k, %v : !wide, !t, !t) outs(%f : !wide) causal -> !wide
  return %a, %o : !t, !wide
}
