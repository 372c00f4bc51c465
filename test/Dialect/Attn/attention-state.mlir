// RUN: attn-opt %s --verify-roundtrip | FileCheck %s
// RUN: attn-opt %s --mlir-print-op-generic | attn-opt | FileCheck %s

// CHECK-LABEL: func @tensors
// CHECK: attn.attention {{.*}} outs(%{{.*}}, %{{.*}} : tensor<?x4x?x16xbf16>, tensor<?x4x?xf32>)
// CHECK-SAME: state(%{{.*}}, %{{.*}} : tensor<?x4x?x16xf32>, tensor<?x4x?xf32>) mask(#attn.causal)
func.func @tensors(%q: tensor<?x4x?x16xbf16>, %k: tensor<?x2x?x16xbf16>, %o: tensor<?x4x?x16xbf16>,
                   %l: tensor<?x4x?xf32>, %so: tensor<?x4x?x16xf32>, %sl: tensor<?x4x?xf32>) -> (tensor<?x4x?x16xbf16>, tensor<?x4x?xf32>) {
  %0:2 = attn.attention ins(%q, %k, %k : tensor<?x4x?x16xbf16>, tensor<?x2x?x16xbf16>, tensor<?x2x?x16xbf16>)
      outs(%o, %l : tensor<?x4x?x16xbf16>, tensor<?x4x?xf32>) state(%so, %sl : tensor<?x4x?x16xf32>, tensor<?x4x?xf32>)
      mask(#attn.causal) -> tensor<?x4x?x16xbf16>, tensor<?x4x?xf32>
  return %0#0, %0#1 : tensor<?x4x?x16xbf16>, tensor<?x4x?xf32>
}

// With sinks, sequences, dropout and regions, and without a log-sum-exp.
// CHECK-LABEL: func @memrefs
// CHECK: attn.attention {{.*}} outs(%{{.*}} : memref<1x4x?x16xf32>)
// CHECK-SAME: state(%{{.*}}, %{{.*}} : memref<1x4x?x16xf16>, memref<1x4x?xf32>) sinks(%{{.*}} : memref<4xf32>) sequences packed
// CHECK: attn.attention {{.*}} state(%{{.*}}, %{{.*}} : memref<1x4x?x16xf32>, memref<1x4x?xf32>) dropout(
// CHECK: epilogue
func.func @memrefs(%q: memref<1x4x?x16xf32>, %cu: memref<?xi32>, %o: memref<1x4x?x16xf32>, %s16: memref<1x4x?x16xf16>,
                   %s: memref<1x4x?x16xf32>, %sl: memref<1x4x?xf32>, %sinks: memref<4xf32>, %seed: i64) {
  attn.attention ins(%q, %q, %q : memref<1x4x?x16xf32>, memref<1x4x?x16xf32>, memref<1x4x?x16xf32>)
      outs(%o : memref<1x4x?x16xf32>) state(%s16, %sl : memref<1x4x?x16xf16>, memref<1x4x?xf32>)
      sinks(%sinks : memref<4xf32>) sequences packed(%cu, %cu : memref<?xi32>, memref<?xi32>)
  attn.attention ins(%q, %q, %q : memref<1x4x?x16xf32>, memref<1x4x?x16xf32>, memref<1x4x?x16xf32>)
      outs(%o : memref<1x4x?x16xf32>) state(%s, %sl : memref<1x4x?x16xf32>, memref<1x4x?xf32>)
      dropout(#attn.dropout<p = 0.125, rng = #attn.arx>, %seed, %seed : i64, i64)
      epilogue {
      ^bb0(%x: f32, %b: index, %h: index, %i: index, %d: index):
        %y = arith.negf %x : f32
        attn.yield %y : f32
      }
  return
}
