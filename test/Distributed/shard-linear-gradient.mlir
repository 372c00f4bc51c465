// RUN: attn-opt %s --split-input-file --attn-shard-attention="method=allgather ranks=4" --canonicalize --cse | FileCheck %s
// RUN: attn-opt %s --split-input-file --attn-shard-attention="method=allgather ranks=1" | FileCheck %s --check-prefix=ONE

!t = tensor<2x4x64x16xf32>
!v = tensor<2x4x64x24xf32>
!g = tensor<2x4x64xf32>
!s = tensor<2x4x16x24xf32>

// States go forward from the initial state, and gradients of states backward from the gradient of the final state.
// CHECK-LABEL: func @token(
// CHECK-SAME: %[[INITIAL:[^:]*]]: tensor<2x4x16x24xf32> {attn.name = "initial_state"}, %[[DFINAL:[^:]*]]: tensor<2x4x16x24xf32> {attn.name = "dfinal_state"},
// CHECK-SAME: %[[DQ:[^:]*]]: tensor<2x4x16x16xf32> {attn.name = "dq"}, %[[DK:[^:]*]]: tensor<2x4x16x16xf32> {attn.name = "dk"},
// CHECK-SAME: %[[DV:[^:]*]]: tensor<2x4x16x24xf32> {attn.name = "dv"}, %[[DG:[^:]*]]: tensor<2x4x16xf32> {attn.name = "dlog_decay"},
// CHECK-SAME: %[[DI:[^:]*]]: tensor<2x4x16x24xf32> {attn.name = "dinitial_state"})
// CHECK-DAG: %[[C0:.*]] = arith.constant 0 : index
// CHECK-DAG: %[[C3:.*]] = arith.constant 3 : index
// CHECK-DAG: %[[C4:.*]] = arith.constant 4 : index
// CHECK: %[[RANK:.*]] = attn.comm.rank ranks(4)
// CHECK: attn.linear_attention ins
// CHECK: attn.comm.all_gather ins({{.*}} : tensor<2x4x16x24xf32>)
// CHECK: %[[DECAYS:.*]] = attn.comm.all_gather ins({{.*}} : tensor<2x4xf32>)
// CHECK: %[[SEEN:.*]] = scf.for %{{.*}} = %[[C0]] to %[[RANK]] {{.*}} iter_args(%{{.*}} = %[[INITIAL]])
// CHECK: %[[NONE:.*]] = linalg.fill
// CHECK: %[[OWN:.*]]:4 = attn.linear_attention_grad
// CHECK-NOT: dfinal_state(
// CHECK-SAME: initial_state(%[[NONE]] : tensor<2x4x16x24xf32>) dinitial_state(
// CHECK: %[[ALL:.*]] = attn.comm.all_gather ins(%[[OWN]]#3 : tensor<2x4x16x24xf32>) outs({{.*}} : tensor<4x2x4x16x24xf32>)
// CHECK-NOT: attn.comm.all_gather
// CHECK: %[[BEHIND:.*]] = arith.subi %[[C3]], %[[RANK]]
// CHECK: %[[GRADIENT:.*]] = scf.for %[[I:.*]] = %[[C0]] to %[[BEHIND]] {{.*}} iter_args(%{{.*}} = %[[DFINAL]])
// CHECK:   %[[R:.*]] = arith.subi %[[C3]], %[[I]]
// CHECK:   tensor.extract_slice %[[ALL]][%[[R]], 0, 0, 0, 0]
// CHECK:   tensor.extract_slice %[[DECAYS]][%[[R]], 0, 0]
// CHECK: %[[GRADS:.*]]:4 = attn.linear_attention_grad {{.*}} outs(%[[DQ]], %[[DK]], %[[DV]] :
// CHECK-SAME: initial_state(%[[SEEN]] : tensor<2x4x16x24xf32>) dfinal_state(%[[GRADIENT]] : tensor<2x4x16x24xf32>) dlog_decay(%[[DG]] :
// CHECK: %[[FIRST:.*]] = scf.for %{{.*}} = %[[BEHIND]] to %[[C4]] {{.*}} iter_args(%{{.*}} = %[[GRADIENT]])
// CHECK: %[[DINITIAL:.*]] = bufferization.materialize_in_destination %[[FIRST]] in %[[DI]]
// CHECK: return %[[GRADS]]#0, %[[GRADS]]#1, %[[GRADS]]#2, %[[GRADS]]#3, %[[DINITIAL]]

// A rank that is alone computes what it has.
// ONE-LABEL: func @token(
// ONE: attn.linear_attention_grad
// ONE-NOT: attn.comm.all_gather
// ONE-NOT: attn.linear_attention
// ONE: return
func.func @token(%q: !t, %k: !t, %v: !v, %do: !v, %g: !g, %i: !s, %df: !s, %dq: !t, %dk: !t, %dv: !v, %dg: !g, %di: !s)
    -> (!t, !t, !v, !g, !s) {
  %r:5 = attn.linear_attention_grad ins(%q, %k, %v, %do : !t, !t, !v, !v) outs(%dq, %dk, %dv : !t, !t, !v)
      log_decay(%g : !g) initial_state(%i : !s) dfinal_state(%df : !s) dlog_decay(%dg : !g) dinitial_state(%di : !s)
      causal -> !t, !t, !v, !g, !s
  return %r#0, %r#1, %r#2, %r#3, %r#4 : !t, !t, !v, !g, !s
}

// -----

!t = tensor<2x4x64x16xf32>
!v = tensor<2x4x64x24xf32>

// Without decays, the gradient of the state is a state itself: of the queries, with dout for values, times the scale.
// CHECK-LABEL: func @plain(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<2x4x16x16xf32> {attn.name = "q"}, %[[K:[^:]*]]: tensor<2x4x16x16xf32> {attn.name = "k"},
// CHECK-SAME: %[[V:[^:]*]]: tensor<2x4x16x24xf32> {attn.name = "v"}, %[[DO:[^:]*]]: tensor<2x4x16x24xf32> {attn.name = "dout"})
// CHECK-DAG: %[[SCALE:.*]] = arith.constant 2.500000e-01 : f32
// CHECK: attn.linear_attention ins(%[[Q]], %[[K]], %[[V]] :
// CHECK: attn.comm.all_gather
// CHECK: %[[OWN:.*]]:2 = attn.linear_attention ins(%[[Q]], %[[Q]], %[[DO]] :
// CHECK: %[[SCALED:.*]] = linalg.generic {{.*}} outs(%[[OWN]]#1 :
// CHECK:   arith.mulf %{{.*}}, %[[SCALE]]
// CHECK: attn.comm.all_gather ins(%[[SCALED]] : tensor<2x4x16x24xf32>)
// CHECK: attn.linear_attention_grad
// CHECK-NOT: attn.linear_attention_grad
// CHECK: return
func.func @plain(%q: !t, %k: !t, %v: !v, %do: !v) -> (!t, !t, !v) {
  %et = tensor.empty() : !t
  %ev = tensor.empty() : !v
  %r:3 = attn.linear_attention_grad ins(%q, %k, %v, %do : !t, !t, !v, !v) outs(%et, %et, %ev : !t, !t, !v) causal
      -> !t, !t, !v
  return %r#0, %r#1, %r#2 : !t, !t, !v
}

// -----

!t = tensor<2x4x64x16xf32>
!h = tensor<2x4xf32>

// The gradient of log-decays of heads is a sum over ranks, which all of them have. Attention and its gradient share
// their states.
// CHECK-LABEL: func @head(
// CHECK-SAME: -> (tensor<2x4x16x16xf32>, tensor<2x4x16x16xf32>, tensor<2x4x16x16xf32>, tensor<2x4x16x16xf32>, tensor<2x4xf32>) {
// CHECK: attn.linear_attention ins
// CHECK: attn.comm.all_gather
// CHECK: attn.linear_attention ins
// CHECK-NOT: attn.linear_attention ins
// CHECK: attn.linear_attention_grad
// CHECK: attn.comm.all_gather ins({{.*}} : tensor<2x4x16x16xf32>)
// CHECK: %[[GRADS:.*]]:4 = attn.linear_attention_grad {{.*}} dlog_decay(%{{.*}} : tensor<2x4xf32>)
// CHECK: %[[PARTS:.*]] = attn.comm.all_gather ins(%[[GRADS]]#3 : tensor<2x4xf32>) outs({{.*}} : tensor<4x2x4xf32>)
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}} iterator_types = ["reduction", "parallel", "parallel"]} ins(%[[PARTS]] :
// CHECK: return %{{.*}}, %[[GRADS]]#0, %[[GRADS]]#1, %[[GRADS]]#2, %[[SUM]]
func.func @head(%q: !t, %k: !t, %v: !t, %do: !t, %g: tensor<4xf32>) -> (!t, !t, !t, !t, !h) {
  %e = tensor.empty() : !t
  %eh = tensor.empty() : !h
  %o = attn.linear_attention ins(%q, %k, %v : !t, !t, !t) outs(%e : !t) log_decay(%g : tensor<4xf32>) causal -> !t
  %r:4 = attn.linear_attention_grad ins(%q, %k, %v, %do : !t, !t, !t, !t) outs(%e, %e, %e : !t, !t, !t)
      log_decay(%g : tensor<4xf32>) dlog_decay(%eh : !h) causal -> !t, !t, !t, !h
  return %o, %r#0, %r#1, %r#2, %r#3 : !t, !t, !t, !t, !h
}

// -----

!t = tensor<2x4x64x16xf32>
!b = tensor<2x4x64xf32>

// Gradients of states take the transposed matrices.
// CHECK-DAG: #[[TRANSPOSED:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d4, d2)>
// CHECK-LABEL: func @delta(
// CHECK: attn.comm.all_gather
// CHECK: %[[MATRICES:.*]] = attn.comm.all_gather
// CHECK: scf.for
// CHECK: attn.comm.all_gather
// CHECK: scf.for
// CHECK:   %[[MATRIX:.*]] = tensor.extract_slice %[[MATRICES]]
// CHECK:   linalg.generic {indexing_maps = [#[[TRANSPOSED]], #{{.*}}, #{{.*}}]{{.*}} ins(%[[MATRIX]],
// CHECK: attn.linear_attention_grad {{.*}} dbeta(%{{.*}} : tensor<2x4x16xf32>) causal
func.func @delta(%q: !t, %k: !t, %v: !t, %do: !t, %b: !b) -> (!t, !t, !t, !b) {
  %e = tensor.empty() : !t
  %eb = tensor.empty() : !b
  %r:4 = attn.linear_attention_grad ins(%q, %k, %v, %do : !t, !t, !t, !t) outs(%e, %e, %e : !t, !t, !t)
      beta(%b : !b) dbeta(%eb : !b) causal -> !t, !t, !t, !b
  return %r#0, %r#1, %r#2, %r#3 : !t, !t, !t, !b
}
