// RUN: attn-opt %s --attn-shard-attention="method=ring ranks=4" -o %t.4.mlir
// RUN: attn-compile %t.4.mlir --target=host --stop-after=kernel --emit=mlir -o - | FileCheck %s --check-prefixes=CHECK,FOUR
// RUN: attn-opt %s --attn-shard-attention="method=ring ranks=8" -o %t.8.mlir
// RUN: attn-compile %t.8.mlir --target=host --stop-after=kernel --emit=mlir -o - | FileCheck %s --check-prefixes=CHECK,EIGHT

// The memory of a rank does not grow with the number of steps: two chunks of keys and values, four of their gradients
// and two of the gradients of queries, besides what kernels need for rows.
// CHECK-LABEL: func.func @gradient(
// FOUR: memref.alloc() {{.*}} : memref<5242880xi8>
// EIGHT: memref.alloc() {{.*}} : memref<2621440xi8>
// CHECK-NOT: memref.alloc{{.*}}64xf32
!q = tensor<1x8x2048x64xf32>
!k = tensor<1x2x2048x64xf32>
!l = tensor<1x8x2048xf32>
func.func @gradient(%q: !q, %k: !k, %v: !k, %out: !q, %lse: !l, %dout: !q) -> (!q, !k, !k) {
  %eq = tensor.empty() : !q
  %ek = tensor.empty() : !k
  %0:3 = attn.attention_grad ins(%q, %k, %v, %out, %lse, %dout : !q, !k, !k, !q, !l, !q)
      outs(%eq, %ek, %ek : !q, !k, !k) mask(#attn.causal) -> !q, !k, !k
  return %0#0, %0#1, %0#2 : !q, !k, !k
}
