// RUN: attn-opt %s --attn-shard-attention="method=ring ranks=4" -o %t.4.mlir
// RUN: attn-compile %t.4.mlir --target=host --stop-after=kernel --emit=mlir -o - | FileCheck %s --check-prefixes=CHECK,FOUR
// RUN: attn-opt %s --attn-shard-attention="method=ring ranks=8" -o %t.8.mlir
// RUN: attn-compile %t.8.mlir --target=host --stop-after=kernel --emit=mlir -o - | FileCheck %s --check-prefixes=CHECK,EIGHT

// The memory of a rank does not grow with the number of steps: two chunks of keys and values, and two results.
// CHECK-LABEL: func.func @attention(
// FOUR: memref.alloc() {{.*}} : memref<3178496xi8>
// EIGHT: memref.alloc() {{.*}} : memref<1589248xi8>
// CHECK-NOT: memref.alloc
!q = tensor<1x8x2048x64xf32>
!k = tensor<1x2x2048x64xf32>
func.func @attention(%q: !q, %k: !k, %v: !k) -> !q {
  %e = tensor.empty() : !q
  %o = attn.attention ins(%q, %k, %v : !q, !k, !k) outs(%e : !q) mask(#attn.causal) -> !q
  return %o : !q
}
