// RUN: attn-compile %s --target=sm_90a --emit=ptx -o - | FileCheck %s
// RUN: attn-compile %s --target=sm_80 --emit=ptx -o - | FileCheck %s

// All rows of the state are loaded by accesses of 16 bytes before they are used, and sums over rows are reductions of a
// warp. There is no MMA, no barrier and no loop.

// CHECK: .entry step_linear_attention(
// CHECK-COUNT-16: ld.global.v4.b32 {{.*}}, [%rd[[STATE:[0-9]+]]{{.*}}];
// CHECK-NOT: mma
// CHECK-NOT: bar.sync
// CHECK: shfl.sync.bfly
// CHECK: st.global.v4.b32
// CHECK-NOT: mma
// CHECK: ret
!q = memref<?x16x1x128xbf16>
!rows = memref<?x16x1xf32>
!state = memref<?x16x128x128xf32>
func.func @step(%q: !q, %k: !q, %v: !q, %g: !rows, %b: !rows, %s: !state, %o: !q) {
  attn.linear_attention ins(%q, %k, %v : !q, !q, !q) outs(%o, %s : !q, !state)
      log_decay(%g : !rows) beta(%b : !rows) initial_state(%s : !state) causal
  return
}
