// RUN: attn-opt %s --attn-shard-attention="method=allgather ranks=4" \
// RUN:   | attn-compile - --target=sm_90a --emit=mlir --stop-after=bufferize -o - | FileCheck %s
// RUN: attn-opt %s --attn-shard-attention="method=allgather ranks=4" \
// RUN:   | attn-compile - --target=sm_90a --emit=mlir --stop-after=kernel -o - | FileCheck %s --check-prefix=KERNEL

!t = tensor<2x4x4096x128xbf16>
!g = tensor<2x4x4096xf32>
!s = tensor<2x4x128x128xf32>

// Loops over ranks change one state in place, and take no memory in a step. The initial state is not written.
// CHECK-LABEL: func @delta(
// CHECK-SAME: %[[INITIAL:[^:]*]]: memref<2x4x128x128xf32, {{[^{]*}}> {{{[^}]*}}attn.name = "initial_state"
// CHECK: linalg.copy ins(%[[INITIAL]] : {{.*}}) outs(%[[STATE:[a-z0-9_]*]] : memref<2x4x128x128xf32>)
// CHECK-NEXT: scf.for
// CHECK-NOT: memref.alloc
// CHECK-NOT: copy
// CHECK: attn.linear_attention {{.*}} initial_state(%[[STATE]] :
// CHECK-NEXT: scf.for
// CHECK-NOT: memref.alloc
// CHECK: linalg.copy ins(%[[STATE]] :
// CHECK-NOT: memref.alloc

// KERNEL-LABEL: func @delta(
// KERNEL: scf.for
// KERNEL: attn_tile.launch
func.func @delta(%q: !t, %k: !t, %v: !t, %g: !g, %b: !g, %i: !s) -> (!t, !s) {
  %e = tensor.empty() : !t
  %f = tensor.empty() : !s
  %o, %s = attn.linear_attention ins(%q, %k, %v : !t, !t, !t) outs(%e, %f : !t, !s) log_decay(%g : !g) beta(%b : !g)
      initial_state(%i : !s) causal -> !t, !s
  return %o, %s : !t, !s
}
