// RUN: attn-opt %s --convert-attn-to-attn-tile --split-input-file | FileCheck %s

// Eight work items are wanted, and there are two: each becomes four, with a share of the keys.
// CHECK-LABEL: attn_tile.kernel @split_kernel(
// CHECK-SAME:    %[[Q:.*]]: memref<1x2x16x64xf32>, %{{.*}}: memref<1x2x256x64xf32>, %{{.*}}: memref<1x2x256x64xf32>,
// CHECK-SAME:    %[[O:.*]]: memref<4x2x16x64xf32, strided<[2048, 1024, 64, 1]>>, %[[MAX:.*]]: memref<4x2x16xf32, strided<[32, 16, 1], offset: 8192>>,
// CHECK-SAME:    %[[SUM:.*]]: memref<4x2x16xf32, strided<[32, 16, 1], offset: 8320>>)
// CHECK-DAG:     %[[N:.*]] = arith.constant 4 : index
// CHECK-DAG:     %[[WORK_ITEMS:.*]] = arith.constant 8 : index
// CHECK:         scf.forall (%[[B:.*]], %[[HP:.*]], %{{.*}}) in (%{{.*}}, %[[WORK_ITEMS]], %{{.*}})
// CHECK-DAG:       %[[PART:.*]] = arith.remui %[[HP]], %[[N]]
// CHECK-DAG:       %[[H:.*]] = arith.divui %[[HP]], %[[N]]
// CHECK:           %[[TILES:.*]], %{{.*}}, %{{.*}} = attn_tile.kv_tile_iterator at(%[[B]], %[[H]]) {{.*}} split(%[[PART]] of %[[N]])
// CHECK:           attn_tile.store %{{.*}}, %[[O]][%[[ENTRY:.*]], %[[H]], %{{.*}}, %{{.*}}]
// CHECK:           %[[EMPTY:.*]] = attn_tile.is_split_empty %[[TILES]]
// CHECK:           %[[ADDEND:.*]] = arith.select %[[EMPTY]]
// CHECK:           vector.broadcast %[[ADDEND]]
// CHECK:           attn_tile.store %{{.*}}, %[[MAX]][%[[ENTRY]], %[[H]], %{{.*}}]
// CHECK:           attn_tile.store %{{.*}}, %[[SUM]][%[[ENTRY]], %[[H]], %{{.*}}]
// CHECK-LABEL: attn_tile.kernel @split_combine(
// CHECK-SAME:    %[[O:.*]]: memref<4x2x16x64xf32, strided<[2048, 1024, 64, 1]>>, %[[MAX:.*]]: memref<4x2x16xf32, strided<[32, 16, 1], offset: 8192>>,
// CHECK-SAME:    %[[SUM:.*]]: memref<4x2x16xf32, strided<[32, 16, 1], offset: 8320>>, %[[OUT:.*]]: memref<1x2x16x64xf32>)
// CHECK:         scf.forall
// CHECK:           attn_tile.thread_for
// CHECK-COUNT-4:     memref.load %[[MAX]]
// CHECK-NOT:       memref.load %[[MAX]]
// CHECK:           memref.store %{{.*}}, %[[OUT]]
// CHECK-LABEL: func @split(
// CHECK:         %[[BUFFER:.*]] = memref.alloc() : memref<8448xf32>
// CHECK-DAG:     %[[PO:.*]] = memref.reinterpret_cast %[[BUFFER]] to offset: [0], sizes: [4, 2, 16, 64]
// CHECK-DAG:     %[[PL:.*]] = memref.reinterpret_cast %[[BUFFER]] to offset: [8192], sizes: [4, 2, 16]
// CHECK-DAG:     %[[PS:.*]] = memref.reinterpret_cast %[[BUFFER]] to offset: [8320], sizes: [4, 2, 16]
// CHECK:         attn_tile.launch @split_kernel{{.*}}(%{{.*}}, %{{.*}}, %{{.*}}, %[[PO]], %[[PL]], %[[PS]]
// CHECK-NEXT:    attn_tile.launch @split_combine{{.*}}(%[[PO]], %[[PL]], %[[PS]], %{{.*}}
// CHECK:         memref.dealloc %[[BUFFER]]
func.func @split(%q: memref<1x2x16x64xf32>, %k: memref<1x2x256x64xf32>, %o: memref<1x2x16x64xf32>) {
  attn.attention ins(%q, %k, %k : memref<1x2x16x64xf32>, memref<1x2x256x64xf32>, memref<1x2x256x64xf32>)
      outs(%o : memref<1x2x16x64xf32>)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64, split_kv_work_items = 8>)
  return
}

// -----

// The number of splits is computed when the launches are made.
// CHECK-LABEL: attn_tile.kernel @dynamic_kernel(
// CHECK-SAME:    %[[N:[a-z0-9]*]]: index)
// CHECK:         split(%{{.*}} of %[[N]])
// CHECK-LABEL: attn_tile.kernel @dynamic_combine(
// CHECK-SAME:    %[[N:[a-z0-9]*]]: index)
// CHECK:         scf.for %{{.*}} = %{{.*}} to %[[N]]
// CHECK-LABEL: func @dynamic(
// CHECK:         arith.maxui
// CHECK:         attn_tile.launch @dynamic_kernel args({{.*}}, %[[SPLITS:[0-9]+]] :
// CHECK:         attn_tile.launch @dynamic_combine args({{.*}}, %[[SPLITS]] :
func.func @dynamic(%q: memref<?x2x?x64xf32>, %k: memref<?x2x?x64xf32>, %o: memref<?x2x?x64xf32>) {
  attn.attention ins(%q, %k, %k : memref<?x2x?x64xf32>, memref<?x2x?x64xf32>, memref<?x2x?x64xf32>)
      outs(%o : memref<?x2x?x64xf32>)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64, split_kv_work_items = 8>)
  return
}

// -----

// There are enough work items already.
// CHECK-LABEL: attn_tile.kernel @enough_kernel(
// CHECK-NOT:   part(
// CHECK-NOT:   @enough_combine
func.func @enough(%q: memref<4x2x16x64xf32>, %k: memref<4x2x256x64xf32>, %o: memref<4x2x16x64xf32>) {
  attn.attention ins(%q, %k, %k : memref<4x2x16x64xf32>, memref<4x2x256x64xf32>, memref<4x2x256x64xf32>)
      outs(%o : memref<4x2x16x64xf32>)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64, split_kv_work_items = 8>)
  return
}

// -----

// Query heads that share a key head are rows of one tile; masks and regions see the position of the
// one query.
// CHECK-LABEL: attn_tile.kernel @packed_kernel(
// CHECK-SAME:    memref<?x2x4x64xbf16>, %{{.*}}: memref<?x2x?x64xbf16>, %{{.*}}: memref<?x2x?x64xbf16>, %{{.*}}: memref<?x2x4x64xbf16>
// CHECK:         scf.forall (%{{.*}}, %{{.*}}, %{{.*}}) in (%{{.*}}, %{{.*}}, %{{.*}})
// CHECK:         attn_tile.kv_tile_iterator {{.*}} mask_mod {
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
      schedule(#attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, pack_gqa = true>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %slope = memref.load %slopes[%h] : memref<8xf32>
        %r = arith.mulf %s, %slope : f32
        attn.yield %r : f32
      }
  return
}

// -----

// A sink counts even if the first split, which has it, is empty: the split then has the sink's maximum and sum.
// CHECK-LABEL: attn_tile.kernel @sinks_kernel(
// CHECK-SAME:    %[[SINKS:[a-z0-9]*]]: memref<2xf32>)
// CHECK:           %[[TILES:.*]], %{{.*}}, %{{.*}} = attn_tile.kv_tile_iterator
// CHECK:           %[[EMPTY:.*]] = attn_tile.is_split_empty %[[TILES]]
// CHECK:           arith.select %[[EMPTY]], %{{.*}}, %{{.*}} : vector<16x64xf32>
// CHECK:           %[[EMPTY:.*]] = attn_tile.is_split_empty %[[TILES]]
// CHECK:           memref.load %[[SINKS]]
// CHECK:           %[[MAX:.*]] = arith.select %[[EMPTY]]
// CHECK:           %[[SUM:.*]] = arith.select %[[EMPTY]]
// CHECK:           attn_tile.store %[[MAX]]
// CHECK:           attn_tile.store %[[SUM]]
func.func @sinks(%q: memref<1x2x16x64xf32>, %k: memref<1x2x256x64xf32>, %o: memref<1x2x16x64xf32>, %s: memref<2xf32>) {
  attn.attention ins(%q, %k, %k : memref<1x2x16x64xf32>, memref<1x2x256x64xf32>, memref<1x2x256x64xf32>)
      outs(%o : memref<1x2x16x64xf32>) sinks(%s : memref<2xf32>) mask(#attn.sliding_window<left = 8, right = 0>)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64, split_kv_work_items = 8>)
  return
}

// -----

// With several queries, row `r` of a key head is query `r / 4` of its query head `r % 4`. Queries go to registers, and
// results and sinks are viewed in the same way.
// CHECK-LABEL: attn_tile.kernel @several_kernel(
// CHECK-SAME:    %[[Q:[a-z0-9]*]]: memref<1x8x3x64xbf16>, %{{.*}}: memref<1x2x512x64xbf16>, %{{.*}}: memref<1x2x512x64xbf16>,
// CHECK-SAME:    %[[O:[a-z0-9]*]]: memref<8x8x3x64xf32,
// CHECK:         %[[PQ:.*]] = attn_tile.pack_gqa %[[Q]] : memref<1x8x3x64xbf16>
// CHECK-SAME:  to memref<1x2x12x64xbf16, #attn_tile.packed_gqa<rank = 4, rows = 2, group_size = 4>>
// CHECK:         %[[PO:.*]] = attn_tile.pack_gqa %[[O]]
// CHECK:         %[[PS:.*]] = attn_tile.pack_gqa %{{.*}} : memref<8xf32> to memref<2x12xf32, #attn_tile.packed_gqa<rank = 2, rows = 1, group_size = 4>>
// CHECK:         scf.forall
// CHECK:           attn_tile.load %[[PQ]][%{{.*}}, %[[H:.*]], %{{.*}}, %{{.*}}] : memref<1x2x12x64xbf16, #{{.*}}> -> vector<64x64xbf16>
// CHECK:           attn_tile.kv_tile_iterator {{.*}} mask_mod {
// CHECK-NEXT:      ^bb0(%{{.*}}: index, %{{.*}}: index, %[[ROW:.*]]: index, %{{.*}}: index):
// CHECK:             arith.divui %[[ROW]], %c4
// CHECK:           attn_tile.load %[[PS]][%[[H]], %{{.*}}] : memref<2x12xf32, #{{.*}}> -> vector<64xf32>
// CHECK:           attn_tile.store %{{.*}}, %[[PO]]
func.func @several(%q: memref<1x8x3x64xbf16>, %k: memref<1x2x512x64xbf16>, %o: memref<1x8x3x64xbf16>, %s: memref<8xf32>) {
  attn.attention ins(%q, %k, %k : memref<1x8x3x64xbf16>, memref<1x2x512x64xbf16>, memref<1x2x512x64xbf16>)
      outs(%o : memref<1x8x3x64xbf16>) sinks(%s : memref<8xf32>) mask(#attn.causal)
      schedule(#attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1,
          traversal = grid, split_kv_work_items = 132, pack_gqa = true>)
  return
}

// -----

// The epilogue is for the output of all keys: the kernel that combines the splits applies it.
// CHECK-LABEL: attn_tile.kernel @epilogue_kernel(
// CHECK-NOT:     math.absf
// CHECK-LABEL: attn_tile.kernel @epilogue_combine(
// CHECK-SAME:    %[[OUT:[a-z0-9]*]]: memref<1x4x16x64xbf16>, %[[SCALE:[a-z0-9]*]]: memref<?x4xf32>)
// CHECK-DAG:     %[[HALF:.*]] = arith.constant 5.000000e-01 : f32
// CHECK:         scf.forall (%[[B:.*]], %[[H:.*]], %{{.*}}) in
// CHECK:         attn_tile.thread_for
// CHECK:           %[[FACTOR:.*]] = memref.load %[[SCALE]][%[[B]], %[[H]]]
// CHECK:           %[[SCALED:.*]] = arith.mulf %{{.*}}, %[[FACTOR]] : f32
// CHECK:           %[[HALVED:.*]] = arith.mulf %[[SCALED]], %[[HALF]] : f32
// CHECK:           %[[MAPPED:.*]] = math.absf %[[HALVED]] : f32
// CHECK:           %[[ROUNDED:.*]] = arith.truncf %[[MAPPED]] : f32 to bf16
// CHECK:           memref.store %[[ROUNDED]], %[[OUT]]
func.func @epilogue(%q: memref<1x4x16x64xbf16>, %k: memref<1x2x256x64xbf16>, %o: memref<1x4x16x64xbf16>, %s: memref<?x4xf32>) {
  %half = arith.constant 0.5 : f32
  attn.attention ins(%q, %k, %k : memref<1x4x16x64xbf16>, memref<1x2x256x64xbf16>, memref<1x2x256x64xbf16>)
      outs(%o : memref<1x4x16x64xbf16>)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64, split_kv_work_items = 8>)
      epilogue {
      ^bb0(%x: f32, %b: index, %h: index, %i: index, %d: index):
        %f = memref.load %s[%b, %h] : memref<?x4xf32>
        %y = arith.mulf %x, %f : f32
        %z = arith.mulf %y, %half : f32
        %r = math.absf %z : f32
        attn.yield %r : f32
      }
  return
}

// -----

// With packed heads it sees the head and the query that a row stands for: row `r` of key head `h` is head `2 * h + r`.
// CHECK-LABEL: attn_tile.kernel @packed_epilogue_kernel(
// CHECK-LABEL: attn_tile.kernel @packed_epilogue_combine(
// CHECK-SAME:    %[[SCALE:[a-z0-9]*]]: memref<4xf32>)
// CHECK-DAG:     %[[TWO:.*]] = arith.constant 2 : index
// CHECK:         scf.forall (%{{.*}}, %[[H:.*]], %[[BLOCK:.*]]) in
// CHECK:         %[[ROW:.*]] = arith.divui %[[BLOCK]], %{{.*}}
// CHECK:         attn_tile.thread_for
// CHECK:           %[[FIRST:.*]] = arith.muli %[[H]], %[[TWO]]
// CHECK:           %[[HEAD:.*]] = arith.addi %[[FIRST]], %[[ROW]]
// CHECK:           memref.load %[[SCALE]][%[[HEAD]]]
func.func @packed_epilogue(%q: memref<1x4x1x64xbf16>, %k: memref<1x2x256x64xbf16>, %o: memref<1x4x1x64xbf16>, %s: memref<4xf32>) {
  attn.attention ins(%q, %k, %k : memref<1x4x1x64xbf16>, memref<1x2x256x64xbf16>, memref<1x2x256x64xbf16>)
      outs(%o : memref<1x4x1x64xbf16>)
      schedule(#attn_tile.sequential<query_tile = 2, key_tile = 64, split_kv_work_items = 8, pack_gqa = true>)
      epilogue {
      ^bb0(%x: f32, %b: index, %h: index, %i: index, %d: index):
        %f = memref.load %s[%h] : memref<4xf32>
        %y = arith.mulf %x, %f : f32
        attn.yield %y : f32
      }
  return
}

// -----

// A thread combines four elements of wide heads, of four splits at a time if there are no more, else of eight.

// CHECK-LABEL: attn_tile.kernel @wide_combine(
// CHECK-SAME:    %[[O:[a-z0-9]*]]: memref<?x2x?x512xf32
// CHECK:         attn_tile.thread_for to(%c32)
// CHECK:           %[[FEW:.*]] = arith.cmpi ule, %{{.*}}, %c4
// CHECK:           scf.if %[[FEW]]
// CHECK-COUNT-16:    memref.load %[[O]]
// CHECK-NOT:         memref.load %[[O]]
// CHECK:           } else {
// CHECK:             scf.for %{{.*}} = %{{.*}} to %{{.*}} step %c8
// CHECK-COUNT-32:      memref.load %[[O]]
// CHECK-NOT:           memref.load %[[O]]
// CHECK-COUNT-4:   memref.store
// CHECK-LABEL: func.func @wide(
func.func @wide(%q: memref<?x2x?x512xbf16>, %k: memref<?x2x?x512xbf16>, %o: memref<?x2x?x512xbf16>) {
  attn.attention ins(%q, %k, %k : memref<?x2x?x512xbf16>, memref<?x2x?x512xbf16>, memref<?x2x?x512xbf16>)
      outs(%o : memref<?x2x?x512xbf16>)
      schedule(#attn_tile.warp_specialized<query_tile = 64, key_tile = 32, stages = 2, consumers = 1,
          split_kv_work_items = 132, head_dim_tile = 256>)
  return
}
