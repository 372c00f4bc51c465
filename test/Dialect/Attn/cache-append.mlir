// RUN: attn-opt %s --verify-roundtrip | FileCheck %s
// RUN: attn-opt %s --mlir-print-op-generic | attn-opt | FileCheck %s

// CHECK-LABEL: func @contiguous
// CHECK: %{{[0-9a-z]+}}:2 = attn.cache_append ins(%{{[0-9a-z]+}}, %{{[0-9a-z]+}} : tensor<?x2x?x64xf16>, tensor<?x2x?x32xf16>)
// CHECK-SAME: outs(%{{[0-9a-z]+}}, %{{[0-9a-z]+}} : tensor<?x2x?x64xf16>, tensor<?x2x?x32xf16>)
// CHECK-SAME: key_lengths(%{{[0-9a-z]+}} : tensor<?xi32>) -> tensor<?x2x?x64xf16>, tensor<?x2x?x32xf16>
func.func @contiguous(%k: tensor<?x2x?x64xf16>, %v: tensor<?x2x?x32xf16>, %kc: tensor<?x2x?x64xf16>,
                      %vc: tensor<?x2x?x32xf16>, %n: tensor<?xi32>)
    -> (tensor<?x2x?x64xf16>, tensor<?x2x?x32xf16>) {
  %r:2 = attn.cache_append ins(%k, %v : tensor<?x2x?x64xf16>, tensor<?x2x?x32xf16>)
      outs(%kc, %vc : tensor<?x2x?x64xf16>, tensor<?x2x?x32xf16>) key_lengths(%n : tensor<?xi32>)
      -> tensor<?x2x?x64xf16>, tensor<?x2x?x32xf16>
  return %r#0, %r#1 : tensor<?x2x?x64xf16>, tensor<?x2x?x32xf16>
}

// CHECK-LABEL: func @paged
// CHECK: attn.cache_append
// CHECK-SAME: key_lengths(%{{[0-9a-z]+}} : memref<?xi32>) new_lengths(%{{[0-9a-z]+}} : memref<?xi32>)
// CHECK-SAME: page_table(%{{[0-9a-z]+}} : memref<?x?xi32>)
// CHECK-SAME: rotary(%{{[0-9a-z]+}}, %{{[0-9a-z]+}} : memref<?x16xf32>, memref<?x16xf32>) interleaved
// CHECK-SAME: query(%{{[0-9a-z]+}} into %{{[0-9a-z]+}} : memref<3x4x1x64xbf16>, memref<3x4x1x64xbf16>) same_position
// CHECK-SAME: schedule(#attn_tile.move_rows<chunks = 64, threads = 32, together = 2, aligned = true, loads_early = true>)
func.func @paged(%k: memref<3x2x1x64xbf16>, %v: memref<3x2x1x64xbf16>, %kc: memref<?x2x16x64xbf16>,
                 %vc: memref<?x2x16x64xbf16>, %n: memref<?xi32>, %next: memref<?xi32>, %t: memref<?x?xi32>,
                 %cos: memref<?x16xf32>, %sin: memref<?x16xf32>, %q: memref<3x4x1x64xbf16>,
                 %r: memref<3x4x1x64xbf16>) {
  attn.cache_append ins(%k, %v : memref<3x2x1x64xbf16>, memref<3x2x1x64xbf16>)
      outs(%kc, %vc : memref<?x2x16x64xbf16>, memref<?x2x16x64xbf16>)
      key_lengths(%n : memref<?xi32>) new_lengths(%next : memref<?xi32>) page_table(%t : memref<?x?xi32>)
      rotary(%cos, %sin : memref<?x16xf32>, memref<?x16xf32>) interleaved
      query(%q into %r : memref<3x4x1x64xbf16>, memref<3x4x1x64xbf16>) same_position
      schedule(#attn_tile.move_rows<chunks = 64, threads = 32, together = 2, aligned = true, loads_early = true>)
  return
}

// Without users, an append to tensors is dead.
// RUN: attn-opt %s --canonicalize | FileCheck %s --check-prefix=DEAD
// DEAD-LABEL: func @dead
// DEAD-NEXT: return
func.func @dead(%k: tensor<1x1x1x8xf32>, %kc: tensor<1x1x9x8xf32>, %n: tensor<1xi32>) {
  %r:2 = attn.cache_append ins(%k, %k : tensor<1x1x1x8xf32>, tensor<1x1x1x8xf32>)
      outs(%kc, %kc : tensor<1x1x9x8xf32>, tensor<1x1x9x8xf32>) key_lengths(%n : tensor<1xi32>)
      -> tensor<1x1x9x8xf32>, tensor<1x1x9x8xf32>
  return
}

// The buffers of the cache are written in place: their other rows stay. New lengths and rotated queries are written in
// full, so nothing is copied into their buffers.
// RUN: attn-opt %s --one-shot-bufferize="bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map" \
// RUN:   | FileCheck %s --check-prefix=BUFFERS
// BUFFERS-LABEL: func @in_place
// BUFFERS-SAME: (%[[K:.*]]: memref<2x1x3x8xf32>, %[[KC:.*]]: memref<2x1x9x8xf32>, %[[VC:.*]]: memref<2x1x9x8xf32>,
// BUFFERS-SAME: %[[N:[a-z0-9]+]]: memref<2xi32>, %[[NEXT:[a-z0-9]+]]: memref<2xi32>, %[[COS:.*]]: memref<9x4xf32>, %[[R:.*]]: memref<2x1x3x8xf32>)
// BUFFERS-NOT: copy
// BUFFERS: attn.cache_append ins(%[[K]], %[[K]]
// BUFFERS-SAME: outs(%[[KC]], %[[VC]]
// BUFFERS-SAME: key_lengths(%[[N]] : memref<2xi32>) new_lengths(%[[NEXT]]
// BUFFERS-SAME: query(%[[K]] into %[[R]]
// BUFFERS-NOT: ->
// BUFFERS-NOT: copy
// BUFFERS: return %[[KC]], %[[VC]], %[[R]], %[[NEXT]]
func.func @in_place(%k: tensor<2x1x3x8xf32>, %kc: tensor<2x1x9x8xf32>, %vc: tensor<2x1x9x8xf32>, %n: tensor<2xi32>,
                    %next: tensor<2xi32>, %cos: tensor<9x4xf32>, %rotated: tensor<2x1x3x8xf32>)
    -> (tensor<2x1x9x8xf32>, tensor<2x1x9x8xf32>, tensor<2x1x3x8xf32>, tensor<2xi32>) {
  %r:4 = attn.cache_append ins(%k, %k : tensor<2x1x3x8xf32>, tensor<2x1x3x8xf32>)
      outs(%kc, %vc : tensor<2x1x9x8xf32>, tensor<2x1x9x8xf32>) key_lengths(%n : tensor<2xi32>)
      new_lengths(%next : tensor<2xi32>) rotary(%cos, %cos : tensor<9x4xf32>, tensor<9x4xf32>)
      query(%k into %rotated : tensor<2x1x3x8xf32>, tensor<2x1x3x8xf32>)
      -> tensor<2x1x9x8xf32>, tensor<2x1x9x8xf32>, tensor<2x1x3x8xf32>, tensor<2xi32>
  return %r#0, %r#1, %r#2, %r#3 : tensor<2x1x9x8xf32>, tensor<2x1x9x8xf32>, tensor<2x1x3x8xf32>, tensor<2xi32>
}

// CHECK-LABEL: func.func @eight_bits
// CHECK:         attn.cache_append ins(
// CHECK-SAME:    outs(%{{.*}}, %{{.*}} : tensor<?x8x64x128xf8E4M3FN>, tensor<?x8x64x128xf8E4M3FN>)
// CHECK-SAME:    scales(%{{.*}}, %{{.*}} : tensor<?x8xf32>, tensor<?x8xf32>)
func.func @eight_bits(%k: tensor<?x8x1x128xbf16>, %kc: tensor<?x8x64x128xf8E4M3FN>, %n: tensor<?xi32>,
    %t: tensor<?x?xi32>, %s: tensor<?x8xf32>) -> (tensor<?x8x64x128xf8E4M3FN>, tensor<?x8x64x128xf8E4M3FN>) {
  %r:2 = attn.cache_append ins(%k, %k : tensor<?x8x1x128xbf16>, tensor<?x8x1x128xbf16>)
      outs(%kc, %kc : tensor<?x8x64x128xf8E4M3FN>, tensor<?x8x64x128xf8E4M3FN>) key_lengths(%n : tensor<?xi32>)
      page_table(%t : tensor<?x?xi32>) scales(%s, %s : tensor<?x8xf32>, tensor<?x8xf32>)
      -> tensor<?x8x64x128xf8E4M3FN>, tensor<?x8x64x128xf8E4M3FN>
  return %r#0, %r#1 : tensor<?x8x64x128xf8E4M3FN>, tensor<?x8x64x128xf8E4M3FN>
}
