// RUN: attn-opt %s --verify-roundtrip | FileCheck %s
// RUN: attn-opt %s --mlir-print-op-generic | attn-opt | FileCheck %s

// The example of the documentation.

// CHECK-LABEL: func @shard
// CHECK: attn.attention
// CHECK-SAME: positions(%{{.*}} : tensor<6xi32>) mask(#attn.causal)
func.func @shard(%q: tensor<1x32x4096x128xbf16>, %k: tensor<1x8x2048x128xbf16>, %v: tensor<1x8x2048x128xbf16>,
                 %init: tensor<1x32x4096x128xbf16>, %positions: tensor<6xi32>) -> tensor<1x32x4096x128xbf16> {
  %out = attn.attention
      ins(%q, %k, %v : tensor<1x32x4096x128xbf16>, tensor<1x8x2048x128xbf16>,
          tensor<1x8x2048x128xbf16>)
      outs(%init : tensor<1x32x4096x128xbf16>)
      positions(%positions : tensor<6xi32>) mask(#attn.causal)
      -> tensor<1x32x4096x128xbf16>
  return %out : tensor<1x32x4096x128xbf16>
}

// CHECK-LABEL: func @dropout_only
// CHECK: attn.attention
// CHECK-SAME: positions(%{{.*}} : memref<6xi32>) dropout_only dropout(
func.func @dropout_only(%q: memref<?x4x?x64xf16>, %o: memref<?x4x?x64xf16>, %p: memref<6xi32>, %seed: i64) {
  attn.attention ins(%q, %q, %q : memref<?x4x?x64xf16>, memref<?x4x?x64xf16>, memref<?x4x?x64xf16>)
      outs(%o : memref<?x4x?x64xf16>) positions(%p : memref<6xi32>) dropout_only
      dropout(#attn.dropout<p = 0.125, rng = #attn.philox>, %seed, %seed : i64, i64)
  return
}

// Random numbers of sequences see other numbers of heads.
// CHECK-LABEL: func @dropout_only_of_sequences
// CHECK: attn.attention
// CHECK-SAME: sequences packed(%{{.*}} : memref<?xi32>, memref<?xi32>) positions(%{{.*}} : memref<6xi32>) dropout_only
func.func @dropout_only_of_sequences(%q: memref<1x4x?x64xf16>, %o: memref<1x4x?x64xf16>, %p: memref<6xi32>, %s: i64,
                                     %n: memref<?xi32>) {
  attn.attention ins(%q, %q, %q : memref<1x4x?x64xf16>, memref<1x4x?x64xf16>, memref<1x4x?x64xf16>)
      outs(%o : memref<1x4x?x64xf16>) sequences packed(%n, %n : memref<?xi32>, memref<?xi32>)
      positions(%p : memref<6xi32>) dropout_only
      dropout(#attn.dropout<p = 0.125, rng = #attn.philox>, %s, %s : i64, i64)
  return
}

// CHECK-LABEL: func @gradient
// CHECK: attn.attention_grad
// CHECK-SAME: positions(%{{.*}} : memref<6xi32>) scale(5.000000e-01) mask(#attn.causal)
func.func @gradient(%q: memref<?x4x?x64xf16>, %l: memref<?x4x?xf32>, %p: memref<6xi32>, %dq: memref<?x4x?x64xf16>) {
  attn.attention_grad ins(%q, %q, %q, %q, %l, %q : memref<?x4x?x64xf16>, memref<?x4x?x64xf16>, memref<?x4x?x64xf16>,
          memref<?x4x?x64xf16>, memref<?x4x?xf32>, memref<?x4x?x64xf16>)
      outs(%dq, %dq, %dq : memref<?x4x?x64xf16>, memref<?x4x?x64xf16>, memref<?x4x?x64xf16>)
      positions(%p : memref<6xi32>) scale(0.5) mask(#attn.causal)
  return
}

// CHECK-LABEL: func @keep_mask
// CHECK: attn.dropout_mask rows
// CHECK-SAME: from_head(3) positions(%{{.*}} : tensor<6xi32>) ->
func.func @keep_mask(%seed: i64, %p: tensor<6xi32>, %init: tensor<1x8x64x16xi32>) -> tensor<1x8x64x16xi32> {
  %0 = attn.dropout_mask rows by(#attn.dropout<p = 0.125, rng = #attn.arx>, %seed, %seed : i64, i64)
      outs(%init : tensor<1x8x64x16xi32>) from_head(3) positions(%p : tensor<6xi32>) -> tensor<1x8x64x16xi32>
  return %0 : tensor<1x8x64x16xi32>
}
