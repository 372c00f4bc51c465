// RUN: attn-compile %s --target=sm_90a --emit=mlir --stop-after=kernel -o - | FileCheck %s --check-prefixes=CHECK,GPU
// RUN: attn-compile %s --target=host --emit=mlir --stop-after=kernel -o - | FileCheck %s --check-prefixes=CHECK,HOST

// A decode step is one launch, which updates the state in place. Nothing is allocated or copied. On GPUs the rows of a
// state usually are one after another in memory, and addresses of a kernel rely on it.

!q = tensor<?x4x1x64xbf16>
!rows = tensor<?x4x1xf32>
!state = tensor<?x4x64x64xf32>

// CHECK-LABEL: func.func @step(
// CHECK-NOT: memref.alloc
// CHECK-NOT: memref.copy
// GPU: %[[ROW:.*]] = arith.cmpi eq, %{{.*}}#2, %c64
// GPU: %[[CAST:.*]] = memref.cast {{.*}} to memref<?x4x64x64xf32, strided<[?, ?, 64, 1], offset: ?>>
// GPU: scf.if %[[ROW]] {
// GPU: attn_tile.launch @step_linear_attention {{.*}}%[[CAST]]
// GPU-NEXT: } else {
// GPU: attn_tile.launch @step_linear_attention_strided 
// GPU: }
// HOST: attn_tile.launch @step_linear_attention 
// CHECK-NOT: attn_tile.launch
// CHECK-NOT: memref.copy
// CHECK: return
func.func @step(%q: !q, %k: !q, %v: !q, %g: !rows, %b: !rows, %s: !state, %o: !q) -> (!q, !state) {
  %0:2 = attn.linear_attention ins(%q, %k, %v : !q, !q, !q) outs(%o, %s : !q, !state)
      log_decay(%g : !rows) beta(%b : !rows) initial_state(%s : !state) causal -> !q, !state
  return %0#0, %0#1 : !q, !state
}

!many = tensor<?x4x?x64xbf16>

// Kernels of both branches have the same state.
// CHECK-LABEL: func.func @dynamic(
// CHECK-NOT: memref.copy
// GPU: %[[FEW:.*]] = arith.cmpi ult, %{{.*}}, %c{{[0-9]+}} : index
// GPU: scf.if %[[FEW]] {
// GPU: attn_tile.launch @dynamic_linear_attention
// GPU: } else {
// CHECK-NOT: memref.copy
// CHECK: attn_tile.launch
// CHECK-NOT: memref.copy
// CHECK: return
func.func @dynamic(%q: !many, %k: !many, %v: !many, %s: !state, %o: !many) -> (!many, !state) {
  %0:2 = attn.linear_attention ins(%q, %k, %v : !many, !many, !many) outs(%o, %s : !many, !state)
      initial_state(%s : !state) causal -> !many, !state
  return %0#0, %0#1 : !many, !state
}

// A state that another step reads afterwards is not overwritten.
// CHECK-LABEL: func.func @branches(
// CHECK: memref.alloc
// CHECK: attn_tile.launch
// CHECK: attn_tile.launch
// CHECK: return
func.func @branches(%q: !q, %k: !q, %v: !q, %s: !state, %o: !q, %p: !q) -> (!q, !q, !state) {
  %0:2 = attn.linear_attention ins(%q, %k, %v : !q, !q, !q) outs(%o, %s : !q, !state)
      initial_state(%s : !state) causal -> !q, !state
  %1:2 = attn.linear_attention ins(%k, %q, %v : !q, !q, !q) outs(%p, %s : !q, !state)
      initial_state(%s : !state) causal -> !q, !state
  return %0#0, %1#0, %1#1 : !q, !q, !state
}
