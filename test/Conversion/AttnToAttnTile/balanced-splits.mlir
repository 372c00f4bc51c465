// RUN: attn-opt %s --convert-attn-to-attn-tile=target=sm_90a --canonicalize --cse --split-input-file | FileCheck %s

// With balanced splits, the number of splits of each batch entry and their ranges of keys follow from the lengths on the
// device: a kernel lists the splits, and a work item takes its batch entry, its split and the number of splits of its
// query tile from the list. The launches depend on the sizes of tensors alone. 4 * 132 work items for 2 heads are 264
// for each, in addition to one for each entry, and one more; half as many if splits have less than 64 tiles. At most 176
// tiles have several splits, 352 in all. They are listed, too.

// CHECK-LABEL: attn_tile.kernel @decode_work_items
// CHECK-SAME: (%[[N:[a-z0-9_]+]]: memref<?xi32>, %[[LIST:[a-z0-9_]+]]: memref<?x9xi32>, %[[SPLIT_TILES:[a-z0-9_]+]]: memref<177xi32>,
// CHECK-SAME: %[[FAULT:[a-z0-9_]+]]: memref<1xi32>,
// CHECK-DAG: %[[WANTED:.*]] = arith.constant 264 : index
// CHECK-DAG: %[[LAST:.*]] = arith.constant 263 : index
// CHECK-DAG: %[[HALF_WANTED:.*]] = arith.constant 132 : index
// CHECK-DAG: %[[C6:.*]] = arith.constant 6 : index
// CHECK-DAG: %[[C7:.*]] = arith.constant 7 : index
// CHECK-DAG: %[[C8:.*]] = arith.constant 8 : index
// CHECK: scf.forall
// All kv tiles, over the number of work items, are the kv tiles of a split.
// CHECK: %[[SUMS:.*]]:6 = attn_tile.reduce
// CHECK: memref.load %[[N]]
// CHECK: %[[OF_HALF:.*]] = arith.divui %{{.*}}, %[[HALF_WANTED]]
// CHECK: %[[FEW:.*]] = arith.minui %[[OF_HALF]], %{{.*}}
// CHECK: %[[ROUNDED:.*]] = arith.addi %[[SUMS]]#5, %[[LAST]]
// CHECK: %[[TILES:.*]] = arith.divui %[[ROUNDED]], %[[WANTED]]
// CHECK: %[[LARGER:.*]] = arith.maxui %[[TILES]], %[[FEW]]
// CHECK: %[[OF_SPLIT:.*]] = arith.maxui %[[LARGER]]
// The kv tiles of an entry over that number, rounded, are its splits.
// CHECK: %[[HALF:.*]] = arith.divui %[[OF_SPLIT]]
// CHECK: %[[OWN:.*]] = arith.addi %{{.*}}, %[[HALF]]
// CHECK: %[[QUOTIENT:.*]] = arith.divui %[[OWN]], %[[OF_SPLIT]]
// CHECK: %[[SPLITS:.*]] = arith.maxui %[[QUOTIENT]]
// Work items, split tiles and their splits that come before, and work items and split tiles of all entries.
// CHECK: %[[PLACES:.*]]:5 = attn_tile.reduce
// CHECK: %[[IS_SPLIT:.*]] = arith.cmpi ne, %[[SPLITS]]
// CHECK: attn_tile.thread_for
// CHECK: %[[TILE:.*]] = arith.divui %{{.*}}, %[[SPLITS]]
// CHECK: %[[SPLIT:.*]] = arith.remui %{{.*}}, %[[SPLITS]]
// CHECK: %[[ITEM:.*]] = arith.addi %[[PLACES]]#0
// CHECK: %[[PART:.*]] = arith.addi %[[PLACES]]#2
// CHECK: %[[SPLIT32:.*]] = arith.index_cast %[[SPLIT]]
// CHECK: memref.store %[[SPLIT32]], %[[LIST]][%{{.*}}, %[[C6]]]
// CHECK: %[[SPLITS32:.*]] = arith.index_cast %[[SPLITS]]
// CHECK: memref.store %[[SPLITS32]], %[[LIST]][%{{.*}}, %[[C7]]]
// CHECK: %[[PART32:.*]] = arith.index_cast %[[PART]]
// CHECK: memref.store %[[PART32]], %[[LIST]][%{{.*}}, %[[C8]]]
// CHECK: %[[IS_FIRST:.*]] = arith.andi %[[IS_SPLIT]]
// CHECK: scf.if %[[IS_FIRST]] {
// CHECK: %[[PLACE:.*]] = arith.addi %[[PLACES]]#1, %[[TILE]]
// CHECK: %[[ITEM32:.*]] = arith.index_cast %[[ITEM]]
// CHECK: memref.store %[[ITEM32]], %[[SPLIT_TILES]]
// CHECK: memref.store %{{.*}}, %[[LIST]]
// CHECK: memref.store %{{.*}}, %[[SPLIT_TILES]]

// CHECK-LABEL: attn_tile.kernel @decode_kernel
// CHECK: scf.forall (%[[HEAD:[a-z0-9_]+]], %[[ITEM:[a-z0-9_]+]]) in (2, %{{.*}})
// CHECK: %[[B32:.*]] = memref.load %[[WORK:[a-z0-9_]+]][%[[ROW:.*]], %c0]
// CHECK: %[[B:.*]] = arith.index_cast %[[B32]]
// CHECK: %[[P32:.*]] = memref.load %[[WORK]][%[[ROW]], %c6]
// CHECK: %[[P:.*]] = arith.index_cast %[[P32]]
// CHECK: %[[S32:.*]] = memref.load %[[WORK]][%[[ROW]], %c7]
// CHECK: %[[S:.*]] = arith.index_cast %[[S32]]
// CHECK: attn_tile.kv_tile_iterator at(%[[B]], %[[HEAD]]) {{.*}} split(%[[P]] of %[[S]])
// CHECK: scf.for
// A tile with one split is stored to the output. Otherwise each split has an entry of its own in the buffers, with the rows
// of its tile.
// CHECK: %[[WHOLE:.*]] = arith.cmpi eq, %[[S]], %c1
// CHECK: scf.if %[[WHOLE]] {
// CHECK: attn_tile.store %{{.*}}, %{{.*}}[%[[B]], %[[HEAD]], %{{.*}}, %c0] within({{.*}}) : vector<64x128xbf16>, memref<?x2x4x128xbf16>
// CHECK: } else {
// CHECK: %[[ENTRY:.*]] = arith.addi %{{.*}}, %[[P]]
// CHECK: attn_tile.store %{{.*}}, %{{.*}}[%[[ENTRY]], %[[HEAD]], %c0, %c0] within({{.*}}) : vector<64x128xf32>, memref<352x2x4x128xf32

// A work item of the kernel that combines splits has four rows of one head of a tile, of which each warp has one.

// CHECK-LABEL: attn_tile.kernel @decode_combine
// CHECK-SAME: attributes {schedule = #attn_tile.scalar<warps = 4>}
// CHECK: %[[COUNT32:.*]] = memref.load %[[SPLIT_TILES:[a-z0-9_]+]][%c0]
// CHECK: %[[COUNT:.*]] = arith.index_cast %[[COUNT32]]
// CHECK: %[[BOUND:.*]] = attn_tile.assume_upper_bound %[[COUNT]], %c176
// CHECK: scf.forall (%{{.*}}, %[[TILE:[a-z0-9_]+]]) in (2, %[[BOUND]])
// CHECK: %[[NEXT:.*]] = arith.addi %[[TILE]], %c1
// CHECK: %[[ITEM32:.*]] = memref.load %[[SPLIT_TILES]][%[[NEXT]]]
// CHECK: %[[S32:.*]] = memref.load %{{.*}}[%{{.*}}, %c7]
// CHECK: %[[S:.*]] = arith.index_cast %[[S32]]
// CHECK: %[[PART32:.*]] = memref.load %{{.*}}[%{{.*}}, %c8]
// CHECK: %[[PART:.*]] = arith.index_cast %[[PART32]]
// CHECK: attn_tile.thread_for to(%c128)
// CHECK: arith.divui %{{.*}}, %c32
// CHECK: arith.remui %{{.*}}, %c32
// CHECK: scf.if
// CHECK: scf.for %[[I:.*]] = %c0 to %[[S]] step %c4
// CHECK: arith.addi %[[PART]]

// CHECK-LABEL: func.func @decode(
// CHECK-SAME: %[[Q:[a-z0-9_]+]]: memref<?x8x1x128xbf16>
// CHECK: memref.alloc
// CHECK: attn_tile.launch @decode_work_items
// CHECK: attn_tile.launch @decode_kernel
// CHECK: attn_tile.launch @decode_combine
func.func @decode(%q: memref<?x8x1x128xbf16>, %k: memref<?x2x16x128xbf16>, %o: memref<?x8x1x128xbf16>,
                  %n: memref<?xi32>, %t: memref<?x?xi32>) {
  attn.attention ins(%q, %k, %k : memref<?x8x1x128xbf16>, memref<?x2x16x128xbf16>, memref<?x2x16x128xbf16>)
      outs(%o : memref<?x8x1x128xbf16>) key_lengths(%n : memref<?xi32>) page_table(%t : memref<?x?xi32>)
      schedule(#attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, traversal = grid,
               split_kv_work_items = 132, pack_gqa = true, balance_splits = true>)
  return
}

// -----

// Packed queries: rows of keys are positions, in the batch entry of the sequence.

// CHECK-LABEL: attn_tile.kernel @chunks_kernel
// CHECK: scf.forall (%[[HEAD:[a-z0-9_]+]], %{{.*}}) in (4, %{{.*}})
// CHECK: %[[B32:.*]] = memref.load %[[WORK:[a-z0-9_]+]][%[[ROW:.*]], %c0]
// CHECK: %[[B:.*]] = arith.index_cast %[[B32]]
// CHECK: %[[QROW32:.*]] = memref.load %[[WORK]][%[[ROW]], %c4]
// CHECK: %[[QROW:.*]] = arith.index_cast %[[QROW32]]
// CHECK: attn_tile.load %{{[a-z0-9_]+}}[%c0, %[[HEAD]], %[[QROW]], %c0]
// CHECK: %[[TILE:.*]] = attn_tile.kv_tile_at
// CHECK: %[[KEY:.*]] = arith.muli %[[TILE]]
// CHECK: attn_tile.load %{{[a-z0-9_]+}}[%[[B]], %{{.*}}, %[[KEY]], %c0]
func.func @chunks(%q: memref<1x4x?x64xf16>, %k: memref<?x2x?x64xf16>, %o: memref<1x4x?x64xf16>, %c: memref<?xi32>,
                  %n: memref<?xi32>) {
  attn.attention ins(%q, %k, %k : memref<1x4x?x64xf16>, memref<?x2x?x64xf16>, memref<?x2x?x64xf16>)
      outs(%o : memref<1x4x?x64xf16>) sequences packed_queries(%c, %n : memref<?xi32>, memref<?xi32>) mask(#attn.causal)
      schedule(#attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>)
  return
}

// -----

// Query heads as rows of tiles: a sequence has as many rows as queries times heads of a group. The mask finds the query of
// a row, and the numbers of queries and keys of its sequence.

// CHECK-LABEL: attn_tile.kernel @rows_work_items
// CHECK: attn_tile.reduce
// CHECK: %[[BEGIN:.*]] = arith.muli %{{.*}}, %c3
// CHECK: %[[LENGTH:.*]] = arith.muli %{{.*}}, %c3
// CHECK-LABEL: attn_tile.kernel @rows_kernel
// CHECK: %[[Q:.*]] = attn_tile.pack_gqa %{{.*}} : memref<1x6x?x64xf16> to memref<1x2x?x64xf16, #attn_tile.packed_gqa<rank = 4, rows = 2, group_size = 3>>
// CHECK: %[[O:.*]] = attn_tile.pack_gqa %{{.*}} : memref<1x6x?x64xf16> to memref<1x2x?x64xf16,
// CHECK: scf.forall (%[[HEAD:[a-z0-9_]+]], %{{.*}}) in (2, %{{.*}})
// CHECK: %[[QROW32:.*]] = memref.load %[[WORK:[a-z0-9_]+]][%{{.*}}, %c4]
// CHECK: %[[QROW:.*]] = arith.index_cast %[[QROW32]]
// CHECK: attn_tile.load %[[Q]][%c0, %[[HEAD]], %[[QROW]], %c0]
// CHECK: attn_tile.mask
// CHECK: ^bb0(%[[S:.*]]: index, %{{.*}}: index, %[[I:.*]]: index, %{{.*}}: index):
// CHECK: arith.divui %[[I]], %c3
// CHECK: memref.load %{{.*}}[%[[S]]] : memref<?xi32>
// CHECK: attn_tile.store %{{.*}}, %[[O]][%c0, %[[HEAD]], %[[QROW]], %c0] within(
func.func @rows(%q: memref<1x6x?x64xf16>, %k: memref<?x2x?x64xf16>, %o: memref<1x6x?x64xf16>, %c: memref<?xi32>, %n: memref<?xi32>) {
  attn.attention ins(%q, %k, %k : memref<1x6x?x64xf16>, memref<?x2x?x64xf16>, memref<?x2x?x64xf16>)
      outs(%o : memref<1x6x?x64xf16>) sequences packed_queries(%c, %n : memref<?xi32>, memref<?xi32>) mask(#attn.causal)
      schedule(#attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2, pack_gqa = true>)
  return
}

// -----

// With splits and sinks. All rows of a head have one sink. The combine kernel finds the query and the head of a row.

// CHECK-LABEL: attn_tile.kernel @sinks_kernel
// CHECK: attn_tile.pack_gqa %{{.*}} : memref<6xf32> to memref<2x?xf32, #attn_tile.packed_gqa<rank = 2, rows = 1, group_size = 3>>
// CHECK-LABEL: attn_tile.kernel @sinks_combine
// CHECK-SAME: attributes {schedule = #attn_tile.scalar<warps = 4>}
// CHECK: %[[HEAD:.*]] = arith.divui %{{.*}}, %c16
// CHECK: scf.if
// CHECK: %[[ROW:.*]] = arith.addi
// CHECK-DAG: %[[FIRST:.*]] = arith.muli %[[HEAD]], %c3
// CHECK-DAG: %[[IN_GROUP:.*]] = arith.remui %[[ROW]], %c3
// CHECK-DAG: %[[OUT_HEAD:.*]] = arith.addi %[[FIRST]], %[[IN_GROUP]]
// CHECK-DAG: %[[QUERY:.*]] = arith.divui %[[ROW]], %c3
// CHECK: memref.store %{{.*}}, %{{.*}}[%c0, %[[OUT_HEAD]], %[[QUERY]], %{{.*}}] : memref<1x6x?x64xf16>
func.func @sinks(%q: memref<1x6x?x64xf16>, %k: memref<?x2x?x64xf16>, %o: memref<1x6x?x64xf16>, %c: memref<?xi32>, %n: memref<?xi32>,
                 %s: memref<6xf32>) {
  attn.attention ins(%q, %k, %k : memref<1x6x?x64xf16>, memref<?x2x?x64xf16>, memref<?x2x?x64xf16>)
      outs(%o : memref<1x6x?x64xf16>) sinks(%s : memref<6xf32>)
      sequences packed_queries(%c, %n : memref<?xi32>, memref<?xi32>)
      schedule(#attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, traversal = grid,
               split_kv_work_items = 132, pack_gqa = true>)
  return
}
