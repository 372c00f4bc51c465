// RUN: attn-opt %s --verify-roundtrip | FileCheck %s
// RUN: attn-opt %s --mlir-print-op-generic | attn-opt | FileCheck %s

// CHECK-LABEL: func @paged
// CHECK: attn.attention
// CHECK-SAME: sinks(%{{.*}} : memref<4xf32>) key_lengths(%{{.*}} : memref<?xi32>) page_table(%{{.*}} : memref<?x?xi32>)
// CHECK-SAME: scale(5.000000e-01) mask(#attn.causal)
func.func @paged(%q: memref<?x4x?x64xf16>, %k: memref<?x2x16x64xf16>, %v: memref<?x2x16x32xf16>,
                 %o: memref<?x4x?x32xf16>, %s: memref<4xf32>, %n: memref<?xi32>, %t: memref<?x?xi32>) {
  attn.attention ins(%q, %k, %v : memref<?x4x?x64xf16>, memref<?x2x16x64xf16>, memref<?x2x16x32xf16>)
      outs(%o : memref<?x4x?x32xf16>) sinks(%s : memref<4xf32>)
      key_lengths(%n : memref<?xi32>) page_table(%t : memref<?x?xi32>) scale(0.5) mask(#attn.causal)
  return
}

// Positions first, through a permuted view.

// CHECK-LABEL: func @positions_first
// CHECK: page_table(%{{.*}} : tensor<3x7xi32>)
func.func @positions_first(%q: tensor<3x4x1x64xf16>, %k: tensor<9x128x2x64xf16>, %v: tensor<9x128x2x64xf16>,
                           %o: tensor<3x4x1x64xf16>, %n: tensor<3xi32>, %t: tensor<3x7xi32>) -> tensor<3x4x1x64xf16> {
  %kp = attn.permute %k [0, 2, 1, 3] : tensor<9x128x2x64xf16> -> tensor<9x2x128x64xf16>
  %vp = attn.permute %v [0, 2, 1, 3] : tensor<9x128x2x64xf16> -> tensor<9x2x128x64xf16>
  %r = attn.attention ins(%q, %kp, %vp : tensor<3x4x1x64xf16>, tensor<9x2x128x64xf16>, tensor<9x2x128x64xf16>)
      outs(%o : tensor<3x4x1x64xf16>)
      key_lengths(%n : tensor<3xi32>) page_table(%t : tensor<3x7xi32>) -> tensor<3x4x1x64xf16>
  return %r : tensor<3x4x1x64xf16>
}

// CHECK-LABEL: func @lengths
// CHECK: outs(%{{.*}} : memref<?x4x?x64xf16>) key_lengths(%{{.*}} : memref<?xi32>)
func.func @lengths(%q: memref<?x4x?x64xf16>, %k: memref<?x2x?x64xf16>, %v: memref<?x2x?x64xf16>,
                   %o: memref<?x4x?x64xf16>, %n: memref<?xi32>) {
  attn.attention ins(%q, %k, %v : memref<?x4x?x64xf16>, memref<?x2x?x64xf16>, memref<?x2x?x64xf16>)
      outs(%o : memref<?x4x?x64xf16>) key_lengths(%n : memref<?xi32>)
  return
}

// Masks that read operands, and dropout.

// CHECK-LABEL: func @draft
// CHECK: key_lengths(%{{.*}} : memref<?xi32>) page_table(%{{.*}} : memref<?x?xi32>)
// CHECK-SAME: mask(#attn.tree<parents = 0>) reads(%{{.*}} : memref<?x8xi32>) dropout(<p = 1.250000e-01
func.func @draft(%q: memref<?x4x8x64xf16>, %k: memref<?x2x16x64xf16>, %o: memref<?x4x8x64xf16>, %n: memref<?xi32>,
                 %t: memref<?x?xi32>, %p: memref<?x8xi32>, %s: memref<i64>) {
  attn.attention ins(%q, %k, %k : memref<?x4x8x64xf16>, memref<?x2x16x64xf16>, memref<?x2x16x64xf16>)
      outs(%o : memref<?x4x8x64xf16>) key_lengths(%n : memref<?xi32>) page_table(%t : memref<?x?xi32>)
      mask(#attn.tree<parents = 0>) reads(%p : memref<?x8xi32>)
      dropout(#attn.dropout<p = 0.125, rng = #attn.philox<rounds = 7>>, %s, %s : memref<i64>, memref<i64>)
  return
}

// CHECK-LABEL: func private @addressing() attributes
// CHECK-SAME: [#attn.dense_kv, #attn.packed_kv, #attn.padded_kv<queries = true>, #attn.paged_kv<page_size = 64>]
func.func private @addressing() attributes {
  test.all = [#attn.dense_kv, #attn.packed_kv, #attn.padded_kv<queries = true>, #attn.paged_kv<page_size = 64>]}
