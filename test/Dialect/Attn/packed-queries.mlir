// RUN: attn-opt %s --verify-roundtrip | FileCheck %s
// RUN: attn-opt %s --mlir-print-op-generic | attn-opt | FileCheck %s

// CHECK-LABEL: func @paged
// CHECK: sequences packed_queries(%{{.*}}, %{{.*}} : memref<?xi32>, memref<?xi32>) page_table(%{{.*}} : memref<?x?xi32>)
// CHECK-SAME: mask(#attn.causal)
func.func @paged(%q: memref<1x4x?x64xf16>, %k: memref<?x2x16x64xf16>, %v: memref<?x2x16x32xf16>,
                 %o: memref<1x4x?x32xf16>, %c: memref<?xi32>, %n: memref<?xi32>, %t: memref<?x?xi32>) {
  attn.attention ins(%q, %k, %v : memref<1x4x?x64xf16>, memref<?x2x16x64xf16>, memref<?x2x16x32xf16>)
      outs(%o : memref<1x4x?x32xf16>) sequences packed_queries(%c, %n : memref<?xi32>, memref<?xi32>)
      page_table(%t : memref<?x?xi32>) mask(#attn.causal)
  return
}

// CHECK-LABEL: func @contiguous
// CHECK: sequences packed_queries(%{{.*}}, %{{.*}} : tensor<4xi32>, tensor<3xi32>)
func.func @contiguous(%q: tensor<1x4x9x64xf16>, %k: tensor<3x2x80x64xf16>, %o: tensor<1x4x9x64xf16>,
                      %c: tensor<4xi32>, %n: tensor<3xi32>) -> tensor<1x4x9x64xf16> {
  %r = attn.attention ins(%q, %k, %k : tensor<1x4x9x64xf16>, tensor<3x2x80x64xf16>, tensor<3x2x80x64xf16>)
      outs(%o : tensor<1x4x9x64xf16>) sequences packed_queries(%c, %n : tensor<4xi32>, tensor<3xi32>)
      -> tensor<1x4x9x64xf16>
  return %r : tensor<1x4x9x64xf16>
}

// CHECK-LABEL: func @draft
// CHECK: page_table(%{{.*}} : memref<?x?xi32>) mask(#attn.tree<parents = 0>) reads(%{{.*}} : memref<1x?xi32>)
func.func @draft(%q: memref<1x4x?x64xf16>, %k: memref<?x2x16x64xf16>, %o: memref<1x4x?x64xf16>, %c: memref<?xi32>,
                 %n: memref<?xi32>, %t: memref<?x?xi32>, %p: memref<1x?xi32>) {
  attn.attention ins(%q, %k, %k : memref<1x4x?x64xf16>, memref<?x2x16x64xf16>, memref<?x2x16x64xf16>)
      outs(%o : memref<1x4x?x64xf16>) sequences packed_queries(%c, %n : memref<?xi32>, memref<?xi32>)
      page_table(%t : memref<?x?xi32>) mask(#attn.tree<parents = 0>) reads(%p : memref<1x?xi32>)
  return
}

// CHECK-LABEL: func private @addressing() attributes
// CHECK-SAME: [#attn.padded_kv<queries = true, packed_queries = true>, #attn.paged_kv<page_size = 64, packed_queries = true>]
func.func private @addressing() attributes {
  test.all = [#attn.padded_kv<queries = true, packed_queries = true>, #attn.paged_kv<page_size = 64, packed_queries = true>]}
