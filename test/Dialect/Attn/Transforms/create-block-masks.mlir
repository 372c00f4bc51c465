// RUN: attn-opt %s --attn-create-block-masks --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-create-block-masks="outline" --split-input-file | FileCheck %s --check-prefix=OUTLINE

// Two layers share a plan; what another one has to itself stays with it, and so does what no data decides.

#schedule = #attn_tile.sequential<query_tile = 16, key_tile = 32>
// CHECK-LABEL: func @layers
// CHECK-SAME:    %[[Q:[a-z0-9]+]]: tensor<?x2x?x16xf32>, %[[IDS:[a-z0-9]+]]: tensor<?x?xi32>
// CHECK:         %[[BATCH:.*]] = tensor.dim %[[Q]], %c0
// CHECK:         %[[LENGTH:.*]] = tensor.dim %[[Q]], %c2
// CHECK:         %[[ROUNDED:.*]] = arith.addi %[[LENGTH]], %c15
// CHECK:         %[[ROWS:.*]] = arith.divui %[[ROUNDED]], %c16
// CHECK:         arith.addi %[[LENGTH]], %c31
// CHECK:         %[[COLUMNS:.*]] = arith.addi %{{.*}}, %c4
// CHECK:         %[[INIT:.*]] = tensor.empty(%[[BATCH]], %[[ROWS]], %[[COLUMNS]]) : tensor<?x1x?x?xi32>
// CHECK:         %[[PLAN:.*]] = attn.create_block_mask sizes(%[[BATCH]], %[[LENGTH]], %[[LENGTH]]) outs(%[[INIT]] : tensor<?x1x?x?xi32>)
// CHECK-SAME:      mask(#attn.causal) schedule(#attn_tile.sequential<query_tile = 16, key_tile = 32>) mask_mod {
// CHECK-COUNT-2:   tensor.extract %[[IDS]]
// CHECK:         attn.attention {{.*}} block_mask(%[[PLAN]]
// CHECK-NOT:     attn.create_block_mask
// CHECK:         attn.attention {{.*}} block_mask(%[[PLAN]]
// CHECK-NOT:     create_block_mask
// CHECK:         return

// The function takes what another one makes.

// OUTLINE-LABEL: func @layers(
// OUTLINE-SAME:    %[[PLAN:[a-z0-9]+]]: tensor<?x1x?x?xi32> {attn.name = "block_mask"}, %[[OTHER:[a-z0-9]+]]: tensor<?x1x?x?xi32> {attn.name = "block_mask1"})
// OUTLINE-NOT:     attn.create_block_mask
// OUTLINE:         attn.attention {{.*}} block_mask(%[[PLAN]]
// OUTLINE:         attn.attention {{.*}} block_mask(%[[PLAN]]
// OUTLINE:         attn.attention {{.*}} block_mask(%[[OTHER]]
// OUTLINE:         attn.attention
// OUTLINE-NOT:     create_block_mask
// OUTLINE:         return
// OUTLINE-LABEL: func @layers_block_mask(
// OUTLINE-SAME:    -> (tensor<?x1x?x?xi32> {attn.name = "block_mask"}, tensor<?x1x?x?xi32> {attn.name = "block_mask1"})
// OUTLINE-NOT:     attn.attention
// OUTLINE:         %[[FIRST:.*]] = attn.create_block_mask {{.*}} mask(#attn.causal)
// OUTLINE:         %[[SECOND:.*]] = attn.create_block_mask
// OUTLINE-NOT:     attn.attention
// OUTLINE:         return %[[FIRST]], %[[SECOND]]
func.func @layers(%q: tensor<?x2x?x16xf32>, %ids: tensor<?x?xi32>) -> tensor<?x2x?x16xf32> {
  %0 = attn.attention ins(%q, %q, %q : tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>)
      outs(%q : tensor<?x2x?x16xf32>) mask(#attn.causal) schedule(#schedule)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %x = tensor.extract %ids[%b, %i] : tensor<?x?xi32>
        %y = tensor.extract %ids[%b, %j] : tensor<?x?xi32>
        %same = arith.cmpi eq, %x, %y : i32
        attn.yield %same : i1
      } -> tensor<?x2x?x16xf32>
  %1 = attn.attention ins(%q, %q, %0 : tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>)
      outs(%0 : tensor<?x2x?x16xf32>) mask(#attn.causal) schedule(#schedule)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %x = tensor.extract %ids[%b, %i] : tensor<?x?xi32>
        %y = tensor.extract %ids[%b, %j] : tensor<?x?xi32>
        %same = arith.cmpi eq, %x, %y : i32
        attn.yield %same : i1
      } -> tensor<?x2x?x16xf32>
  %2 = attn.attention ins(%q, %q, %1 : tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>)
      outs(%1 : tensor<?x2x?x16xf32>) schedule(#schedule)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %x = tensor.extract %ids[%b, %i] : tensor<?x?xi32>
        %y = tensor.extract %ids[%b, %j] : tensor<?x?xi32>
        %same = arith.cmpi eq, %x, %y : i32
        attn.yield %same : i1
      } -> tensor<?x2x?x16xf32>
  %3 = attn.attention ins(%q, %q, %2 : tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>)
      outs(%2 : tensor<?x2x?x16xf32>) mask(#attn.causal) schedule(#schedule) -> tensor<?x2x?x16xf32>
  return %3 : tensor<?x2x?x16xf32>
}

// -----

// Static sizes; a mask of each head; the smallest tiles of a choice.

#choice = #attn.by_query_length<bound = 64, below = #attn_tile.sequential<query_tile = 16, key_tile = 64>,
                                from = #attn_tile.sequential<query_tile = 32, key_tile = 32>>
// CHECK-LABEL: func @by_head
// CHECK-NOT:     create_block_mask
// OUTLINE-LABEL: func @by_head(
// OUTLINE-SAME:    %[[PLAN:[a-z0-9]+]]: tensor<3x2x7x8xi32> {attn.name = "block_mask"})
// OUTLINE:         attn.attention {{.*}} block_mask(%[[PLAN]] : tensor<3x2x7x8xi32>)
// OUTLINE-LABEL: func @by_head_block_mask(
// OUTLINE:         tensor.empty() : tensor<3x2x7x8xi32>
// OUTLINE:         attn.create_block_mask sizes(%c3, %c100, %c100)
func.func @by_head(%q: tensor<3x2x100x16xf32>, %keeps: tensor<2x100xi1>) -> tensor<3x2x100x16xf32> {
  %0 = attn.attention ins(%q, %q, %q : tensor<3x2x100x16xf32>, tensor<3x2x100x16xf32>, tensor<3x2x100x16xf32>)
      outs(%q : tensor<3x2x100x16xf32>) schedule(#choice)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %x = tensor.extract %keeps[%h, %j] : tensor<2x100xi1>
        attn.yield %x : i1
      } -> tensor<3x2x100x16xf32>
  return %0 : tensor<3x2x100x16xf32>
}

// -----

// A private function has no callers outside, one of memrefs shares nothing.

// OUTLINE-LABEL: func private @inner
// OUTLINE-NOT:     create_block_mask
// OUTLINE-LABEL: func @buffers
// OUTLINE-NOT:     create_block_mask
func.func private @inner(%q: tensor<1x2x64x16xf32>, %ids: tensor<64xi32>) -> tensor<1x2x64x16xf32> {
  %0 = attn.attention ins(%q, %q, %q : tensor<1x2x64x16xf32>, tensor<1x2x64x16xf32>, tensor<1x2x64x16xf32>)
      outs(%q : tensor<1x2x64x16xf32>) schedule(#attn_tile.sequential<query_tile = 16, key_tile = 32>)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %x = tensor.extract %ids[%i] : tensor<64xi32>
        %y = tensor.extract %ids[%j] : tensor<64xi32>
        %same = arith.cmpi eq, %x, %y : i32
        attn.yield %same : i1
      } -> tensor<1x2x64x16xf32>
  return %0 : tensor<1x2x64x16xf32>
}
func.func @buffers(%q: memref<1x2x64x16xf32>, %ids: memref<64xi32>) {
  attn.attention ins(%q, %q, %q : memref<1x2x64x16xf32>, memref<1x2x64x16xf32>, memref<1x2x64x16xf32>)
      outs(%q : memref<1x2x64x16xf32>) schedule(#attn_tile.sequential<query_tile = 16, key_tile = 32>)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %x = memref.load %ids[%i] : memref<64xi32>
        %y = memref.load %ids[%j] : memref<64xi32>
        %same = arith.cmpi eq, %x, %y : i32
        attn.yield %same : i1
      }
  return
}
