// RUN: attn-opt %s --convert-attn-to-attn-tile --canonicalize --cse --split-input-file | FileCheck %s

// A kernel evaluates the mask in tiles that are listed as masked. Its work items are words of all lanes of a warp: of
// 96 columns, a lane has 24 in each of two
// rows, which are two words; four work items share them. A row of tiles has a step even if none is masked,
// whose tile is the last one of its list.

#bits = #attn_tile.warp_specialized<query_tile = 128, key_tile = 96, stages = 2, consumers = 2, mask_bits = true>

// CHECK-LABEL: attn_tile.kernel @documents_bits(
// CHECK-SAME:      %[[LISTS:[a-z0-9]+]]: memref<?x1x?x?xi32>, %[[BITS:[a-z0-9]+]]: memref<?x1x?x?x512xi32>,
// CHECK-SAME:      %[[SQ:[a-z0-9]+]]: index, %[[SKV:[a-z0-9]+]]: index, %[[IDS:[a-z0-9]+]]: memref<?xi32>)
// CHECK:         scf.forall (%[[B:.*]], %[[TILE_ROW:.*]], %[[WORK_ITEM:.*]]) in (%{{.*}}, %{{.*}}, 64) {
// CHECK:           %[[WORD:.*]] = arith.divui %[[WORK_ITEM]], %c4
// CHECK:           %[[COUNT:.*]] = memref.load %[[LISTS]][%[[B]], %c0, %[[TILE_ROW]], %c0]
// CHECK:           %[[MASKED:.*]] = arith.index_cast %[[COUNT]]
// CHECK:           %[[FIRST_ROW:.*]] = arith.muli %[[TILE_ROW]], %c128
// CHECK:           %[[BLOCK:.*]] = arith.divui %[[WORD]], %c2
// CHECK:           %[[STEPS:.*]] = arith.maxsi %[[MASKED]], %c1
// CHECK:           %[[PART:.*]] = arith.remui %[[WORK_ITEM]], %c4
// CHECK:           scf.for %[[STEP:.*]] = %[[PART]] to %[[STEPS]] step %c4 {
// CHECK:             %[[IS_LISTED:.*]] = arith.cmpi slt, %[[STEP]], %[[MASKED]]
// CHECK:             %[[ENTRY:.*]] = arith.addi %[[STEP]], %c2
// CHECK:             %[[COLUMN:.*]] = arith.select %[[IS_LISTED]], %[[ENTRY]], %{{.*}}
// CHECK:             memref.load %[[LISTS]][%[[B]], %c0, %[[TILE_ROW]], %[[COLUMN]]]
// CHECK:             attn_tile.thread_for to(%c32)
// CHECK:             ^bb0(%[[LANE:.*]]: index):
// CHECK:               arith.divui %[[LANE]], %c4
// CHECK:               %[[SET:.*]] = scf.for %{{.*}} = %c0 to %c32 step %c8 iter_args(%{{.*}} = %c0_i32)
// CHECK:                 arith.divui %{{.*}}, %c24
// CHECK:                 memref.load %[[IDS]]
// CHECK:                 memref.load %[[IDS]]
// CHECK:                 arith.cmpi slt, %{{.*}}, %[[SKV]]
// CHECK-COUNT-7:         arith.select %{{.*}}, %{{.*}}, %c0_i32 : i32
// CHECK:                 arith.shli
// CHECK:               memref.store %[[SET]], %[[BITS]][%[[B]], %c0, %[[TILE_ROW]], %[[STEP]], %{{.*}}]
// CHECK-LABEL: attn_tile.kernel @documents_kernel(
// CHECK-SAME:      %[[WORDS:[a-z0-9]+]]: memref<?x1x?x?x512xi32>
// CHECK:           %[[ORDERED:.*]] = memref.load
// CHECK:           %[[ROW:.*]] = arith.index_cast %[[ORDERED]]
// CHECK:           scf.for %[[T:.*]] = %c0 to %count
// CHECK:             %[[TILE_BITS:.*]] = attn_tile.load_mask_bits %[[WORDS]][%{{.*}}, %c0, %[[ROW]], %[[T]]] : memref<?x1x?x?x512xi32> -> <128x96>
// CHECK:             %[[S:.*]] = vector.contract
// CHECK:             attn_tile.apply_mask_bits %[[S]] by %[[TILE_BITS]]
// CHECK-NOT:         attn_tile.mask
// CHECK-LABEL: func @documents
// CHECK:         attn_tile.launch @documents_order
// CHECK:         %[[STEP_COUNT:.*]] = arith.maxui %{{.*}}, %c1
// CHECK:         %[[ALLOC:.*]] = memref.alloc(%{{.*}}, %{{.*}}, %[[STEP_COUNT]]) : memref<?x1x?x?x512xi32>
// CHECK:         attn_tile.launch @documents_bits args(%{{.*}}, %[[ALLOC]],
// CHECK:         attn_tile.launch @documents_kernel
// CHECK:         memref.dealloc %[[ALLOC]]
func.func @documents(%q: memref<?x8x?x64xbf16>, %k: memref<?x2x?x64xbf16>, %ids: memref<?xi32>) {
  attn.attention ins(%q, %k, %k : memref<?x8x?x64xbf16>, memref<?x2x?x64xbf16>, memref<?x2x?x64xbf16>)
      outs(%q : memref<?x8x?x64xbf16>) mask(#attn.causal) schedule(#bits)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %m = memref.load %ids[%i] : memref<?xi32>
        %n = memref.load %ids[%j] : memref<?xi32>
        %same = arith.cmpi eq, %m, %n : i32
        attn.yield %same : i1
      }
  return
}

// -----

// A plan has the lists, and bits are of each call.

#bits = #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2, mask_bits = true>

// CHECK-LABEL: attn_tile.kernel @planned_bits(
// CHECK-SAME:      memref<?x1x?x?xi32, strided<[?, ?, ?, 1], offset: ?>>, %{{.*}}: memref<?x1x?x?x512xi32>
// CHECK-LABEL: func @planned
// CHECK-NOT:     attn_tile.launch @planned_lists
// CHECK:         attn_tile.launch @planned_bits
// CHECK:         attn_tile.launch @planned_kernel
func.func @planned(%q: memref<?x8x?x64xbf16>, %k: memref<?x2x?x64xbf16>, %ids: memref<?xi32>, %block_mask: memref<?x1x?x?xi32>) {
  attn.attention ins(%q, %k, %k : memref<?x8x?x64xbf16>, memref<?x2x?x64xbf16>, memref<?x2x?x64xbf16>)
      outs(%q : memref<?x8x?x64xbf16>) block_mask(%block_mask : memref<?x1x?x?xi32>) schedule(#bits)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %m = memref.load %ids[%i] : memref<?xi32>
        %n = memref.load %ids[%j] : memref<?xi32>
        %same = arith.cmpi eq, %m, %n : i32
        attn.yield %same : i1
      }
  return
}

// -----

// What depends on the head stays in the kernel.

#bits = #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2, mask_bits = true>

// CHECK-NOT:   mask_bits %
// CHECK-LABEL: attn_tile.kernel @heads_kernel(
// CHECK:         attn_tile.mask
// CHECK-LABEL: func @heads
// CHECK-NOT:     @heads_bits
func.func @heads(%q: memref<?x8x?x64xbf16>, %k: memref<?x2x?x64xbf16>, %ids: memref<8x?xi32>) {
  attn.attention ins(%q, %k, %k : memref<?x8x?x64xbf16>, memref<?x2x?x64xbf16>, memref<?x2x?x64xbf16>)
      outs(%q : memref<?x8x?x64xbf16>) schedule(#bits)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %m = memref.load %ids[%h, %i] : memref<8x?xi32>
        %n = memref.load %ids[%h, %j] : memref<8x?xi32>
        %same = arith.cmpi eq, %m, %n : i32
        attn.yield %same : i1
      }
  return
}
