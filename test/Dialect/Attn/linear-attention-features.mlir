// RUN: attn-opt %s --verify-roundtrip | FileCheck %s
// RUN: attn-opt %s --mlir-print-op-generic | attn-opt | FileCheck %s

// Feature maps, normalizers and masks of linear attention.

!q = tensor<?x4x?x16xbf16>
!k = tensor<?x2x?x16xbf16>
!x = tensor<?x?x?x16xbf16>
!y = tensor<?x?x?x32xbf16>
!s = tensor<?x4x32x17xf32>

// CHECK-LABEL: func @feature
// CHECK: %{{[0-9a-z]+}}:2 = attn.linear_attention
// CHECK-SAME: log_decay(%{{[0-9a-z]+}} : tensor<?x4x?x32xf32>) initial_state(%{{[0-9a-z]+}} : tensor<?x4x32x17xf32>)
// CHECK-SAME: key_lengths(%{{[0-9a-z]+}} : tensor<?xi32>) causal normalizer(eps = 1.000000e+00) chunk(32) feature {
// CHECK-NEXT: ^bb0(%[[X:.*]]: tensor<?x?x?x16xbf16>):
// CHECK-NEXT: %[[Y:.*]] = tensor.concat dim(3) %[[X]], %[[X]]
// CHECK-NEXT: attn.linear_yield %[[Y]] : tensor<?x?x?x32xbf16>
// CHECK-NEXT: } -> tensor<?x4x?x16xbf16>, tensor<?x4x32x17xf32>
func.func @feature(%q: !q, %k: !k, %g: tensor<?x4x?x32xf32>, %s: !s, %l: tensor<?xi32>) -> (!q, !s) {
  %r:2 = attn.linear_attention ins(%q, %k, %k : !q, !k, !k) outs(%q, %s : !q, !s)
      log_decay(%g : tensor<?x4x?x32xf32>) initial_state(%s : !s) key_lengths(%l : tensor<?xi32>) causal
      normalizer(eps = 1.0) chunk(32) feature {
      ^bb0(%x: !x):
        %y = tensor.concat dim(3) %x, %x : (!x, !x) -> !y
        attn.linear_yield %y : !y
      } -> !q, !s
  return %r#0, %r#1 : !q, !s
}

// CHECK-LABEL: func @blocks
// CHECK: attn.linear_attention
// CHECK-SAME: key_lengths(%{{[0-9a-z]+}} : tensor<?xi32>) local_blocks(96) -> tensor<?x4x?x16xbf16>
func.func @blocks(%q: !q, %k: !k, %l: tensor<?xi32>) -> !q {
  %r = attn.linear_attention ins(%q, %k, %k : !q, !k, !k) outs(%q : !q) key_lengths(%l : tensor<?xi32>)
      local_blocks(96) -> !q
  return %r : !q
}

// CHECK-LABEL: func @packed
// CHECK: attn.linear_attention
// CHECK-SAME: sequences(%{{[0-9a-z]+}} : tensor<5xi32>) causal -> tensor<1x4x?x16xbf16>
func.func @packed(%q: tensor<1x4x?x16xbf16>, %c: tensor<5xi32>) -> tensor<1x4x?x16xbf16> {
  %r = attn.linear_attention ins(%q, %q, %q : tensor<1x4x?x16xbf16>, tensor<1x4x?x16xbf16>, tensor<1x4x?x16xbf16>)
      outs(%q : tensor<1x4x?x16xbf16>) sequences(%c : tensor<5xi32>) causal -> tensor<1x4x?x16xbf16>
  return %r : tensor<1x4x?x16xbf16>
}
