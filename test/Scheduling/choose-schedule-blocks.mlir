// RUN: attn-opt %s --pass-pipeline='builtin.module(attn-expand-masks,func.func(attn-choose-schedule{target=sm_90a}))' --split-input-file | FileCheck %s

// Tiles are as small as blocks of 64.

// CHECK-LABEL: func @blocks64
// CHECK:         attn.attention {{.*}} schedule(#attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 4, consumers = 1
func.func @blocks64(%q: tensor<1x8x?x128xbf16>, %offsets: tensor<1x8x?xi32>, %indices: tensor<1x8x?xi32>) -> tensor<1x8x?x128xbf16> {
  %0 = attn.attention ins(%q, %q, %q : tensor<1x8x?x128xbf16>, tensor<1x8x?x128xbf16>, tensor<1x8x?x128xbf16>)
      outs(%q : tensor<1x8x?x128xbf16>) mask(#attn.block_sparse<rows = 64, columns = 64, offsets = 0, indices = 1>)
      reads(%offsets, %indices : tensor<1x8x?xi32>, tensor<1x8x?xi32>) -> tensor<1x8x?x128xbf16>
  return %0 : tensor<1x8x?x128xbf16>
}

// -----

// Tiles of smaller blocks are not: MMAs of 64 rows meet most of them.

// CHECK-LABEL: func @blocks16
// CHECK:         attn.attention {{.*}} schedule(#attn.by_query_length<bound = 65536, below = #attn_tile.warp_specialized<query_tile = 128,
func.func @blocks16(%q: tensor<1x8x?x64xbf16>, %offsets: tensor<1x1x?xi32>, %indices: tensor<1x1x?xi32>) -> tensor<1x8x?x64xbf16> {
  %0 = attn.attention ins(%q, %q, %q : tensor<1x8x?x64xbf16>, tensor<1x8x?x64xbf16>, tensor<1x8x?x64xbf16>)
      outs(%q : tensor<1x8x?x64xbf16>) mask(#attn.and<#attn.causal, #attn.block_sparse<rows = 16, columns = 16, offsets = 0, indices = 1>>)
      reads(%offsets, %indices : tensor<1x1x?xi32>, tensor<1x1x?xi32>) -> tensor<1x8x?x64xbf16>
  return %0 : tensor<1x8x?x64xbf16>
}

// -----

// Reads for single positions, and for large blocks.

// CHECK-LABEL: func @documents
// CHECK:         attn.attention {{.*}} schedule(#attn.by_query_length<bound = 65536, below = #attn_tile.warp_specialized<query_tile = 128,
func.func @documents(%q: tensor<1x8x?x128xbf16>, %ids: tensor<1x?xi32>) -> tensor<1x8x?x128xbf16> {
  %0 = attn.attention ins(%q, %q, %q : tensor<1x8x?x128xbf16>, tensor<1x8x?x128xbf16>, tensor<1x8x?x128xbf16>)
      outs(%q : tensor<1x8x?x128xbf16>) mask(#attn.documents<queries = 0, keys = 0>)
      reads(%ids : tensor<1x?xi32>) -> tensor<1x8x?x128xbf16>
  return %0 : tensor<1x8x?x128xbf16>
}

// -----

// CHECK-LABEL: func @blocks128
// CHECK:         attn.attention {{.*}} schedule(#attn_tile.warp_specialized<query_tile = 128,
func.func @blocks128(%q: tensor<1x8x?x128xbf16>, %offsets: tensor<1x8x?xi32>, %indices: tensor<1x8x?xi32>) -> tensor<1x8x?x128xbf16> {
  %0 = attn.attention ins(%q, %q, %q : tensor<1x8x?x128xbf16>, tensor<1x8x?x128xbf16>, tensor<1x8x?x128xbf16>)
      outs(%q : tensor<1x8x?x128xbf16>) mask(#attn.block_sparse<rows = 128, columns = 128, offsets = 0, indices = 1>)
      reads(%offsets, %indices : tensor<1x8x?xi32>, tensor<1x8x?xi32>) -> tensor<1x8x?x128xbf16>
  return %0 : tensor<1x8x?x128xbf16>
}
