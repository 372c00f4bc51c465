// RUN: attn-opt %s --verify-roundtrip | FileCheck %s
// RUN: attn-opt %s --mlir-print-op-generic | attn-opt | FileCheck %s

// CHECK-LABEL: func.func @rope(
// CHECK:         attn.rope %{{.*}}, %{{.*}}, %{{.*}} : tensor<?x32x?x128xbf16>, tensor<8192x64xf32>, tensor<8192x64xf32>
// CHECK:         attn.rope %{{.*}}, %{{.*}}, %{{.*}} at(%{{.*}}) interleaved inverse : tensor<?x32x?x128xbf16>, tensor<8192x64xf32>, tensor<8192x64xf32>
// CHECK:         attn.rope %{{.*}}, %{{.*}}, %{{.*}} : tensor<?x32x?x128xbf16>, tensor<?x?x16xf16>, tensor<?x?x16xf16>
func.func @rope(%q: tensor<?x32x?x128xbf16>, %t: tensor<8192x64xf32>, %u: tensor<?x?x16xf16>, %start: index) -> tensor<?x32x?x128xbf16> {
  %0 = attn.rope %q, %t, %t : tensor<?x32x?x128xbf16>, tensor<8192x64xf32>, tensor<8192x64xf32>
  %1 = attn.rope %0, %t, %t at(%start) interleaved inverse : tensor<?x32x?x128xbf16>, tensor<8192x64xf32>, tensor<8192x64xf32>
  %2 = attn.rope %1, %u, %u : tensor<?x32x?x128xbf16>, tensor<?x?x16xf16>, tensor<?x?x16xf16>
  return %2 : tensor<?x32x?x128xbf16>
}

// CHECK-LABEL: func.func @rms_norm(
// CHECK:         attn.rms_norm %{{.*}} weight(%{{.*}} : tensor<128xf32>) epsilon(9.99999997E-7) : tensor<?x32x?x128xbf16>
// CHECK:         attn.rms_norm %{{.*}} epsilon(0.000000e+00) : tensor<?x32x?x128xbf16>
func.func @rms_norm(%q: tensor<?x32x?x128xbf16>, %w: tensor<128xf32>) -> tensor<?x32x?x128xbf16> {
  %0 = attn.rms_norm %q weight(%w : tensor<128xf32>) epsilon(1.0e-06) : tensor<?x32x?x128xbf16>
  %1 = attn.rms_norm %0 epsilon(0.0) : tensor<?x32x?x128xbf16>
  return %1 : tensor<?x32x?x128xbf16>
}

// CHECK-LABEL: func.func @map_heads(
// CHECK:         attn.map_heads ins(%{{.*}} : tensor<1x8x512x64xbf16>) outs(%{{.*}} : tensor<1x8x512x64xf32>) {
// CHECK-NEXT:    ^bb0(%[[X:.*]]: f32, %[[S:.*]]: f32, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index):
// CHECK-NEXT:      %[[R:.*]] = math.rsqrt %[[S]] : f32
// CHECK-NEXT:      %[[N:.*]] = arith.mulf %[[X]], %[[R]] : f32
// CHECK-NEXT:      attn.yield %[[N]] : f32
// CHECK-NEXT:    } -> tensor<1x8x512x64xf32>
func.func @map_heads(%x: tensor<1x8x512x64xbf16>, %init: tensor<1x8x512x64xf32>) -> tensor<1x8x512x64xf32> {
  %y = attn.map_heads ins(%x : tensor<1x8x512x64xbf16>) outs(%init : tensor<1x8x512x64xf32>) {
  ^bb0(%e: f32, %square: f32, %b: index, %h: index, %i: index, %d: index):
    %r = math.rsqrt %square : f32
    %n = arith.mulf %e, %r : f32
    attn.yield %n : f32
  } -> tensor<1x8x512x64xf32>
  return %y : tensor<1x8x512x64xf32>
}

// CHECK-LABEL: func.func @regions(
// CHECK:         attn.attention
// CHECK:           query {
// CHECK-NEXT:    ^bb0(%[[X:.*]]: f32, %{{.*}}: f32, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index):
// CHECK-NEXT:      %[[Y:.*]] = arith.negf %[[X]]
// CHECK-NEXT:      attn.yield %[[Y]]
// CHECK:           epilogue {
// CHECK-NEXT:    ^bb0(%[[O:.*]]: f32, %[[B:.*]]: index, %[[H:.*]]: index, %[[I:.*]]: index, %[[D:.*]]: index):
// CHECK-NEXT:      %[[G:.*]] = memref.load %{{.*}}[%[[B]], %[[H]], %[[I]], %[[D]]]
func.func @regions(%q: memref<1x8x16x64xf32>, %o: memref<1x8x16x64xf32>, %g: memref<1x8x16x64xf32>) {
  attn.attention ins(%q, %q, %q : memref<1x8x16x64xf32>, memref<1x8x16x64xf32>, memref<1x8x16x64xf32>) outs(%o : memref<1x8x16x64xf32>)
      query {
      ^bb0(%x: f32, %square: f32, %b: index, %h: index, %i: index, %d: index):
        %y = arith.negf %x : f32
        attn.yield %y : f32
      }
      epilogue {
      ^bb0(%x: f32, %b: index, %h: index, %i: index, %d: index):
        %e = memref.load %g[%b, %h, %i, %d] : memref<1x8x16x64xf32>
        %y = arith.mulf %x, %e : f32
        attn.yield %y : f32
      }
  return
}
