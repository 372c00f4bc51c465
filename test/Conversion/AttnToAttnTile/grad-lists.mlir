// RUN: attn-opt %s --convert-attn-to-attn-tile=target=sm_90a --canonicalize --cse --split-input-file | FileCheck %s --check-prefixes=CHECK,H200
// RUN: attn-opt %s --convert-attn-to-attn-tile=target=sm_80 --canonicalize --cse --split-input-file | FileCheck %s --check-prefixes=CHECK,A100

// Kernels of gradients visit the tiles that lists name. Rows of keys that depend on the head have the tiles of all heads
// that share the keys.

#tile = #attn_tile.sequential<query_tile = 32, key_tile = 64>

// CHECK-LABEL: attn_tile.kernel @heads_classes_dkdv(%{{.*}}: memref<?x8x?x?xi32>,
// CHECK-LABEL: attn_tile.kernel @heads_lists_dkdv(
// CHECK-SAME:      %[[CLASSES:.*]]: memref<?x8x?x?xi32>, %{{.*}}: memref<?x2x?x?xi32>)
// CHECK:         scf.forall (%{{.*}}, %[[KEY_HEAD:.*]], %[[ROW:.*]]) in
// CHECK:           %[[TILES:.*]] = memref.dim %[[CLASSES]], %c2
// CHECK:           attn_tile.warp_compact
// CHECK:             %[[MEMBER:.*]] = arith.divui %{{.*}}, %[[TILES]]
// CHECK:             %[[HEAD:.*]] = arith.addi %{{.*}}, %[[MEMBER]]
// CHECK:             memref.load %[[CLASSES]][%{{.*}}, %[[HEAD]], %{{.*}}, %[[ROW]]]
// CHECK-LABEL: attn_tile.kernel @heads_order_dkdv(
// CHECK-LABEL: attn_tile.kernel @heads_grad_dkdv_kernel
// CHECK-SAME:      %[[LISTS:[a-z0-9]+]]: memref<?x2x?x?xi32>, %[[ORDER:[a-z0-9]+]]: memref<?x2x?xi32>
// CHECK:         scf.forall (%[[B:.*]], %[[HK:.*]], %[[I:.*]]) in
// CHECK:           memref.load %[[ORDER]][%[[B]], %[[HK]], %[[I]]]
// CHECK:           memref.load %[[LISTS]][%[[B]], %[[HK]], %[[TILE:.*]], %c0]
// CHECK:           memref.load %[[LISTS]][%[[B]], %[[HK]], %[[TILE]], %c1]
// CHECK:           scf.for %[[STEP:.*]] =
// CHECK:             %[[WORD:.*]] = memref.load %[[LISTS]]
// CHECK:             %[[ENTRY:.*]] = arith.index_cast %[[WORD]]
// CHECK:             arith.divui %[[ENTRY]]
// CHECK:             arith.remui %[[ENTRY]]
// CHECK:             %[[MASK:.*]] = attn_tile.mask %cst
// CHECK:             vector.contract {{.*}} %[[MASK]]
// CHECK:           scf.for
// CHECK:             %[[FULL:.*]] = memref.load %[[LISTS]]
// CHECK-NOT:         attn_tile.mask
// CHECK:             scf.yield
// CHECK-LABEL: attn_tile.kernel @heads_lists_dq(
// CHECK-LABEL: attn_tile.kernel @heads_grad_dq_kernel
// CHECK:           attn_tile.kv_tile_iterator {{.*}} listed(%{{.*}}[%{{.*}}] : memref<?x8x?x?xi32>)
// CHECK-LABEL: func @heads
// CHECK:         attn_tile.launch @heads_order_dkdv
// CHECK:         attn_tile.launch @heads_grad_dkdv_kernel
// CHECK:         attn_tile.launch @heads_order_dq
// CHECK:         attn_tile.launch @heads_grad_dq_kernel
func.func @heads(%q: memref<?x8x?x64xf32>, %k: memref<?x2x?x64xf32>, %lse: memref<?x8x?xf32>, %ids: memref<8x?xi32>) {
  attn.attention_grad ins(%q, %k, %k, %q, %lse, %q : memref<?x8x?x64xf32>, memref<?x2x?x64xf32>,
          memref<?x2x?x64xf32>, memref<?x8x?x64xf32>, memref<?x8x?xf32>, memref<?x8x?x64xf32>)
      outs(%q, %k, %k : memref<?x8x?x64xf32>, memref<?x2x?x64xf32>, memref<?x2x?x64xf32>)
      schedule(#attn_tile.gradient<preprocess = #tile, dkdv = #tile, dq = #tile>)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %m = memref.load %ids[%h, %i] : memref<8x?xi32>
        %n = memref.load %ids[%h, %j] : memref<8x?xi32>
        %same = arith.cmpi eq, %m, %n : i32
        attn.yield %same : i1
      }
  return
}

// -----

// Lists that all heads share are walked over for all of them, one head after another in each tile: the masked tiles, then the full ones, the last queries
// first. Rows of all heads have one order: first classes of rows whose lists end with the same eight tiles, those with long lists first, and in a class one
// head after the other if what follows is enough for all CTAs while one is at the longest list.

#tile = #attn_tile.sequential<query_tile = 32, key_tile = 64>

// CHECK-LABEL: attn_tile.kernel @shared_row_classes_dkdv(
// CHECK-SAME:      %[[LISTS:.*]]: memref<?x1x?x?xi32>, %[[ROWS:.*]]: memref<?x1x?x4xi32>)
// CHECK:         scf.forall (%[[B:.*]], %[[ROW:.*]]) in
// CHECK:           memref.load %[[LISTS]][%[[B]], %c0, %[[ROW]], %c0]
// CHECK:           memref.load %[[LISTS]][%[[B]], %c0, %[[ROW]], %c1]
// CHECK:           %[[CLASS:.*]] = arith.divui %{{.*}}, %c8
// CHECK:           %[[FOUND:.*]]:3 = attn_tile.reduce {{.*}} by [#vector.kind<maxsi>, #vector.kind<add>, #vector.kind<add>]
// CHECK:             %[[OTHER:.*]] = arith.divui %{{.*}}, %c8
// CHECK:             %[[SAME:.*]] = arith.cmpi eq, %[[OTHER]], %[[CLASS]]
// CHECK:             %[[LENGTH:.*]] = arith.select %[[SAME]]
// CHECK:             attn_tile.yield %[[LENGTH]], %{{.*}}, %[[LENGTH]]
// CHECK:           memref.store %{{.*}}, %[[ROWS]][%[[B]], %c0, %[[ROW]], %c0]
// CHECK:           memref.store %{{.*}}, %[[ROWS]][%[[B]], %c0, %[[ROW]], %c3]
// CHECK-LABEL: attn_tile.kernel @shared_order_dkdv(
// CHECK-SAME:      %{{.*}}: memref<?x1x?x?xi32>, %[[ROWS:.*]]: memref<?x1x?x4xi32>, %[[ORDER:.*]]: memref<?x1x?xi32>)
// CHECK:         %[[NUM_ROWS:.*]] = memref.dim %[[ROWS]], %c2
// CHECK:         scf.forall (%[[B:.*]], %[[ROW:.*]]) in
// CHECK:           %[[LONGEST_WORD:.*]] = memref.load %[[ROWS]][%[[B]], %c0, %[[ROW]], %c1]
// CHECK:           %[[LONGEST:.*]] = arith.index_cast %[[LONGEST_WORD]]
// CHECK:           %[[SUMS:.*]]:3 = attn_tile.reduce
// CHECK:           %[[WORK_ITEMS:.*]] = memref.dim %[[ORDER]], %c2
// CHECK:           %[[HEADS:.*]] = arith.divui %[[WORK_ITEMS]], %[[NUM_ROWS]]
// H200:            %[[STEPS:.*]] = arith.muli %[[LONGEST]], %c132
// A100:            %[[STEPS:.*]] = arith.muli %[[LONGEST]], %c108
// CHECK:           arith.minui %[[SUMS]]#2, %[[STEPS]]
// CHECK:           %[[END:.*]] = arith.subi %[[WORK_ITEMS]], %c1
// CHECK:           %[[BEFORE:.*]] = arith.muli %[[SUMS]]#0, %[[HEADS]]
// CHECK:           attn_tile.thread_for to(%[[HEADS]])
// CHECK:             %[[ENTRY:.*]] = arith.addi %{{.*}}, %[[ROW]]
// CHECK:             %[[PLACE:.*]] = arith.subi %[[END]]
// CHECK:             memref.store %{{.*}}, %[[ORDER]][%[[B]], %c0, %[[PLACE]]]
// CHECK-LABEL: attn_tile.kernel @shared_grad_dkdv_kernel
// CHECK-SAME:      %[[LISTS:[a-z0-9]+]]: memref<?x1x?x?xi32>, %[[ORDER:[a-z0-9]+]]: memref<?x1x?xi32>
// CHECK:         %[[TILES:.*]] = arith.divui %{{.*}}, %c64
// CHECK:         %[[ALL:.*]] = arith.muli %[[TILES]], %c2
// CHECK:         scf.forall (%[[B:.*]], %[[I:.*]]) in (%{{.*}}, %[[ALL]])
// CHECK:           %[[NUMBER_WORD:.*]] = memref.load %[[ORDER]][%[[B]], %c0, %[[I]]]
// CHECK:           %[[NUMBER:.*]] = arith.index_cast %[[NUMBER_WORD]]
// CHECK:           %[[HEAD:.*]] = arith.divui %[[NUMBER]], %[[TILES]]
// CHECK:           %[[TILE:.*]] = arith.remui %[[NUMBER]], %[[TILES]]
// CHECK:           attn_tile.load %{{.*}}[%[[B]], %[[HEAD]]
// CHECK:           %[[WORD:.*]] = memref.load %[[LISTS]][%[[B]], %c0, %[[TILE]], %c0]
// CHECK:           %[[MASKED:.*]] = arith.index_cast %[[WORD]]
// CHECK:           %[[WORD1:.*]] = memref.load %[[LISTS]][%{{.*}}, %c0, %{{.*}}, %c1]
// CHECK:           %[[COUNT:.*]] = arith.index_cast %[[WORD1]]
// CHECK:           %[[TOTAL:.*]] = arith.muli %[[COUNT]], %c4
// CHECK:           %[[ALL_MASKED:.*]] = arith.muli %[[MASKED]], %c4
// CHECK:           scf.for %[[STEP:.*]] = %c0 to %[[ALL_MASKED]]
// CHECK:             arith.remui %[[STEP]], %c4
// CHECK:             arith.divui %[[STEP]], %c4
// CHECK:             attn_tile.mask
// CHECK:           scf.for %[[LATE:.*]] = %[[ALL_MASKED]] to %[[TOTAL]]
// CHECK:             %[[ORDINAL:.*]] = arith.subi %[[LATE]], %[[ALL_MASKED]]
// CHECK:             arith.remui %[[ORDINAL]], %c4
// CHECK:             %[[PLACE:.*]] = arith.divui %[[ORDINAL]], %c4
// CHECK:             %[[BEGIN:.*]] = arith.subi %{{.*}}, %[[COUNT]]
// CHECK:             %[[OFFSET:.*]] = arith.addi %[[MASKED]], %[[PLACE]]
// CHECK:             arith.addi %[[BEGIN]], %[[OFFSET]]
// CHECK-NOT:         attn_tile.mask
// CHECK:             attn_tile.bulk_reduce_add
func.func @shared(%q: memref<?x8x?x64xf32>, %k: memref<?x2x?x64xf32>, %lse: memref<?x8x?xf32>, %ids: memref<?xi32>) {
  attn.attention_grad ins(%q, %k, %k, %q, %lse, %q : memref<?x8x?x64xf32>, memref<?x2x?x64xf32>,
          memref<?x2x?x64xf32>, memref<?x8x?x64xf32>, memref<?x8x?xf32>, memref<?x8x?x64xf32>)
      outs(%q, %k, %k : memref<?x8x?x64xf32>, memref<?x2x?x64xf32>, memref<?x2x?x64xf32>)
      schedule(#attn_tile.gradient<preprocess = #tile, dkdv = #tile>)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %m = memref.load %ids[%i] : memref<?xi32>
        %n = memref.load %ids[%j] : memref<?xi32>
        %same = arith.cmpi eq, %m, %n : i32
        attn.yield %same : i1
      }
  return
}
