// RUN: attn-test-opt %s -attn-choose-schedule=target=host | FileCheck %s --check-prefixes=CHECK,HOST
// RUN: attn-test-opt %s -attn-choose-schedule=target=sm_80 | FileCheck %s --check-prefixes=CHECK,SM80
// RUN: attn-test-opt %s -attn-choose-schedule=target=sm_90a | FileCheck %s --check-prefixes=CHECK,SM90
// RUN: attn-test-opt %s -attn-choose-schedule='target=sm_90a dq-workspace-bytes=0' | FileCheck %s --check-prefix=BUDGET
// RUN: attn-test-opt %s -attn-choose-schedule=target=sm_90a -attn-dispatch-schedules | FileCheck %s --check-prefix=DISPATCH
// RUN: attn-test-opt %s -attn-choose-schedule=target=sm_80 --remarks-filter='.*' --remark-format=emitRemark 2>&1 >/dev/null \
// RUN:   | FileCheck %s --check-prefix=REMARK

// `test_attn.relu_scores_grad` of test/lib has StreamingGradOpInterface and AttentionOpInterface, and is unknown to the
// choosers and to the model of kernels. It gets schedules as `attn.attention_grad` does.

// Half the head dim of a key tile, and shared keys: two query parts, and work items that the device hands out.

// CHECK-LABEL: func.func @causal(
// HOST:          schedule(#attn.by_query_length<bound = {{.*}}, below = #attn_tile.sequential<{{.*}}>, from = #attn_tile.sequential<{{.*}}>>)
// SM80:          dkdv = #attn_tile.key_multistage<query_tile = {{.*}}, dq = #attn_tile.multistage<
// SM90:          dkdv = #attn_tile.key_stationary<query_tile = 128, key_tile = 128, stages = 4,
// SM90-SAME:  consumers = 2, traversal = grid, interleave = 8, pipelined = true, query_parts = 2, lhs_registers = true>>)
// BUDGET-LABEL: func.func @causal(
// BUDGET:         dq = #attn_tile.warp_specialized<
// REMARK:      chose #attn_tile.gradient<{{.*}}estimated {{[0-9]+}} us for 4096 queries
func.func @causal(%q: memref<?x4x?x64xbf16>, %k: memref<?x2x?x64xbf16>, %dq: memref<?x4x?x64xbf16>,
                  %dk: memref<?x2x?x64xbf16>, %dv: memref<?x2x?x64xbf16>) {
  test_attn.relu_scores_grad
      ins(%q, %k, %k, %q, %q : memref<?x4x?x64xbf16>, memref<?x2x?x64xbf16>, memref<?x2x?x64xbf16>,
          memref<?x4x?x64xbf16>, memref<?x4x?x64xbf16>)
      outs(%dq, %dk, %dv : memref<?x4x?x64xbf16>, memref<?x2x?x64xbf16>, memref<?x2x?x64xbf16>)
      mask(#attn.causal)
  return
}

// The length decides whether dQ has a ring buffer.

// CHECK-LABEL: func.func @full(
// SM80:          dkdv = #attn_tile.key_multistage<query_tile = 48, key_tile = 64,
// SM90:          schedule(#attn.by_query_length<bound = 6144, below = #attn_tile.gradient<{{.*}}dq_ring_depth = 264>>, from = #attn_tile.gradient<
// DISPATCH-LABEL: func.func @full(
// DISPATCH:         scf.if
// DISPATCH:           test_attn.relu_scores_grad
// DISPATCH-SAME:        dq_ring_depth = 264
// DISPATCH:         else
// DISPATCH:           test_attn.relu_scores_grad
// DISPATCH-NOT:         dq_ring_depth
func.func @full(%q: memref<?x4x?x128xbf16>, %g: memref<?x4x?x128xbf16>) {
  test_attn.relu_scores_grad
      ins(%q, %q, %q, %q, %q : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>,
          memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>)
      outs(%g, %g, %g : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>)
  return
}

// Gradients of keys and values do not fit one kernel. The model decides from which length on dQ is accumulated.

// CHECK-LABEL: func.func @wide(
// SM80:          dv = #attn_tile.key_multistage<
// SM90:          schedule(#attn.by_query_length<bound = 4096, below = #attn_tile.gradient<{{.*}}dq = {{.*}}dv = {{.*}}>, from = #attn_tile.gradient<
func.func @wide(%q: memref<?x2x?x256xbf16>, %g: memref<?x2x?x256xbf16>) {
  test_attn.relu_scores_grad
      ins(%q, %q, %q, %q, %q : memref<?x2x?x256xbf16>, memref<?x2x?x256xbf16>, memref<?x2x?x256xbf16>,
          memref<?x2x?x256xbf16>, memref<?x2x?x256xbf16>)
      outs(%g, %g, %g : memref<?x2x?x256xbf16>, memref<?x2x?x256xbf16>, memref<?x2x?x256xbf16>)
      mask(#attn.causal)
  return
}
