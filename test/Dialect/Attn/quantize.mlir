// RUN: attn-opt %s --verify-roundtrip | FileCheck %s
// RUN: attn-opt %s --mlir-print-op-generic | attn-opt | FileCheck %s

!x = tensor<?x4x?x32xbf16>
!q = tensor<?x4x?x32xf8E4M3FN>
!heads = tensor<?x4xf32>

// CHECK-LABEL: func @per_head
// CHECK: %{{[0-9a-z]+}}:2 = attn.quantize ins(%{{[0-9a-z]+}} : tensor<?x4x?x32xbf16>)
// CHECK-SAME: outs(%{{[0-9a-z]+}} : tensor<?x4x?x32xf8E4M3FN>) scale(%{{[0-9a-z]+}} : tensor<?x4xf32>) saturate
// CHECK-SAME: -> tensor<?x4x?x32xf8E4M3FN>, tensor<?x4xf32>
func.func @per_head(%x: !x, %q: !q, %s: !heads) -> (!q, !heads) {
  %r:2 = attn.quantize ins(%x : !x) outs(%q : !q) scale(%s : !heads) saturate -> !q, !heads
  return %r#0, %r#1 : !q, !heads
}

// CHECK-LABEL: func @delayed
// CHECK: attn.quantize ins(%{{[0-9a-z]+}} : tensor<?x4x?x32xbf16>) given_scale(%{{[0-9a-z]+}} : tensor<f32>)
// CHECK-SAME: rotate(%{{[0-9a-z]+}} : tensor<32xf32>) outs(%{{[0-9a-z]+}} : tensor<?x4x?x32xf8E4M3FN>)
// CHECK-SAME: amax(%{{[0-9a-z]+}} : tensor<f32>) -> tensor<?x4x?x32xf8E4M3FN>, tensor<f32>
func.func @delayed(%x: !x, %q: !q, %s: tensor<f32>, %signs: tensor<32xf32>) -> (!q, tensor<f32>) {
  %r:2 = attn.quantize ins(%x : !x) given_scale(%s : tensor<f32>) rotate(%signs : tensor<32xf32>)
      outs(%q : !q) amax(%s : tensor<f32>) -> !q, tensor<f32>
  return %r#0, %r#1 : !q, tensor<f32>
}

// CHECK-LABEL: func @blocks_of_memrefs
// CHECK: attn.quantize ins(%{{[0-9a-z]+}} : memref<1x2x130x16xf16>) outs(%{{[0-9a-z]+}} : memref<1x2x130x16xf8E5M2>)
// CHECK-SAME: scale(%{{[0-9a-z]+}} : memref<1x2x3xf32>) amax(%{{[0-9a-z]+}} : memref<1x2x3xf32>) block_size(64)
// CHECK-NOT: ->
func.func @blocks_of_memrefs(%x: memref<1x2x130x16xf16>, %q: memref<1x2x130x16xf8E5M2>, %s: memref<1x2x3xf32>,
                             %m: memref<1x2x3xf32>) {
  attn.quantize ins(%x : memref<1x2x130x16xf16>) outs(%q : memref<1x2x130x16xf8E5M2>) scale(%s : memref<1x2x3xf32>)
      amax(%m : memref<1x2x3xf32>) block_size(64)
  return
}

// CHECK-LABEL: func @matrix
// CHECK: attn.quantize ins(%{{[0-9a-z]+}} : tensor<?x?xf32>) given_scale(%{{[0-9a-z]+}} : tensor<f32>)
// CHECK-SAME: outs(%{{[0-9a-z]+}} : tensor<?x?xf8E5M2>) -> tensor<?x?xf8E5M2>
func.func @matrix(%x: tensor<?x?xf32>, %q: tensor<?x?xf8E5M2>, %s: tensor<f32>) -> tensor<?x?xf8E5M2> {
  %r = attn.quantize ins(%x : tensor<?x?xf32>) given_scale(%s : tensor<f32>) outs(%q : tensor<?x?xf8E5M2>)
      -> tensor<?x?xf8E5M2>
  return %r : tensor<?x?xf8E5M2>
}
