// RUN: attn-opt %s --convert-attn-to-attn-tile=target=sm_90a --canonicalize --cse --split-input-file | FileCheck %s

// With balanced splits, the number of splits of each batch entry and their ranges of keys follow from the lengths on the
// device: a kernel lists the splits, and a work item takes its batch entry, its split and the number of splits of its
// query tile from the list. The launches depend on the sizes of tensors alone. 2 * 132 work items for 2 heads are 132
// for each, in addition to one for each entry, and one more.

// CHECK-LABEL: attn_tile.kernel @decode_work_items
// CHECK-SAME: (%[[N:[a-z0-9_]+]]: memref<?xi32>, %[[LIST:[a-z0-9_]+]]: memref<?x8xi32>, %[[FAULT:[a-z0-9_]+]]: memref<1xi32>,
// CHECK-DAG: %[[WANTED:.*]] = arith.constant 132 : index
// CHECK-DAG: %[[LAST:.*]] = arith.constant 131 : index
// CHECK-DAG: %[[C6:.*]] = arith.constant 6 : index
// CHECK-DAG: %[[C7:.*]] = arith.constant 7 : index
// CHECK: scf.forall
// All kv tiles, over the number of work items, are the kv tiles of a split.
// CHECK: %[[SUMS:.*]]:6 = attn_tile.reduce
// CHECK: memref.load %[[N]]
// CHECK: %[[ROUNDED:.*]] = arith.addi %[[SUMS]]#5, %[[LAST]]
// CHECK: %[[TILES:.*]] = arith.divui %[[ROUNDED]], %[[WANTED]]
// CHECK: %[[OF_SPLIT:.*]] = arith.maxui %[[TILES]]
// The kv tiles of an entry over that number, rounded, are its splits.
// CHECK: %[[HALF:.*]] = arith.divui %[[OF_SPLIT]]
// CHECK: %[[OWN:.*]] = arith.addi %{{.*}}, %[[HALF]]
// CHECK: %[[QUOTIENT:.*]] = arith.divui %[[OWN]], %[[OF_SPLIT]]
// CHECK: %[[SPLITS:.*]] = arith.maxui %[[QUOTIENT]]
// CHECK: attn_tile.reduce
// CHECK: attn_tile.thread_for
// CHECK: arith.divui %{{.*}}, %[[SPLITS]]
// CHECK: %[[SPLIT:.*]] = arith.remui %{{.*}}, %[[SPLITS]]
// CHECK: %[[SPLIT32:.*]] = arith.index_cast %[[SPLIT]]
// CHECK: memref.store %[[SPLIT32]], %[[LIST]][%{{.*}}, %[[C6]]]
// CHECK: %[[SPLITS32:.*]] = arith.index_cast %[[SPLITS]]
// CHECK: memref.store %[[SPLITS32]], %[[LIST]][%{{.*}}, %[[C7]]]

// CHECK-LABEL: attn_tile.kernel @decode_kernel
// CHECK: scf.forall (%[[HEAD:[a-z0-9_]+]], %[[ITEM:[a-z0-9_]+]]) in (2, %{{.*}})
// CHECK: %[[B32:.*]] = memref.load %[[WORK:[a-z0-9_]+]][%[[ROW:.*]], %c0]
// CHECK: %[[B:.*]] = arith.index_cast %[[B32]]
// CHECK: %[[P32:.*]] = memref.load %[[WORK]][%[[ROW]], %c6]
// CHECK: %[[P:.*]] = arith.index_cast %[[P32]]
// CHECK: %[[S32:.*]] = memref.load %[[WORK]][%[[ROW]], %c7]
// CHECK: %[[S:.*]] = arith.index_cast %[[S32]]
// CHECK: attn_tile.kv_tile_iterator at(%[[B]], %[[HEAD]]) {{.*}} split(%[[P]] of %[[S]])
// Each work item has an entry of its own in the buffers, with the rows of its tile.
// CHECK: attn_tile.store %{{.*}}, %{{.*}}[%[[ITEM]], %[[HEAD]], %c0, %c0] within({{.*}}) : vector<64x128xf32>, memref<?x2x4x128xf32

// The first split of a query tile combines all of them.

// CHECK-LABEL: attn_tile.kernel @decode_combine
// CHECK: scf.forall (%{{.*}}, %[[FIRST:[a-z0-9_]+]]) in (32, %{{.*}})
// CHECK: %[[P32:.*]] = memref.load %{{.*}}[%{{.*}}, %c6]
// CHECK: %[[P:.*]] = arith.index_cast %[[P32]]
// CHECK: %[[S32:.*]] = memref.load %{{.*}}[%{{.*}}, %c7]
// CHECK: %[[S:.*]] = arith.index_cast %[[S32]]
// CHECK: arith.cmpi eq, %[[P]], %c0
// CHECK: scf.for %[[I:.*]] = %c0 to %[[S]] step %c4
// CHECK: arith.addi %[[FIRST]]

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
