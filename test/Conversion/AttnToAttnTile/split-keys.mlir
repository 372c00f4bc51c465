// RUN: attn-opt %s --convert-attn-to-attn-tile --split-input-file | FileCheck %s

// Eight work items are wanted, and there are two: each becomes four, with a share of the keys.
// CHECK-LABEL: attn_tile.kernel @shared_kernel(
// CHECK-SAME:    %[[Q:.*]]: memref<1x2x16x64xf32>, %{{.*}}: memref<1x2x256x64xf32>, %{{.*}}: memref<1x2x256x64xf32>, %[[O:.*]]: memref<4x2x16x64xf32, strided<[2048, 1024, 64, 1]>>, %[[LSE:.*]]: memref<4x2x16xf32, strided<[32, 16, 1], offset: 8192>>)
// CHECK-DAG:     %[[N:.*]] = arith.constant 4 : index
// CHECK-DAG:     %[[ITEMS:.*]] = arith.constant 8 : index
// CHECK:         scf.forall (%[[B:.*]], %[[HP:.*]], %{{.*}}) in (%{{.*}}, %[[ITEMS]], %{{.*}})
// CHECK-DAG:       %[[PART:.*]] = arith.remui %[[HP]], %[[N]]
// CHECK-DAG:       %[[H:.*]] = arith.divui %[[HP]], %[[N]]
// CHECK:           %[[TILES:.*]], %{{.*}}, %{{.*}} = attn_tile.key_tiles at(%[[B]], %[[H]]) {{.*}} part(%[[PART]] of %[[N]])
// CHECK:           attn_tile.store %{{.*}}, %[[O]][%[[ENTRY:.*]], %[[H]], %{{.*}}, %{{.*}}]
// CHECK:           %[[EMPTY:.*]] = attn_tile.walk_is_empty %[[TILES]]
// CHECK:           %[[ADDEND:.*]] = arith.select %[[EMPTY]]
// CHECK:           vector.broadcast %[[ADDEND]]
// CHECK:           attn_tile.store %{{.*}}, %[[LSE]][%[[ENTRY]], %[[H]], %{{.*}}]
// CHECK-LABEL: attn_tile.kernel @shared_merge(
// CHECK-SAME:    %[[O:.*]]: memref<4x2x16x64xf32, strided<[2048, 1024, 64, 1]>>, %[[LSE:.*]]: memref<4x2x16xf32, strided<[32, 16, 1], offset: 8192>>, %[[OUT:.*]]: memref<1x2x16x64xf32>)
// CHECK:         scf.forall
// CHECK:           attn_tile.each
// CHECK-COUNT-4:     memref.load %[[LSE]]
// CHECK-NOT:       memref.load %[[LSE]]
// CHECK:           memref.store %{{.*}}, %[[OUT]]
// CHECK-LABEL: func @shared(
// CHECK:         %[[PARTS:.*]] = memref.alloc() : memref<8320xf32>
// CHECK-DAG:     %[[PO:.*]] = memref.reinterpret_cast %[[PARTS]] to offset: [0], sizes: [4, 2, 16, 64]
// CHECK-DAG:     %[[PL:.*]] = memref.reinterpret_cast %[[PARTS]] to offset: [8192], sizes: [4, 2, 16]
// CHECK:         attn_tile.launch @shared_kernel{{.*}}(%{{.*}}, %{{.*}}, %{{.*}}, %[[PO]], %[[PL]]
// CHECK-NEXT:    attn_tile.launch @shared_merge{{.*}}(%[[PO]], %[[PL]], %{{.*}}
// CHECK:         memref.dealloc %[[PARTS]]
func.func @shared(%q: memref<1x2x16x64xf32>, %k: memref<1x2x256x64xf32>, %o: memref<1x2x16x64xf32>) {
  attn.attention ins(%q, %k, %k : memref<1x2x16x64xf32>, memref<1x2x256x64xf32>, memref<1x2x256x64xf32>)
      outs(%o : memref<1x2x16x64xf32>)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64, split_items = 8>)
  return
}

// -----

// The number of shares is found out when the launches are made.
// CHECK-LABEL: attn_tile.kernel @dynamic_kernel(
// CHECK-SAME:    %[[N:[a-z0-9]*]]: index)
// CHECK:         part(%{{.*}} of %[[N]])
// CHECK-LABEL: attn_tile.kernel @dynamic_merge(
// CHECK-SAME:    %[[N:[a-z0-9]*]]: index)
// CHECK:         scf.for %{{.*}} = %{{.*}} to %[[N]]
// CHECK-LABEL: func @dynamic(
// CHECK:         arith.maxui
// CHECK:         attn_tile.launch @dynamic_kernel args({{.*}}, %[[SHARES:[0-9]+]] :
// CHECK:         attn_tile.launch @dynamic_merge args({{.*}}, %[[SHARES]] :
func.func @dynamic(%q: memref<?x2x?x64xf32>, %k: memref<?x2x?x64xf32>, %o: memref<?x2x?x64xf32>) {
  attn.attention ins(%q, %k, %k : memref<?x2x?x64xf32>, memref<?x2x?x64xf32>, memref<?x2x?x64xf32>)
      outs(%o : memref<?x2x?x64xf32>)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64, split_items = 8>)
  return
}

// -----

// There are enough work items already.
// CHECK-LABEL: attn_tile.kernel @enough_kernel(
// CHECK-NOT:   part(
// CHECK-NOT:   @enough_merge
func.func @enough(%q: memref<4x2x16x64xf32>, %k: memref<4x2x256x64xf32>, %o: memref<4x2x16x64xf32>) {
  attn.attention ins(%q, %k, %k : memref<4x2x16x64xf32>, memref<4x2x256x64xf32>, memref<4x2x256x64xf32>)
      outs(%o : memref<4x2x16x64xf32>)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64, split_items = 8>)
  return
}

// -----

// Query heads that share a key head are rows of one tile; masks and regions see the position of the
// one query.
// CHECK-LABEL: attn_tile.kernel @packed_kernel(
// CHECK-SAME:    memref<?x2x4x64xbf16>, %{{.*}}: memref<?x2x?x64xbf16>, %{{.*}}: memref<?x2x?x64xbf16>, %{{.*}}: memref<?x2x4x64xbf16>
// CHECK:         scf.forall (%{{.*}}, %{{.*}}, %{{.*}}) in (%{{.*}}, %{{.*}}, %{{.*}})
// CHECK:         attn_tile.key_tiles {{.*}} keep {
// CHECK:         attn_tile.map
// CHECK-NEXT:    ^bb0(%{{.*}}: f32, %{{.*}}: index, %[[H:.*]]: index, %[[R:.*]]: index, %{{.*}}: index):
// CHECK:           %[[FIRST:.*]] = arith.muli %[[H]], %{{.*}}
// CHECK:           %[[HEAD:.*]] = arith.addi %[[FIRST]], %[[R]]
// CHECK:           memref.load %{{.*}}[%[[HEAD]]]
// CHECK-LABEL: func @packed(
// CHECK:         memref.collapse_shape %{{.*}} {{\[\[}}0], [1, 2], [3]]
// CHECK:         memref.expand_shape %{{.*}} {{\[\[}}0], [1, 2], [3]]
func.func @packed(%q: memref<?x8x1x64xbf16>, %k: memref<?x2x?x64xbf16>, %o: memref<?x8x1x64xbf16>, %slopes: memref<8xf32>) {
  attn.attention ins(%q, %k, %k : memref<?x8x1x64xbf16>, memref<?x2x?x64xbf16>, memref<?x2x?x64xbf16>)
      outs(%o : memref<?x8x1x64xbf16>) mask(#attn.sliding_window<left = 100, right = 0>)
      schedule(#attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, pack_heads = true>)
      score {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %slope = memref.load %slopes[%h] : memref<8xf32>
        %r = arith.mulf %s, %slope : f32
        attn.yield %r : f32
      }
  return
}
