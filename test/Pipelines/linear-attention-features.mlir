// Feature maps, normalizers and masks compile for all targets, and so do their gradients: what remains around the plain
// operations has kernels.

// RUN: attn-compile %s --target=sm_90a --stop-after=kernel --emit=mlir -o - | FileCheck %s --check-prefixes=CHECK,GPU
// RUN: attn-compile %s --target=sm_80 --stop-after=kernel --emit=mlir -o - | FileCheck %s --check-prefixes=CHECK,GPU
// RUN: attn-compile %s --target=host --stop-after=kernel --emit=mlir -o - | FileCheck %s
// RUN: attn-opt %s --attn-differentiate=mode=combined | attn-compile - --target=sm_90a --stop-after=kernel --emit=mlir -o - \
// RUN:   | FileCheck %s --check-prefixes=GRAD,GPU
// RUN: attn-opt %s --attn-differentiate=mode=combined | attn-compile - --target=sm_80 --stop-after=kernel --emit=mlir -o - \
// RUN:   | FileCheck %s --check-prefixes=GRAD,GPU
// RUN: attn-opt %s --attn-differentiate=mode=combined | attn-compile - --target=host --stop-after=kernel --emit=mlir -o - \
// RUN:   | FileCheck %s --check-prefixes=GRAD

!q = tensor<?x4x?x64xbf16>
!k = tensor<?x2x?x64xbf16>
!p = tensor<1x4x?x64xbf16>
!x = tensor<?x?x?x64xbf16>
!s = tensor<?x4x64x65xf32>

// GPU-NOT: linalg.
// CHECK: func.func @normalized
// GRAD: func.func @normalized_grad
func.func @normalized(%q: !q, %k: !k, %g: tensor<?x4x?xf32>, %l: tensor<?xi32>, %s: !s, %o: !q, %f: !s) -> (!q, !s) {
  %r:2 = attn.linear_attention ins(%q, %k, %k : !q, !k, !k) outs(%o, %f : !q, !s) log_decay(%g : tensor<?x4x?xf32>)
      initial_state(%s : !s) key_lengths(%l : tensor<?xi32>) causal normalizer(eps = 1.0e-6) feature {
      ^bb0(%x: !x):
        %y = linalg.exp ins(%x : !x) outs(%x : !x) -> !x
        attn.linear_yield %y : !x
      } -> !q, !s
  return %r#0, %r#1 : !q, !s
}

// CHECK: func.func @packed
// GRAD: func.func @packed_grad
func.func @packed(%q: !p, %b: tensor<1x4x?xf32>, %c: tensor<?xi32>, %o: !p) -> !p {
  %r = attn.linear_attention ins(%q, %q, %q : !p, !p, !p) outs(%o : !p) beta(%b : tensor<1x4x?xf32>)
      sequences(%c : tensor<?xi32>) causal -> !p
  return %r : !p
}

// CHECK: func.func @blocks
// GRAD: func.func @blocks_grad
func.func @blocks(%q: !q, %k: !k, %o: !q) -> !q {
  %r = attn.linear_attention ins(%q, %k, %k : !q, !k, !k) outs(%o : !q) local_blocks(96) normalizer(eps = 1.0e-6)
      feature {
      ^bb0(%x: !x):
        %y = linalg.softmax dimension(3) ins(%x : !x) outs(%x : !x) -> !x
        attn.linear_yield %y : !x
      } -> !q
  return %r : !q
}
