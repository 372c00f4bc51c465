// RUN: attn-opt %s --canonicalize --split-input-file | FileCheck %s

!x = tensor<?x16xbf16>
!q = tensor<?x16xf8E4M3FN>

// No pass over the elements precedes rounding with a given scale.
// CHECK-LABEL: func @unused_amax
// CHECK: %[[Q:.*]] = attn.quantize ins(%{{.*}} : tensor<?x16xbf16>) given_scale(%{{.*}} : tensor<f32>)
// CHECK-SAME: outs(%{{.*}} : tensor<?x16xf8E4M3FN>) saturate -> tensor<?x16xf8E4M3FN>
// CHECK-NEXT: return %[[Q]]
func.func @unused_amax(%x: !x, %q: !q, %s: tensor<f32>) -> !q {
  %r:2 = attn.quantize ins(%x : !x) given_scale(%s : tensor<f32>) outs(%q : !q) amax(%s : tensor<f32>) saturate
      -> !q, tensor<f32>
  return %r#0 : !q
}

// CHECK-LABEL: func @unused_amax_of_blocks
// CHECK: attn.quantize {{.*}} scale({{.*}}) block_size(128) -> tensor<1x2x8x16xf8E4M3FN>, tensor<1x2x1xf32>
func.func @unused_amax_of_blocks(%x: tensor<1x2x8x16xf32>, %q: tensor<1x2x8x16xf8E4M3FN>, %s: tensor<1x2x1xf32>)
    -> (tensor<1x2x8x16xf8E4M3FN>, tensor<1x2x1xf32>) {
  %r:3 = attn.quantize ins(%x : tensor<1x2x8x16xf32>) outs(%q : tensor<1x2x8x16xf8E4M3FN>)
      scale(%s : tensor<1x2x1xf32>) amax(%s : tensor<1x2x1xf32>) block_size(128)
      -> tensor<1x2x8x16xf8E4M3FN>, tensor<1x2x1xf32>, tensor<1x2x1xf32>
  return %r#0, %r#1 : tensor<1x2x8x16xf8E4M3FN>, tensor<1x2x1xf32>
}

// CHECK-LABEL: func @used_amax
// CHECK: attn.quantize {{.*}} amax(
func.func @used_amax(%x: !x, %q: !q, %s: tensor<f32>) -> (!q, tensor<f32>) {
  %r:2 = attn.quantize ins(%x : !x) given_scale(%s : tensor<f32>) outs(%q : !q) amax(%s : tensor<f32>)
      -> !q, tensor<f32>
  return %r#0, %r#1 : !q, tensor<f32>
}

// CHECK-LABEL: func @memrefs
// CHECK: attn.quantize {{.*}} amax(
func.func @memrefs(%x: memref<4x16xf32>, %q: memref<4x16xf8E5M2>, %s: memref<f32>, %m: memref<f32>) {
  attn.quantize ins(%x : memref<4x16xf32>) given_scale(%s : memref<f32>) outs(%q : memref<4x16xf8E5M2>)
      amax(%m : memref<f32>)
  return
}
